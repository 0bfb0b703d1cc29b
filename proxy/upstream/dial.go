package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// How long the pool waits after a dial that failed before the next one that it
// can do without.
const (
	backoffFirst = time.Second
	backoffMost  = 30 * time.Second
)

// backoff spaces the dials that nobody waits for: a unit that keeps some
// connections and drops the others would be called with every request. The
// zero value is that of a unit that is well.
type backoff struct {
	wait  time.Duration
	until time.Time
}

// failed makes the wait longer, once for failures that come together.
func (b *backoff) failed() {
	if b.over() {
		b.wait = min(max(backoffFirst, 2*b.wait), backoffMost)
		b.until = time.Now().Add(b.wait)
	}
}

func (b *backoff) over() bool { return !time.Now().Before(b.until) }

func protocols(opts Options) *http.Protocols {
	p := new(http.Protocols)
	switch opts.Protocol {
	case config.ProtocolHTTP2:
		p.SetHTTP2(true)
	case config.ProtocolH2C:
		p.SetUnencryptedHTTP2(true)
	case config.ProtocolHTTP1:
		p.SetHTTP1(true)
	default:
		p.SetHTTP1(true)
		p.SetHTTP2(opts.URL.Scheme == "https")
	}
	return p
}

func hostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// SetConnectTimeout bounds the dials from now on.
func (p *Pool) SetConnectTimeout(timeout time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opts.ConnectTimeout = timeout
}

func (p *Pool) dialUpTo(wanted int) {
	for p.dials < wanted && len(p.conns)+p.dials < maxConns {
		p.dials++
		ctx, within := p.dialing, p.opts.ConnectTimeout
		p.background(func() { p.dial(ctx, within) })
	}
}

// dial opens a connection. It is bound to no request, but ends with ctx. What a
// standstill of this process took of the dial's time it gets once more.
func (p *Pool) dial(ctx context.Context, within time.Duration) {
	before := p.opts.Standstill.Stood(time.Now())
	opened, err := p.connect(ctx, within)
	if err != nil {
		if lost := p.opts.Standstill.Stood(time.Now()) - before; lost > 0 {
			opened, err = p.connect(ctx, min(lost, within))
		}
	}
	p.dialed(opened, err)
	if err == nil {
		// It reports at once what has changed already.
		opened.SetStateHook(p.connChanged)
	}
}

func (p *Pool) connect(ctx context.Context, within time.Duration) (*http.ClientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	opened, err := p.transport.NewClientConn(ctx, p.opts.URL.Scheme, p.address)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		err = context.Canceled
	}
	return opened, err
}

func (p *Pool) dialed(opened *http.ClientConn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials--
	switch {
	case err == nil:
		p.opened++
		p.failing = false
		// What ALPN chose shows only in how much the connection takes.
		p.parallel = opened.Available() <= 1 && p.opts.Protocol != config.ProtocolH2C && p.opts.Protocol != config.ProtocolHTTP2
		p.conns = append(p.conns, p.newConn(opened))
		if p.backoff.wait > 0 {
			p.carefulFrom(time.Now()) // it may hang up yet
		}
	case errors.Is(err, context.Canceled):
		// By the pool, so it says nothing of the unit.
	default:
		p.failures++
		p.failing, p.lastErr = true, err
		p.backoff.failed()
	}
	p.broadcast()
	p.closeIdle()
	p.keep(p.look(time.Now()))
	p.noteReach()
}

// connChanged is told that a connection has a place free, or died.
func (p *Pool) connChanged(changed *http.ClientConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if changed.Err() != nil {
		p.replace(changed)
	}
	p.broadcast()
}

// replace opens another connection for one that died.
func (p *Pool) replace(dead *http.ClientConn) {
	i := slices.IndexFunc(p.conns, func(c *conn) bool { return c.ClientConn == dead })
	if i < 0 {
		return
	}
	c := p.conns[i]
	p.conns = slices.Delete(p.conns, i, i+1)
	p.lost(c)
	p.keep(p.look(time.Now()))
	p.noteReach()
}

// cannotConnect is Unreachable. A connection that was open for a while and then
// closed shows that the unit can be reached, even if it was given no request.
func (p *Pool) cannotConnect() bool { return len(p.conns) == 0 && p.failing }

func (p *Pool) noteReach() { p.unreachable.Store(p.cannotConnect()) }

// Unreachable says whether the unit cannot be connected to, as far as is known:
// no connection is open, and the last that was to be opened failed. The pool goes
// on trying, if it is kept warm.
func (p *Pool) Unreachable() bool { return p.unreachable.Load() }

// lost counts a connection that ended at once, serving nobody, as a dial that
// failed, so that those who wait for one do not call such a unit again and
// again. One that was open for a while is none: servers close what is idle. But
// the unit is called less if it leaves one open that takes no requests.
func (p *Pool) lost(c *conn) {
	switch {
	case c.given.Load() == 0 && c.young():
		p.failures++
		p.failing, p.lastErr = true, errHungUp
		p.backoff.failed()
	case !c.answered.Load() && c.Err() == nil:
		p.backoff.failed()
	case c.given.Load() == 0:
		p.carefulFrom(time.Now())
	}
}
