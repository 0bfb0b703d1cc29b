package proxy

import (
	"context"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

// compareEvery is how often units are compared with their peers.
const compareEvery = time.Second

// attempted counts a request's attempt at its unit, and takes from its end what
// it says of the unit's health.
func (p *proxy) attempted(x *exchange, err error) {
	result := resultOf(err)
	x.unit.metrics.attempts[result].Inc()
	x.traceTried(result)
	if result == attemptRefused {
		x.refused = append(x.refused, x.unit)
	}
	p.judge(x, err)
}

// judge takes from the end of an attempt what it says of the unit's health. That
// a client cancelled says nothing, unless it waited for a unit that hangs. Nor
// does time in which this process stood still, or what it may have led to.
func (p *proxy) judge(x *exchange, err error) {
	now := time.Now()
	stood := p.stood(x, now)
	e := x.unit.endpoint
	switch result := resultOf(err); result {
	case attemptOK, attemptInvalid:
		e.misconfigured.Store(false)
		p.answered(x, now)
	case attemptRefused:
		if refused := asClientError(err); refused.cool > 0 {
			e.health.Cool(now, now.Add(refused.cool))
		} else {
			e.health.Refused(now)
		}
	case attemptCancelled:
		// Superseded are always those that waited longest, of a busy unit as well.
		if x.ask.stream && x.phase == phaseWait && !x.isSuperseded.Load() && e.firstBytes.Hangs(x.size, x.asked, sawUnit(now, stood)) {
			p.failed(x.unit, "cancelled while it hung", now)
		}
	case attemptTimeout:
		if x.hadItsTime(now.Add(-stood)) {
			p.failed(x.unit, result, now)
		}
	case attemptMisconfigured:
		e.misconfigured.Store(true)
		p.failed(x.unit, result, now)
	case attemptUnreachable:
		if !isOutOfFiles(err) && !upstream.IsLong(stood) { // which are this process's trouble
			p.failed(x.unit, result, now)
		}
	default:
		if !upstream.IsLong(stood) { // else the unit, or what lies before it, may have given this process up
			p.failed(x.unit, result, now)
		}
	}
}

// stood is how long this process has stood still since the request was first sent.
func (p *proxy) stood(x *exchange, now time.Time) time.Duration {
	return p.standstill.Stood(now) - x.stood
}

// sawUnit is now without the time in which this process stood still, and can have
// seen nothing of what a unit did. It is doubled: of each standstill half may be
// unknown, and the answers that came in it are read after its end.
func sawUnit(now time.Time, stood time.Duration) time.Time { return now.Add(-2 * stood) }

// answering notes that the unit's answer has begun.
func (p *proxy) answering(x *exchange, now time.Time) {
	took := now.Sub(x.asked)
	switch {
	case !x.ask.stream: // a unary answer begins at its end
	case p.stood(x, now) > took/4: // nobody knows when it came
		x.unit.endpoint.firstBytes.AddAtMost(x.size, took, now)
	default:
		x.unit.endpoint.firstBytes.Add(x.size, took, now)
	}
}

// hadItsTime says whether a unit that was too late had a good part of the time
// there is: the tries before it may have used that up.
func (x *exchange) hadItsTime(now time.Time) bool {
	limit := x.snapshot.config.Timeouts.FirstByte
	if !x.ask.stream {
		limit = x.snapshot.config.Timeouts.Total
	}
	return x.phase == phaseStream || now.Sub(x.asked) > time.Duration(limit)/3
}

func (p *proxy) answered(x *exchange, now time.Time) {
	health, isBack := &x.unit.endpoint.health, false
	if x.isProbe {
		isBack = health.Probed(now)
	} else {
		isBack = health.Answered(x.asked, now)
	}
	if isBack {
		p.log.Info("a unit is back", "unit", x.unit.Name)
	}
}

func (p *proxy) failed(u *unit, result string, now time.Time) {
	if ejected := u.endpoint.health.Failed(now); ejected > 0 {
		p.log.Warn("a unit is ejected: it failed several times in a row", "unit", u.Name, "for", ejected.String(), "last", result)
	}
}

// logStandstill tells of a long standstill of this process: its units did nothing
// that would explain what users saw.
func (p *proxy) logStandstill(stood time.Duration) {
	if upstream.IsLong(stood) {
		p.log.Info("this proxy stood still: its process was stopped, or had no processor", "for", stood.String())
	}
}

// watchHealth compares units with their peers, and tells of those that cannot be
// reached, until ctx is done.
func (p *proxy) watchHealth(ctx context.Context) {
	tick := time.NewTicker(compareEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s := p.loader.current.Load()
			s.findSlow(now)
			p.logReach(s)
		case <-ctx.Done():
			return
		}
	}
}

// logReach tells of units that cannot be reached, or can again. It must be said
// here: if others can serve, no request finds out.
func (p *proxy) logReach(s *snapshot) {
	for _, u := range s.units {
		if u.problem != "" || u.endpoint.outOfReach == u.endpoint.pool.Unreachable() {
			continue
		}
		u.endpoint.outOfReach = !u.endpoint.outOfReach
		if u.endpoint.outOfReach {
			p.log.Warn("a unit cannot be reached", "unit", u.Name, "problem", u.endpoint.pool.Stats().Problem)
		} else {
			p.log.Info("a unit can be reached again", "unit", u.Name)
		}
	}
}

// findSlow marks the units that are much slower than the others of their variant
// and region.
func (s *snapshot) findSlow(now time.Time) {
	for _, v := range s.variants {
		for _, units := range v.regions {
			times := make([]*upstream.FirstBytes, len(units))
			for i, u := range units {
				times[i] = &u.endpoint.firstBytes
			}
			for i, slow := range upstream.SlowUnits(times, now) {
				units[i].endpoint.slow.Store(slow)
			}
		}
	}
}
