package upstream

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// beatEvery is how often the process shows itself that it runs, and lateBy how
	// much later than that it must do so to have stood still. Together they are the
	// shortest standstill that is always noticed. Of each that is, up to beatEvery
	// is not: that is at most half of it.
	beatEvery = 25 * time.Millisecond
	lateBy    = 25 * time.Millisecond
	// longStandstill is one in which others may have given this process up: they
	// close connections on which nothing answers.
	longStandstill = time.Second
)

// Standstill knows how long this process has stood still: stopped, starved of a
// processor, or in a virtual machine that was paused. Nothing that a clock then
// says of others can be believed. What ran out meanwhile ends first when the
// process runs again, before it reads what came in time. The zero value, and nil,
// know of none.
type Standstill struct{ last atomic.Pointer[beat] }

// beat is when the process last showed that it runs, and how long it had stood
// still by then.
type beat struct {
	at    time.Time // zero once nobody watches
	stood time.Duration
}

// Stood is how long the process has stood still by now, ever. It grows only, so
// the difference of two is what was lost between them. A standstill whose end was
// not noticed yet is in it, since others may run before [Standstill.Watch] does.
func (s *Standstill) Stood(now time.Time) time.Duration {
	if s == nil {
		return 0
	}
	last := s.last.Load()
	switch {
	case last == nil:
		return 0
	case last.at.IsZero():
		return last.stood
	}
	return last.stood + last.lost(now)
}

// Beat shows that the process runs now. It says how long it had stood still, if it
// had. Only one goroutine may call it at a time.
func (s *Standstill) Beat(now time.Time) (stood time.Duration) {
	next := &beat{at: now}
	if last := s.last.Load(); last != nil && !last.at.IsZero() {
		stood = last.lost(now)
		next.stood = last.stood + stood
	}
	s.last.Store(next)
	return stood
}

// lost is what was lost from a beat until now.
func (b *beat) lost(now time.Time) time.Duration {
	return lostIn(now.Sub(b.at), now.Round(0).Sub(b.at.Round(0)))
}

// lostIn is what was lost of the time that passed by the monotonic clock and by
// that on the wall. The monotonic clock, which all timers go by, goes on while a
// process is stopped, but stands still itself while its machine is suspended.
// Nothing runs out then, so there is no time to make up for; but whoever waited for
// this process did wait, so it counts as the shortest of the long standstills. A
// wall clock that is set forward looks alike, and has a second be forgiven.
func lostIn(passed, onTheWall time.Duration) time.Duration {
	lost := passed - beatEvery
	if onTheWall-passed >= longStandstill {
		return max(lost, longStandstill)
	}
	if lost < lateBy {
		return 0
	}
	return lost
}

// IsLong says whether others may have given up a process that stood still for so
// long.
func IsLong(stood time.Duration) bool { return stood >= longStandstill }

// Watch notices standstills until ctx is done, and tells of each.
func (s *Standstill) Watch(ctx context.Context, tell func(stood time.Duration)) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	s.Beat(time.Now())
	for {
		select {
		case <-tick.C:
			// Not the tick's time: this goroutine may have waited for a processor.
			if stood := s.Beat(time.Now()); stood > 0 {
				tell(stood)
			}
		case <-ctx.Done():
			s.last.Store(&beat{stood: s.last.Load().stood}) // else it would seem to stand still from now on
			return
		}
	}
}
