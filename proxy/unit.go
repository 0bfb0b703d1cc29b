package proxy

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
	"golang.org/x/time/rate"
)

var errNoUnit = errors.New("no unit of the variant is free and not tried yet")

// retryWhenFull is when to come again if every unit was busy: a completion takes
// about as long.
const retryWhenFull = time.Second

// standing is how a unit stands for a request, the best first.
type standing int

const (
	fit         standing = iota
	slow                 // much slower than its peers: asked when no other is left
	ejected              // asked only when there is nothing else to lose
	unreachable          // asked after those
	notToAsk             // full, or it asked to be left alone
)

// rounds are the standings that are asked together. A variant's fallback serves
// before the variant's own units that failed.
var rounds = [][]standing{{fit, slow}, {ejected}, {unreachable}}

// pickUnit finds the next unit to try and takes a place on it, none twice: in
// the order of regions and priorities, the less loaded of two of those alike. When
// the variant's units are used up, its fallback's follow, and when those are too,
// the ejected ones: one that failed may have recovered, and nobody else is left.
func (p *proxy) pickUnit(x *exchange) error {
	now := time.Now()
	if len(x.tried) == 0 && !p.isFair(x, now) {
		return noCapacity(errUnfair, retryWhenFull)
	}
	for _, round := range rounds {
		for v := x.wanted; v != nil; v = v.fallback {
			for _, want := range round {
				if p.takeOne(x, v, want, now) {
					x.variant, x.spill = v, p.spilled(x, v, x.unit, now)
					return nil
				}
			}
		}
	}
	return noCapacity(errNoUnit, comeAgain(x.mayServe(), now))
}

// takeOne takes a place on the first unit of the variant that stands so.
func (p *proxy) takeOne(x *exchange, v *variant, want standing, now time.Time) bool {
	for _, alike := range v.alike {
		// A place that is seen free may be gone when it is to be taken; the unit
		// then no longer stands so.
		for u := p.choose(x, alike, want, now); u != nil; u = p.choose(x, alike, want, now) {
			if p.take(x, u, want, now) {
				return true
			}
		}
	}
	return false
}

// hasOther says whether there is a unit for another try that stands at least so.
func (p *proxy) hasOther(x *exchange, worst standing) bool {
	now := time.Now()
	for v := x.wanted; v != nil; v = v.fallback {
		for _, u := range v.units {
			if !slices.Contains(x.tried, u) && p.standing(x, u, now) <= worst {
				return true
			}
		}
	}
	return false
}

// choose returns the less loaded of two units, drawn from those that stand as is
// wanted; nil if there is none. To look at two is nearly as good as to look at
// all, and unlike that does not send everybody to the unit that just became free
// (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing").
func (p *proxy) choose(x *exchange, alike []*unit, want standing, now time.Time) *unit {
	var drawn [2]*unit
	seen := 0
	for _, u := range alike {
		if slices.Contains(x.tried, u) || p.standing(x, u, now) != want {
			continue
		}
		seen++
		// Reservoir sampling: every unit is as likely as any other to be drawn.
		if seen <= len(drawn) {
			drawn[seen-1] = u
		} else if i := rand.IntN(seen); i < len(drawn) {
			drawn[i] = u
		}
	}
	first, second := drawn[0], drawn[1]
	if second == nil || p.lessLoaded(first, second) {
		return first
	}
	return second
}

// lessLoaded says whether a is less loaded than b: against what they can take, if
// that is known of both. Of two that are loaded alike either may be.
func (p *proxy) lessLoaded(a, b *unit) bool {
	loadA, loadB := float64(a.endpoint.inFlight.Load()), float64(b.endpoint.inFlight.Load())
	if a.Capacity.InFlight > 0 && b.Capacity.InFlight > 0 {
		loadA /= float64(p.peers.places(a.Capacity.InFlight))
		loadB /= float64(p.peers.places(b.Capacity.InFlight))
	}
	return loadA < loadB || loadA == loadB && rand.IntN(2) == 0
}

// standing is how u stands for this request.
func (p *proxy) standing(x *exchange, u *unit, now time.Time) standing {
	e := u.endpoint
	state, _ := e.health.State(now)
	switch {
	case state == upstream.Cooling, p.isFull(x, u, now):
		return notToAsk
	case e.pool.Unreachable():
		return unreachable
	case state == upstream.Ejected, state == upstream.OnTrial && u.probed:
		return ejected
	case e.slow.Load()&(1<<x.size) != 0:
		return slow
	}
	return fit
}

