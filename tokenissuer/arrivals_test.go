package tokenissuer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sync/errgroup"
)

const (
	// remembered of the arrivals have had a token before the outage.
	remembered = arrivals / 5
	// office of them are behind one address, whose bucket has room for two in three.
	office = arrivals * 15 / 100
	// hubTakes is what the provider takes for each of its answers.
	hubTakes = 5 * time.Millisecond
)

func crowdCredential(n int) identity.Credential {
	return identity.Credential{Value: fmt.Sprintf("gho_%d", n), Type: identity.AccessToken}
}

// hub is an identity provider behind a socket, that can be out.
type hub struct {
	*httptest.Server
	client              *http.Client
	out                 atomic.Bool
	calls, running, top atomic.Int64
}

func newHub(t *testing.T) *hub {
	h := &hub{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: identity.DefaultInFlight}}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.calls.Add(1)
		running := h.running.Add(1)
		defer h.running.Add(-1)
		for top := h.top.Load(); running > top && !h.top.CompareAndSwap(top, running); top = h.top.Load() {
		}
		<-time.After(hubTakes)
		if h.out.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "hub:"+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer gho_"))
	}))
	t.Cleanup(func() { h.client.CloseIdleConnections(); h.Close() })
	return h
}

func (h *hub) Name() string { return "hub" }

func (h *hub) Identify(ctx context.Context, credential identity.Credential) (identity.Identity, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return identity.Identity{}, err
	}
	r.Header.Set("Authorization", "Bearer "+credential.Value)
	answer, err := h.client.Do(r)
	if err != nil {
		return identity.Identity{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	subject, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return identity.Identity{}, errors.Join(err, errors.New("it answers "+answer.Status))
	}
	return identity.Identity{Subject: string(subject), ClientID: "editor"}, err
}

// crowd are clients of an issuer behind an edge, whose connections carry many of them.
type crowd struct {
	t       *testing.T
	url     string
	clients []*http.Client
}

// reply is what one client got.
type reply struct {
	status int
	retry  string
	took   time.Duration
	err    error
}

