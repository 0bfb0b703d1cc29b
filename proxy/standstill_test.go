package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

// runs has the process run for a time; it stands still while a test sleeps.
func runs(s *upstream.Standstill, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.Beat(time.Now())
		time.Sleep(min(20*time.Millisecond, time.Until(end)))
	}
	s.Beat(time.Now())
}

// TestClockStandsStill: no time is up before the proxy has run for all of it,
// whichever limit it is, and no unit is given up.
func TestClockStandsStill(t *testing.T) {
	for name, tc := range map[string]struct {
		step func(c *clock)
		want time.Duration
	}{
		"first byte": {func(*clock) {}, time.Second},
		"idle":       {func(c *clock) { c.gotEvent(); c.reading() }, 2 * time.Second},
		"write":      {func(c *clock) { c.writing() }, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s upstream.Standstill
				s.Beat(time.Now())
				var halfway atomic.Bool
				c, ctx := clockThat(t, &exchange{ask: ask{stream: true}, giveUp: func() bool {
					if !halfway.Load() {
						t.Error("to be given up in the first half of the time")
					}
					return false
				}}, &s)
				tc.step(c)
				runs(&s, tc.want/3)
				time.Sleep(time.Minute)
				synctest.Wait()
				if ctx.Err() != nil {
					t.Fatalf("ended while the proxy stood still: %v", context.Cause(ctx))
				}
				halfway.Store(true)
				runs(&s, tc.want*2/3-50*time.Millisecond)
				if ctx.Err() != nil {
					t.Fatalf("ended when it had run for less than %s: %v", tc.want, context.Cause(ctx))
				}
				runs(&s, 100*time.Millisecond) // of a standstill a little is never noticed
				if !errors.Is(context.Cause(ctx), errTooLate) {
					t.Errorf("not ended when it had run for more than %s", tc.want)
				}
				c.stop()
			})
		})
	}
}

// TestClockStandsStillAtTheEnd: nor is the time for the whole request.
func TestClockStandsStillAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s upstream.Standstill
		s.Beat(time.Now())
		c, ctx := clockThat(t, &exchange{ask: ask{stream: true}}, &s)
		time.Sleep(time.Minute)
		c.gotEvent()
		c.reading()
		runs(&s, time.Second)
		if ctx.Err() != nil {
			t.Errorf("ended, as if the standstill had been a part of it: %v", context.Cause(ctx))
		}
		c.stop()
	})
}

// judged is a unit whose answers began after 10 ms at most, after five attempts
// that ended with err together, in an exchange that may be changed before: the
// proxy ran for a time meanwhile, and stood still for another one.
func judged(run, still time.Duration, err error, change func(*exchange)) upstream.State {
	s := testUnits(config.Unit{Name: "u", Region: "here", Serves: "m/stable"})
	s.config.Timeouts = config.Timeouts{FirstByte: config.Duration(3 * time.Second), Total: config.Duration(3 * time.Second)}
	p, u := &proxy{log: slog.New(slog.DiscardHandler)}, s.unit("u")
	p.standstill.Beat(time.Now())
	time.Sleep(time.Hour) // one before is none of theirs
	p.standstill.Beat(time.Now())
	for range 100 {
		u.endpoint.firstBytes.Add(0, 10*time.Millisecond, time.Now())
	}
	time.Sleep(time.Millisecond)
	x := &exchange{unit: u, snapshot: s, ask: ask{stream: true}, phase: phaseWait, asked: time.Now(), stood: p.standstill.Stood(time.Now())}
	change(x)
	runs(&p.standstill, run)
	time.Sleep(still)
	for range 5 {
		p.judge(x, err)
	}
	state, _ := u.endpoint.health.State(time.Now())
	return state
}

