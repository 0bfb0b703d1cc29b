package httpserver

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPanicIsAnError: a handler's panic must show; peers' noise must not.
func TestPanicIsAnError(t *testing.T) {
	for name, set := range map[string]func(*http.Protocols){"h1": h1, "h2c": h2c} {
		t.Run(name, func(t *testing.T) {
			log := make(chan string, 10)
			r := run(t, &Server{
				Name: "test", Log: slog.New(slog.NewTextHandler(lineWriter(log), nil)),
				Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("our mistake") }),
			})
			srv, err := r.build()
			if err != nil {
				t.Fatal(err)
			}
			srv.ErrorLog.Print("http: TLS handshake error from 192.0.2.1:4711: http: panic serving breakfast")
			if _, _, err := get(t.Context(), client(t, nil, set), r.url()); err == nil {
				t.Error("the request succeeded")
			}
			if line := receive(t, log); !strings.Contains(line, "msg=serving") {
				t.Errorf("the log begins with %s", line)
			}
			line := receive(t, log)
			for _, want := range []string{"level=ERROR", `msg="a handler panicked"`, "listener=test", "our mistake", "connection_test.go"} {
				if !strings.Contains(line, want) {
					t.Errorf("the log lacks %s: %s", want, line)
				}
			}
			r.stop()
			receive(t, r.ended)
		})
	}
}

type lineWriter chan<- string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// pipes is a listener whose connections are pipes, for the clock of a bubble.
type pipes chan net.Conn

func (l pipes) Accept() (net.Conn, error) {
	if conn, ok := <-l; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (l pipes) Close() error   { close(l); return nil }
func (l pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// TestIdleConnectionStays: an editor whose user went to lunch comes back to its
// connection.
func TestIdleConnectionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, dials := make(pipes), 0
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- (&Server{Listener: l, Handler: http.HandlerFunc(proto), Log: slog.New(slog.DiscardHandler)}).Run(ctx)
		}()
		c := client(t, nil, h2c)
		c.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
			dials++
			here, there := net.Pipe()
			l <- there
			return here, nil
		}
		for range 3 {
			if _, _, err := get(t.Context(), c, "http://proxy/"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(55 * time.Minute)
		}
		if dials != 1 {
			t.Errorf("%d connections, want 1", dials)
		}
		c.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