func newCrowd(t *testing.T, handler http.Handler) *crowd {
	listener := listen(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	server := &httpserver.Server{Name: "cleartext", Listener: listener, Handler: handler, Log: slog.New(slog.DiscardHandler), MaxHeaderBytes: maxHeaderBytes}
	go func() { ended <- server.Run(ctx) }()
	c := &crowd{t: t, url: "http://" + listener.Addr().String()}
	for range 20 {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		client := &http.Client{Transport: transport}
		c.clients = append(c.clients, client)
		// The edge's connections are open already: else each client would open its own.
		answer, err := client.Get(c.url + pathKeys)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	t.Cleanup(func() {
		for _, client := range c.clients {
			client.CloseIdleConnections()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

// arrive has the clients [from, to) ask at once.
func (c *crowd) arrive(from, to int) []reply {
	c.t.Helper()
	replies := make([]reply, to-from)
	var ready, done sync.WaitGroup
	at := make(chan struct{})
	for n := range replies {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-at
			replies[n] = c.exchange(from + n)
		})
	}
	ready.Wait()
	close(at)
	done.Wait()
	return replies
}

func (c *crowd) exchange(n int) reply {
	form := url.Values{"grant_type": {grantTokenExchange}, "subject_token": {crowdCredential(n).Value}, "subject_token_type": {typeAccessToken}}
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url+pathOAuth, strings.NewReader(form.Encode()))
	if err != nil {
		return reply{err: err}
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	address := fmt.Sprintf("10.%d.%d.1", n>>8, n&0xff)
	if n >= arrivals-office {
		address = "192.0.2.7"
	}
	r.Header.Set("X-Forwarded-For", address)
	start := time.Now()
	answer, err := c.clients[n%len(c.clients)].Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return reply{status: answer.StatusCode, retry: answer.Header.Get("Retry-After"), took: time.Since(start), err: err}
}

// count is how many got which status. Anything but a token, or a word on when to come
// again, is a failure.
func (c *crowd) count(what string, replies []reply) map[int]int {
	c.t.Helper()
	times, counts, failures := map[int][]time.Duration{}, map[int]int{}, 0
	for n, r := range replies {
		seconds, err := strconv.Atoi(r.retry)
		refused := r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable
		switch {
		case r.err == nil && r.status == http.StatusOK && r.retry == "":
		case r.err == nil && refused && err == nil && seconds >= 1 && seconds <= 60:
		default:
			if failures++; failures < 10 {
				c.t.Errorf("%s: client %d got status %d, Retry-After %q, %v", what, n, r.status, r.retry, r.err)
			}
		}
		counts[r.status]++
		times[r.status] = append(times[r.status], r.took)
	}
	for _, status := range slices.Sorted(maps.Keys(times)) {
		took := times[status]
		slices.Sort(took)
		c.t.Logf("%s: %d got %d: half within %v, p99 %v, the last %v", what, len(took), status,
			took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	}
	return counts
}

// TestArrivalsAfterOutage is 10,000 clients that ask at once (fewer with the race
// detector): while the provider is out, and when it is back. docs/performance.md has what
// it measures.
func TestArrivalsAfterOutage(t *testing.T) {
	i := newIssuer(t, func(c *Config) {
		c.TrustedEdges = []string{"127.0.0.0/8"}
		// So that a slow machine does not let all of the office in.
		c.Limits.PerAddress = RateConfig{RequestsPerSecond: 1, Burst: office * 2 / 3}
	})
	h := newHub(t)
	cached := identity.NewCached(h, identity.CacheOptions{Life: time.Millisecond}) // every identity is too old
	t.Cleanup(func() { _ = cached.Close() })
	i.providers = []identity.Provider{cached}
	c := newCrowd(t, i.handler)

	var seeding errgroup.Group
	seeding.SetLimit(identity.DefaultInFlight / 2)
	for n := range remembered {
		seeding.Go(func() error { _, err := cached.Identify(t.Context(), crowdCredential(n)); return err })
	}
	if err := seeding.Wait(); err != nil {
		t.Fatal(err)
	}
	h.calls.Store(0)

	h.out.Store(true)
	counts := c.count("provider out", c.arrive(0, arrivals))
	if counts[http.StatusOK] != remembered || counts[http.StatusTooManyRequests] == 0 || counts[http.StatusServiceUnavailable] < arrivals-remembered-office {
		t.Errorf("while the provider is out: %v", counts)
	}
	if calls := h.calls.Load(); calls > 2*identity.DefaultInFlight {
		t.Errorf("while it is out, the provider is asked %d times", calls)
	}

	h.out.Store(false)
	for deadline := time.Now().Add(20 * time.Second); cached.Outage() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("the provider is not found to be back")
		}
		_, _ = cached.Identify(t.Context(), crowdCredential(arrivals))
		time.Sleep(10 * time.Millisecond)
	}
	i.limits = newLimitsLike(i.limits)
	h.calls.Store(0)
	counts = c.count("provider back", c.arrive(0, arrivals))
	if counts[http.StatusOK] < remembered || counts[http.StatusTooManyRequests] == 0 {
		t.Errorf("when the provider is back: %v", counts)
	}
	if calls, most := h.calls.Load(), int64(arrivals); calls > most {
		t.Errorf("the provider is asked %d times about %d clients", calls, most)
	}
	if top := h.top.Load(); top > identity.DefaultInFlight || top < 2 {
		t.Errorf("the provider is asked by %d at a time, want at most %d", top, identity.DefaultInFlight)
	}
	t.Logf("when it is back, the provider is asked %d times, %d at a time at most", h.calls.Load(), h.top.Load())
	i.wantAudited(t, 2*arrivals)
}

// newLimitsLike are limits as if the clients had not been there for long.
func newLimitsLike(l *limits) *limits {
	fresh := *l
	fresh.addresses, fresh.credentials = newBuckets[networkKey](l.addresses.rate), newBuckets[credentialKey](l.credentials.rate)
	return &fresh
}

// wantAudited holds that there is one line for each exchange, and no credential in any.
func (i *issuer) wantAudited(t *testing.T, want int) {
	t.Helper()
	lines := 0
	for line := range strings.Lines(i.log.String()) {
		if strings.Contains(line, "gho_") {
			t.Fatalf("a line has a credential: %s", line)
		}
		var exchange struct{ Msg, Result, Address string }
		if err := json.Unmarshal([]byte(line), &exchange); err != nil {
			t.Fatal(err)
		}
		if exchange.Msg == "exchange" && exchange.Result != "" && exchange.Address != "" {
			lines++
		}
	}
	if lines != want {
		t.Errorf("%d audit lines, want %d", lines, want)
	}
	if got := testutil.CollectAndCount(i.metrics.exchanges); got > 10 {
		t.Errorf("%d series of exchanges", got)
	}
}