// TestJudgeAfterAStandstill: what the clock says of a unit, and what others do who
// wait in vain, is not held against it. What it had the time for is.
func TestJudgeAfterAStandstill(t *testing.T) {
	unreachable := unitRefused(&upstream.DialError{Err: &net.DNSError{IsTimeout: true}})
	unreachable.attempt = attemptUnreachable
	streamed, unary := func(*exchange) {}, func(x *exchange) { x.ask.stream = false }
	begun := func(x *exchange) { x.phase = phaseStream }
	const ms = time.Millisecond
	for _, tc := range []struct {
		name       string
		run, still time.Duration
		err        error
		change     func(*exchange)
		want       upstream.State
	}{
		{"late cancels", 200 * ms, 0, errCancelled, streamed, upstream.Ejected},
		{"late cancels, it stood still a little", 200 * ms, 60 * ms, errCancelled, streamed, upstream.Ejected},
		{"late cancels, it stood still at last", 2000 * ms, 500 * ms, errCancelled, streamed, upstream.Ejected},
		{"late cancels, it stood still", 5 * ms, 60 * ms, errCancelled, streamed, upstream.Active},
		{"late cancels, it stood still for long", 5 * ms, time.Minute, errCancelled, streamed, upstream.Active},

		{"timeouts", 2000 * ms, 0, tooLate(errTooLate), streamed, upstream.Ejected},
		{"timeouts, it had its time", 2000 * ms, time.Minute, tooLate(errTooLate), streamed, upstream.Ejected},
		{"timeouts, it had no time", 500 * ms, time.Minute, tooLate(errTooLate), streamed, upstream.Active},
		{"unary timeouts, it had its time", 2000 * ms, time.Minute, tooLate(errTooLate), unary, upstream.Ejected},
		{"unary timeouts, it had no time", 500 * ms, time.Minute, tooLate(errTooLate), unary, upstream.Active},

		{"broken off", 200 * ms, 0, brokenOff(outcomeUpstreamError, io.ErrUnexpectedEOF), begun, upstream.Ejected},
		{"broken off, it stood still", 200 * ms, 100 * ms, brokenOff(outcomeUpstreamError, io.ErrUnexpectedEOF), begun, upstream.Ejected},
		{"broken off, it stood still for long", 200 * ms, 5 * time.Second, brokenOff(outcomeUpstreamError, io.ErrUnexpectedEOF), begun, upstream.Active},
		{"lost before the first byte", 200 * ms, 5 * time.Second, upstreamFailed(io.EOF), streamed, upstream.Active},
		{"unreachable", 200 * ms, 0, unreachable, streamed, upstream.Ejected},
		{"unreachable, it stood still for long", 200 * ms, 5 * time.Second, unreachable, streamed, upstream.Active},
		{"misconfigured is its own word", 200 * ms, 5 * time.Second, unitMisconfigured(io.EOF), streamed, upstream.Ejected},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := judged(tc.run, tc.still, tc.err, tc.change); got != tc.want {
					t.Errorf("the unit's state is %d, want %d", got, tc.want)
				}
			})
		})
	}
}

// TestFirstBytesOfAStandstill: they make no unit slow, but show that it does not
// hang, and that one may have to wait for so long.
func TestFirstBytesOfAStandstill(t *testing.T) {
	for _, tc := range []struct {
		name       string
		run, still time.Duration
		slow       uint32
	}{
		{"it runs", time.Second, 0, 1},
		{"it stands still a little", time.Second, 100 * time.Millisecond, 1},
		{"it stands still", time.Second, time.Second, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p proxy
				s := testUnits(config.Unit{Name: "u", Region: "here", Serves: "m/stable"})
				own, peer := &s.unit("u").endpoint.firstBytes, &upstream.FirstBytes{}
				p.standstill.Beat(time.Now())
				x := &exchange{unit: s.unit("u"), ask: ask{stream: true}, asked: time.Now()}
				runs(&p.standstill, tc.run)
				time.Sleep(tc.still)
				now := time.Now()
				for range 100 {
					p.answering(x, now)
					peer.Add(0, 10*time.Millisecond, now)
				}
				if got := upstream.SlowUnits([]*upstream.FirstBytes{own, peer, peer, peer}, now)[0]; got != tc.slow {
					t.Errorf("slow is %d, want %d", got, tc.slow)
				}
				if own.Hangs(0, x.asked, now.Add(time.Hour)) {
					t.Error("it seems to hang although it has begun answers since")
				}
				took := now.Sub(x.asked)
				if own.Hangs(0, now, now.Add(took)) || !own.Hangs(0, now, now.Add(took+1)) {
					t.Errorf("it is not thought to hang after more than %s", took)
				}
			})
		})
	}
}
