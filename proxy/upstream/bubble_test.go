package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// bubbleUnit is a unit in a synctest bubble, whose clock it and its pool share:
// its connections are pipes.
type bubbleUnit struct {
	*Pool
	// refuse, if set, says which dials fail; accept which connections the unit
	// does not drop at once. Dials count from 1.
	refuse, accept func(dial int) bool

	mu    sync.Mutex
	dials int
	open  []net.Conn // and those that were
	conns chan net.Conn
	ended chan struct{}
}

func newBubbleUnit(t *testing.T, protocol string, streams int, handler http.HandlerFunc) *bubbleUnit {
	t.Helper()
	u := newBubble(t, Options{Protocol: protocol})
	server := &http.Server{
		Handler: handler, Protocols: new(http.Protocols),
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: streams},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server.Protocols.SetHTTP1(protocol == config.ProtocolHTTP1)
	server.Protocols.SetUnencryptedHTTP2(protocol == config.ProtocolH2C)
	go func() { _ = server.Serve(u) }() // ends with the test
	t.Cleanup(func() {
		u.Pool.Close()
		u.Wait()
		server.Close()
		synctest.Wait()
	})
	return u
}

// newRawUnit does with its connections, counted from 1, what serve does.
func newRawUnit(t *testing.T, opts Options, serve func(conn net.Conn, number int)) *bubbleUnit {
	t.Helper()
	u := newBubble(t, opts)
	go func() {
		for number := 1; ; number++ {
			conn, err := u.Accept()
			if err != nil {
				return
			}
			go serve(queued(conn), number)
		}
	}()
	t.Cleanup(func() {
		u.Pool.Close()
		u.Wait()
		u.Close()
		u.drop()
		synctest.Wait()
	})
	return u
}

func newBubble(t *testing.T, opts Options) *bubbleUnit {
	t.Helper()
	opts.URL, opts.ConnectTimeout = &url.URL{Scheme: "http", Host: "unit"}, 5*time.Second
	pool, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	u := &bubbleUnit{Pool: pool, conns: make(chan net.Conn), ended: make(chan struct{})}
	pool.transport.DialContext = u.dial
	return u
}

// queuedConn is a pipe to which one can write while nobody reads, as to a socket.
type queuedConn struct {
	net.Conn
	out chan []byte
}

func queued(conn net.Conn) *queuedConn {
	c := &queuedConn{conn, make(chan []byte, 1000)}
	go func() {
		for b := <-c.out; b != nil; b = <-c.out {
			_, _ = conn.Write(b) // that it failed shows in the next read
		}
		conn.Close()
	}()
	return c
}

func (c *queuedConn) Write(b []byte) (int, error) {
	c.out <- bytes.Clone(b)
	return len(b), nil
}

// Close closes when all is written.
func (c *queuedConn) Close() error { c.out <- nil; return nil }

func (u *bubbleUnit) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	u.mu.Lock()
	u.dials++
	n := u.dials
	u.mu.Unlock()
	if u.refuse != nil && u.refuse(n) {
		return nil, errors.New("refused")
	}
	here, there := net.Pipe()
	if u.accept != nil && !u.accept(n) {
		there.Close()
		return here, nil
	}
	select {
	case u.conns <- there:
		u.mu.Lock()
		u.open = append(u.open, there)
		u.mu.Unlock()
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (u *bubbleUnit) Accept() (net.Conn, error) {
	select {
	case conn := <-u.conns:
		return conn, nil
	case <-u.ended:
		return nil, net.ErrClosed
	}
}

// drop closes all connections.
func (u *bubbleUnit) drop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, conn := range u.open {
		conn.Close()
	}
	u.open = nil
}

func (u *bubbleUnit) Close() error   { close(u.ended); return nil }
func (u *bubbleUnit) Addr() net.Addr { return &net.UnixAddr{Name: "unit"} }

// dialled is how many dials there were.
func (u *bubbleUnit) dialled() int {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.dials
}

// TestExtraDialsBackOff is a unit that keeps one connection and drops, or
// refuses, all others: it is not called with every request.
func TestExtraDialsBackOff(t *testing.T) {
	first := func(dial int) bool { return dial == 1 }
	for name, set := range map[string]func(*bubbleUnit){
		"drops":   func(u *bubbleUnit) { u.accept = first },
		"refuses": func(u *bubbleUnit) { u.refuse = func(dial int) bool { return !first(dial) } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newBubbleUnit(t, config.ProtocolH2C, 0, echo)
				set(u)
				mustAsk(t, u.Pool, prompt)
				// One extra dial with the first request, and perhaps one more
				// because that was answered.
				before, start := u.dialled(), time.Now()
				if before < 2 || before > 3 {
					t.Errorf("%d dials with the first request, want 2 or 3", before)
				}
				for _, want := range []struct {
					after time.Duration
					dials int
				}{
					{0, 0}, {999 * time.Millisecond, 0}, {time.Second, 1}, {2999 * time.Millisecond, 1}, {3 * time.Second, 2},
					{7 * time.Second, 3}, {15 * time.Second, 4}, {31 * time.Second, 5}, {60 * time.Second, 5}, {61 * time.Second, 6}, {91 * time.Second, 7},
				} {
					time.Sleep(want.after - time.Since(start))
					for range 20 {
						mustAsk(t, u.Pool, prompt)
						synctest.Wait()
					}
					if n := u.dialled() - before; n != want.dials {
						t.Errorf("after %s there were %d more dials, want %d", want.after, n, want.dials)
					}
				}
			})
		})
	}
}

// TestNeededDialsDoNotWait: without any connection a request says at once that
// there is none, by a dial of its own; and one connection that serves ends the
// wait for the second.
func TestNeededDialsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newBubbleUnit(t, config.ProtocolH2C, 0, echo)
		u.refuse = func(dial int) bool { return dial <= 5 }
		for i := range 5 {
			var dial *DialError
			if _, err := ask(t.Context(), u.Pool); !errors.As(err, &dial) || u.dialled() != i+1 {
				t.Errorf("request %d: error %v after %d dials", i, err, u.dialled())
			}
		}
		mustAsk(t, u.Pool, prompt)
		if n, s := u.dialled(), u.Stats(); n != 7 || s.Open != 2 {
			t.Errorf("%d dials, stats %+v; want 7 and 2 open", n, s)
		}
	})
}

// TestFailedDialLeavesPlaces has a dial fail while requests wait for the places
// of a connection that is well: they get them.
func TestFailedDialLeavesPlaces(t *testing.T) {
	for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				u := newBubbleUnit(t, protocol, 1, g.serve)
				u.refuse = func(dial int) bool { return dial > 1 }
				finish := g.hold(t, u.Pool, 1)
				synctest.Wait() // the unit's SETTINGS have come
				errs := make(chan error, 3)
				for range cap(errs) {
					go func() {
						_, err := ask(t.Context(), u.Pool)
						errs <- err
					}()
				}
				if n := u.dialled(); n < 2 || len(errs) > 0 {
					t.Errorf("%d requests ended after %d dials", len(errs), n)
				}
				close(g.open)
				finish()
				for range cap(errs) {
					if err := <-errs; err != nil {
						t.Errorf("a request that waited: %v", err)
					}
				}
			})
		})
	}
}

// TestFailedDialWithoutPlaces: the places of a connection that the unit has sent
// away will not be free again, so nobody waits for them.
func TestFailedDialWithoutPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		requests := 0
		u := newBubbleUnit(t, config.ProtocolH2C, 0, func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests < 3 {
				echo(w, r)
				return
			}
			w.Header().Set("Connection", "close") // Go's server makes GOAWAY of it
			w.(http.Flusher).Flush()
			<-open
		})
		defer close(open)
		u.refuse = func(dial int) bool { return dial > 1 }
		mustAsk(t, u.Pool, prompt)
		mustAsk(t, u.Pool, prompt)
		resp, err := send(t.Context(), u.Pool)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		synctest.Wait()
		var dial *DialError
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := ask(ctx, u.Pool); !errors.As(err, &dial) {
			t.Errorf("error %v, want a DialError", err)
		}
	})
}

// TestIdleHTTP1ConnectionsClose leaves a few connections of a burst.
func TestIdleHTTP1ConnectionsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		u := newBubbleUnit(t, config.ProtocolHTTP1, 0, g.serve)
		const burst = 100
		finish := g.hold(t, u.Pool, burst)
		synctest.Wait()
		close(g.open)
		finish()
		if s := u.Stats(); s.Open != burst+spares {
			t.Fatalf("stats are %+v, want %d open", s, burst+spares)
		}
		for range 4 { // that one at a time is used keeps no other
			time.Sleep(idleFor/2 + time.Second)
			mustAsk(t, u.Pool, prompt)
		}
		synctest.Wait()
		if s := u.Stats(); s.Open != keepIdle || s.Opened != burst+spares {
			t.Errorf("stats are %+v, want %d open", s, keepIdle)
		}
	})
}
