package httpserver

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// Connection is the client's connection that a request came on.
type Connection struct {
	transport net.Conn // under TLS, if there is any
	cohort    *cohort
	used      sync.Once // at its first HTTP/1.1 request, or its end
}

type connectionKey struct{}

// ConnectionOf returns the connection that a request came on, by the request's
// context. It is nil if no [Server] got the request.
func ConnectionOf(ctx context.Context) *Connection {
	c, _ := ctx.Value(connectionKey{}).(*Connection)
	return c
}

func newConnection(conn net.Conn, cohort *cohort) *Connection {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	return &Connection{transport: conn, cohort: cohort}
}

// RemoteAddr is the peer's address.
func (c *Connection) RemoteAddr() net.Addr { return c.transport.RemoteAddr() }

// Close cuts the connection off at once, with all its requests, whose contexts
// end. It says nothing to the peer, not even TLS's close_notify or a GOAWAY: a
// peer that does not read would keep the caller waiting.
func (c *Connection) Close() { _ = c.transport.Close() } // an error means that it is closed
