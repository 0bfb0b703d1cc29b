package upstream

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// conn is a connection to a unit.
//
// It counts its requests itself and does not use ClientConn.Reserve: HTTP/2
// requests that have reserved wait for each other for ever when the unit then
// says that it takes fewer streams than the 100 that are assumed until its
// SETTINGS come. The first waits for a free stream, and counts as taken what
// those behind it hold reserved.
type conn struct {
	*http.ClientConn
	answered atomic.Bool  // some request
	given    atomic.Int32 // requests, ever
	// Guarded by Pool.mu.
	requests int       // that have this connection now
	limit    int       // how many it takes in all; 0 is not known
	since    time.Time // when it last became idle
	resets   resets
	opened   time.Time // never changes
}

func (p *Pool) newConn(opened *http.ClientConn) *conn {
	c := &conn{ClientConn: opened, opened: time.Now()}
	c.since = c.opened
	if p.parallel {
		c.limit = 1
	} else {
		c.resets = newResets(p.opts.ResetBudget)
	}
	return c
}

// young says whether c may be one of a unit that accepts and hangs up.
func (c *conn) young() bool { return time.Since(c.opened) < settled }

// full says whether c takes no request now but will when another one ends,
// unlike one that the unit has sent away (GOAWAY), whose places stay empty.
func (c *conn) full() bool { return max(c.InFlight(), c.requests) >= c.limit }

// room is how many more requests c can take now; gone says that it will never
// take one again, and that nobody is on it.
func (c *conn) room() (room int, gone bool) {
	if c.Err() != nil {
		return 0, true
	}
	// A request given this connection may not be a stream yet, and a cancelled
	// one is a stream for a while after it was released. Streams come and go
	// between the calls, so the lower of two counts keeps the sum from being
	// more than the connection's limit.
	streams := c.InFlight()
	available := c.Available()
	if available == 0 {
		// All taken, or the unit takes no more (GOAWAY) and may leave it open.
		return 0, streams == 0 && c.requests == 0
	}
	limit := available + min(streams, c.InFlight())
	if c.answered.Load() { // before, the unit's SETTINGS may not have come
		c.limit = limit
	}
	return limit - c.requests, false
}

// body is a response's body. Its request keeps its place on the connection
// until it is closed.
type body struct {
	io.ReadCloser
	pool   *Pool
	conn   *conn
	ended  atomic.Bool // read to its end; else to close it is a reset
	closed atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended.Store(true)
		return n, err
	}
	return n, wordless(err)
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	if !b.closed.Swap(true) {
		b.pool.release(b.conn, !b.ended.Load())
	}
	return err
}
