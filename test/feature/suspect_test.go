package feature

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// suspectAfter is more answers than it takes to know how fast a unit is.
const suspectAfter = 25

// TestLateCancelsEject: a unit that was quick hangs. Clients who wait for longer
// than any of its answers took, and then leave, tell as much as a time limit.
func TestLateCancelsEject(t *testing.T) {
	s, units := cast(t, setup{}, says(whole("a")), says(whole("b")))
	longest := time.Duration(0)
	for range suspectAfter {
		began := time.Now()
		s.complete()
		longest = max(longest, time.Since(began))
	}
	units[0].is(http.HandlerFunc(never))
	left := 4
	s.leaveAfter(units[0], left, longest)
	s.wantState("unit-0", "active")
	s.eventually("unit-0 is ejected", func() bool { // by the fifth, unless this machine stood still meanwhile
		s.leaveAfter(units[0], 1, longest)
		left++
		state, _ := s.unitState("unit-0")
		return state == "ejected"
	})
	s.wantLog("a unit is ejected", `"unit":"unit-0"`, `"last":"cancelled while it hung"`)
	s.complete()
	wantAsked(t, units, suspectAfter+left, 1)
	s.outcomes("cancelled", float64(left))
}

// TestEarlyCancelsNeverEject: one of a unit's answers took a while, so clients
// who leave before that say nothing of it.
func TestEarlyCancelsNeverEject(t *testing.T) {
	const while = 2 * time.Second
	s, units := cast(t, setup{}, says(whole("a")), says(whole("b")))
	for range suspectAfter {
		s.complete()
	}
	units[0].is(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-time.After(while)
		says(whole("late"))(w, r)
	}))
	s.complete()
	units[0].is(http.HandlerFunc(never))
	for range 12 {
		s.leaveAfter(units[0], 1, 0)
	}
	s.wantState("unit-0", "active")
	if n := s.logged("a unit is ejected"); n > 0 {
		t.Errorf("the log says %d times that a unit is ejected", n)
	}
}

// TestCancelsOfTooFewAnswers: a unit that has hardly answered yet may just be
// as slow as that.
func TestCancelsOfTooFewAnswers(t *testing.T) {
	s, units := cast(t, setup{}, says(whole("a")), says(whole("b")))
	began := time.Now()
	for range 19 {
		s.complete()
	}
	longest := time.Since(began)
	units[0].is(http.HandlerFunc(never))
	s.leaveAfter(units[0], 12, longest)
	s.wantState("unit-0", "active")
}

// TestOverloadedUnitIsNotSuspect: clients wait for longer than ever and leave,
// but the unit answers others meanwhile, so it does not hang.
func TestOverloadedUnitIsNotSuspect(t *testing.T) {
	s, units := cast(t, setup{}, says(whole("a")), says(whole("b")))
	began := time.Now()
	for range suspectAfter {
		s.complete()
	}
	longest := time.Since(began)
	for range 2 {
		units[0].is(http.HandlerFunc(never))
		visits := s.waitAt(units[0], 6, longest)
		units[0].is(says(whole("a")))
		s.complete()
		units[0].is(http.HandlerFunc(never))
		for _, visit := range visits {
			visit.leave()
		}
	}
	s.settled()
	s.wantState("unit-0", "active")
	wantAsked(t, units, suspectAfter+2*7, 0)
}

// leaveAfter has n clients ask a unit that hangs and leave once they have waited
// for longer than a time.
func (s *stack) leaveAfter(unit *actor, n int, wait time.Duration) {
	s.t.Helper()
	for _, visit := range s.waitAt(unit, n, wait) {
		visit.leave()
	}
	s.settled()
}

// waitAt has n clients wait at a unit that hangs for longer than a time.
func (s *stack) waitAt(unit *actor, n int, wait time.Duration) (visits []*visit) {
	s.t.Helper()
	v, asked := s.visitor(leavers[1]), unit.asked()
	for range n {
		visits = append(visits, v.start(prompt, false))
	}
	s.eventually("they are at the unit", unit.begunIs(asked+n))
	began := time.Now()
	s.eventually("they have waited long enough", func() bool { return time.Since(began) > wait })
	return visits
}
