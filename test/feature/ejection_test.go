package feature

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// failures are the ways in which a unit can fail.
var failures = []struct {
	name  string
	unit  http.Handler
	state string
	// last is how the log names the failure.
	last string
}{
	{"500", answers(500, nil, ""), "ejected", "error"},
	{"a page of HTML", answers(200, http.Header{"Content-Type": {"text/html"}}, "<html>"), "ejected", "error"},
	{"garbage", says(event("garbage")), "ejected", "error"},
	{"an empty stream", says(event("[DONE]")), "ejected", "error"},
	{"a reset before the answer", brokenUnanswered{}, "ejected", "error"},
	{"a reset mid-stream", brokenOff(event(chunk(0, "a", "null"))), "ejected", "broken"},
	{"no head", http.HandlerFunc(never), "ejected", "timeout"},
	{"no event", every("", ": wait\n\n"), "ejected", "timeout"},
	{"401", answers(401, nil, ""), "misconfigured", "misconfigured"},
	{"404", answers(404, nil, ""), "misconfigured", "misconfigured"},
}

// send has n requests answered at once, whatever the answer is.
func (s *stack) send(n int, body string) {
	s.t.Helper()
	client := s.h2c()
	var all sync.WaitGroup
	for range n {
		req := s.request(s.t.Context(), s.plainURL, "/v1/completions", body)
		all.Go(func() { _, _ = fetch(client, req) })
	}
	all.Wait()
	s.settled()
}

// TestEjection has a unit fail five times in a row in each way: it is not asked
// any more, while the other one can serve.
func TestEjection(t *testing.T) {
	for _, tc := range failures {
		t.Run(tc.name, func(t *testing.T) {
			s, units := cast(t, setup{config: func(c *config.Config) {
				c.Timeouts.FirstByte = config.Duration(time.Second)
			}}, tc.unit, says(whole("b")))
			s.send(4, prompt)
			if state, _ := s.unitState("unit-0"); state == "ejected" {
				t.Error("it is ejected after four failures")
			}
			s.send(1, prompt)
			s.wantState("unit-0", tc.state)
			s.wantLog("a unit is ejected", `"unit":"unit-0"`, `"last":"`+tc.last+`"`)
			before := units[1].asked()
			for range 3 {
				s.complete()
			}
			wantAsked(t, units, 5, before+3)
			s.wantState("unit-1", "active")
		})
	}
}

// TestUnreachableUnit has nobody listen where a unit should be: no request has to
// find out. Once somebody does, the unit is asked.
func TestUnreachableUnit(t *testing.T) {
	for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
		t.Run(protocol, func(t *testing.T) {
			n := newNetwork(t, serveUnit(t, says(whole("first"))))
			n.refuse()
			s := spare(t, n.address)
			s.reconfigure(func(c *config.Config) { c.Units[0].Protocol, c.Units[1].Protocol = protocol, protocol })
			s.eventually("the unit is unreachable", func() bool { state, _ := s.unitState("first"); return state == "unreachable" })
			s.wantState("first", "unreachable")
			if _, problem := s.unitState("first"); !strings.Contains(problem, "refused") {
				t.Errorf("the problem is %q", problem)
			}
			s.eventually("the log says so", func() bool { return s.logged("a unit cannot be reached") == 1 })
			for range 8 {
				s.complete()
			}
			if got := s.metric("ghostline_unit_attempts_total", "unit", "first"); got != 0 {
				t.Errorf("it was to be asked %v times, want never", got)
			}
			n.heal()
			s.eventually("the log says that it is back", func() bool { return s.logged("a unit can be reached again") == 1 })
			s.wantState("first", "active")
			s.complete()
			s.eventually("it is asked", func() bool { return s.metric("ghostline_unit_attempts_total", "unit", "first", "result", "ok") == 1 })
		})
	}
}

// TestUnreachableAfterEjected: of the units that failed, those that can be reached
// are asked first.
func TestUnreachableAfterEjected(t *testing.T) {
	s, units := cast(t, setup{config: func(c *config.Config) {
		c.Units[0].URL = "http://" + nobody(t) + "/v1/completions"
	}}, nil, answers(500, nil, ""))
	s.eventually("the first unit is unreachable", func() bool { state, _ := s.unitState("unit-0"); return state == "unreachable" })
	s.send(5, prompt)
	s.wantState("unit-1", "ejected")
	units[1].is(says(whole("b")))
	before := s.metric("ghostline_unit_attempts_total", "unit", "unit-0")
	s.complete()
	if got := s.metric("ghostline_unit_attempts_total", "unit", "unit-0"); got != before {
		t.Error("the unit that cannot be reached was asked before the one that is ejected")
	}
}

