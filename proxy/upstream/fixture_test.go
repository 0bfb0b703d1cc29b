package upstream

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/localca"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testUnit is a unit of model capacity: a real HTTP server, or whatever a test
// does with the listener.
type testUnit struct {
	scheme, protocol string
	listener         net.Listener
	ca               *localca.CA
	streams          int  // SETTINGS_MAX_CONCURRENT_STREAMS; 0 is the server's default
	onlyHTTP1        bool // although the pool would speak HTTP/2
	server           *http.Server

	mu    sync.Mutex
	conns map[net.Conn]http.ConnState
}

func newUnit(t *testing.T, protocol string) *testUnit {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	u := &testUnit{scheme: "http", protocol: protocol, listener: listener, conns: map[net.Conn]http.ConnState{}}
	if protocol == config.ProtocolHTTP2 || protocol == config.ProtocolAuto {
		u.scheme = "https"
		if u.ca, err = localca.New(); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// serve answers with handler until the end of the test.
func (u *testUnit) serve(t *testing.T, handler http.HandlerFunc) *testUnit {
	t.Helper()
	u.server = &http.Server{
		Handler: handler, Protocols: new(http.Protocols),
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: u.streams},
		ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(conn net.Conn, state http.ConnState) {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.conns[conn] = state
		},
	}
	switch u.protocol {
	case config.ProtocolH2C:
		u.server.Protocols.SetUnencryptedHTTP2(true)
	case config.ProtocolHTTP1:
		u.server.Protocols.SetHTTP1(true)
	default:
		u.server.Protocols.SetHTTP1(true)
		u.server.Protocols.SetHTTP2(!u.onlyHTTP1)
		u.server.TLSConfig = u.serverTLS(t)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if u.scheme == "https" {
			_ = u.server.ServeTLS(u.listener, "", "") // ends with the test
			return
		}
		_ = u.server.Serve(u.listener)
	}()
	t.Cleanup(func() { u.server.Close(); <-ended })
	return u
}

func (u *testUnit) serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	cfg, err := u.ca.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// alive is how many connections the unit has.
func (u *testUnit) alive() (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, state := range u.conns {
		if state != http.StateClosed {
			n++
		}
	}
	return n
}

// url of a completion.
func (u *testUnit) url() *url.URL {
	return &url.URL{Scheme: u.scheme, Host: u.listener.Addr().String(), Path: "/v1/completions"}
}

func (u *testUnit) options() Options {
	opts := Options{URL: u.url(), Protocol: u.protocol, ConnectTimeout: 5 * time.Second}
	if u.ca != nil {
		opts.TLS = &tls.Config{RootCAs: u.ca.Pool(), MinVersion: tls.VersionTLS12}
	}
	return opts
}

// pool makes a pool for the unit that is closed with the test.
func (u *testUnit) pool(t *testing.T) *Pool { return newPool(t, u.options()) }

func newPool(t *testing.T, opts Options) *Pool {
	t.Helper()
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

const prompt = `{"prompt":"def add("}`

// request is a completion to ask for, one that can be sent again.
func request(ctx context.Context, p *Pool) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.opts.URL.String(), strings.NewReader(prompt))
	if err != nil {
		panic(err)
	}
	return req
}

func send(ctx context.Context, p *Pool) (*http.Response, error) {
	return p.RoundTrip(request(ctx, p), func(bool) {})
}

// ask sends a request and reads all of its answer.
func ask(ctx context.Context, p *Pool) (string, error) {
	resp, err := send(ctx, p)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func mustAsk(t *testing.T, p *Pool, want string) {
	t.Helper()
	if got, err := ask(t.Context(), p); got != want || err != nil {
		t.Fatalf("answer %q, error %v; want %q", got, err, want)
	}
}

// echo answers with the request's body.
func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

// gate is a handler whose requests wait until it is opened; each is reported
// when it arrives, and again if it is cancelled.
type gate struct {
	arrived   chan *http.Request
	cancelled chan *http.Request
	open      chan struct{}
}

func newGate() *gate {
	return &gate{arrived: make(chan *http.Request, 10_000), cancelled: make(chan *http.Request, 10_000), open: make(chan struct{})}
}

func (g *gate) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	g.arrived <- r
	select {
	case <-g.open:
		_, _ = w.Write(body)
	case <-r.Context().Done():
		g.cancelled <- r
	}
}

// hold sends n requests that stay until the gate opens, and waits until they
// have arrived. finish waits for their answers.
func (g *gate) hold(t *testing.T, p *Pool, n int) (finish func()) {
	t.Helper()
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := ask(t.Context(), p)
			errs <- err
		}()
	}
	for range n {
		receive(t, g.arrived)
	}
	return func() {
		t.Helper()
		for range n {
			if err := receive(t, errs); err != nil {
				t.Errorf("a request that was held: %v", err)
			}
		}
	}
}

// patience is how long a test waits for what must come before it gives up.
const patience = 20 * time.Second

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("waited in vain")
		panic("unreachable")
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	giveUp := time.After(patience)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-look.C:
		case <-giveUp:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// stays asks p some times and fails if the count of connections ever opened
// changes: what should not happen shows when there is a reason for it.
func stays(t *testing.T, p *Pool, opened int) {
	t.Helper()
	for range 20 {
		mustAsk(t, p, prompt)
	}
	if s := p.Stats(); s.Opened != opened || s.InFlight != 0 {
		t.Errorf("stats are %+v, want %d opened and none in flight", s, opened)
	}
}
