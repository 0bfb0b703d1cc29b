package httpserver

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
			srv, err := r.build(nil)
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

// outOfFiles is a listener that the process has no file for, so many times.
type outOfFiles struct {
	net.Listener
	times atomic.Int32
}

func (l *outOfFiles) Accept() (net.Conn, error) {
	if l.times.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestOutOfFilesIsWarnedOf, once, and goes by.
func TestOutOfFilesIsWarnedOf(t *testing.T) {
	log := make(chan string, 10)
	listener := &outOfFiles{Listener: listen(t)}
	listener.times.Store(3)
	ctx, stop := context.WithCancel(t.Context())
	s := &Server{
		Name: "test", Listener: listener, Log: slog.New(slog.NewTextHandler(lineWriter(log), nil)),
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if _, _, err := get(t.Context(), client(t, nil, h1), "http://"+listener.Addr().String()); err != nil {
		t.Error(err)
	}
	stop()
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
	close(log)
	var warnings []string
	for line := range log {
		if strings.Contains(line, "level=WARN") {
			warnings = append(warnings, line)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "too many open files") {
		t.Errorf("warned of three failures with %q", warnings)
	}
}

type lineWriter chan<- string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// pipes is a listener whose connections are pipes, for the clock of a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newPipes() *pipes {
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

func (l *pipes) dial() net.Conn {
	here, there := net.Pipe()
	l.conns <- there
	return here
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error   { l.close(); return nil }
func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// TestIdleConnectionStays: an editor whose user went to lunch comes back to its
// connection.
func TestIdleConnectionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, dials := newPipes(), 0
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- (&Server{Listener: l, Handler: http.HandlerFunc(proto), Log: slog.New(slog.DiscardHandler)}).Run(ctx)
		}()
		c := client(t, nil, h2c)
		c.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
			dials++
			return l.dial(), nil
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

// TestCloseConnection has a request close the connection on which another one
// waits for a client that does not read; the other one's context ends.
func TestCloseConnection(t *testing.T) {
	ca, serverTLS := newCA(t)
	type mine struct{}
	stuck, cut := make(chan struct{}), make(chan error, 1)
	r := run(t, &Server{
		TLS: serverTLS,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if c := ConnectionOf(ctx); c == nil || c.RemoteAddr().String() != conn.RemoteAddr().String() {
				t.Errorf("the connection's context has %v", c)
			}
			return context.WithValue(ctx, mine{}, true)
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/stuck" {
				close(stuck)
				_, err := io.Copy(w, neverEnding{})
				<-r.Context().Done()
				cut <- err
				return
			}
			c := ConnectionOf(r.Context())
			if got := c.RemoteAddr().String(); got != r.RemoteAddr || r.Context().Value(mine{}) == nil {
				t.Errorf("the request's connection is from %s, want %s", got, r.RemoteAddr)
			}
			c.Close()
		}),
	})
	f := newFramed(t, tls.Client(r.dial(t), &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1", NextProtos: []string{"h2"}}))
	f.request(1, "/stuck")
	receive(t, stuck)
	f.request(3, "/close")
	if err := receive(t, cut); err == nil {
		t.Error("the answer that nobody read was written")
	}
	if ConnectionOf(t.Context()) != nil {
		t.Error("a context without a request has a connection")
	}
	r.stop()
	if err := receive(t, r.ended); err != nil {
		t.Error(err)
	}
}

// TestCloseSaysNothing has the clock of a bubble: TLS would wait 5 s for a client
// that does not read to take its goodbye.
func TestCloseSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, serverTLS := newCA(t) // here, for it must be valid in the bubble
		here, there := net.Pipe()
		defer here.Close()
		client := tls.Client(here, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", MaxVersion: tls.VersionTLS12})
		go func() { _ = client.Handshake() }()
		conn := tls.Server(there, serverTLS)
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		newConnection(conn, nil).Close()
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %s", took)
		}
	})
}

// neverEnding are zeros.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }
