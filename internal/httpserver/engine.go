package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// freshGrace is how long a drain waits for the first request of HTTP/1.1
// connections. It is how long net/http would wait anyway for those that are
// young, but without answering what comes on them.
const freshGrace = 5 * time.Second

// engine is a server while it runs. Its http.Server accepts the connections and
// serves HTTP/1.1; HTTP/2 is served by that of the connection's cohort.
type engine struct {
	*Server
	http    *http.Server
	cohorts cohorts
	open    sync.Map       // net.Conn → *Connection
	fresh   sync.WaitGroup // open connections that have had no HTTP/1.1 request
}

func newEngine(s *Server) (*engine, error) {
	srv, err := s.build(s.TLS.Clone())
	if err != nil {
		return nil, err
	}
	e := &engine{Server: s, http: srv, cohorts: cohorts{build: s.newCohort, retired: map[*cohort]struct{}{}}}
	if err := e.cohorts.fill(); err != nil {
		return nil, err
	}
	srv.Handler = http.HandlerFunc(e.serveHTTP)
	srv.ConnContext = e.opened
	srv.ConnState = e.changed
	for protocol := range srv.TLSNextProto {
		srv.TLSNextProto[protocol] = e.handOver(protocol)
	}
	return e, nil
}

func (e *engine) opened(ctx context.Context, conn net.Conn) context.Context {
	c := newConnection(conn, e.cohorts.join())
	e.fresh.Add(1)
	e.open.Store(conn, c)
	ctx = context.WithValue(ctx, connectionKey{}, c)
	if e.ConnContext != nil {
		ctx = e.ConnContext(ctx, conn)
	}
	return ctx
}

// changed hears of all states of HTTP/1.1 connections, and of others' first and
// last.
func (e *engine) changed(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		if c, ok := e.open.LoadAndDelete(conn); ok {
			e.use(c.(*Connection))
		}
	}
	if e.ConnState != nil {
		e.ConnState(conn, state)
	}
}

func (e *engine) use(c *Connection) { c.used.Do(e.fresh.Done) }

// handOver gives connections of an HTTP/2 protocol to their cohorts.
func (e *engine) handOver(protocol string) func(*http.Server, *tls.Conn, http.Handler) {
	return func(_ *http.Server, conn *tls.Conn, h http.Handler) {
		// net/http passes the connection's context this way, to HTTP/2 engines.
		c := ConnectionOf(h.(interface{ BaseContext() context.Context }).BaseContext())
		server := c.cohort.server
		server.TLSNextProto[protocol](server, conn, h)
	}
}

func (e *engine) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		c := ConnectionOf(r.Context())
		e.use(c)
		if c.cohort.told.Load() {
			w.Header().Set("Connection", "close")
		}
	}
	e.Handler.ServeHTTP(w, r)
}

// drain lets the running requests finish and closes what has not finished in
// time. No connection is accepted any more.
func (e *engine) drain() error {
	most := DefaultDrain
	if e.Drain != nil {
		most = e.Drain()
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	e.cohorts.drain()
	e.awaitFirstRequests(ctx)
	err := e.http.Shutdown(ctx)
	if err == nil {
		return nil
	}
	closeErr := e.http.Close()
	return fmt.Errorf("listener %s: requests still running at the end of the drain were cut: %w",
		e.Name, errors.Join(err, closeErr))
}

// awaitFirstRequests waits until every connection was used or is closed. A shut
// http.Server drops the first request of an HTTP/1.1 connection unanswered, and
// clients do not send it again: only on a connection that was used before do
// they expect that. HTTP/2 connections are waited for here as well as in the
// shutdown, since it is by closing that they leave.
func (e *engine) awaitFirstRequests(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, freshGrace)
	defer cancel()
	used := make(chan struct{})
	go func() {
		e.fresh.Wait() // the shutdown that follows ends the rest
		close(used)
	}()
	select {
	case <-used:
	case <-ctx.Done():
	}
}
