package upstream

import (
	"sync"
	"time"
)

const (
	// maxFailures in a row eject a unit.
	maxFailures = 5
	// ejectFor is how long the first ejection lasts; the n-th in a row lasts n
	// times as long, up to ejectMost.
	ejectFor  = 10 * time.Second
	ejectMost = 5 * time.Minute
	// refusedFor is how long a unit cools that refuses everything.
	refusedFor = time.Second
)

// State is whether a unit should be asked.
type State int

const (
	// Active is a unit that nothing is known against.
	Active State = iota
	// Cooling is a unit that asked to be left alone for a while.
	Cooling
	// Ejected is a unit that failed too often in a row.
	Ejected
	// OnTrial is a unit whose ejection is over, and that has not answered since:
	// it is asked by one request at a time.
	OnTrial
)

// Health is what a unit's answers say of it. Only failures of the unit count: a
// request that its client cancelled is no answer. The zero value is a unit that
// nothing is known of.
type Health struct {
	mu           sync.Mutex
	failures     int // hard ones, since the last answer
	ejections    int // in a row
	refusals     int // since the last answer
	ejectedAt    time.Time
	ejectedUntil time.Time
	coolingUntil time.Time
	trial        bool      // a request is out to try the unit
	heard        time.Time // when it last answered, or asked to be left alone
}

// State returns the unit's state, and until when it is Cooling or Ejected; zero
// if that is not known. An ejected unit may be asked when no other is left, one
// that said when to come again not even then, so that tells more.
func (h *Health) State(now time.Time) (State, time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case now.Before(h.coolingUntil):
		return Cooling, h.coolingUntil
	case now.Before(h.ejectedUntil):
		return Ejected, h.ejectedUntil
	case h.failures >= maxFailures && h.trial:
		return Ejected, time.Time{}
	case h.failures >= maxFailures:
		return OnTrial, time.Time{}
	}
	return Active, time.Time{}
}

// Answered is told of the whole answer to a request that was sent at asked. It
// clears the unit of everything but its cooling, unless what ejected the unit
// came after the request: a long answer says nothing of what happened since it
// began. It says whether the unit was ejected until now.
func (h *Health) Answered(asked, now time.Time) (isBack bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if asked.Before(h.ejectedAt) {
		h.heard = now
		return false
	}
	return h.answered(now)
}

// Probed is told of the answer to a probe. Unlike a request's, which shows that
// the unit serves, it ends no ejection before its time: what makes requests fail
// may spare a probe.
func (h *Health) Probed(now time.Time) (isBack bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Before(h.ejectedUntil) {
		h.heard = now
		return false
	}
	return h.answered(now)
}

func (h *Health) answered(now time.Time) (isBack bool) {
	isBack = h.failures >= maxFailures
	h.failures, h.refusals, h.heard = 0, 0, now
	if now.Before(h.ejectedUntil) {
		h.ejectedUntil = now
	}
	return isBack
}

// Forget has the unit start anew but for its cooling.
func (h *Health) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures, h.ejections, h.ejectedUntil = 0, 0, time.Time{}
}

// Heard is when the unit last answered or asked to be left alone.
func (h *Health) Heard() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heard
}

// Failed is told of a hard failure: the unit could not be reached, did not
// answer in time, answered with an error of its own, or broke off. If that ejects
// the unit, it says for how long.
func (h *Health) Failed(now time.Time) (ejected time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	if h.failures < maxFailures || now.Before(h.ejectedUntil) {
		return 0
	}
	// One that answered, and went well for as long as it was ejected last, starts
	// anew; not one that nobody asked since.
	if h.failures == maxFailures && now.Sub(h.ejectedUntil) > lastsFor(h.ejections) {
		h.ejections = 0
	}
	h.ejections++
	ejected = lastsFor(h.ejections)
	h.ejectedAt, h.ejectedUntil = now, now.Add(ejected)
	return ejected
}

// lastsFor is how long the n-th ejection in a row lasts.
func lastsFor(n int) time.Duration { return min(time.Duration(n)*ejectFor, ejectMost) }

// Refused is told that the unit would not look at a request, and did not say when
// to come again: it refused the stream, or sent the connection away. A unit that
// does nothing else is to cool: it has few requests in flight, and would be
// given the more.
func (h *Health) Refused(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refusals++
	if h.refusals >= maxFailures {
		h.cool(now.Add(refusedFor))
	}
}

// Cool is told that the unit wants to be left alone until a time.
func (h *Health) Cool(now, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = now
	h.cool(until)
}

func (h *Health) cool(until time.Time) {
	if until.After(h.coolingUntil) {
		h.coolingUntil = until
	}
}

// TakeTrial has the caller be the one request that tries a unit on trial; false
// means that another one is. The caller must give it back with [Health.EndTrial].
func (h *Health) TakeTrial() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := !h.trial
	h.trial = true
	return taken
}

// EndTrial ends a trial, whose result was told before, if there was one.
func (h *Health) EndTrial() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trial = false
}
