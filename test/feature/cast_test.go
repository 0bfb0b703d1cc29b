package feature

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// actor is one of several units. It can become another unit, and counts.
type actor struct {
	*counted
	*switched
	name string
}

func (a *actor) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.counted.ServeHTTP(w, r) }

// asked is how many requests it has got.
func (a *actor) asked() int {
	begun, _, _ := a.counts()
	return begun
}

// cast runs a stack with these units, unit-0 and so on, of which each is asked
// before the next.
func cast(t *testing.T, o setup, units ...http.Handler) (*stack, []*actor) {
	t.Helper()
	var actors []*actor
	for i, unit := range units {
		a := &actor{switched: newSwitched(unit), name: "unit-" + strconv.Itoa(i)}
		a.counted = &counted{next: a.switched}
		actors = append(actors, a)
	}
	change := o.config
	o.config = func(c *config.Config) {
		base := *c
		c.Units = nil
		for i, a := range actors {
			u := unitAt(&base, a.name, serveUnit(t, a))
			u.Priority = i
			c.Units = append(c.Units, u)
		}
		if change != nil {
			change(c)
		}
	}
	return start(t, o), actors
}

// complete has the proxy answer a streamed request.
func (s *stack) complete() {
	s.t.Helper()
	s.wantWhole(s.post("/v1/completions", prompt))
}

// wantState checks a unit's state, in the status and in the metrics.
func (s *stack) wantState(unit, want string) {
	s.t.Helper()
	s.wantStateBefore(time.Now().Add(time.Hour), unit, want)
}

// wantStateBefore is wantState for a state that ends at a time: a machine that is
// too busy to look before then learns nothing.
func (s *stack) wantStateBefore(end time.Time, unit, want string) {
	s.t.Helper()
	got, _ := s.unitState(unit)
	in, all := s.metric("ghostline_unit_state", "unit", unit, "state", want), s.metric("ghostline_unit_state", "unit", unit)
	if time.Now().Before(end) && (got != want || in != 1 || all != 1) {
		s.t.Errorf("%s is %s, its ghostline_unit_state is %v for %s and %v in all; want %s, 1 and 1", unit, got, in, want, all, want)
	}
}

// wantAsked checks how many requests each unit has got.
func wantAsked(t *testing.T, units []*actor, want ...int) {
	t.Helper()
	for i, u := range units {
		if got := u.asked(); got != want[i] {
			t.Errorf("%s was asked %d times, want %d", u.name, got, want[i])
		}
	}
}
