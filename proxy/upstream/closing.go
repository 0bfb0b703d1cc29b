package upstream

import (
	"context"
	"slices"
)

// closeIdle closes the connections of a closed pool that nobody is on, and ends
// its dials, unless somebody waits for one.
func (p *Pool) closeIdle() {
	if !p.closed || p.waiting > 0 {
		return
	}
	p.conns = slices.DeleteFunc(p.conns, func(c *conn) bool {
		if c.requests == 0 {
			p.close(c)
		}
		return c.requests == 0
	})
	if p.dials > 0 {
		p.stopDials()
		p.dialing, p.stopDials = context.WithCancel(context.Background())
	}
}

// close closes c without waiting: saying goodbye by TLS may take a while.
func (p *Pool) close(c *conn) { p.background(func() { _ = c.Close() }) }

// background runs what Wait waits for.
func (p *Pool) background(do func()) {
	p.running++
	go func() {
		do()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.running--; p.running == 0 {
			p.ended.Broadcast()
		}
	}()
}

// Close lets go of the connections: each closes when the last request on it
// ends. A request that still comes, because it began before its unit was taken
// out of the config, is served like any other. Close does not wait; see Wait.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.tender != nil {
		p.tender.Stop()
	}
	p.closeIdle()
}

// Wait waits until no dial runs and no connection is being closed. After Close
// and the end of all requests, that is the end of the pool.
func (p *Pool) Wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.running > 0 {
		p.ended.Wait()
	}
}
