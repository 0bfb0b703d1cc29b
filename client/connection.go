package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

const (
	connectTimeout = 10 * time.Second
	// An unanswered PING tells that a connection died without a word (sleep, NAT).
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
	// closeWait is how long Close waits for the resets of cancelled streams to
	// leave.
	closeWait = 250 * time.Millisecond
)

// connection is the one HTTP/2 connection to the proxy: opened once, replaced
// when it can take no more requests. net/http's pool would open more: its pool is
// first-fit, and a burst of cancelled streams or a full one makes it dial. A
// request on an [http.ClientConn] waits for a slot instead.
type connection struct {
	transport *http.Transport
	scheme    string
	addr      string
	clock     clock
	ctx       context.Context
	cancel    context.CancelFunc
	running   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	current *link
	links   map[*link]struct{} // current and those that drain
	dialing *dialCall
	opened  int
}

// link is one connection and the requests that use it.
type link struct {
	cc       *http.ClientConn
	users    int
	retired  bool
	lastUsed instant
}

// dialCall is a dial that any number of requests wait for. link and err are set
// before done is closed.
type dialCall struct {
	done chan struct{}
	link *link
	err  error
}

func newConnection(proxy *url.URL, roots *x509.CertPool) (*connection, error) {
	transport, err := newTransport(proxy, roots)
	if err != nil {
		return nil, err
	}
	c := &connection{
		transport: transport,
		scheme:    proxy.Scheme,
		addr:      hostPort(proxy),
		links:     make(map[*link]struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// newTransport makes what opens connections; its pool is never used.
func newTransport(proxy *url.URL, roots *x509.CertPool) (*http.Transport, error) {
	t := &http.Transport{
		TLSClientConfig: &tls.Config{
			RootCAs:          roots,
			MinVersion:       tls.VersionTLS12,
			VerifyConnection: requireHTTP2,
		},
		TLSHandshakeTimeout: connectTimeout,
		DisableCompression:  true, // a compressed stream arrives in bursts
		Protocols:           new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:  pingAfter,
			PingTimeout:      pingTimeout,
			WriteByteTimeout: pingTimeout,
		},
	}
	if proxy.Scheme == "http" {
		t.Protocols.SetUnencryptedHTTP2(true)
	} else {
		t.Proxy = http.ProxyFromEnvironment
		t.Protocols.SetHTTP2(true)
	}
	// The HTTP/2 engine comes from x/net rather than from the toolchain's copy,
	// so that its security fixes arrive with a dependency update.
	//lint:ignore SA1019 what it advises instead is the toolchain's copy
	if _, err := http2.ConfigureTransports(t); err != nil {
		return nil, fmt.Errorf("HTTP/2 client: %w", err)
	}
	return t, nil
}

// requireHTTP2 refuses HTTP/1.1, which cannot reset a stream. It is offered all the
// same: a server without h2 would else break off with an alert that tells nobody
// what is wrong.
func requireHTTP2(state tls.ConnectionState) error {
	if state.NegotiatedProtocol != http2.NextProtoTLS {
		return errors.New("the server does not speak HTTP/2 (ALPN h2); is this the proxy's address?")
	}
	return nil
}

// acquire returns the connection for one request, opening it if need be: one
// dial for all that wait. Give it back by release.
func (c *connection) acquire(ctx context.Context) (*link, error) {
	l, dial, err := c.linkOrDial()
	if err != nil || l != nil {
		return l, err
	}
	select {
	case <-dial.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if dial.err != nil {
		return nil, dial.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	dial.link.users++
	return dial.link, nil
}

func (c *connection) linkOrDial() (*link, *dialCall, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	if l := c.current; l != nil {
		// Behind a sleep the other side has mostly forgotten the connection,
		// and only a PING's timeout would tell (golang/go issue 48810).
		if l.cc.Err() == nil && !c.clock.slept(l.lastUsed) {
			l.users++
			l.lastUsed = c.clock.now()
			return l, nil, nil
		}
		c.retireLocked(l)
	}
	if c.dialing == nil {
		dial := &dialCall{done: make(chan struct{})}
		c.dialing = dial
		c.running.Go(func() { c.dial(dial) })
	}
	return nil, c.dialing, nil
}

// dial opens a connection. It runs apart from the request that wanted it first:
// that one being cancelled must not fail the others.
func (c *connection) dial(call *dialCall) {
	ctx, cancel := context.WithTimeout(c.ctx, connectTimeout)
	defer cancel()
	cc, err := c.transport.NewClientConn(ctx, c.scheme, c.addr)

	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(call.done)
	c.dialing = nil
	switch {
	case c.closed:
		if err == nil {
			cc.Close()
		}
		call.err = ErrClosed
	case err != nil:
		call.err = fmt.Errorf("connect to the proxy at %s://%s: %w", c.scheme, c.addr, connectCause(err))
	default:
		call.link = &link{cc: cc, lastUsed: c.clock.now()}
		c.current = call.link
		c.links[call.link] = struct{}{}
		c.opened++
	}
}

// connectCause says what a dial's timeout means; the rest speaks for itself.
func connectCause(err error) error {
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("no answer within %s", connectTimeout)
	}
	return err
}

// release gives l back. A retired link closes when its last request is done.
func (c *connection) release(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.users--
	c.closeIfDrainedLocked(l)
}

// lost says whether err, of a request on l that got no answer, was the end of
// the connection and not only of the request. Then new requests go to another
// connection and l drains.
func (c *connection) lost(l *link, err error) bool {
	var stream http2.StreamError
	if errors.As(err, &stream) || l.cc.Err() == nil && !saysGoAway(err) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retireLocked(l)
	return true
}

// saysGoAway says whether err is of a request that the proxy did not look at,
// because it sent the connection away. Such a connection stays open for the
// requests that the proxy still answers, so it has no Err, and a full one has no
// slot free either. The engine does not export these errors; the tests provoke
// them.
func saysGoAway(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		for _, text := range []string{
			"http2: client conn not usable", // it was not sent
			"http2: Transport received Server's graceful shutdown GOAWAY",
			"http2: Transport received GOAWAY from server ErrCode:", // the connection's first
		} {
			if strings.HasPrefix(err.Error(), text) {
				return true
			}
		}
	}
	return false
}

func (c *connection) retireLocked(l *link) {
	if c.current == l {
		c.current = nil
	}
	l.retired = true
	c.closeIfDrainedLocked(l)
}

func (c *connection) closeIfDrainedLocked(l *link) {
	if !l.retired || l.users > 0 || c.closed {
		return // once closed, close sees to the links
	}
	delete(c.links, l)
	// Apart, because saying goodbye by TLS to a dead peer takes a while.
	c.running.Go(func() { l.cc.Close() })
}

func (c *connection) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

// close cuts what still runs. Streams that were just cancelled get a moment to
// send their resets, so that the proxy counts a cancel and not a lost client.
func (c *connection) close() {
	c.mu.Lock()
	c.closed = true
	links := c.links
	c.links, c.current = nil, nil
	c.mu.Unlock()
	c.cancel()
	for l := range links {
		l.finish()
	}
	c.running.Wait()
}

// finish closes the connection once no stream is on it, or after closeWait.
func (l *link) finish() {
	idle := make(chan struct{}, 1)
	l.cc.SetStateHook(func(cc *http.ClientConn) {
		if cc.InFlight() == 0 {
			select {
			case idle <- struct{}{}:
			default:
			}
		}
	})
	if l.cc.InFlight() > 0 {
		select {
		case <-idle:
		case <-time.After(closeWait):
		}
	}
	l.cc.SetStateHook(nil)
	l.cc.Close()
}
