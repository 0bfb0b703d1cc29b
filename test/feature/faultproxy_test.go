package feature

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// network is a TCP proxy in front of a unit, for faults of what lies between.
// Toxiproxy could not stand in for it: bytes that it withholds are lost, where
// a network that heals delivers them, and it always answers a SYN.
type network struct {
	address string

	t       *testing.T
	unit    string
	pumps   sync.WaitGroup
	changed *sync.Cond // any of the below, under its lock

	listener *net.TCPListener // nil while connections are refused
	deaf     bool             // SYNs are lost
	fillers  []net.Conn       // what fills the listener's queue meanwhile
	links    map[*link]bool
	opened   int // connections that were ever passed on
	closed   bool
	held     bool
	delay    time.Duration
	left     int // bytes of answers until connections are reset; negative is no limit
}

// link is one connection to the unit through the network.
type link struct{ near, far *net.TCPConn }

// network begins as one without faults.
func newNetwork(t *testing.T, unit string) *network {
	t.Helper()
	n := &network{t: t, unit: unit, changed: sync.NewCond(new(sync.Mutex)), links: map[*link]bool{}, left: -1}
	n.address = "127.0.0.1:0"
	n.listen()
	t.Cleanup(func() {
		n.refuse()
		n.change(func() { n.closed = true })
		n.cut()
		n.pumps.Wait()
	})
	return n
}

func (n *network) change(change func()) {
	n.changed.L.Lock()
	defer n.changed.L.Unlock()
	change()
	n.changed.Broadcast()
}

// refuse has new connections refused. Those that are open go on.
func (n *network) refuse() {
	n.change(func() {
		if n.listener != nil {
			n.listener.Close()
			n.listener = nil
		}
	})
}

// gone is refuse, and no connection goes on either.
func (n *network) gone() {
	n.t.Helper()
	n.refuse()
	giveUp := time.After(20 * time.Second)
	for open := 1; open > 0; open, _ = n.connections() { // some may be on their way
		n.cut()
		select {
		case <-time.After(time.Millisecond):
		case <-giveUp:
			n.t.Fatal("the network's connections do not end")
		}
	}
}

// hold lets nothing pass in either direction, not even a connection's end; what
// is sent meanwhile arrives once the network has healed. New connections open,
// as to a machine whose process hangs.
func (n *network) hold() { n.change(func() { n.held = true }) }

// blackhole is hold, and new connections do not open, as to a machine that is
// gone: their SYNs are lost, because the listener's queue is full and stays so.
func (n *network) blackhole() {
	n.t.Helper()
	n.change(func() {
		n.held, n.deaf = true, true
		n.setBacklog(0)
		_ = n.listener.SetDeadline(time.Unix(1, 0)) // an error would show below
	})
	for range 16 {
		conn, err := net.DialTimeout("tcp", n.address, 100*time.Millisecond)
		if err != nil {
			return
		}
		n.change(func() { n.fillers = append(n.fillers, conn) })
	}
	n.t.Fatal("the network's listener does not lose SYNs here")
}

// hear undoes what blackhole did. A SYN that was lost comes again by itself.
func (n *network) hear() {
	if !n.deaf {
		return
	}
	n.deaf = false
	for _, conn := range n.fillers {
		conn.Close()
	}
	if n.listener != nil {
		n.setBacklog(128)
		_ = n.listener.SetDeadline(time.Time{})
	}
}

// setBacklog sets the length of the queue of connections that wait for Accept.
func (n *network) setBacklog(length int) {
	n.t.Helper()
	raw, err := n.listener.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), length) }), err)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// slow delays whatever passes, in pieces of up to 16 KiB, one after the other:
// both latency and a narrow line.
func (n *network) slow(delay time.Duration) { n.change(func() { n.delay = delay }) }

// cutAfter has the connection reset that carries the last of so many bytes from
// the unit, counted over all connections and with their framing.
func (n *network) cutAfter(bytes int) { n.change(func() { n.left = bytes }) }

