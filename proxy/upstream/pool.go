// Package upstream keeps the connections to units of model capacity. A unit has
// a pool of its own, so that a sick unit cannot touch the connections of others.
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

const (
	// softLimit is how many streams a connection carries, if others can be had:
	// packet loss stalls all streams of a connection together.
	softLimit = 64
	// defaultResetBudget leaves room below the 33 resets a second that nghttp2
	// tolerates (CVE-2023-44487; Envoy, nghttpx and others are built on it).
	defaultResetBudget = 25
	maxConns           = 512
	// maxStale is how often a request is sent again because its connection
	// turned out to be going away.
	maxStale = 4

	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
	keepAlive   = 15 * time.Second
)

// Options say where a unit is and how to reach it.
type Options struct {
	URL *url.URL
	// Protocol is one of config's Protocol constants.
	Protocol string
	// TLS is used for https URLs; nil is the system's roots.
	TLS *tls.Config
	// ConnectTimeout bounds a dial, TLS included.
	ConnectTimeout time.Duration
	// ResetBudget is how many resets an HTTP/2 connection may carry in any
	// second: beyond their own limit, units end the connection and all that is
	// on it. 0 is 25.
	ResetBudget int
	// Standstill is of this process, so that a dial is not too late because of it;
	// nil is a process that never stands still.
	Standstill *Standstill
}

// Pool is the connections to one unit.
//
// net/http's own pool fills one connection before it uses the next, and has all
// requests wait for one dial. This one spreads streams and resets over the
// connections, opens the next before it is needed, and keeps a request's dial
// alive when that request is cancelled, since the next keystroke will want it.
type Pool struct {
	opts      Options
	transport *http.Transport
	address   string

	// mu is held while connections are looked at, so nothing that holds it may
	// make one run its state hook: no Reserve, RoundTrip or Close.
	mu       sync.Mutex
	conns    []*conn
	waiting  int  // requests without a connection
	dials    int  // running
	parallel bool // one request a connection: every waiting request needs a dial
	failures int  // dials that failed, ever
	failing  bool // the last one did, or its connection ended at once
	lastErr  error
	backoff  backoff
	opened   int
	closed   bool
	changed  chan struct{} // closed when any of the above changed

	unreachable atomic.Bool // no connection is open, and the pool is failing

	lastUse  time.Time   // or Warm; zero until then
	careful  time.Time   // see keep; zero is not
	tender   *time.Timer // of tend, once the pool is used
	tendNext time.Time

	dialing   context.Context // of the running dials
	stopDials context.CancelFunc
	running   int        // goroutines of the pool
	ended     *sync.Cond // running became 0
}

// DialError is a unit that could not be connected to: it did no work.
type DialError struct{ Err error }

func (e *DialError) Error() string { return "connecting: " + e.Err.Error() }
func (e *DialError) Unwrap() error { return e.Err }

var errHungUp = errors.New("the unit closed the connection before it was used")

// New makes a pool; it connects with the first request, or Warm.
func New(opts Options) (*Pool, error) {
	if opts.ResetBudget <= 0 {
		opts.ResetBudget = defaultResetBudget
	}
	transport := &http.Transport{
		DialContext: (&net.Dialer{
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: 3},
		}).DialContext,
		TLSClientConfig: opts.TLS.Clone(),
		// An answer is wanted as it is: compression would hold events back.
		DisableCompression: true,
		Protocols:          protocols(opts),
		HTTP2:              &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, MaxEncoderHeaderTableSize: 1},
	}
	// The HTTP/2 engine comes from x/net rather than from the toolchain's copy,
	// so that its security fixes arrive with a dependency update.
	//lint:ignore SA1019 deprecated only from Go 1.27, where net/http follows x/net
	if _, err := http2.ConfigureTransports(transport); err != nil {
		return nil, fmt.Errorf("HTTP/2: %w", err)
	}
	p := &Pool{
		opts:      opts,
		transport: transport,
		address:   hostPort(opts.URL),
		parallel:  !transport.Protocols.HTTP2() && !transport.Protocols.UnencryptedHTTP2(),
		changed:   make(chan struct{}),
	}
	p.ended = sync.NewCond(&p.mu)
	p.dialing, p.stopDials = context.WithCancel(context.Background())
	return p, nil
}

