package httpserver

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestFirstRequestDuringDrain: an HTTP/1.1 connection that was opened before the
// drain has its first request answered in it.
func TestFirstRequestDuringDrain(t *testing.T) {
	accepted := make(chan net.Conn, 1)
	r := run(t, &Server{Handler: http.HandlerFunc(proto), ConnState: firstOf(accepted)})
	conn := r.dial(t)
	receive(t, accepted)
	r.stop()
	r.awaitClosed()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	if err := receive(t, r.ended); err != nil {
		t.Error(err)
	}
}

// TestDrainTakesNoLonger has the clock of a bubble: connections that were used do
// not hold a drain up, and one that never was does for a while only.
func TestDrainTakesNoLonger(t *testing.T) {
	request := func(set func(*http.Protocols)) func(*testing.T, *pipes) {
		return func(t *testing.T, l *pipes) {
			c := client(t, nil, set)
			c.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil }
			if _, _, err := get(t.Context(), c, "http://proxy/"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		open        func(*testing.T, *pipes)
		least, most time.Duration
	}{
		"h1":         {request(h1), 0, time.Second},
		"h2c":        {request(h2c), time.Second, 2 * time.Second}, // after the GOAWAY
		"never used": {func(t *testing.T, l *pipes) { conn := l.dial(); t.Cleanup(func() { conn.Close() }) }, freshGrace, freshGrace + 2*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newPipes()
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() {
					ended <- (&Server{Listener: l, Handler: http.HandlerFunc(proto), Log: slog.New(slog.DiscardHandler)}).Run(ctx)
				}()
				tc.open(t, l)
				start := time.Now()
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took < tc.least || took > tc.most {
					t.Errorf("the drain took %s, want %s to %s", took, tc.least, tc.most)
				}
			})
		})
	}
}

// TestListenerIsClosedOnce: not every listener bears a second time.
func TestListenerIsClosedOnce(t *testing.T) {
	closed := 0
	l := &countedClose{listen(t), &closed}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := (&Server{Listener: l, Handler: http.HandlerFunc(proto), Log: slog.New(slog.DiscardHandler)}).Run(ctx); err != nil {
		t.Error(err)
	}
	if closed != 1 {
		t.Errorf("the listener was closed %d times", closed)
	}
}

type countedClose struct {
	net.Listener
	closed *int
}

func (l *countedClose) Close() error { *l.closed++; return l.Listener.Close() }
