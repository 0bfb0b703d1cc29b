package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestGoAway has the unit send its connections away as it answers, while
// requests stream in: nothing is lost.
func TestGoAway(t *testing.T) {
	for _, protocol := range multiplexed {
		t.Run(protocol, func(t *testing.T) {
			var mu sync.Mutex
			served := 0
			u := newUnit(t, protocol).serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				served++
				if served%10 == 0 {
					w.Header().Set("Connection", "close") // Go's server makes GOAWAY of it
				}
				mu.Unlock()
				echo(w, r)
			})
			p := u.pool(t)
			const clients, each = 8, 50
			errs := make(chan error, clients*each)
			for range clients {
				go func() {
					for range each {
						_, err := ask(t.Context(), p)
						errs <- err
					}
				}()
			}
			for range clients * each {
				if err := receive(t, errs); err != nil {
					t.Errorf("a request was lost: %v", err)
				}
			}
			if opened := p.Stats().Opened; opened < 4 {
				t.Errorf("%d connections were opened: the test did not test", opened)
			}
			eventually(t, "no connection is left over that has gone away", func() bool { return p.Stats().Open <= 2 && u.alive() <= 2 })
		})
	}
}

// TestHangsUpAtOnce is a unit that accepts and hangs up: it is not called again
// and again while nobody asks for anything.
func TestHangsUpAtOnce(t *testing.T) {
	u := newUnit(t, config.ProtocolH2C)
	accepted := make(chan struct{}, 1000)
	go func() {
		for {
			conn, err := u.listener.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- struct{}{}
			conn.Close()
		}
	}()
	p := u.pool(t)
	for range 5 {
		if _, err := ask(t.Context(), p); err == nil {
			t.Fatal("a request succeeded")
		}
	}
	eventually(t, "all dials have ended", func() bool { return p.dialsEnded() && p.Stats().Open == 0 })
	u.listener.Close()
	n := 0
	for range accepted {
		n++
	}
	// Each request may be sent twice, and each time dial for itself and for a
	// second connection.
	if n > 5*4 {
		t.Errorf("the unit was called %d times for 5 requests", n)
	}
}

func TestDialFailureIsForAllWhoWait(t *testing.T) {
	u := newUnit(t, config.ProtocolHTTP2)
	opts := u.options()
	p := newPool(t, opts)
	hung := make(chan net.Conn, 10) // the unit accepts and says nothing
	go func() {
		defer close(hung)
		for {
			conn, err := u.listener.Accept()
			if err != nil {
				return
			}
			hung <- conn
		}
	}()
	const waiters = 20
	errs := make(chan error, waiters)
	for range waiters {
		go func() {
			_, err := p.RoundTrip(request(t.Context(), p), func(bool) { t.Error("a request was given a place") })
			errs <- err
		}()
	}
	first := receive(t, hung)
	eventually(t, "all wait for the one dial", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.waiting == waiters && p.dials == 1
	})
	first.Close()
	for range waiters {
		err := receive(t, errs)
		var dial *DialError
		if !errors.As(err, &dial) || !NotProcessed(err) {
			t.Errorf("error %v, want a DialError that is not processed", err)
		}
	}
	// The next request tries again.
	go func() { _, _ = ask(t.Context(), p) }()
	receive(t, hung).Close()
	u.listener.Close()
	for conn := range hung {
		conn.Close()
	}
}

func TestDialFailureThenSuccess(t *testing.T) {
	u := newUnit(t, config.ProtocolH2C)
	p := u.pool(t)
	address := u.listener.Addr().String()
	u.listener.Close()
	for range 3 {
		_, err := ask(t.Context(), p)
		var dial *DialError
		if !errors.As(err, &dial) || !strings.HasPrefix(err.Error(), "connecting: ") {
			t.Fatalf("error %v, want a DialError", err)
		}
	}
	var err error
	if u.listener, err = net.Listen("tcp", address); err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	u.serve(t, echo)
	mustAsk(t, p, prompt)
}

