package proxy

import (
	"errors"
	"slices"
	"time"
)

var errNoUnit = errors.New("no unit of the variant is free and not tried yet")

// retryWhenFull is when to come again if every unit was busy: a completion takes
// about as long.
const retryWhenFull = time.Second

// pickUnit finds the next unit to try and takes a place on it: in the order of
// regions and priorities, the less loaded of those alike, none twice. When the
// variant's units are used up, its fallback's follow.
func (p *proxy) pickUnit(x *exchange) error {
	for v := x.variant; v != nil; v = v.fallback {
		for u := x.nextUnit(v); u != nil; u = x.nextUnit(v) {
			if x.take(u) {
				x.variant = v
				return nil
			}
		}
	}
	return noCapacity(errNoUnit, retryWhenFull)
}

// nextUnit is the least loaded unit among the first that are alike and open to
// this request.
func (x *exchange) nextUnit(v *variant) *unit {
	var best *unit
	for _, u := range v.units {
		if best != nil && (u.Region != best.Region || u.Priority != best.Priority) {
			return best
		}
		if slices.Contains(x.tried, u) || u.isFull() {
			continue
		}
		if best == nil || u.load() < best.load() {
			best = u
		}
	}
	return best
}

func (u *unit) isFull() bool {
	return u.Capacity.InFlight > 0 && u.endpoint.inFlight.Load() >= int64(u.Capacity.InFlight)
}

// load is how full the unit is, against its capacity if it has one.
func (u *unit) load() float64 {
	return float64(u.endpoint.inFlight.Load()) / float64(max(1, u.Capacity.InFlight))
}

// take takes a place on u, unless others have taken the last one.
func (x *exchange) take(u *unit) bool {
	for taken := false; !taken; {
		n := u.endpoint.inFlight.Load()
		if u.Capacity.InFlight > 0 && n >= int64(u.Capacity.InFlight) {
			return false
		}
		taken = u.endpoint.inFlight.CompareAndSwap(n, n+1)
	}
	x.unit, x.served = u, u
	x.tried = append(x.tried, u)
	return true
}

// leaveUnit gives the place on the unit back, if the request holds one.
func (x *exchange) leaveUnit() {
	if x.unit != nil {
		x.unit.endpoint.inFlight.Add(-1)
		x.unit = nil
	}
}

// attempted counts an attempt, and remembers a unit that is set up wrongly until
// it answers.
func (u *unit) attempted(result string) {
	u.metrics.attempts[result].Inc()
	switch result {
	case attemptMisconfigured:
		u.endpoint.misconfigured.Store(true)
	case attemptOK:
		u.endpoint.misconfigured.Store(false)
	}
}
