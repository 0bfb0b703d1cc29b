package proxy

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

var (
	errTooLate = errors.New("a time limit was reached")
	// errGivenUp is a unit that was left for another one while there was time.
	errGivenUp = errors.New("half of the time for the first byte was over")
)

// clock ends an exchange with a unit whose next step takes too long, with
// errTooLate as the cause. One timer serves all steps, because only one of them
// runs at a time. The clock stops while the proxy stands still: its timer then
// fires first of all, before what came in time is read.
type clock struct {
	idle, write time.Duration
	end         time.Time // of the whole request
	gapEnd      time.Time // of the wait for the next event
	event       bool      // one came since gapEnd was set
	cancel      context.CancelCauseFunc
	timer       *time.Timer
	standstill  *upstream.Standstill
	stood       time.Duration // how long the proxy had ever stood still when the clock began

	mu      sync.Mutex // over the step
	limit   time.Time
	armed   time.Time // when the timer fires
	writes  bool      // the step is a write to the client
	stopped bool
	// giveUp, until the first byte or until it was asked, says whether to leave
	// the unit for another one. It is asked when half of the time is over.
	giveUp func() bool
	// interrupt ends a write that blocks. It also ruins the stream, so it is
	// only used for that.
	interrupt func()
}

// startClock allows what is left of the time for the first byte, which spans
// all tries. A unary answer's first byte is its last.
func startClock(x *exchange, standstill *upstream.Standstill, cancel context.CancelCauseFunc) *clock {
	limits := x.snapshot.config.Timeouts
	c := &clock{
		idle:   time.Duration(limits.Idle),
		write:  time.Duration(limits.Write),
		end:    x.received.Add(time.Duration(limits.Total)),
		event:  true,
		cancel: cancel,

		standstill: standstill, stood: x.stood,
	}
	c.limit = c.end
	if x.ask.stream {
		c.limit = x.received.Add(time.Duration(limits.FirstByte))
	}
	c.armed = c.limit
	if x.ask.stream && x.giveUp != nil {
		c.giveUp = x.giveUp
		now := c.now()
		c.armed = now.Add(c.limit.Sub(now) / 2)
	}
	c.mu.Lock() // expire sets the timer anew, and may come first
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(c.armed.Sub(c.now()), c.expire)
	return c
}

// now is the time that all of the clock's times are of.
func (c *clock) now() time.Time {
	now := time.Now()
	return now.Add(c.stood - c.standstill.Stood(now))
}

// gotEvent ends the wait for an event. Only that does: a unit that sends
// comments keeps its connection alive, not its stream.
func (c *clock) gotEvent() { c.event = true }

// reading begins a step that waits for the unit.
func (c *clock) reading() {
	now := c.now()
	if c.event {
		c.event, c.gapEnd = false, now.Add(c.idle)
	}
	limit := c.gapEnd
	if c.end.Before(limit) {
		limit = c.end
	}
	if !now.Before(limit) {
		c.cancel(errTooLate) // at once: the timer could lose against a unit that is always ready
	}
	c.step(limit, false)
}

// writing begins a step that may wait for the client. Its only limit is its own:
// cut short by the end of the whole request, the client could not be told.
func (c *clock) writing() { c.step(c.now().Add(c.write), true) }

func (c *clock) step(limit time.Time, writes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit, c.writes, c.giveUp = limit, writes, nil
	// Mostly the timer fires before the limit and is then set to it: two steps
	// for each event would otherwise set it twice for each.
	if limit.Before(c.armed) {
		c.arm(limit)
	}
}

// arm has the timer fire at a time.
func (c *clock) arm(at time.Time) {
	c.armed = at
	c.timer.Reset(at.Sub(c.now()))
}

func (c *clock) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	now := c.now()
	if now.Before(c.armed) { // the proxy stood still
		c.arm(c.armed)
		return
	}
	cause := errTooLate
	if now.Before(c.limit) {
		giveUp := c.giveUp
		c.giveUp = nil
		if giveUp == nil || !giveUp() { // the limit is that of a later step, or holds
			c.arm(c.limit)
			return
		}
		cause = errGivenUp
	}
	c.armed = c.end.Add(time.Hour) // not set: the next step sets it
	c.cancel(cause)
	if c.writes && c.interrupt != nil {
		c.interrupt()
	}
}

// onBlockedWrite sets how to end a write that blocks.
func (c *clock) onBlockedWrite(interrupt func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupt = interrupt
}

// stop returns once the clock can no longer do anything.
func (c *clock) stop() {
	c.timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}
