package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
)

// TestOneConnection: a thousand streams, half of them cancelled in every phase,
// and no more slots than a fraction of them.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	const streams = 1000
	cancelled := make(chan struct{}, streams)
	s := newTestServer(t, serverOptions{maxStreams: 20}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Request-Id") == "whole" {
			write(w, text("a"), text("b"), stop, done)
			return
		}
		if r.Header.Get("X-Request-Id") == "mid-stream" {
			write(w, text("a"))
		}
		<-r.Context().Done()
		if r.Header.Get("X-Request-Id") == "mid-stream" {
			cancelled <- struct{}{}
		}
	})
	c := s.client(t)
	var running sync.WaitGroup
	for i := range streams {
		running.Go(func() {
			switch i % 4 {
			case 0:
				c.cancelMidStream(t)
			case 1:
				c.cancelBeforeFirstByte(t, time.Duration(i)*50*time.Microsecond)
			default:
				if answer, err := collect(c, t.Context(), Request{Model: "m", RequestID: "whole"}); err != nil || answer != "ab" {
					t.Errorf("answer %q, %v", answer, err)
				}
			}
		})
	}
	running.Wait()
	if c.Connections() != 1 || s.accepted.Load() != 1 {
		t.Errorf("%d connections opened, %d accepted, want 1", c.Connections(), s.accepted.Load())
	}
	for range streams / 4 {
		<-cancelled
	}
	c.conn.checkSettled(t)
}

func (c *Client) cancelMidStream(t *testing.T) {
	for _, err := range c.Complete(t.Context(), Request{Model: "m", RequestID: "mid-stream"}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
}

func (c *Client) cancelBeforeFirstByte(t *testing.T, after time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	if _, err := collect(c, ctx, Request{Model: "m", RequestID: "silent"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
}

// TestStopReachesTheHandler: either way of stopping resets the stream, and
// nothing else.
func TestStopReachesTheHandler(t *testing.T) {
	t.Parallel()
	for name, stopBy := range map[string]func(*Client, context.Context) error{
		"break": func(c *Client, ctx context.Context) error {
			for range c.Complete(ctx, Request{Model: "m"}) {
				break
			}
			return nil
		},
		"context": func(c *Client, ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			var last error
			for _, err := range c.Complete(ctx, Request{Model: "m"}) {
				cancel()
				last = err
			}
			if !errors.Is(last, context.Canceled) {
				return fmt.Errorf("last error %v, want the context's", last)
			}
			return nil
		},
		"close": func(c *Client, ctx context.Context) error {
			for range c.Complete(ctx, Request{Model: "m"}) {
				return c.Close()
			}
			return errors.New("no event")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{}, 1)
			s := newTestServer(t, serverOptions{cleartext: true}, func(w http.ResponseWriter, r *http.Request) {
				write(w, text("a"))
				<-r.Context().Done()
				ended <- struct{}{}
			})
			c := s.client(t)
			if err := stopBy(c, t.Context()); err != nil {
				t.Error(err)
			}
			<-ended
			if name == "close" {
				return
			}
			stopBy(c, t.Context())
			<-ended
			if s.accepted.Load() != 1 {
				t.Errorf("%d connections, want 1", s.accepted.Load())
			}
		})
	}
}

// TestWholeAnswerIsNotReset: after [DONE] the stream is read to its end before it
// is closed; a reset would count as cancelled at the proxy.
func TestWholeAnswerIsNotReset(t *testing.T) {
	t.Parallel()
	body := &recordedBody{Reader: iotest.OneByteReader(strings.NewReader("data: " + stop + "\n\ndata: [DONE]\n\n: bye\n\n"))}
	a := newAnswer(&connection{}, &link{users: 1}, &http.Response{Body: body}, 1)
	a.each(t.Context(), func(_ Event, err error) bool {
		if err != nil {
			t.Error(err)
		}
		return true
	})
	a.close()
	if !body.ended {
		t.Error("the stream was closed before its end")
	}
}

// recordedBody notes whether it was read to its end before it was closed.
type recordedBody struct {
	io.Reader
	ended, closed bool
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.ended = b.ended || err == io.EOF && !b.closed
	return n, err
}

func (b *recordedBody) Close() error {
	b.closed = true
	return nil
}

// TestGoAway: the server says GOAWAY in the midst of requests. Those it has seen
// finish on the old connection, the others move, and none runs twice.
func TestGoAway(t *testing.T) {
	t.Parallel()
	const requests = 300
	var seen sync.Map
	var handled atomic.Int64
	s := newTestServer(t, serverOptions{}, func(w http.ResponseWriter, r *http.Request) {
		if _, twice := seen.LoadOrStore(r.Header.Get("X-Request-Id"), true); twice {
			t.Error("a request was handled twice")
		}
		if handled.Add(1) == requests/3 {
			w.Header().Set("Connection", "close") // net/http says GOAWAY
		}
		write(w, text("a"))
		write(w, text("b"), stop, done)
	})
	c := s.client(t)
	var running sync.WaitGroup
	for i := range requests {
		running.Go(func() {
			answer, err := collect(c, t.Context(), Request{Model: "m", RequestID: fmt.Sprint("id-", i)})
			if err != nil || answer != "ab" {
				t.Errorf("answer %q, %v", answer, err)
			}
		})
	}
	running.Wait()
	if c.Connections() != 2 || handled.Load() != requests {
		t.Errorf("%d connections, %d requests handled; want 2 and %d", c.Connections(), handled.Load(), requests)
	}
	c.conn.checkSettled(t)
}

// TestFullIsNotLost: a request that fails on a connection whose slots are all
// taken is not the end of that connection.
func TestFullIsNotLost(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, serverOptions{maxStreams: 1}, func(w http.ResponseWriter, r *http.Request) {
		write(w, text("a"))
		<-r.Context().Done()
	})
	c := s.client(t)
	for _, err := range c.Complete(t.Context(), Request{Model: "m"}) {
		if err != nil {
			t.Fatal(err)
		}
		l, err := c.conn.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := l.cc.Available(); n != 0 {
			t.Errorf("%d slots are free, want none", n)
		}
		if c.conn.lost(l, errors.New("http2: request header list larger than peer's advertised limit")) {
			t.Error("the connection counts as lost")
		}
		c.conn.release(l)
		break
	}
	c.conn.checkSettled(t)
}

