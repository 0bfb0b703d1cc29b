package feature

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestSlowUnit has one of four units be much slower than the others: it is asked
// only when they are full, and before nobody is.
func TestSlowUnit(t *testing.T) {
	quick := says(whole("quick"))
	s, units := cast(t, setup{config: func(c *config.Config) {
		for i := range c.Units {
			c.Units[i].Priority, c.Units[i].Capacity.InFlight = 0, 2
		}
	}}, quick, quick, quick, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-time.After(300 * time.Millisecond)
		says(whole("slow"))(w, r)
	}))
	s.askUntil(8, "one is slow", func() bool { state, _ := s.unitState("unit-3"); return state == "slow" })
	s.wantState("unit-3", "slow")
	asked := units[3].asked()
	for range 20 {
		s.complete()
	}
	if got := units[3].asked(); got != asked {
		t.Errorf("the slow unit was asked %d times while the others had room", got-asked)
	}

	s.settled()
	release := make(chan struct{})
	for _, u := range units[:3] {
		s.wantState(u.name, "active")
		u.is(held(release))
	}
	v := s.visitor(leavers[1])
	var visits []*visit
	for range 6 {
		visits = append(visits, v.start(prompt, false))
	}
	s.eventually("the others are full", func() bool {
		running := 0
		for _, u := range units[:3] {
			_, _, n := u.counts()
			running += n
		}
		return running == 6
	})
	if got := units[3].asked(); got != asked {
		t.Errorf("the slow unit was asked %d times before the others were full", got-asked)
	}
	s.wantWhole(s.editor(overH2C).of("another").ask(prompt))
	if got := units[3].asked(); got != asked+1 {
		t.Errorf("the slow unit was asked %d times when the others were full, want once", got-asked)
	}
	close(release)
	for _, visit := range visits {
		if end := <-visit.ended; end.err != nil || end.body != whole("held") {
			t.Errorf("got %q, %v", end.body, end.err)
		}
	}
	s.settled()
}

// askUntil has so many clients ask again and again until something is so.
func (s *stack) askUntil(clients int, what string, is func() bool) {
	s.t.Helper()
	enough := make(chan struct{})
	var asking sync.WaitGroup
	for i := range clients {
		e := s.editor(overH2C).of(fmt.Sprint("subject-", i)) // one alone could not have all places
		asking.Go(func() {
			for {
				select {
				case <-enough:
					return
				default:
					s.wantWhole(e.ask(prompt))
				}
			}
		})
	}
	defer asking.Wait()
	defer close(enough)
	s.eventually(what, is)
}
