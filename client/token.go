package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// A token is refreshed at a random point of this part of its life, so that
	// clients which started together do not come back together.
	refreshFrom = 0.75
	refreshTo   = 0.85
	// An issuer's refresh_in is followed within these bounds: earlier would load
	// the issuer for nothing, later leaves no time to try again.
	saneRefreshFrom = 0.25
	saneRefreshTo   = 0.95

	firstBackoff = time.Second
	maxBackoff   = time.Minute
	// forcedInterval bounds how often refused tokens lead to an exchange: a
	// proxy that refuses every token must not turn requests into exchanges.
	forcedInterval = 30 * time.Second
)

// TokenOptions configure a [TokenSource].
type TokenOptions struct {
	// IssuerURL is the issuer's base URL: https://, or http:// on a loopback host.
	IssuerURL string
	// OAuthToken is what the issuer exchanges, and OAuthTokenType says what it is;
	// empty is TypeAccessToken. It appears in no log or error.
	OAuthToken     string
	OAuthTokenType TokenType
	// Credentials is asked before each exchange, in place of OAuthToken.
	Credentials Credentials
	// Audience is the proxy that the token is for; empty leaves it to the issuer.
	Audience string
	// RootCAs are the certificates to trust; nil means the system's.
	RootCAs   *x509.CertPool
	UserAgent string
	// Log is told of refreshes that failed in the background; nil means nobody.
	Log *slog.Logger
}

// TokenSource exchanges an OAuth token for completion tokens (RFC 8693) and
// keeps one fresh. Lifetimes count from when the exchange was sent, on the
// monotonic clock and the wall clock, whichever saw more time pass, and never by
// the issuer's expires_at: clients' clocks are wrong, and stand still in sleep.
// It is safe for concurrent use.
type TokenSource struct {
	exchanger *exchanger
	clock     clock
	log       *slog.Logger
	ctx       context.Context
	cancel    context.CancelFunc
	running   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	held    *heldToken
	call    *exchangeCall // the exchange under way, nil if none is
	refresh *time.Timer
	failed  failures
	forced  instant // of the last exchange that Invalidate started
}

type heldToken struct {
	token        string
	since        instant
	life         time.Duration
	refreshAfter time.Duration
	rejected     bool // by a proxy; a new one is on its way
}

// exchangeCall is one exchange that any number of callers wait for. token and
// err are set before done is closed.
type exchangeCall struct {
	done  chan struct{}
	token string
	err   error
}

// failures is the backoff after exchanges that failed in a row.
type failures struct {
	count int
	at    instant
	delay time.Duration
	err   error
}

// NewTokenSource makes a source. The first call of Token does the first exchange.
func NewTokenSource(o TokenOptions) (*TokenSource, error) {
	exchanger, err := newExchanger(o)
	if err != nil {
		return nil, err
	}
	s := &TokenSource{exchanger: exchanger, log: o.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Token returns a token that has not expired. Mostly that is the one at hand;
// otherwise it waits for an exchange, one for all callers. After an exchange
// that failed, callers get its error until the backoff is over.
func (s *TokenSource) Token(ctx context.Context) (string, error) {
	token, call, err := s.tokenOrCall()
	if call == nil {
		return token, err
	}
	select {
	case <-call.done:
		return call.token, call.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// tokenOrCall returns the token at hand, or the exchange to wait for.
func (s *TokenSource) tokenOrCall() (string, *exchangeCall, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", nil, ErrClosed
	}
	if h := s.held; h != nil && !h.rejected {
		age := s.clock.since(h.since)
		if age >= h.refreshAfter && age < h.life {
			// The timer stood still while the machine slept. The old token
			// does meanwhile, so an error here (the backoff) is nobody's.
			_, _ = s.startLocked()
		}
		if age < h.life {
			return h.token, nil, nil
		}
	}
	call, err := s.startLocked()
	return "", call, err
}

// Invalidate says that a proxy refused token. If it is the one at hand, the next
// calls of Token wait for a new one: one exchange however many callers say so,
// and at most one in 30 s. If that exchange fails, the old token stays in use
// while it lives, for other proxies may know it.
func (s *TokenSource) Invalidate(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held
	if s.closed || h == nil || h.rejected || h.token != token {
		return
	}
	if s.forced != (instant{}) && s.clock.since(s.forced) < forcedInterval {
		return
	}
	if _, err := s.startLocked(); err != nil {
		return
	}
	s.forced = s.clock.now()
	h.rejected = true
}

// Close ends a running exchange and waits for it. Afterwards the source has no
// goroutine and no connection.
func (s *TokenSource) Close() error {
	s.mu.Lock()
	s.closed = true
	if s.refresh != nil {
		s.refresh.Stop()
	}
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	s.exchanger.http.CloseIdleConnections()
	return nil
}

// startLocked starts an exchange or joins the one under way. During the backoff
// it returns why the last one failed.
func (s *TokenSource) startLocked() (*exchangeCall, error) {
	if s.call != nil {
		return s.call, nil
	}
	if wait := s.failed.delay - s.clock.since(s.failed.at); s.failed.err != nil && wait > 0 {
		return nil, fmt.Errorf("%w (next attempt in %s)", s.failed.err, wait.Round(100*time.Millisecond))
	}
	call := &exchangeCall{done: make(chan struct{})}
	s.call = call
	s.running.Go(func() { s.run(call) })
	return call, nil
}

func (s *TokenSource) run(call *exchangeCall) {
	sent := s.clock.now()
	g, err := s.exchanger.exchange(s.ctx)

	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(call.done)
	s.call = nil
	switch {
	case s.closed:
		call.err = ErrClosed
	case err != nil:
		call.token, call.err = s.failLocked(err)
	default:
		call.token = g.token
		s.failed = failures{}
		s.held = &heldToken{token: g.token, since: sent, life: g.life, refreshAfter: refreshAfter(g)}
		s.scheduleLocked(s.held.refreshAfter - s.clock.since(sent))
	}
}

// failLocked notes a failed exchange. While the token at hand lives it goes on
// being used, and the next attempt is made in the background; with none, the
// next caller makes it, so that an idle client does not ask for ever.
func (s *TokenSource) failLocked(err error) (token string, waiterErr error) {
	s.failed.count++
	s.failed.at = s.clock.now()
	s.failed.err = err
	s.failed.delay = backoff(s.failed.count, err)

	h := s.held
	if h == nil || s.clock.since(h.since) >= h.life {
		s.held = nil
		return "", err
	}
	h.rejected = false
	s.log.Warn("token refresh failed, keeping the old token", "err", err,
		"expires_in", h.life-s.clock.since(h.since), "retry_in", s.failed.delay)
	s.scheduleLocked(s.failed.delay)
	return h.token, nil
}

// scheduleLocked arranges a refresh in the background after d.
func (s *TokenSource) scheduleLocked(d time.Duration) {
	if s.refresh != nil {
		s.refresh.Stop()
	}
	s.refresh = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed || s.held == nil || s.clock.since(s.held.since) >= s.held.life {
			return
		}
		// A backoff that is not over was set by a later failure, whose own
		// timer comes.
		_, _ = s.startLocked()
	})
}

// refreshAfter is when to refresh g, counted from the exchange.
func refreshAfter(g grant) time.Duration {
	life := float64(g.life)
	if asked := float64(g.refreshIn); asked >= saneRefreshFrom*life && asked <= saneRefreshTo*life {
		return g.refreshIn
	}
	return time.Duration(life * (refreshFrom + (refreshTo-refreshFrom)*rand.Float64()))
}

// backoff is how long to wait after the count-th failure in a row: doubled each
// time, with jitter, and no shorter than the issuer asked for. All clients of an
// issuer see its outage end together; the jitter keeps them from coming together.
func backoff(count int, err error) time.Duration {
	d := maxBackoff
	if shift := count - 1; shift < 6 {
		d = firstBackoff << shift
	}
	jittered := d/2 + rand.N(d/2)
	var refusal *IssuerError
	if errors.As(err, &refusal) && refusal.RetryAfter > jittered {
		return refusal.RetryAfter + rand.N(refusal.RetryAfter/10+1)
	}
	return jittered
}