// RoundTrip sends req on one of the connections. A request whose connection
// turns out to be going away is sent on another, and one that the unit refused
// to look at is sent once more; that takes a req.GetBody. The error of a dial
// is a [*DialError]. placed is called with true when the request has a place on
// a connection, which it keeps until the response's body is closed, and with
// false when it has lost that place and waits for another.
func (p *Pool) RoundTrip(req *http.Request, placed func(bool)) (*http.Response, error) {
	for tries := 0; ; tries++ {
		resp, stale, err := p.send(req, placed)
		again := tries < maxStale && stale || tries == 0 && refused(err)
		if err == nil || !again || req.GetBody == nil {
			return resp, err
		}
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		req = req.WithContext(req.Context()) // a copy: the caller's stays as it is
		req.Body = body
		placed(false)
	}
}

// refused is true for what another connection to the unit may take. A failed
// dial is none: it was for all who wait, and they are not to dial at once again.
func refused(err error) bool {
	_, dial := errors.AsType[*DialError](err)
	return !dial && NotProcessed(err)
}

// send sends req on a connection. An error is stale if the connection, which
// was good before, was going away: that says nothing of the unit. A GOAWAY to
// the only request of a new connection does: the next one would get it too. A new
// connection that refuses a stream may have been given more than it takes, which
// is known only from the unit's SETTINGS.
func (p *Pool) send(req *http.Request, placed func(bool)) (resp *http.Response, stale bool, err error) {
	c, err := p.acquire(req.Context())
	if err != nil {
		return nil, false, err
	}
	placed(true)
	resp, err = c.RoundTrip(req)
	if err != nil {
		p.release(c, req.Context().Err() != nil)
		proven := c.answered.Load() || !c.young()
		stale = notSent(err) || !proven && refusedStream(err) || proven && says(err, notEstablished) || (proven || c.given.Load() > 1) && wentAway(err)
		return nil, stale, wordless(err)
	}
	if !c.answered.Swap(true) {
		p.isWell()
	}
	resp.Body = &body{ReadCloser: resp.Body, pool: p, conn: c}
	return resp, false, nil
}

// isWell is told of the first answer on a connection.
func (p *Pool) isWell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backoff, p.careful = backoff{}, time.Time{}
	p.keep(p.look(time.Now()))
}

// release gives back a place that acquire took, of a request that may have ended
// with a reset.
func (p *Pool) release(c *conn, reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.requests--
	c.since = time.Now()
	if reset {
		c.resets.add(c.since)
	}
	p.broadcast()
	p.closeIdle()
}

// broadcast wakes those who wait.
func (p *Pool) broadcast() {
	if p.waiting > 0 {
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// Stats are a pool's counts at one moment.
type Stats struct {
	Open     int // connections open now
	Draining int // those of them on which the unit takes no more requests (GOAWAY)
	Dialing  int // connections being opened now
	Opened   int // connections opened, ever
	InFlight int // requests that have a place on an open connection
	Failures int // dials that failed, ever, and connections that ended at once
	// Problem is the error of the last of them while no connection has opened
	// since. It names addresses and certificates.
	Problem string
}

// Stats returns the pool's counts.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{Opened: p.opened, Failures: p.failures, Dialing: p.dials}
	if p.failing {
		s.Problem = p.lastErr.Error()
	}
	for _, c := range p.conns {
		if c.Err() == nil {
			s.Open++
			s.InFlight += c.requests
			if c.Available() == 0 && !c.full() {
				s.Draining++
			}
		}
	}
	return s
}
