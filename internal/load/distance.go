package load

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

const (
	readSize = 16 << 10
	// lastWrites bounds how long a closed connection may take to hand over what
	// was written before it was closed, to a peer that takes nothing.
	lastWrites = 5 * time.Second
)

// distance opens connections that are farther away than they are: every byte
// arrives half a round trip later than it would, in both directions and in
// order. Bandwidth is not limited: any number of bytes is on its way at once.
type distance struct {
	rtt     time.Duration
	dialer  net.Dialer
	closing sync.WaitGroup // distant connections that are not closed yet
}

func (d *distance) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	raw, err := d.dialer.DialContext(ctx, network, addr)
	if err != nil || d.rtt == 0 {
		return raw, err
	}
	// SYN and SYN-ACK.
	if !sleepUntil(ctx, time.Now().Add(d.rtt)) {
		raw.Close()
		return nil, context.Cause(ctx)
	}
	return d.stretch(raw), nil
}

// stretch makes raw distant.
func (d *distance) stretch(raw net.Conn) *distantConn {
	c := &distantConn{Conn: raw, delay: d.rtt / 2, arrived: make(chan struct{}, 1), done: make(chan struct{})}
	d.closing.Add(2)
	c.gone = d.closing.Done
	go func() {
		defer d.closing.Done()
		c.receive()
	}()
	return c
}

// parcel is what one read or write brought, on its way until it is due.
type parcel struct {
	due  time.Time
	data []byte
	err  error // the end of the stream
}

// distantConn is a connection whose bytes take delay in each direction. Writes
// never block. What was written before Close still arrives.
type distantConn struct {
	net.Conn
	delay   time.Duration
	gone    func()        // told once, when the real connection is closed
	arrived chan struct{} // something was put into inbound
	done    chan struct{} // closed by Close

	mu       sync.Mutex
	outbound []parcel
	sending  bool // a delivery is under way or arranged
	writeErr error
	closed   bool
	inbound  []parcel
}

// Write implements net.Conn. An error of the network shows in a later call.
func (c *distantConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	if c.writeErr != nil {
		return 0, c.writeErr
	}
	c.dispatchLocked(parcel{due: time.Now().Add(c.delay), data: bytes.Clone(p)})
	return len(p), nil
}

func (c *distantConn) dispatchLocked(p parcel) {
	c.outbound = append(c.outbound, p)
	if !c.sending {
		c.sending = true
		time.AfterFunc(time.Until(p.due), c.deliver)
	}
}

// deliver writes what is due. Only one runs at a time, which keeps the order.
func (c *distantConn) deliver() {
	for {
		c.mu.Lock()
		if len(c.outbound) == 0 {
			c.outbound = nil
			c.sending = false
			c.mu.Unlock()
			return
		}
		next := c.outbound[0]
		if wait := time.Until(next.due); wait > 0 {
			c.mu.Unlock()
			time.AfterFunc(wait, c.deliver)
			return
		}
		c.outbound = c.outbound[1:]
		c.mu.Unlock()
		if next.err != nil {
			c.Conn.Close()
			c.gone()
			return
		}
		if _, err := c.Conn.Write(next.data); err != nil {
			c.mu.Lock()
			c.writeErr = err
			c.mu.Unlock()
		}
	}
}

// receive reads what comes, and ends with the real connection.
func (c *distantConn) receive() {
	buf := make([]byte, readSize)
	for {
		n, err := c.Conn.Read(buf)
		c.mu.Lock()
		due := time.Now().Add(c.delay)
		if n > 0 && !c.closed {
			c.inbound = append(c.inbound, parcel{due: due, data: bytes.Clone(buf[:n])})
		}
		if err != nil {
			c.inbound = append(c.inbound, parcel{due: due, err: err})
		}
		c.mu.Unlock()
		select {
		case c.arrived <- struct{}{}:
		default: // the reader has not looked since
		}
		if err != nil {
			return
		}
	}
}

// Read implements net.Conn.
func (c *distantConn) Read(p []byte) (int, error) {
	for {
		n, wait, err := c.take(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if err := c.await(wait); err != nil {
			return 0, err
		}
	}
}

// take moves to p what has arrived. Otherwise it says in how long the next bytes
// are due; below 0 none are on their way.
func (c *distantConn) take(p []byte) (n int, wait time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, 0, net.ErrClosed
	}
	if len(c.inbound) == 0 {
		return 0, -1, nil
	}
	next := &c.inbound[0]
	if wait := time.Until(next.due); wait > 0 {
		return 0, wait, nil
	}
	if next.err != nil {
		return 0, 0, next.err // and again for the next call
	}
	n = copy(p, next.data)
	next.data = next.data[n:]
	if len(next.data) == 0 {
		c.inbound = c.inbound[1:]
	}
	return n, 0, nil
}

// await waits for the time given, or, if it is below 0, for an arrival.
func (c *distantConn) await(wait time.Duration) error {
	if wait < 0 {
		select {
		case <-c.arrived:
			return nil
		case <-c.done:
			return net.ErrClosed
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.done:
		return net.ErrClosed
	}
}

// Close implements net.Conn: here at once, at the other end when the news of it
// has travelled.
func (c *distantConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	close(c.done)
	c.inbound = nil
	// The error is that of a connection which is closed already.
	_ = c.Conn.SetWriteDeadline(time.Now().Add(c.delay + lastWrites))
	c.dispatchLocked(parcel{due: time.Now().Add(c.delay), err: net.ErrClosed})
	return nil
}

// SetWriteDeadline implements net.Conn. Writes do not block, so there is nothing
// to bound.
func (c *distantConn) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline is not needed by the HTTP client, and not supported.
func (c *distantConn) SetReadDeadline(time.Time) error {
	return errors.Join(errors.ErrUnsupported, os.ErrNoDeadline)
}

// SetDeadline is not supported either.
func (c *distantConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }
