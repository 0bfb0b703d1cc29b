// Package httpserver runs the HTTP listeners of Ghostline's processes: HTTP/2
// and HTTP/1.1 on each, with limits against slow and greedy peers, and a
// shutdown that lets running requests finish.
package httpserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/errgroup"
)

// Defaults of the limits in [Server]; each holds where the field is zero.
const (
	DefaultMaxHeaderBytes       = 64 << 10
	DefaultMaxConcurrentStreams = 1000
	DefaultDrain                = 10 * time.Second

	readHeaderTimeout = 10 * time.Second
	// Accepting is tried again within a second, and each time says so.
	warnEvery = 10 * time.Second
	// Editors hold one connection all day; PINGs find those that died.
	idleTimeout = time.Hour
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
	// unreadConnection is how long an HTTP/2 connection may take no byte of what
	// there is to send. A stream's write deadline does not end a write that the
	// connection holds up: its reset would have to be sent first.
	unreadConnection = 10 * time.Second
)

// Server is one listener and what answers on it.
//
// With TLS set it speaks h2 and HTTP/1.1, chosen by ALPN; without, h2c by prior
// knowledge (RFC 9113 section 3.3) and HTTP/1.1 on the same port.
//
// There is no write timeout on purpose: it would cut every long stream. A
// handler that streams bounds its own writes.
type Server struct {
	// Name tells this listener apart in the log: "tls", "cleartext", "admin".
	Name string
	// Listener is where connections come from. Run closes it.
	Listener net.Listener
	// TLS turns on TLS. The protocols to negotiate are filled in.
	TLS     *tls.Config
	Handler http.Handler
	Log     *slog.Logger

	// MaxHeaderBytes bounds a request's headers; more is answered 431.
	MaxHeaderBytes int
	// MaxConcurrentStreams is what each HTTP/2 connection may have open. An
	// edge puts many users on one connection, so it is generous.
	MaxConcurrentStreams int
	// Drain says how long running requests may take; it is asked once ctx is
	// done. Nil is DefaultDrain.
	Drain func() time.Duration
	// ConnState, if set, is told of every change of a connection's state.
	ConnState func(net.Conn, http.ConnState)
	// ConnContext, if set, derives the context of a connection's requests: the
	// place for what its caller keeps of each connection. [ConnectionOf] the
	// context that it gets is the connection.
	ConnContext func(context.Context, net.Conn) context.Context
	// Recycler, if set, can tell this server's connections to go while it serves.
	Recycler *Recycler
}

// Run serves until ctx is done, then accepts nothing more, lets the running
// requests finish for up to Drain, and returns nil. It returns an error if the
// listener fails, or if requests were still running after Drain and were cut.
func (s *Server) Run(ctx context.Context) error {
	e, err := newEngine(s)
	if err != nil {
		return err
	}
	s.Log.Info("serving", "listener", s.Name, "addr", s.Listener.Addr().String(), "tls", s.TLS != nil)
	if s.Recycler != nil {
		defer s.Recycler.add(e)()
	}
	listener := closedOnce{s.Listener, sync.OnceValue(s.Listener.Close)}
	serving := make(chan error, 1)
	go func() {
		if s.TLS != nil {
			serving <- e.http.ServeTLS(listener, "", "")
			return
		}
		serving <- e.http.Serve(listener)
	}()
	select {
	case err := <-serving:
		return fmt.Errorf("listener %s: %w", s.Name, err)
	case <-ctx.Done():
	}
	listener.Close()
	<-serving // what was accepted is known to e now
	return e.drain()
}

// closedOnce is a listener that both Run and net/http close.
type closedOnce struct {
	net.Listener
	close func() error
}

func (l closedOnce) Close() error { return l.close() }

// build makes an http.Server with the limits of s, and with a configuration of
// TLS if it is to accept that.
func (s *Server) build(config *tls.Config) (*http.Server, error) {
	srv := &http.Server{
		TLSConfig:         config,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    orDefault(s.MaxHeaderBytes, DefaultMaxHeaderBytes),
		ErrorLog:          log.New(&errorLog{log: s.Log.With("listener", s.Name)}, "", 0),
		Protocols:         new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: orDefault(s.MaxConcurrentStreams, DefaultMaxConcurrentStreams),
			SendPingTimeout:      pingAfter,
			PingTimeout:          pingTimeout,
			WriteByteTimeout:     unreadConnection,
			// Nearly every answer has headers of its own (its request id), which
			// would push all others out of the table.
			MaxEncoderHeaderTableSize: 1,
		},
	}
	srv.Protocols.SetHTTP1(true)
	if s.TLS != nil {
		srv.Protocols.SetHTTP2(true)
	} else {
		srv.Protocols.SetUnencryptedHTTP2(true)
	}
	// The HTTP/2 engine comes from x/net rather than from the toolchain's copy,
	// so that its security fixes arrive with a dependency update.
	// Priorities that clients ask for are not honoured: behind an edge, one user's
	// would hold back another's answer on the same connection.
	//lint:ignore SA1019 Server.Protocols alone would take the toolchain's copy.
	if err := http2.ConfigureServer(srv, &http2.Server{NewWriteScheduler: http2.NewRandomWriteScheduler}); err != nil {
		return nil, fmt.Errorf("listener %s: %w", s.Name, err)
	}
	return srv, nil
}

// errorLog is where net/http and the HTTP/2 engine write. Nearly all of it is
// about peers that misbehave; a panic of a handler is our own mistake, and that
// no connection is accepted for want of file descriptors needs somebody.
type errorLog struct {
	log    *slog.Logger
	warned time.Time // of what is not accepted; guarded by the log.Logger
}

func (e *errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	switch {
	case strings.HasPrefix(text, "http: panic serving "), strings.HasPrefix(text, "http2: panic serving "):
		e.log.Error("a handler panicked", "panic", text)
	case strings.HasPrefix(text, "http: Accept error: ") && time.Since(e.warned) >= warnEvery:
		e.warned = time.Now()
		e.log.Warn("connections cannot be accepted", "error", text)
	default:
		e.log.Debug("connection trouble", "error", text)
	}
	return len(line), nil
}

// RunAll runs the servers until ctx is done or one of them fails, which stops
// the others. It returns when all have stopped, with the first error.
func RunAll(ctx context.Context, servers ...*Server) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, server := range servers {
		group.Go(func() error { return server.Run(ctx) })
	}
	return group.Wait()
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