func (p *proxy) isFull(x *exchange, u *unit, now time.Time) bool {
	if u.Capacity.InFlight > 0 && u.endpoint.inFlight.Load() >= p.places(x, u) {
		return true
	}
	return u.Capacity.RequestsPerSecond > 0 && p.bucket(u).TokensAt(now) < 1+x.leaves(burst(u.Capacity.RequestsPerSecond))
}

// mirrorsLeave is the part of a unit that mirrored requests leave free, if it
// serves users too: they get spare capacity only.
const mirrorsLeave = 0.2

// leaves is how much of a unit's limit the request must leave free.
func (x *exchange) leaves(limit int) float64 {
	if !x.isMirror || x.wanted.onlyMirrored {
		return 0
	}
	return math.Ceil(mirrorsLeave * float64(limit))
}

// places is how many requests u may run at once for x to be one of them.
func (p *proxy) places(x *exchange, u *unit) int64 {
	places := p.peers.places(u.Capacity.InFlight)
	return places - int64(x.leaves(int(places)))
}

func newBucket(c config.Capacity) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(c.RequestsPerSecond), burst(c.RequestsPerSecond))
}

// bucket bounds the requests a second to u by this proxy's share of them.
func (p *proxy) bucket(u *unit) *rate.Limiter {
	bucket, share := u.endpoint.bucket, p.peers.rate(u.Capacity.RequestsPerSecond)
	if bucket.Limit() != rate.Limit(share) {
		bucket.SetLimit(rate.Limit(share))
		bucket.SetBurst(burst(share))
	}
	return bucket
}

// take takes a place on u, unless others have taken the last one.
func (p *proxy) take(x *exchange, u *unit, as standing, now time.Time) bool {
	if !p.takePlace(x, u) {
		return false
	}
	x.unit = u
	if state, _ := u.endpoint.health.State(now); as < ejected && state == upstream.OnTrial {
		x.onTrial = u.endpoint.health.TakeTrial()
		if !x.onTrial {
			x.leaveUnit()
			return false
		}
	}
	if u.Capacity.RequestsPerSecond > 0 && !p.bucket(u).AllowN(now, 1) {
		x.leaveUnit()
		return false
	}
	x.served = u
	x.tried = append(x.tried, u)
	return true
}

// takePlace counts one more in flight, if there is a place.
func (p *proxy) takePlace(x *exchange, u *unit) bool {
	places := p.places(x, u)
	for {
		n := u.endpoint.inFlight.Load()
		if u.Capacity.InFlight > 0 && n >= places {
			return false
		}
		if u.endpoint.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leaveUnit gives the place on the unit back, if the request holds one.
func (x *exchange) leaveUnit() {
	if x.unit == nil {
		return
	}
	x.unit.endpoint.inFlight.Add(-1)
	if x.onTrial {
		x.unit.endpoint.health.EndTrial()
		x.onTrial = false
	}
	x.unit = nil
}

// tellWhenToCome has a refusal say when the first unit may be asked again: that
// which refused last may be left alone for longer than others.
func (x *exchange) tellWhenToCome(err error) {
	if e := asClientError(err); e != nil && e.outcome == outcomeNoCapacity {
		e.retryAfter = comeAgain(x.mayServe(), time.Now())
	}
}

// mayServe are the variants that the request may be served by: the wanted one and
// its fallbacks.
func (x *exchange) mayServe() (variants []*variant) {
	for v := x.wanted; v != nil; v = v.fallback {
		variants = append(variants, v)
	}
	return variants
}

// comeAgain is when a client may try again: once the first of the units that
// asked to be left alone may be asked, if all did.
func comeAgain(variants []*variant, now time.Time) time.Duration {
	var first time.Duration
	for _, v := range variants {
		for _, u := range v.units {
			state, until := u.endpoint.health.State(now)
			if state != upstream.Cooling {
				return retryWhenFull
			}
			if wait := until.Sub(now); first == 0 || wait < first {
				first = wait
			}
		}
	}
	return max(first, retryWhenFull)
}