// cut resets the open connections, on both sides.
func (n *network) cut() {
	n.change(func() {
		for l := range n.links {
			l.reset()
		}
	})
}

func (l *link) reset() { abort(l.near); abort(l.far) }

// heal ends every fault.
func (n *network) heal() {
	n.t.Helper()
	refused := false
	n.change(func() {
		n.held, n.delay, n.left = false, 0, -1
		n.hear()
		refused = n.listener == nil
	})
	if refused {
		n.listen()
	}
}

// connections says how many are open, and how many ever were.
func (n *network) connections() (open, opened int) {
	n.changed.L.Lock()
	defer n.changed.L.Unlock()
	return len(n.links), n.opened
}

// listen takes the address, again if need be: systems give an outgoing
// connection another one that is free, so nobody has taken it.
func (n *network) listen() {
	n.t.Helper()
	listener, err := net.Listen("tcp", n.address)
	if err != nil {
		n.t.Fatal(err)
	}
	n.address = listener.Addr().String()
	n.change(func() { n.listener = listener.(*net.TCPListener) })
	n.pumps.Go(func() {
		for {
			conn, err := listener.Accept()
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
				n.wait(func() bool { return !n.deaf })
			case err != nil:
				return
			default:
				n.pumps.Go(func() { n.connect(conn.(*net.TCPConn)) })
			}
		}
	})
}

// connect passes a connection on, once the network lets it.
func (n *network) connect(near *net.TCPConn) {
	defer near.Close()
	if n.isFiller(near) || !n.wait(func() bool { return !n.held }) {
		return
	}
	conn, err := net.Dial("tcp", n.unit)
	if err != nil {
		abort(near)
		return
	}
	l := &link{near, conn.(*net.TCPConn)}
	defer l.far.Close()
	n.change(func() { n.links[l], n.opened = true, n.opened+1 })
	defer n.change(func() { delete(n.links, l) })
	if !n.wait(func() bool { return true }) {
		return // cut has not seen it
	}
	var both sync.WaitGroup
	both.Go(func() { n.pump(l, l.near, l.far) })
	both.Go(func() { n.pump(l, l.far, l.near) })
	both.Wait()
}

func (n *network) isFiller(near net.Conn) bool {
	n.changed.L.Lock()
	defer n.changed.L.Unlock()
	return slices.ContainsFunc(n.fillers, func(c net.Conn) bool { return c.LocalAddr().String() == near.RemoteAddr().String() })
}

// pump passes on what comes from one side to the other, the end included.
func (n *network) pump(l *link, from, to *net.TCPConn) {
	buf := make([]byte, 16<<10)
	for {
		size, err := from.Read(buf)
		if !n.wait(func() bool { return !n.held }) {
			return
		}
		sent, last := n.allowed(size, from == l.far)
		if _, werr := to.Write(buf[:sent]); werr != nil || last {
			l.reset()
			return
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = to.CloseWrite() // an error means that the other side is gone too
			return
		case err != nil:
			l.reset()
			return
		}
	}
}

// allowed says how many of so many bytes may pass, once their delay is over,
// and whether the connection is to be reset then.
func (n *network) allowed(size int, answer bool) (pass int, last bool) {
	n.changed.L.Lock()
	defer n.changed.L.Unlock()
	if delay := n.delay; delay > 0 {
		n.changed.L.Unlock()
		<-time.After(delay)
		n.changed.L.Lock()
	}
	if !answer || n.left < 0 {
		return size, false
	}
	pass = min(size, n.left)
	n.left -= pass
	return pass, n.left == 0
}

// wait waits until something is so; false means that the test is over.
func (n *network) wait(is func() bool) bool {
	n.changed.L.Lock()
	defer n.changed.L.Unlock()
	for !is() && !n.closed {
		n.changed.Wait()
	}
	return !n.closed
}
