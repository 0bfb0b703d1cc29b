package httpserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// dial opens a connection to r whose reads end before the test does.
func (r *running) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestRecycleTellsIdle: a connection without requests is told to go and then
// closed, whether or not it ever had one.
func TestRecycleTellsIdle(t *testing.T) {
	ca, serverTLS := newCA(t)
	for name, config := range map[string]*tls.Config{"h2": serverTLS, "h2c": nil} {
		t.Run(name, func(t *testing.T) {
			r := run(t, &Server{TLS: config, Handler: http.HandlerFunc(proto), Recycler: new(Recycler)})
			var all []*framed
			for range 3 {
				conn := r.dial(t)
				if config != nil {
					conn = tls.Client(conn, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1", NextProtos: []string{"h2"}})
				}
				all = append(all, newFramed(t, conn))
			}
			all[0].request(1, "/")
			for {
				frame, err := all[0].ReadFrame()
				all[0].check(err)
				if data, ok := frame.(*http2.DataFrame); ok && data.StreamEnded() {
					break
				}
			}
			r.Recycler.Recycle(0)
			for i, f := range all {
				frame, err := f.goAway()
				if err != nil || frame.ErrCode != http2.ErrCodeNo || (frame.LastStreamID == 1) != (i == 0) {
					t.Errorf("connection %d was told %v, error %v", i, frame, err)
				}
				if err := f.end(); !errors.Is(err, io.EOF) {
					t.Errorf("connection %d: %v after the GOAWAY, want a clean end", i, err)
				}
			}
			r.stop()
			if err := receive(t, r.ended); err != nil {
				t.Error(err)
			}
		})
	}
}

// firstOf tells of the first connection that a server accepts.
func firstOf(accepted chan<- net.Conn) func(net.Conn, http.ConnState) {
	var once sync.Once
	return func(conn net.Conn, _ http.ConnState) { once.Do(func() { accepted <- conn }) }
}

// TestRecycleTellsHTTP1: an HTTP/1.1 connection learns of it from its next answer,
// and stays open until then.
func TestRecycleTellsHTTP1(t *testing.T) {
	r := run(t, &Server{Handler: http.HandlerFunc(proto), Recycler: new(Recycler)})
	conn := r.dial(t)
	answers := bufio.NewReader(conn)
	closes := func() bool {
		t.Helper()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); string(body) != "HTTP/1.1" || err != nil {
			t.Errorf("got %q, error %v", body, err)
		}
		return resp.Close
	}
	if closes() {
		t.Error("it closes before the recycle")
	}
	r.tellAll()
	if !closes() {
		t.Error("the answer after the recycle does not say that the connection closes")
	}
	if _, err := answers.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the answer: %v, want the end", err)
	}
	r.stop()
	if err := receive(t, r.ended); err != nil {
		t.Error(err)
	}
}

// TestRecycleTellsLate has a connection begin to speak only after its cohort was
// told.
func TestRecycleTellsLate(t *testing.T) {
	accepted := make(chan net.Conn, 1)
	r := run(t, &Server{Handler: http.HandlerFunc(proto), Recycler: new(Recycler), ConnState: firstOf(accepted)})
	conn := r.dial(t)
	receive(t, accepted)
	r.tellAll()
	if frame, err := newFramed(t, conn).goAway(); err != nil || frame.ErrCode != http2.ErrCodeNo {
		t.Errorf("it was told %v, error %v", frame, err)
	}
	r.stop()
	if err := receive(t, r.ended); err != nil {
		t.Error(err)
	}
}

// tellAll recycles and returns when all are told.
func (r *running) tellAll() {
	r.Recycler.Recycle(0)
	r.Recycler.mu.Lock()
	defer r.Recycler.mu.Unlock()
	for e := range r.Recycler.engines {
		for told := false; !told; runtime.Gosched() {
			e.cohorts.mu.Lock()
			told = len(e.cohorts.retired) == 0
			e.cohorts.mu.Unlock()
		}
	}
}

