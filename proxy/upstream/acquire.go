package upstream

import (
	"context"
	"slices"
	"time"
)

// choice is what a look at the connections finds.
type choice struct {
	best     *conn // the least loaded of those within the budgets
	over     *conn // if there is none: the least loaded that has a place
	usable   int   // connections with a place
	headroom int   // how many requests those may be given within the budgets
}

// acquire takes a place on a connection, waiting for one to open if need be, or
// for a place to become free. A request that is cancelled already gets none.
// One that only a budget keeps from a place waits while a connection opens, but
// not for long.
func (p *Pool) acquire(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	failures := p.failures
	var patience time.Time // its end
	for ctx.Err() == nil {
		now := time.Now()
		found := p.look(now)
		alive := found.best != nil || found.over != nil || slices.ContainsFunc(p.conns, (*conn).full)
		if !alive && p.failures != failures {
			p.closeIdle()
			return nil, &DialError{p.lastErr}
		}
		if found.over != nil && patience.IsZero() {
			patience = now.Add(resetPatience)
		}
		if found.over != nil && (p.hopeless() || !now.Before(patience)) {
			found.best = found.over
		}
		if found.best != nil {
			p.take(found, now)
			return found.best, nil
		}
		p.dialMore(alive)
		if alive {
			failures = p.failures // it waits for a place, not for a dial
		}
		p.wait(ctx, found.over != nil, patience)
	}
	p.closeIdle()
	return nil, ctx.Err()
}

// hopeless says whether no connection can be opened at the moment beside those
// that are open.
func (p *Pool) hopeless() bool {
	return p.closed || len(p.conns) >= maxConns || !p.backoff.over()
}

// look finds a place, the first on the least loaded connection, so that those at
// the end are idle longest. It drops connections that are of no more use, but
// asks only those that may be chosen, and until enough are known to be usable:
// to ask takes the locks of a connection.
func (p *Pool) look(now time.Time) (found choice) {
	p.conns = slices.DeleteFunc(p.conns, func(c *conn) bool {
		if p.parallel && c.requests > 0 {
			return false
		}
		left := p.left(c, now)
		best := left > 0 && (found.best == nil || c.requests < found.best.requests)
		over := found.best == nil && (found.over == nil || c.requests < found.over.requests)
		if best || over || found.usable < minMultiplexed {
			room, gone := c.room()
			if gone {
				p.lost(c)
				p.close(c)
				return true
			}
			if room <= 0 {
				return false
			}
		} else if c.limit > 0 && c.requests >= c.limit {
			return false
		}
		switch {
		case best:
			found.best, found.over = c, nil
		case over:
			found.over = c
		}
		found.usable++
		found.headroom += left
		return false
	})
	return found
}

// left is how many more requests c may be given within the budgets.
func (p *Pool) left(c *conn, now time.Time) int {
	if p.parallel {
		return max(0, 1-c.requests)
	}
	return max(0, min(softLimit, p.opts.ResetBudget-c.resets.recent(now))-c.requests)
}

// share is how many requests an HTTP/2 connection may be given within the budgets.
func (p *Pool) share() int { return min(softLimit, p.opts.ResetBudget) }

// take takes the place that was found, and sees to those who come next.
func (p *Pool) take(found choice, now time.Time) {
	found.best.requests++
	found.best.given.Add(1)
	found.headroom--
	if p.parallel {
		found.usable--
	}
	p.lastUse, p.careful = now, time.Time{}
	p.keep(found)
}

// dialMore opens connections for those who wait. alive says that the pool has
// one which serves, now or when a place becomes free: without any, a dial cannot
// wait.
func (p *Pool) dialMore(alive bool) {
	wanted := 1
	switch {
	case p.parallel:
		wanted += p.waiting
	case alive:
		wanted += p.waiting / p.share()
	}
	if !alive || p.backoff.over() {
		p.dialUpTo(wanted)
	}
}

// wait lets others change the pool, until something did or ctx is done, or
// patience is at its end.
func (p *Pool) wait(ctx context.Context, bounded bool, patience time.Time) {
	changed := p.changed
	p.waiting++
	p.mu.Unlock()
	var end <-chan time.Time
	if bounded {
		end = time.After(time.Until(patience))
	}
	select {
	case <-changed:
	case <-end:
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.waiting--
}
