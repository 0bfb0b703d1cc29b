package feature

import (
	"fmt"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestFairShare: a user within all limits wants more than the unit has. Others
// find places all the same.
func TestFairShare(t *testing.T) {
	release := make(chan struct{})
	s, units := cast(t, setup{config: func(c *config.Config) {
		narrow(8, 4)(c)
		c.Units[0].Capacity.InFlight = 16
	}}, held(release))
	var running []*sent
	greedy, refused := s.editor(overH2C), 0
	for i := range 32 {
		r := greedy.with("X-Session-Id", fmt.Sprint("session-", i%4)).send(prompt)
		s.eventually("it is at the unit, or refused", func() bool {
			select {
			case got := <-r.ended:
				got.wantError(t, 503, "no_capacity")
				if got.header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
				refused++
				return true
			default:
				return units[0].asked() > len(running)
			}
		})
		if units[0].asked() > len(running) {
			running = append(running, r)
		}
	}
	if len(running) != 11 || refused != 21 {
		t.Errorf("%d of the greedy user's requests have a place and %d are refused, want 11 and 21", len(running), refused)
	}
	for i := range 5 {
		running = append(running, greedy.of(fmt.Sprint("other-", i)).send(prompt))
		s.eventually("another user has a place", units[0].begunIs(len(running)))
	}
	close(release)
	for _, r := range running {
		s.wantWhole(<-r.ended)
	}
	s.settled()
}
