package proxy

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"golang.org/x/time/rate"
)

// Resets of requests that never authenticated, on one connection: so many a
// second, and at once. A client whose token has just expired stays far below; one
// that only opens streams to reset them (CVE-2023-44487) does not.
const (
	strangerResets      = 20
	strangerResetsBurst = 100
)

// clientConn is a client's connection. It may be an edge's, which carries many
// users' requests.
type clientConn struct {
	*httpserver.Connection
	addr   netip.Addr
	resets *rate.Limiter // of requests that never authenticated
	gone   atomic.Bool   // it was cut, which ends its other requests too
}

type clientConnKey struct{}

// withConn gives the requests of a connection the connection.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	addr, _ := netip.ParseAddrPort(conn.RemoteAddr().String()) // else it is in no network
	return context.WithValue(ctx, clientConnKey{}, &clientConn{
		Connection: httpserver.ConnectionOf(ctx), addr: addr.Addr().Unmap(), resets: rate.NewLimiter(strangerResets, strangerResetsBurst),
	})
}

// strangerLeft is told of a request that was reset and never authenticated. Too
// many of them cost the client its connection. Requests that did are let be: half
// of all are reset, and their subject's bucket bounds them.
func (p *proxy) strangerLeft(ctx context.Context) {
	c, ok := ctx.Value(clientConnKey{}).(*clientConn)
	if !ok || c.resets.Allow() || p.loader.current.Load().trusts(c.addr) || c.gone.Swap(true) {
		return
	}
	p.metrics.connectionsCut.Inc()
	if p.guardWarnings.due(time.Now()) {
		p.log.Warn("a client's connection is cut: it resets requests that have no valid token", "client", c.addr.String())
	}
	c.Close()
}

// trusts says whether an address is an edge's.
func (s *snapshot) trusts(addr netip.Addr) bool {
	for _, network := range s.edges {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}
