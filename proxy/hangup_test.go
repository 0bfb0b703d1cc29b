package proxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
)

// TestBodyBrokenByHangUp has a client close its connection while a handler reads
// the body, and looks at the error of the read itself: whether the request's
// context ends before or after it is a matter of luck.
func TestBodyBrokenByHangUp(t *testing.T) {
	for name, protocol := range map[string]func(*http.Protocols){
		"h1":  func(p *http.Protocols) { p.SetHTTP1(true) },
		"h2c": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		t.Run(name, func(t *testing.T) {
			read, reading := make(chan error, 1), make(chan struct{})
			address := listenAndServe(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(reading)
				_, err := io.Copy(io.Discard, r.Body)
				read <- err
			}))
			var conn net.Conn
			transport := &http.Transport{Protocols: new(http.Protocols),
				DialContext: func(ctx context.Context, network, to string) (c net.Conn, err error) {
					conn, err = new(net.Dialer).DialContext(ctx, network, to)
					return conn, err
				}}
			protocol(transport.Protocols)
			body, upload := io.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				if resp, err := (&http.Client{Transport: transport}).Post("http://"+address, "application/json", body); err == nil {
					resp.Body.Close()
				}
			}()
			<-reading
			conn.Close()
			if err := <-read; err == nil || bodyBroken(err).outcome != outcomeCancelled {
				t.Errorf("a read that ended with %v has outcome %s, want cancelled", err, bodyBroken(err).outcome)
			}
			upload.Close()
			<-done
		})
	}
}

// listenAndServe runs a server as the proxy's traffic ports have it.
func listenAndServe(t *testing.T, handler http.Handler) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server := httpserver.Server{Name: "test", Listener: listener, Handler: handler, Log: slog.New(slog.DiscardHandler), Drain: func() time.Duration { return time.Nanosecond }}
		_ = server.Run(ctx) // cut off at the end
	}()
	t.Cleanup(func() { stop(); <-ended })
	return listener.Addr().String()
}