// TestConnectionDies: the connection is cut between requests and under them.
func TestConnectionDies(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, serverOptions{cleartext: true}, func(w http.ResponseWriter, r *http.Request) { write(w, text("a"), stop, done) })
	c := s.client(t)
	for i := range 3 {
		if _, err := collect(c, t.Context(), Request{Model: "m"}); err != nil {
			t.Fatal(err)
		}
		if n := c.Connections(); n != i+1 {
			t.Errorf("%d connections, want %d", n, i+1)
		}
		s.CloseClientConnections()
	}
}

// TestSleep: a machine that slept does not try the old connection.
func TestSleep(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, serverOptions{cleartext: true}, func(w http.ResponseWriter, r *http.Request) { write(w, text("a"), stop, done) })
	c := s.client(t)
	var slept atomic.Int64
	c.conn.clock.wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(slept.Load())) }
	for _, step := range []struct {
		slept time.Duration
		want  int
	}{{0, 1}, {time.Second, 1}, {time.Hour, 2}, {time.Hour, 2}, {0, 2}} {
		slept.Store(int64(step.slept))
		if err := c.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := c.Connections(); n != step.want {
			t.Errorf("%d connections with the wall clock ahead by %s, want %d", n, step.slept, step.want)
		}
		c.conn.checkSettled(t)
	}
}

// checkSettled holds c to what must be so when no request runs: no connection but
// the current one, and that one unused.
func (c *connection) checkSettled(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.links) != 1 || c.current == nil || c.current.users != 0 {
		t.Errorf("%d connections open, want the current one, unused: %+v", len(c.links), c.current)
	}
}

func TestWarmIsSingleFlight(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, serverOptions{}, func(http.ResponseWriter, *http.Request) {})
	c := s.client(t)
	var running sync.WaitGroup
	for range 100 {
		running.Go(func() {
			if err := c.Warm(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if c.Connections() != 1 || s.accepted.Load() != 1 {
		t.Errorf("%d connections opened, %d accepted, want 1", c.Connections(), s.accepted.Load())
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c, err := New(Options{ProxyURL: "http://" + l.Addr().String(), Tokens: &fixedToken{token: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var dial *net.OpError
	if _, err := collect(c, t.Context(), Request{Model: "m"}); !errors.As(err, &dial) {
		t.Errorf("error %v, want the dial's", err)
	}
}
