package api

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// relay is a way to the API server that can be cut: an outage for who takes it, and
// for nobody else.
type relay struct {
	server   string
	listener net.Listener
	running  sync.WaitGroup

	mu   sync.Mutex
	cut  bool
	open map[net.Conn]bool
}

// newRelay makes a way to the API server of a config, and a config that takes it.
func newRelay(t testing.TB, config *rest.Config) (*relay, *rest.Config) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := strings.Trim(strings.TrimPrefix(config.Host, "https://"), "/")
	r := &relay{server: server, listener: listener, open: map[net.Conn]bool{}}
	r.running.Go(r.accept)
	t.Cleanup(func() {
		listener.Close()
		r.setCut(true)
		r.running.Wait()
	})
	through := rest.CopyConfig(config)
	through.Host = "https://" + listener.Addr().String()
	return r, through
}

func (r *relay) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() { r.serve(conn) })
	}
}

func (r *relay) serve(conn net.Conn) {
	defer r.forget(conn)
	if !r.keep(conn) {
		return
	}
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	defer r.forget(server)
	if !r.keep(server) {
		return
	}
	r.running.Go(func() {
		_, _ = io.Copy(server, conn)
		server.Close()
	})
	_, _ = io.Copy(conn, server)
}

// keep notes a connection, so that it can be cut; it says no if the way is.
func (r *relay) keep(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.cut {
		r.open[conn] = true
	}
	return !r.cut
}

func (r *relay) forget(conn net.Conn) {
	conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, conn)
}

// setCut cuts the way, with the connections that are on it, or mends it.
func (r *relay) setCut(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	for conn := range r.open {
		if cut {
			conn.Close()
		}
	}
}
