package feature

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestRetryBudget has every unit fail: what they have to do in vain stays within
// a tenth of the requests, or three a second, of the last ten seconds.
func TestRetryBudget(t *testing.T) {
	const requests, width = 400, 8
	s, units := cast(t, setup{}, answers(500, nil, ""), answers(500, nil, ""), answers(500, nil, ""))
	client, began := s.h2c(), time.Now()
	var all sync.WaitGroup
	for range width {
		all.Go(func() {
			for range requests / width {
				if _, err := fetch(client, s.request(t.Context(), s.plainURL, "/v1/completions", prompt)); fmt.Sprint(err) != "status 502" {
					t.Errorf("got %v, want status 502", err)
				}
			}
		})
	}
	all.Wait()
	windows := math.Ceil((time.Since(began).Seconds() + 2) / 10)
	s.outcomes("upstream_error", requests)

	asked := 0.0
	for _, u := range units {
		asked += float64(u.asked())
	}
	allowed := s.metric("ghostline_retries_total", "result", "allowed")
	if asked-requests != allowed {
		t.Errorf("%v attempts were made for %d requests, and %v retries allowed", asked, requests, allowed)
	}
	if allowed < 30 || allowed > windows*requests/10 {
		t.Errorf("%v retries, want 30 to %v", allowed, windows*requests/10)
	}
	if s.metric("ghostline_retries_total", "result", "denied") == 0 {
		t.Error("no retry is counted as denied")
	}
}

// TestRetriesThatCannotBe take nothing from the budget: there is no other unit.
func TestRetriesThatCannotBe(t *testing.T) {
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprint(n, " units"), func(t *testing.T) {
			s, units := cast(t, setup{}, []http.Handler{answers(500, nil, ""), answers(500, nil, ""), answers(500, nil, "")}[:n]...)
			for range 3 {
				s.post("/v1/completions", prompt).wantError(t, 502, "upstream_error")
			}
			wantAsked(t, units, []int{3, 3, 3}[:n]...)
			if got, want := s.metric("ghostline_retries_total"), float64(3*(n-1)); got != want {
				t.Errorf("the budget was asked for %v retries, want %v", got, want)
			}
		})
	}
}

// TestSpillingIsFree: however much a unit does not take, the next one gets.
func TestSpillingIsFree(t *testing.T) {
	s, units := cast(t, setup{}, answers(429, http.Header{"Retry-After-Ms": {"1"}}, ""), says(whole("b")))
	s.eventually("more has spilled than the budget allows", func() bool {
		s.complete()
		return units[0].asked() > 40
	})
	if got := s.metric("ghostline_retries_total"); got != 0 {
		t.Errorf("the budget was asked for %v retries, want none", got)
	}
	s.settled()
	s.quiet()
}

// TestReport1NoRetryForWhoLeft has clients leave just as the unit fails.
func TestReport1NoRetryForWhoLeft(t *testing.T) {
	s, units := cast(t, setup{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		never(w, r)
		w.WriteHeader(http.StatusInternalServerError)
	}), says(whole("b")))
	v := s.visitor(leavers[1])
	for i := range 5 {
		visit := v.start(prompt, false)
		s.eventually("it is at the unit", units[0].begunIs(i+1))
		visit.leave()
	}
	s.outcomes("cancelled", 5)
	wantAsked(t, units, 5, 0)
	if got := s.metric("ghostline_retries_total"); got != 0 {
		t.Errorf("the budget was asked for %v retries, want none", got)
	}
}

// TestNoRetryAfterTheFirstByte breaks streams off of which the client has a part.
func TestNoRetryAfterTheFirstByte(t *testing.T) {
	first := event(chunk(0, "a", "null"))
	s, units := cast(t, setup{}, brokenOff(first), says(whole("b")))
	for range 4 {
		s.wantBroken(s.post("/v1/completions", prompt), first)
	}
	wantAsked(t, units, 4, 0)
	if got := s.metric("ghostline_retries_total"); got != 0 {
		t.Errorf("the budget was asked for %v retries, want none", got)
	}
}

// TestGivingUp: a unit that has not answered in half of the time is left for one
// that may, and told so.
func TestGivingUp(t *testing.T) {
	s, units := cast(t, setup{config: limitFirstByte}, http.HandlerFunc(never), says(whole("b")))
	began := time.Now()
	s.complete()
	if took := time.Since(began); took < firstByteLimit/2 {
		t.Errorf("the unit was left after %s, want half of %s", took, firstByteLimit)
	}
	wantAsked(t, units, 1, 1)
	s.eventually("the unit is told", func() bool { _, gone, running := units[0].counts(); return gone == 1 && running == 0 })
	if got := s.metric("ghostline_retries_total", "result", "allowed"); got != 1 {
		t.Errorf("%v retries were taken from the budget, want 1", got)
	}
	if got := s.metric("ghostline_unit_attempts_total", "unit", "unit-0", "result", "timeout"); got != 1 {
		t.Errorf("%v attempts are counted as too late, want 1", got)
	}
}

// TestNotGivingUp: a unit that takes long is waited for if no other one is well.
func TestNotGivingUp(t *testing.T) {
	for name, others := range map[string][]http.Handler{
		"alone":                 nil,
		"the other one is full": {answers(429, http.Header{"Retry-After": {"60"}}, "")},
		"the other is ejected":  {answers(500, nil, "")},
	} {
		t.Run(name, func(t *testing.T) {
			s, units := cast(t, setup{config: limitFirstByte}, append([]http.Handler{answers(500, nil, "")}, others...)...)
			if others != nil {
				s.spoilOther(units)
			}
			asked := units[0].asked()
			release := make(chan struct{})
			units[0].is(held(release))
			visit := s.visitor(leavers[1]).start(prompt, false)
			s.eventually("it is at the unit", units[0].begunIs(asked+1))
			began := time.Now()
			s.eventually("half of the time is over", func() bool { return time.Since(began) > firstByteLimit*9/16 })
			close(release)
			if end := <-visit.ended; end.err != nil || !strings.HasSuffix(end.body, event("[DONE]")) {
				t.Errorf("got %q, %v; want the unit's answer", end.body, end.err)
			}
		})
	}
}

const firstByteLimit = 4 * time.Second

func limitFirstByte(c *config.Config) { c.Timeouts.FirstByte = config.Duration(firstByteLimit) }

// spoilOther has the second unit be asked until it is no longer well, and the
// first one answer.
func (s *stack) spoilOther(units []*actor) {
	s.t.Helper()
	s.eventually("the other unit is not well", func() bool {
		s.post("/v1/completions", prompt)
		state, _ := s.unitState(units[1].name)
		return state != "active"
	})
	units[0].is(says(whole("a")))
	s.complete()
	s.wantState(units[0].name, "active")
}
