package upstream

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// TestStaleConnection provokes what the engines say of a request whose
// connection ended before it could be sent, on a connection of each kind.
func TestStaleConnection(t *testing.T) {
	for _, tc := range []struct {
		name, protocol string
		used           bool // before it ends
		end            func(u *testUnit, c *http.ClientConn)
		want           string
	}{
		{"HTTP/2, used", config.ProtocolH2C, true, closeHere, unusable},
		{"HTTP/2, never used", config.ProtocolH2C, false, closeHere, notEstablished},
		{"HTTP/2, used, closed by the unit", config.ProtocolH2C, true, closeThere, unusable},
		{"HTTP/1, closed by the unit", config.ProtocolHTTP1, true, closeThere, closedIdle},
		{"HTTP/1, never used, closed by the unit", config.ProtocolHTTP1, false, closeThere, closedIdle},
		{"HTTP/1, reset by the unit", config.ProtocolHTTP1, true, resetThere, resetIdle},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := newUnit(t, tc.protocol).serve(t, echo)
			p := u.pool(t)
			for range 20 { // whether the engine notices early or late
				opened, err := p.transport.NewClientConn(t.Context(), "http", p.address)
				if err != nil {
					t.Fatal(err)
				}
				if tc.used {
					useConn(t, p, opened)
				} else {
					eventually(t, "the unit has accepted", func() bool { return u.alive() == 1 })
				}
				tc.end(u, opened)
				eventually(t, "the connection has ended", func() bool { return opened.Err() != nil })
				_, err = opened.RoundTrip(request(t.Context(), p))
				if !says(err, tc.want) || !NotProcessed(err) {
					t.Fatalf("error %T %v, want %q", err, err, tc.want)
				}
				opened.Close()
				eventually(t, "the unit has noticed", func() bool { return u.alive() == 0 })
			}
		})
	}
}

func useConn(t *testing.T, p *Pool, c *http.ClientConn) {
	t.Helper()
	resp, err := c.RoundTrip(request(t.Context(), p))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
}

func closeHere(_ *testUnit, c *http.ClientConn) { c.Close() }

func closeThere(u *testUnit, _ *http.ClientConn) { u.eachConn(func(c net.Conn) { c.Close() }) }

func resetThere(u *testUnit, _ *http.ClientConn) {
	u.eachConn(func(c net.Conn) {
		_ = c.(*net.TCPConn).SetLinger(0) // without it the test fails below
		c.Close()
	})
}

func (u *testUnit) eachConn(do func(net.Conn)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for conn, state := range u.conns {
		if state != http.StateClosed {
			do(conn)
		}
	}
}

// TestHTTP1BrokenOff is a unit that hangs up instead of answering: it may have
// worked.
func TestHTTP1BrokenOff(t *testing.T) {
	requests := make(chan struct{}, 10)
	u := newUnit(t, config.ProtocolHTTP1).serve(t, func(http.ResponseWriter, *http.Request) {
		requests <- struct{}{}
		panic(http.ErrAbortHandler)
	})
	p := u.pool(t)
	if _, err := ask(t.Context(), p); err == nil || NotProcessed(err) {
		t.Errorf("error %v, want one of a request that may have been processed", err)
	}
	if n := len(requests); n != 1 {
		t.Errorf("the request was sent %d times, want 1", n)
	}
}

// TestStress sends and cancels at random while the unit sends connections away:
// every request ends, no place is lost, and the pool stays usable.
func TestStress(t *testing.T) {
	for _, tc := range []struct {
		protocol string
		streams  int
	}{
		{config.ProtocolH2C, 0}, {config.ProtocolH2C, 5}, {config.ProtocolHTTP2, 20}, {config.ProtocolHTTP1, 0},
	} {
		t.Run(tc.protocol, func(t *testing.T) {
			u := newUnit(t, tc.protocol)
			u.streams = tc.streams
			u.serve(t, func(w http.ResponseWriter, r *http.Request) {
				if rand.N(50) == 0 {
					w.Header().Set("Connection", "close")
				}
				work := time.NewTimer(rand.N(3 * time.Millisecond))
				defer work.Stop()
				select {
				case <-work.C:
					echo(w, r)
				case <-r.Context().Done():
				}
			})
			p := u.pool(t)
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					for range 40 {
						stress(t, p)
					}
				})
			}
			ended := make(chan struct{})
			go func() { wg.Wait(); close(ended) }()
			receive(t, ended)
			eventually(t, "all places are free again", func() bool { return p.Stats().InFlight == 0 && p.dialsEnded() })
			p.mu.Lock()
			if p.waiting != 0 {
				t.Errorf("%d still wait", p.waiting)
			}
			p.mu.Unlock()
			mustAsk(t, p, prompt)
		})
	}
}

// stress sends one request that is cancelled soon, perhaps after its end.
func stress(t *testing.T, p *Pool) {
	ctx, cancel := context.WithTimeout(t.Context(), rand.N(5*time.Millisecond))
	defer cancel()
	got, err := ask(ctx, p)
	if err == nil && got != prompt {
		t.Errorf("answer %q, want %q", got, prompt)
	}
	// A stream that overtook the SETTINGS is refused, see TestFewStreams.
	var refused http2.StreamError
	if err != nil && ctx.Err() == nil && !NotProcessed(err) && !errors.As(err, &refused) {
		t.Errorf("a request failed: %v", err)
	}
}