// TestWhoStandsInForAnEjectedUnit may be a unit of another region, or of another
// variant.
func TestWhoStandsInForAnEjectedUnit(t *testing.T) {
	for _, tc := range []struct {
		name, variant string
		config        func(*config.Config)
	}{
		{"of a failover region", "stable", func(c *config.Config) {
			c.Failover, c.Units[1].Region = []string{"near"}, "near"
		}},
		{"of the fallback variant", "stable", func(c *config.Config) {
			c.Models[0].Variants = []config.Variant{{Name: "next", Weight: 1, Fallback: "stable"}, {Name: "stable"}}
			c.Units[0].Serves = "ghost-code/next"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, units := cast(t, setup{config: tc.config}, answers(500, nil, ""), says(whole("b")))
			for range 8 {
				got := s.post("/v1/completions", prompt)
				s.wantWhole(got)
				if v := got.header.Get("X-Ghostline-Variant"); v != tc.variant {
					t.Errorf("variant %q, want %s", v, tc.variant)
				}
			}
			wantAsked(t, units, 5, 8)
			s.wantState("unit-0", "ejected")
		})
	}
}

// TestAllAreEjected: with nothing else to lose all are tried, and one answer
// brings a unit back.
func TestAllAreEjected(t *testing.T) {
	s, units := cast(t, setup{}, answers(500, nil, ""), answers(500, nil, ""))
	for range 5 {
		s.post("/v1/completions", prompt).wantError(t, 502, "upstream_error")
	}
	s.wantState("unit-0", "ejected")
	s.wantState("unit-1", "ejected")
	s.post("/v1/completions", prompt).wantError(t, 502, "upstream_error")
	wantAsked(t, units, 6, 6)

	units[1].is(says(whole("b")))
	s.complete()
	wantAsked(t, units, 7, 7)
	s.wantState("unit-0", "ejected")
	s.wantState("unit-1", "active")
	s.wantLog("a unit is back", `"unit":"unit-1"`)
	s.complete()
	wantAsked(t, units, 7, 8)
}

// TestCancelsNeverEject: however many clients leave, at whatever moment, a unit
// that nothing else is known of stays in use.
func TestCancelsNeverEject(t *testing.T) {
	for name, unit := range map[string]http.Handler{"waiting": http.HandlerFunc(never), "mid-stream": every(event(chunk(0, "a", "null")), "")} {
		t.Run(name, func(t *testing.T) {
			s, units := cast(t, setup{}, unit, says(whole("b")))
			v := s.visitor(leavers[1])
			for i := range 12 {
				visit := v.start(prompt, false)
				s.eventually("it is at the unit", units[0].begunIs(i+1))
				if name == "mid-stream" {
					<-visit.begun
				}
				visit.leave()
			}
			s.outcomes("cancelled", 12)
			s.settled()
			s.wantState("unit-0", "active")
			units[0].is(says(whole("a")))
			s.complete()
			wantAsked(t, units, 13, 0)
			s.quiet()
		})
	}
}

// TestFailuresThatAreNotInARow: an answer between them clears a unit.
func TestFailuresThatAreNotInARow(t *testing.T) {
	s, units := cast(t, setup{}, answers(500, nil, ""), says(whole("b")))
	for i := range 3 {
		units[0].is(answers(500, nil, ""))
		for range 4 {
			s.complete()
		}
		units[0].is(says(whole("a")))
		if i == 1 {
			units[0].is(answers(400, nil, "")) // the request is at fault, and the unit said so
		}
		s.post("/v1/completions", prompt)
	}
	wantAsked(t, units, 15, 12)
	s.wantState("unit-0", "active")
}

// wantLog waits for a line of the log with all of the parts, which may come just
// after what it tells of.
func (s *stack) wantLog(parts ...string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("the log has a line with %q", parts), func() bool { return s.logged(parts...) > 0 })
}

// logged is how many lines of the log have all of the parts.
func (s *stack) logged(parts ...string) (n int) {
	for line := range strings.Lines(s.log.String()) {
		has := true
		for _, part := range parts {
			has = has && strings.Contains(line, part)
		}
		if has {
			n++
		}
	}
	return n
}
