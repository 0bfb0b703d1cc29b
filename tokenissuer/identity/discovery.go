package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ghostline-dev/ghostline/internal/loopback"
)

const (
	keysEvery      = 5 * time.Minute
	keysRetryFirst = time.Second
	keysRetryMost  = 30 * time.Second
	// keysGap is the least time between two fetches that tokens ask for.
	keysGap = 5 * time.Second
	// keysWait bounds how long a token waits for the fetch that it has asked for.
	keysWait = 2 * time.Second
)

// discovery is what OpenID Connect Discovery (section 3) and RFC 8628 (section 4) let
// a provider tell of itself; of it only what is used.
type discovery struct {
	Issuer         string `json:"issuer"`
	KeysURI        string `json:"jwks_uri"`
	DeviceEndpoint string `json:"device_authorization_endpoint"`
	TokenEndpoint  string `json:"token_endpoint"`
}

// known is what is known of a provider. It never changes once made.
type known struct {
	discovery
	keys webKeys
}

// discoverer fetches what a provider tells of itself, again and again. What was good
// last stays in use, and nobody's request leads to more than one fetch in keysGap.
type discoverer struct {
	issuer     string
	algorithms []string
	client     *http.Client
	log        *slog.Logger
	up         func(bool)
	now        func() time.Time

	ask chan struct{} // wakes run

	mu   sync.Mutex
	last *known        // nil until the first success
	at   time.Time     // when the last try ended, zero before the first
	err  error         // of the last try, or that there was none
	next chan struct{} // closed when the next try ends
}

func newDiscoverer(o OIDCOptions) *discoverer {
	return &discoverer{
		issuer: o.Issuer, algorithms: o.Algorithms, client: newHTTPClient(o.RootCAs), now: time.Now, up: o.Up,
		log: o.Log.With("provider", o.Name), ask: make(chan struct{}, 1), next: make(chan struct{}), err: errNotDiscovered,
	}
}

// run keeps what is known fresh until ctx is done.
func (d *discoverer) run(ctx context.Context) {
	defer d.client.CloseIdleConnections()
	retry, wasGood := keysRetryFirst, false
	for {
		got, err := d.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		d.took(got, err)
		wait := keysEvery
		switch {
		case err != nil:
			d.log.Warn("asking the identity provider for its keys; the last good ones stay in use", "error", err, "retry_in", retry.String())
			wait, retry = retry, min(2*retry, keysRetryMost)
		case !wasGood:
			d.log.Info("the identity provider's keys are known", "keys", len(got.keys))
			fallthrough
		default:
			retry = keysRetryFirst
		}
		wasGood = err == nil
		// Issuers that started together should not ask together for ever.
		if !d.sleep(ctx, wait+rand.N(wait/10)) {
			return
		}
	}
}

// sleep returns early if a token asks, and false once ctx is done.
func (d *discoverer) sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-d.ask:
			if soon, _ := d.tooSoon(); !soon { // it may have asked before the last try
				return true
			}
		}
	}
}

func (d *discoverer) took(got *known, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.last = got
	}
	d.at, d.err = d.now(), err
	d.up(err == nil)
	close(d.next)
	d.next = make(chan struct{})
}

// tooSoon says whether the last try is so young that there may be no other, and what
// is closed when the next one ends.
func (d *discoverer) tooSoon() (soon bool, next <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.at.IsZero() && d.now().Sub(d.at) < keysGap, d.next
}

// current is what is known now, nil for nothing. It does not wait.
func (d *discoverer) current() *known {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

var errNotDiscovered = errors.New("the identity provider's keys are not known yet")

// fresh is what is known after a try that has just ended, or that it asks for and
// waits for. The error is an outage: there was no such try, or it failed.
func (d *discoverer) fresh(ctx context.Context) (*known, error) {
	soon, next := d.tooSoon()
	if soon {
		return d.outcome()
	}
	select {
	case d.ask <- struct{}{}:
	default: // it has been asked
	}
	timer := time.NewTimer(keysWait)
	defer timer.Stop()
	select {
	case <-next:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		return nil, errNotDiscovered
	}
	return d.outcome()
}

// outcome is how the last try ended.
func (d *discoverer) outcome() (*known, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, d.err
}

// fetch asks the provider for its discovery document and then for its keys.
func (d *discoverer) fetch(ctx context.Context) (*known, error) {
	// Section 4.1 of OpenID Connect Discovery drops a slash at the end.
	address := strings.TrimSuffix(d.issuer, "/") + "/.well-known/openid-configuration"
	data, err := d.get(ctx, address)
	if err != nil {
		return nil, err
	}
	var got known
	if err := decodeStrict(data, &got.discovery); err != nil {
		return nil, fmt.Errorf("GET %s: it is no discovery document", address)
	}
	if got.Issuer != d.issuer {
		return nil, fmt.Errorf("GET %s: it is of the issuer %.200q, and the config has %q; they must be the same to the last character",
			address, got.Issuer, d.issuer)
	}
	if err := d.checkEndpoint(got.KeysURI); err != nil {
		return nil, fmt.Errorf("GET %s: jwks_uri %w", address, err)
	}
	if data, err = d.get(ctx, got.KeysURI); err != nil {
		return nil, err
	}
	if got.keys, err = parseWebKeys(data, d.algorithms); err != nil {
		return nil, fmt.Errorf("GET %s: %w", got.KeysURI, err)
	}
	return &got, nil
}

func (d *discoverer) get(ctx context.Context, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	return ask(d.client, req)
}

// checkEndpoint lets a provider name https URLs; http ones on this machine, only if the
// provider itself is there.
func (d *discoverer) checkEndpoint(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return errors.New("is missing")
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || len(raw) > 2048:
		return errors.New("is no URL with a host and without a user")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && strings.HasPrefix(d.issuer, "http://") && loopback.Is(u.Hostname()):
		return nil
	}
	return errors.New("is no https URL")
}
