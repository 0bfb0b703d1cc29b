package client

import "time"

// sleepSlack is by how much the wall clock must outrun the monotonic one before
// it counts as the machine having slept. It is above what a clock is slewed by
// between two requests, and below any sleep that kills a connection.
const sleepSlack = 5 * time.Second

// instant is a moment on two clocks. The monotonic clock is never wrong but
// stands still while a laptop sleeps; the wall clock goes on but is set and
// corrected. Lifetimes need both.
type instant struct {
	mono time.Time
	wall time.Time
}

// clock reads both clocks. The zero value is the machine's.
type clock struct {
	wall func() time.Time // a test's wall clock
}

func (c clock) now() instant {
	now := time.Now()
	return instant{mono: now, wall: c.wallAt(now)}
}

func (c clock) wallAt(now time.Time) time.Time {
	if c.wall != nil {
		return c.wall()
	}
	// Round(0) strips the monotonic reading, else Sub would compare only that.
	return now.Round(0)
}

// elapsed is the time since i on each clock.
func (c clock) elapsed(i instant) (mono, wall time.Duration) {
	now := c.now()
	return now.mono.Sub(i.mono), now.wall.Sub(i.wall)
}

// since is the time since i by whichever clock saw more of it. A wall clock that
// was set forward makes something look older than it is, which costs a refresh
// too early; one that was set back changes nothing.
func (c clock) since(i instant) time.Duration {
	mono, wall := c.elapsed(i)
	return max(mono, wall)
}

// slept says whether the machine was suspended since i.
func (c clock) slept(i instant) bool {
	mono, wall := c.elapsed(i)
	return wall-mono > sleepSlack
}