func TestConnectTimeout(t *testing.T) {
	u := newUnit(t, config.ProtocolHTTP2) // nobody accepts: TLS never begins
	opts := u.options()
	opts.ConnectTimeout = 50 * time.Millisecond
	p := newPool(t, opts)
	_, err := ask(t.Context(), p)
	var dial *DialError
	if !errors.As(err, &dial) {
		t.Errorf("error %v, want a DialError", err)
	}
}

func TestUntrustedUnit(t *testing.T) {
	u := newUnit(t, config.ProtocolHTTP2).serve(t, echo)
	opts := u.options()
	opts.TLS = nil // the system's roots
	_, err := ask(t.Context(), newPool(t, opts))
	var unknown *tls.CertificateVerificationError
	if !errors.As(err, &unknown) || !NotProcessed(err) {
		t.Errorf("error %v, want one of the certificate", err)
	}
}

// held is a listener whose connections read nothing until it is opened.
type held struct {
	net.Listener
	open     chan struct{}
	accepted chan net.Addr
}

func (l *held) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.accepted <- conn.RemoteAddr()
	return &heldConn{conn, l.open}, nil
}

type heldConn struct {
	net.Conn
	open chan struct{}
}

func (c *heldConn) Read(p []byte) (int, error) {
	<-c.open
	return c.Conn.Read(p)
}

// TestCancelledWaiterLeavesItsDial cancels the request that began a dial: the
// next one uses the connection that comes of it.
func TestCancelledWaiterLeavesItsDial(t *testing.T) {
	u := newUnit(t, config.ProtocolHTTP2)
	l := &held{Listener: u.listener, open: make(chan struct{}), accepted: make(chan net.Addr, 10)}
	u.listener = l
	used := make(chan string, 10)
	u.serve(t, func(w http.ResponseWriter, r *http.Request) { used <- r.RemoteAddr; echo(w, r) })
	p := u.pool(t)

	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() {
		_, err := ask(ctx, p)
		errs <- err
	}()
	first := receive(t, l.accepted)
	cancel()
	if err := receive(t, errs); !errors.Is(err, context.Canceled) {
		t.Fatalf("the cancelled request failed with %v", err)
	}
	if s := p.Stats(); s.Opened != 0 {
		t.Fatalf("stats are %+v before the dial's end", s)
	}
	close(l.open)
	mustAsk(t, p, prompt)
	if got := receive(t, used); got != first.String() {
		t.Errorf("the next request used the connection from %s, want %s", got, first)
	}
}

func TestCloseDrains(t *testing.T) {
	for _, protocol := range append(multiplexed, config.ProtocolHTTP1) {
		t.Run(protocol, func(t *testing.T) {
			g := newGate()
			u := newUnit(t, protocol).serve(t, g.serve)
			p := u.pool(t)
			finish := g.hold(t, p, 3)
			p.Close()
			late := g.hold(t, p, 1) // it began before its unit left the config
			p.Close()
			close(g.open)
			finish()
			late()
			mustAsk(t, p, prompt)
			eventually(t, "all connections are closed", func() bool { return u.alive() == 0 && p.Stats().Open == 0 })
		})
	}
}

// TestCloseWhileDialling ends a dial as soon as nobody waits for it.
func TestCloseWhileDialling(t *testing.T) {
	u := newUnit(t, config.ProtocolHTTP2)
	l := &held{Listener: u.listener, open: make(chan struct{}), accepted: make(chan net.Addr, 10)}
	u.listener = l
	u.serve(t, echo)
	opts := u.options()
	opts.ConnectTimeout = time.Hour
	p := newPool(t, opts)
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() {
		_, err := ask(ctx, p)
		errs <- err
	}()
	receive(t, l.accepted)
	p.Close()
	cancel()
	if err := receive(t, errs); !errors.Is(err, context.Canceled) {
		t.Fatalf("the cancelled request failed with %v", err)
	}
	ended := make(chan struct{})
	go func() { p.Wait(); close(ended) }()
	receive(t, ended) // although the unit is silent still
	if s := p.Stats(); s != (Stats{}) || !p.dialsEnded() {
		t.Errorf("stats are %+v, want a dial that was cancelled", s)
	}
	close(l.open)
	mustAsk(t, p, prompt) // it began before its unit left the config
	p.Wait()
	eventually(t, "the unit has no connection", func() bool { return u.alive() == 0 })
}
