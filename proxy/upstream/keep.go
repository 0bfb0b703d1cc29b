package upstream

import (
	"slices"
	"time"
)

const (
	// minMultiplexed is how many HTTP/2 connections are kept, so that the loss
	// of one costs no request a dial.
	minMultiplexed = 2
	// spares is how many idle connections a unit of HTTP/1.1 has ahead, since a
	// cancel costs it one. They are kept while there was a request in spareFor:
	// servers close what is idle, uvicorn (vLLM) after 5 s, and a unit that
	// nobody uses is not to be called again and again for nothing.
	spares   = 4
	spareFor = 2 * time.Minute
	// settled is how long a connection was open if its end is no sign of a unit
	// that hangs up at once.
	settled = time.Second
	// pace is the time between the connections that are opened with care.
	pace = time.Second
	// tendEvery is how often the pool looks after its connections: of a GOAWAY
	// to an idle connection the engine does not tell.
	tendEvery = 10 * time.Second
	// idleFor is how long a connection may be idle beyond those that are kept
	// for the next burst: keepIdle of HTTP/1.1, minMultiplexed of HTTP/2.
	idleFor  = 90 * time.Second
	keepIdle = 8
)

// Warm opens connections before the first request, and has the pool keep them
// until it is closed, as the first request would. It does not block.
func (p *Pool) Warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.lastUse = time.Now()
	p.keep(p.look(p.lastUse))
}

// missing is how many connections should be open ahead of need and are not.
func (p *Pool) missing(found choice) int {
	switch {
	case p.closed || p.lastUse.IsZero():
		return 0
	case p.parallel && time.Since(p.lastUse) > spareFor:
		if p.cannotConnect() {
			return 1 // it is not asked while it cannot be reached: nobody else finds out that it is back
		}
		return 0
	case p.parallel:
		return spares - found.usable
	case found.usable < minMultiplexed:
		return minMultiplexed - found.usable
	case found.headroom < p.share():
		return 1
	}
	return 0
}

// keep opens what is missing, now or when the backoff is over. Of a unit that is
// not known to be well one connection at a time: it may refuse them all. With
// care, that is after the unit closed a connection which was idle and until the
// next request, also not one right after the other.
func (p *Pool) keep(found choice) {
	if p.tender == nil && !p.closed && !p.lastUse.IsZero() {
		p.tendAt(time.Now().Add(tendEvery))
	}
	missing := p.missing(found)
	if missing <= 0 {
		return
	}
	at := p.backoff.until
	if p.careful.After(at) {
		at = p.careful
	}
	if time.Now().Before(at) {
		p.tendAt(at)
		return
	}
	if len(p.conns) == 0 || p.backoff.wait > 0 || !p.careful.IsZero() {
		missing = 1
	}
	if p.parallel {
		missing += p.waiting // the dials that run are for those who wait
	}
	if p.dials < missing && !p.careful.IsZero() {
		p.carefulFrom(time.Now())
	}
	p.dialUpTo(missing)
}

// carefulFrom has the pool open connections with care.
func (p *Pool) carefulFrom(now time.Time) { p.careful = now.Add(pace) }

// tendAt has tend run at a time, or before.
func (p *Pool) tendAt(at time.Time) {
	switch {
	case p.tender == nil:
		p.tender = time.AfterFunc(time.Until(at), p.tend)
	case at.Before(p.tendNext):
		p.tender.Reset(time.Until(at))
	default:
		return
	}
	p.tendNext = at
}

// tend looks after the connections.
func (p *Pool) tend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	now := time.Now()
	p.tendNext = now.Add(tendEvery)
	p.tender.Reset(tendEvery)
	p.trim(now)
	p.keep(p.look(now))
}

// trim closes the connections that are of no more use, and those that a burst
// left behind. Requests take the first that is free, so those at the end are
// idle longest.
func (p *Pool) trim(now time.Time) {
	headroom := p.look(now).headroom
	kept := 0
	p.conns = slices.DeleteFunc(p.conns, func(c *conn) bool {
		if _, gone := c.room(); gone {
			p.lost(c)
			p.close(c)
			return true
		}
		if c.requests == 0 || !p.parallel {
			kept++
		}
		left := p.left(c, now)
		if c.requests > 0 || now.Sub(c.since) < idleFor || kept <= p.keepOpen() || !p.parallel && headroom-left < p.share() {
			return false
		}
		kept--
		headroom -= left
		p.close(c)
		return true
	})
}

func (p *Pool) keepOpen() int {
	if p.parallel {
		return keepIdle
	}
	return minMultiplexed
}
