package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

const (
	// voteEvery is how often the region is looked at if its units are not probed.
	voteEvery = 10 * time.Second
	// downAfter so many failures in a row the region is voted out, and upAfter so
	// long without one it is back: DNS answers live for a while, and a region that
	// comes and goes costs everybody more than one that stays away.
	downAfter = 3
	upAfter   = time.Minute
	// While the region is out its clients' connections are told to go, within
	// leaveWithin to twice that, and those that came since again after leaveAgain:
	// DNS alone moves nobody who keeps a connection.
	leaveWithin = 30 * time.Second
	leaveAgain  = 5 * time.Minute
)

// vote is what this proxy thinks of its region: whether clients should be sent
// here rather than to another one. Saturation is no reason against it.
type vote struct {
	mu       sync.Mutex
	state    voteState
	since    time.Time // of the state
	failures int       // in a row
	wellFrom time.Time // of the checks that passed in a row
	problem  error     // of the last check
	sentAway time.Time // when clients were last told to go
}

type voteState string

const (
	voteUnknown voteState = "unknown" // no check has passed yet
	voteUp      voteState = "up"
	voteDown    voteState = "down"
)

// check takes the result of a check and returns whether that changed the vote.
func (v *vote) check(now time.Time, problem error) (changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := v.next(now, problem)
	v.problem = problem
	if changed = next != v.stateNow(); changed {
		v.state, v.since = next, now
	}
	return changed
}

// next counts the check and returns the state that follows.
func (v *vote) next(now time.Time, problem error) voteState {
	if problem != nil {
		v.failures++
		v.wellFrom = time.Time{}
		if v.failures >= downAfter {
			return voteDown
		}
		return v.stateNow()
	}
	v.failures = 0
	if v.wellFrom.IsZero() {
		v.wellFrom = now
	}
	if v.state != voteDown || now.Sub(v.wellFrom) >= upAfter {
		return voteUp
	}
	return voteDown
}

func (v *vote) stateNow() voteState {
	if v.state == "" {
		return voteUnknown
	}
	return v.state
}

// RegionStatus is the region's vote in a Status.
type RegionStatus struct {
	// Vote is "up", "down", or "unknown" before the first check passed.
	Vote  string    `json:"vote"`
	Since time.Time `json:"since,omitzero"`
	// Problem is what the last check found, if anything.
	Problem string `json:"problem,omitempty"`
}

func (v *vote) status() RegionStatus {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := RegionStatus{Vote: string(v.stateNow()), Since: v.since}
	if v.problem != nil {
		out.Problem = v.problem.Error()
	}
	return out
}

// watchRegion probes the units and keeps the vote until ctx is done.
func (p *proxy) watchRegion(ctx context.Context) {
	for ctx.Err() == nil {
		s, began := p.loader.current.Load(), time.Now()
		if s.config.HealthProbe != nil {
			p.probeUnits(ctx, s)
		}
		if ctx.Err() == nil {
			p.castVote(p.loader.current.Load(), began.Add(-s.checkEvery()))
		}
		p.awaitCheck(ctx, began)
	}
}

// awaitCheck waits until the next check is due after one that began then. It
// looks at the config now and then: a reload must not wait for an interval of
// minutes that it makes shorter.
func (p *proxy) awaitCheck(ctx context.Context, began time.Time) {
	for ctx.Err() == nil {
		wait := time.Until(began.Add(p.loader.current.Load().checkEvery()))
		if wait <= 0 {
			return
		}
		select {
		case <-time.After(min(wait, voteEvery)):
		case <-ctx.Done():
		}
	}
}

// checkEvery is the time from one check of the region to the next.
func (s *snapshot) checkEvery() time.Duration {
	if s.config.HealthProbe != nil {
		return time.Duration(s.config.HealthProbe.Interval)
	}
	return voteEvery
}

// castVote checks the region. A unit that is probed must have answered since a
// time.
func (p *proxy) castVote(s *snapshot, since time.Time) {
	now := time.Now()
	problem := s.regionProblem(now, since)
	if p.vote.check(now, problem) {
		if problem == nil {
			p.log.Info("this region is voted in")
		} else {
			p.log.Error("this region is voted out: clients should go to another", "problem", problem)
		}
	}
	if p.vote.sendsAway(now) {
		p.recycler.Recycle(leaveWithin + rand.N(leaveWithin))
	}
}

// sendsAway says whether clients are to be told to go now.
func (v *vote) sendsAway(now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state != voteDown || !v.sentAway.Before(v.since) && now.Sub(v.sentAway) < leaveAgain {
		return false
	}
	v.sentAway = now
	return true
}

// regionProblem is what is wrong with the region, if anything is: its proxies
// need the issuer's keys and at least one unit that answers, and could answer users.
func (s *snapshot) regionProblem(now, since time.Time) error {
	if s.auth == nil {
		return errNoKeys
	}
	units := 0
	for _, v := range s.variants {
		if v.onlyMirrored {
			continue
		}
		for _, u := range v.units {
			if u.Region != s.config.Region {
				continue
			}
			units++
			if u.answers(now, since) {
				return nil
			}
		}
	}
	return fmt.Errorf("none of the region's %d units answers", units)
}

// answers says whether a unit can be thought to serve.
func (u *unit) answers(now, since time.Time) bool {
	switch state, _ := u.endpoint.health.State(now); {
	case state == upstream.Cooling:
		return true
	case u.probed:
		return u.endpoint.health.Heard().After(since)
	default:
		// One whose ejection is over must be tried by somebody: were the region
		// out until then, nobody might ever come.
		return state != upstream.Ejected && !u.endpoint.pool.Unreachable()
	}
}