// TestRecycleIsSpread has the clock of a bubble.
func TestRecycleIsSpread(t *testing.T) {
	const over, clients = time.Minute, 60
	synctest.Test(t, func(t *testing.T) {
		l, recycler := newPipes(), new(Recycler)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- (&Server{Listener: l, Handler: http.HandlerFunc(proto), Log: slog.New(slog.DiscardHandler), Recycler: recycler}).Run(ctx)
		}()
		told := make(chan time.Duration, clients)
		start := time.Now()
		listen := func() {
			f := newFramed(t, l.dial())
			go func() {
				defer f.conn.Close()
				if _, err := f.goAway(); err == nil {
					told <- time.Since(start)
				}
				_ = f.end()
			}()
		}
		for range clients {
			listen()
		}
		start = time.Now()
		recycler.Recycle(over)
		var moments []time.Duration
		for range clients {
			moments = append(moments, <-told)
		}
		slices.Sort(moments)
		first, middle, last := moments[0], moments[clients/2], moments[clients-1]
		if first > over/4 || middle < over/8 || middle > 7*over/8 || last < 3*over/4 || last > over {
			t.Errorf("the %d connections were told at %v", clients, moments)
		}
		// One that opens after the call stays.
		recycler.Recycle(over)
		listen()
		time.Sleep(2 * over)
		select {
		case moment := <-told:
			t.Errorf("a new connection was told to go after %s", moment)
		default:
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestRecycleLetsRequestsFinish has a stream run over two recycles and a drain,
// which waits for it.
func TestRecycleLetsRequestsFinish(t *testing.T) {
	for name, set := range map[string]func(*http.Protocols){"h1": h1, "h2c": h2c} {
		t.Run(name, func(t *testing.T) {
			h := &held{arrived: make(chan struct{}), open: make(chan struct{})}
			r := run(t, &Server{Handler: h, Recycler: new(Recycler), Drain: func() time.Duration { return time.Minute }})
			errs := holdOne(t, r, h, set)
			r.tellAll()
			r.tellAll()
			r.drainsFor(t, h, errs)
			if h.cut.Load() != 0 {
				t.Error("the request was cut")
			}
		})
	}
}

// TestDrainDuringRecycle: those who were to be told later are told at once.
func TestDrainDuringRecycle(t *testing.T) {
	r := run(t, &Server{Handler: http.HandlerFunc(proto), Recycler: new(Recycler)})
	f := newFramed(t, r.dial(t))
	r.Recycler.Recycle(time.Hour)
	r.stop()
	if frame, err := f.goAway(); err != nil || frame.ErrCode != http2.ErrCodeNo {
		t.Errorf("it was told %v, error %v", frame, err)
	}
	if err := receive(t, r.ended); err != nil {
		t.Error(err)
	}
	r.Recycler.Recycle(0) // of no use, and no harm
}

// TestRecycleUnderLoad: clients that are told to go all the time lose nothing,
// and nothing is left of them.
func TestRecycleUnderLoad(t *testing.T) {
	for name, set := range map[string]func(*http.Protocols){"h1": h1, "h2c": h2c} {
		t.Run(name, func(t *testing.T) {
			var opened, open atomic.Int32
			r := run(t, &Server{
				Recycler: new(Recycler),
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(w, r.Body)
				}),
				ConnState: func(_ net.Conn, state http.ConnState) {
					switch state {
					case http.StateNew:
						opened.Add(1)
						open.Add(1)
					case http.StateClosed:
						open.Add(-1)
					}
				},
			})
			const clients, recycles = 8, 20
			c := client(t, nil, set)
			c.Transport.(*http.Transport).MaxIdleConnsPerHost = clients // or it closes some itself
			var load sync.WaitGroup
			working := make(chan struct{})
			for range clients {
				load.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-working:
							return
						default:
							if err := echo(t.Context(), c, r.url()); err != nil {
								t.Errorf("request %d: %v", i, err)
								return
							}
						}
					}
				})
			}
			for range recycles {
				moved := opened.Load()
				r.Recycler.Recycle(time.Millisecond)
				for opened.Load() == moved && !t.Failed() {
					runtime.Gosched()
				}
			}
			close(working)
			load.Wait()
			if opened.Load() < recycles {
				t.Errorf("the clients opened %d connections", opened.Load())
			}
			c.CloseIdleConnections()
			r.stop()
			if err := receive(t, r.ended); err != nil {
				t.Error(err)
			}
			for open.Load() > 0 {
				runtime.Gosched()
			}
		})
	}
}

// echo sends a body and wants it back. It is a POST, which Go's client sends
// again only where it is sure that nothing happened.
func echo(ctx context.Context, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("there and back"))
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && string(body) != "there and back" {
		err = errors.New("the answer is " + string(body))
	}
	return err
}
