package feature

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestCooling has a unit say that it is full in each way: what it does not take
// goes elsewhere, and it is left alone for as long as it asked.
func TestCooling(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		header http.Header
		cools  time.Duration
		other  string // region of the next unit
	}{
		{"429", 429, nil, time.Second, "here"},
		{"429 with Retry-After", 429, http.Header{"Retry-After": {"2"}}, 2 * time.Second, "near"},
		{"429 with retry-after-ms", 429, http.Header{"Retry-After-Ms": {"1500"}}, 1500 * time.Millisecond, "near"},
		{"429 with both", 429, http.Header{"Retry-After": {"50"}, "Retry-After-Ms": {"1500"}}, 1500 * time.Millisecond, "here"},
		{"503", 503, nil, time.Second, "near"},
		{"503 with Retry-After", 503, http.Header{"Retry-After": {"2"}}, 2 * time.Second, "here"},
	} {
		t.Run(tc.name+", spills "+tc.other, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			s, units := cast(t, setup{config: func(c *config.Config) {
				c.Failover = []string{"near"}
				c.Units[1].Region = tc.other
			}}, answers(tc.status, tc.header, ""), says(whole("b")))
			asked := time.Now()
			s.complete()
			answered := time.Now()
			until := s.status().Units[0].Until
			s.wantStateBefore(asked.Add(tc.cools), "unit-0", "cooling")
			if !until.IsZero() && (until.Before(asked.Add(tc.cools)) || until.After(answered.Add(tc.cools))) {
				t.Errorf("it cools until %s after the request, want %s", until.Sub(asked), tc.cools)
			}
			s.complete()
			// On a machine that is busy, it may have been asked again rightly.
			if time.Now().Before(asked.Add(tc.cools)) {
				wantAsked(t, units, 1, 2)
			}
			units[0].is(says(whole("a")))
			s.eventually("it is asked again", func() bool { s.complete(); return units[0].asked() > 1 })
			if time.Now().Before(asked.Add(tc.cools)) {
				t.Error("it was asked before its time")
			}
			s.wantState("unit-0", "active")
			s.settled()
			s.quiet()
			if got := s.metric("ghostline_retries_total"); got != 0 {
				t.Errorf("%v retries were asked of the budget, want none", got)
			}
		})
	}
}

// TestAllUnitsCool: while every unit wants to be left alone, each is, and clients
// are told when the first can be asked.
func TestAllUnitsCool(t *testing.T) {
	s, units := cast(t, setup{},
		answers(429, http.Header{"Retry-After": {"40"}}, ""), answers(503, http.Header{"Retry-After": {"30"}}, ""))
	s.post("/v1/completions", prompt).wantError(t, 503, "no_capacity")
	wantAsked(t, units, 1, 1)
	for range 3 {
		got := s.post("/v1/completions", prompt)
		got.wantError(t, 503, "no_capacity")
		// The rest of 30 s, rounded up; the test itself takes a few of them.
		if after, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || after < 5 || after > 30 {
			t.Errorf("Retry-After is %q, want what is left of 30 s", got.header.Get("Retry-After"))
		}
	}
	wantAsked(t, units, 1, 1)
	s.outcomes("no_capacity", 4)
	s.settled()
}

// TestEjectedUnitCools: a unit that failed too often is asked when there is no
// other, but not if it says that it is full.
func TestEjectedUnitCools(t *testing.T) {
	s, units := cast(t, setup{}, answers(500, nil, ""))
	for range 5 {
		s.post("/v1/completions", prompt).wantError(t, 502, "upstream_error")
	}
	s.wantState("unit-0", "ejected")
	units[0].is(answers(429, http.Header{"Retry-After": {"30"}}, ""))
	for range 3 {
		s.post("/v1/completions", prompt).wantError(t, 503, "no_capacity")
	}
	wantAsked(t, units, 6)
	s.wantState("unit-0", "cooling")
}
