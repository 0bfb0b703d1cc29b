package proxy

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// mirror sends a part of what one variant serves to another one too, so that this
// can be judged before a user sees it. A mirrored request never delays, fails or
// is billed to the one that it copies.
type mirror struct {
	config.Mirror
	of, to  *variant
	queue   *mirrorQueue // outlives a config
	metrics mirrorMetrics
}

// name tells mirrors apart.
func (m *mirror) name() string { return m.of.model.Name + " " + m.Of + " " + m.To }

// The results of a mirrored request, beside those of an attempt.
const (
	mirrorDropped    = "dropped"     // the queue was full
	mirrorNoCapacity = "no_capacity" // no unit had capacity to spare
)

// pickMirror draws whether the request is mirrored, and where to: to one mirror
// at most.
func (p *proxy) pickMirror(x *exchange) error {
	if len(x.wanted.mirrors) == 0 {
		return nil
	}
	drawn := rand.Float64() * 100
	for _, m := range x.wanted.mirrors {
		if drawn -= m.Percent; drawn < 0 {
			x.mirror = m
			x.transcript = &transcript{}
			return nil
		}
	}
	return nil
}

// mirror hands a copy of the request, whose answer has begun, to its mirror. It
// does not wait: if the queue is full, the copy is dropped.
func (p *proxy) mirror(ctx context.Context, x *exchange) {
	m := x.mirror
	if m == nil {
		return
	}
	text := x.transcript
	x.transcript = nil // nothing is compared, unless the copy is taken
	if x.variant != m.of || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(p.mirrors.ctx)
	c := &comparison{mirror: m, cancel: cancel}
	mirrored := &exchange{
		isMirror: true, id: x.id, trace: x.trace, form: x.form, snapshot: x.snapshot,
		size: x.size, body: x.body, ask: x.mutated.ask, model: x.model, wanted: m.to, variant: m.to, transcript: &transcript{},
	}
	if len(m.to.mutations) > 0 { // what they match
		mirrored.claims, mirrored.programs = x.claims, x.clients()
	}
	run := func() {
		// Nobody else would catch a panic here, which would end the process.
		_ = p.protect(func() error { p.runMirror(ctx, mirrored, c); return nil })
	}
	if !m.queue.offer(&p.mirrors, len(x.body), run) {
		cancel()
		m.metrics.results[mirrorDropped].Inc()
		return
	}
	x.comparison, x.transcript = c, text
}

// runMirror asks a unit of the mirror's variant, once, and reads the whole answer.
func (p *proxy) runMirror(ctx context.Context, x *exchange, c *comparison) {
	defer c.cancel()
	// It may have ended while it waited in the queue. Of the proxy's end the copies
	// learn one after another, so that a later one would be sent in an earlier one's
	// turn.
	if ctx.Err() != nil || p.mirrors.ctx.Err() != nil {
		c.mirror.metrics.results[attemptCancelled].Inc()
		return
	}
	x.start = time.Now()
	x.received = x.start
	if !p.takeOne(x, x.wanted, fit, x.start) {
		c.mirror.metrics.results[mirrorNoCapacity].Inc()
		return
	}
	defer x.leaveUnit()
	err := p.protect(func() error { return p.askWhole(ctx, x) })
	if !x.asked.IsZero() { // else the request could not be put to the unit, which knows nothing of it
		p.attempted(x, err)
	}
	if err != nil {
		p.logTry(x, err)
	}
	c.mirror.metrics.results[resultOf(err)].Inc()
	c.mirror.metrics.count(x)
	if err == nil {
		c.over(&c.mirrored, x)
	}
}

// compare takes the request's part in the comparison with its mirrored copy, if
// there is one.
func (x *exchange) compare(result outcome) {
	c := x.comparison
	switch {
	case c == nil:
	case result == outcomeOK:
		c.over(&c.primary, x)
	case (result == outcomeCancelled || result == outcomeSuperseded) && c.mirror.OnCancel == config.OnCancelCancel:
		c.cancel()
	}
}
