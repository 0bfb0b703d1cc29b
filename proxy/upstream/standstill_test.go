package upstream

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

func TestStandstill(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	var s Standstill
	s.Beat(at(0))
	for _, tc := range []struct{ beat, now, stood int }{
		{25, 25, 0},
		{50, 99, 0},          // less than is noticed
		{99, 99, 0},          // and so for good
		{99, 1124, 1000},     // a standstill whose end nobody has noticed yet
		{1124, 1124, 1000},   // noticed
		{1149, 1149, 1000},   // and not forgotten
		{1174, 1224, 1025},   // another one
		{1224, 1224, 1025},   // noticed
		{1230, 1229, 1025},   // asked by one who was late to ask
		{1255, 11280, 11025}, // and another
	} {
		s.Beat(at(tc.beat))
		if got := s.Stood(at(tc.now)); got != time.Duration(tc.stood)*time.Millisecond {
			t.Errorf("%d ms after the start it had stood still for %s, want %d ms", tc.now, got, tc.stood)
		}
	}
}

// TestStandstillOfNobody: without a watch nothing is known.
func TestStandstillOfNobody(t *testing.T) {
	if got := (*Standstill)(nil).Stood(time.Now()) + new(Standstill).Stood(time.Now()); got != 0 {
		t.Errorf("stood still for %s, want 0", got)
	}
}

// TestLostIn: the machine was suspended, so that the monotonic clock stood still too.
func TestLostIn(t *testing.T) {
	for _, tc := range []struct{ passed, onTheWall, want time.Duration }{
		{0, 0, 0},
		{0, time.Hour, time.Second},
		{30 * time.Millisecond, time.Hour, time.Second},
		{time.Minute + beatEvery, time.Hour, time.Minute},
		{time.Minute + beatEvery, time.Minute, time.Minute},
		{time.Minute + beatEvery, -time.Hour, time.Minute}, // set back
		{0, -time.Hour, 0},
		{0, 900 * time.Millisecond, 0}, // set forward a little
	} {
		if got := lostIn(tc.passed, tc.onTheWall); got != tc.want {
			t.Errorf("%s passed, %s on the wall: lost %s, want %s", tc.passed, tc.onTheWall, got, tc.want)
		}
	}
}

// TestWatchStandstill: a process that runs does not stand still, and one that has
// ended its watch does not seem to.
func TestWatchStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Standstill
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		held := make(chan time.Duration, 1)
		go s.Watch(ctx, func(stood time.Duration) { held <- stood })
		time.Sleep(time.Minute + beatEvery/2) // halfway to the next beat
		if got := s.Stood(time.Now()); got != 0 {
			t.Errorf("it ran, and yet stood still for %s", got)
		}
		s.last.Store(&beat{at: time.Now().Add(-time.Minute)})
		const want = time.Minute - beatEvery/2
		if got := <-held; got != want {
			t.Errorf("told of a standstill of %s, want %s", got, want)
		}
		stop()
		time.Sleep(time.Minute)
		if got := s.Stood(time.Now()); got != want {
			t.Errorf("after the watch it had stood still for %s, want %s", got, want)
		}
	})
}

// TestDialThroughAStandstill: a dial that is too late because this process stood
// still says nothing of the unit.
func TestDialThroughAStandstill(t *testing.T) {
	for name, stands := range map[string]bool{"stands still": true, "runs": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Standstill{}
				u := newBubbleUnit(t, config.ProtocolHTTP1, 0, nil)
				u.opts.Standstill = s
				first := true // the pool begins with one dial
				u.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					if first {
						first = false
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return u.dial(ctx, network, address)
				}
				s.Beat(time.Now())
				u.Warm()
				for range 250 { // 5 s, the time for a dial; the next one is a second later
					time.Sleep(20 * time.Millisecond)
					if !stands {
						s.Beat(time.Now())
					}
				}
				synctest.Wait()
				s.Beat(time.Now())
				if got := u.Stats(); u.Unreachable() == stands || (got.Failures == 0) != stands {
					t.Errorf("unreachable %t, %+v; want %t", u.Unreachable(), got, !stands)
				}
			})
		})
	}
}
