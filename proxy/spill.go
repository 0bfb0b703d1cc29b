package proxy

import (
	"slices"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

// spill is what was passed over for a unit that others are preferred to; from is
// nil if nothing was.
type spill struct {
	from   *unit
	reason spillReason
}

// spillReason is why a unit was passed over.
type spillReason string

const (
	spillFull        spillReason = "full"
	spillCooling     spillReason = "cooling"
	spillEjected     spillReason = "ejected" // or on trial, and not yet back
	spillUnreachable spillReason = "unreachable"
	spillSlow        spillReason = "slow"
	spillRefused     spillReason = "refused" // it was asked and did no work
	spillFailed      spillReason = "failed"  // it was asked and failed
	spillUnable      spillReason = "unable"  // its provider cannot do what was asked for
)

// spilled finds out what was passed over for u, a unit of v. Preferred to all
// others are the first of the wanted variant's units, or of its fallback's if it
// has none.
func (p *proxy) spilled(x *exchange, v *variant, u *unit, now time.Time) spill {
	first := x.wanted
	for len(first.units) == 0 { // v has u
		first = first.fallback
	}
	from := first.units[0]
	if v == first && u.Region == from.Region && u.Priority == from.Priority {
		return spill{}
	}
	return spill{from, p.whyNot(x, from, now)}
}

// whyNot is why u was not taken.
func (p *proxy) whyNot(x *exchange, u *unit, now time.Time) spillReason {
	switch {
	case slices.Contains(x.refused, u):
		return spillRefused
	case slices.Contains(x.unable, u):
		return spillUnable
	case slices.Contains(x.tried, u):
		return spillFailed
	}
	state, _ := u.endpoint.health.State(now)
	switch standing := p.standing(x, u, now); {
	case state == upstream.Cooling:
		return spillCooling
	case standing == unreachable:
		return spillUnreachable
	case state == upstream.Ejected, state == upstream.OnTrial:
		return spillEjected
	case standing == slow:
		return spillSlow
	}
	return spillFull // or was, a moment ago
}

// recordSpill counts a request that was spilled. Its units may be gone by now.
func (m *metrics) recordSpill(x *exchange) {
	from, to := x.spill.from.Name, x.served.Name
	if current := m.current.Load(); current == x.snapshot || current.hasUnit(from) && current.hasUnit(to) {
		m.spills.WithLabelValues(from, to, string(x.spill.reason)).Inc()
	}
}

func (s *snapshot) hasUnit(name string) bool {
	return slices.ContainsFunc(s.units, func(u *unit) bool { return u.Name == name })
}
