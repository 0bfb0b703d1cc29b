package feature

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// spare is a stack with a unit at address before the model server, which is
// asked when the first one cannot serve.
func spare(t *testing.T, address string) *stack {
	t.Helper()
	return start(t, setup{config: func(c *config.Config) {
		first := unitAt(c, "first", address)
		c.Units[0].Priority = 1
		c.Units = append(c.Units, first)
	}})
}

// TestReport8RefusalsFailOver has the first unit refuse in every way in which it
// certainly did no work: the client does not notice.
func TestReport8RefusalsFailOver(t *testing.T) {
	refused := func(answer func(p *peer, stream uint32, n int)) func(*testing.T) (string, func() int) {
		return func(t *testing.T) (string, func() int) {
			u := startFramedUnit(t, answer)
			return u.address, func() int { return u.seen().requests }
		}
	}
	status := func(status int, header http.Header) func(*testing.T) (string, func() int) {
		return func(t *testing.T) (string, func() int) {
			u := &counted{next: answers(status, header, "")}
			return serveUnit(t, u), func() int { begun, _, _ := u.counts(); return begun }
		}
	}
	for _, tc := range []struct {
		name  string
		first func(*testing.T) (address string, asked func() int)
		// most is how often the first unit may be asked: a stream that a new
		// connection refused, or whose connection was going away, goes out a few
		// times more, since that says nothing of the unit's other connections.
		least, most int
		result      string // of the attempt
	}{
		{"429", status(429, nil), 1, 1, "refused"},
		{"429 with Retry-After", status(429, http.Header{"Retry-After": {"30"}}), 1, 1, "refused"},
		{"503", status(503, nil), 1, 1, "refused"},
		{"a wrong credential", status(401, nil), 1, 1, "misconfigured"},
		{"a wrong path", status(404, nil), 1, 1, "misconfigured"},
		{"REFUSED_STREAM", refused(func(p *peer, stream uint32, _ int) { p.reset(stream, http2.ErrCodeRefusedStream) }), 1, 5, "refused"},
		{"GOAWAY", refused(func(p *peer, _ uint32, _ int) { p.goAway(0, http2.ErrCodeNo) }), 1, 5, "refused"},
		{"GOAWAY and gone", refused(func(p *peer, _ uint32, _ int) { p.goAway(0, http2.ErrCodeNo); p.conn.Close() }), 1, 5, "refused"},
		{"GOAWAY with a complaint", refused(func(p *peer, _ uint32, _ int) { p.goAway(0, http2.ErrCodeEnhanceYourCalm) }), 1, 5, "refused"},
	} {
		for how, body := range map[string]string{"streamed": prompt, "unary": unaryPrompt} {
			t.Run(tc.name+", "+how, func(t *testing.T) {
				address, asked := tc.first(t)
				s := spare(t, address)
				if got := s.post("/v1/completions", body); got.status != 200 || got.err != nil {
					t.Errorf("got %d %q, %v; want the second unit's answer", got.status, got.body, got.err)
				}
				if n := asked(); n < tc.least || n > tc.most {
					t.Errorf("the first unit was asked %d times, want %d to %d", n, tc.least, tc.most)
				}
				if n := s.arrived.count(); n != 1 {
					t.Errorf("the second unit was asked %d times, want once", n)
				}
				s.outcomes("ok", 1)
				for unit, result := range map[string]string{"first": tc.result, "unit-1": "ok"} {
					if got := s.metric("ghostline_unit_attempts_total", "unit", unit, "result", result); got != 1 {
						t.Errorf("%v attempts at %s are counted as %s, want 1", got, unit, result)
					}
				}
				s.settled()
				if tc.result == "refused" {
					s.quiet()
				} else if !strings.Contains(s.log.String(), `"level":"WARN","msg":"a unit did not answer"`) {
					t.Error("nothing in the log says that somebody must see to the unit")
				}
			})
		}
	}
}

// TestUnitThatMayHaveWorked has the first unit fail without a byte of an answer:
// another try may cost the work of two, so it is taken from the budget.
func TestUnitThatMayHaveWorked(t *testing.T) {
	for name, unit := range map[string]http.Handler{
		"500":                   answers(500, nil, ""),
		"a reset while waiting": brokenUnanswered{},
		"a stream of nothing":   says(event("[DONE]")),
	} {
		t.Run(name, func(t *testing.T) {
			first := &counted{next: unit}
			s := spare(t, serveUnit(t, first))
			s.wantWhole(s.post("/v1/completions", prompt))
			s.outcomes("ok", 1)
			if begun, _, _ := first.counts(); begun != 1 || s.arrived.count() != 1 {
				t.Errorf("the units were asked %d times and %d times; want once each", begun, s.arrived.count())
			}
			if got := s.metric("ghostline_retries_total", "result", "allowed"); got != 1 {
				t.Errorf("%v retries were taken from the budget, want 1", got)
			}
		})
	}
}

// TestNothingIsDoneTwice has the first unit fail in ways that no other unit can
// make good: the client has a part of the answer, or the request is at fault.
func TestNothingIsDoneTwice(t *testing.T) {
	for name, unit := range map[string]http.Handler{
		"a broken stream": brokenOff(event(chunk(0, "a", "null"))),
		"a bad request":   answers(400, nil, ""),
	} {
		t.Run(name, func(t *testing.T) {
			first := &counted{next: unit}
			s := spare(t, serveUnit(t, first))
			if got := s.post("/v1/completions", prompt); got.status == 200 && got.err == nil {
				t.Errorf("got a whole answer %q", got.body)
			}
			s.settled()
			if begun, _, _ := first.counts(); begun != 1 || s.arrived.count() != 0 {
				t.Errorf("the units were asked %d times and %d times; want once and never", begun, s.arrived.count())
			}
			if got := s.metric("ghostline_retries_total"); got != 0 {
				t.Errorf("%v retries were asked of the budget, want none", got)
			}
		})
	}
}

// brokenUnanswered resets its stream before it answers.
type brokenUnanswered struct{}

func (brokenUnanswered) ServeHTTP(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// TestReport1TheClientThatLeftIsNotRetried cancels while the first unit works, which
// then refuses.
func TestReport1TheClientThatLeftIsNotRetried(t *testing.T) {
	for _, how := range leavers {
		t.Run(how.name, func(t *testing.T) {
			first := &counted{next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				never(w, r)
				w.WriteHeader(http.StatusTooManyRequests)
			})}
			s := spare(t, serveUnit(t, first))
			visit := s.visitor(how).start(prompt, false)
			s.eventually("it is at the first unit", first.begunIs(1))
			visit.leave()
			s.outcomes("cancelled", 1)
			s.settled()
			s.eventually("the first unit is through", func() bool { _, _, running := first.counts(); return running == 0 })
			if begun, _, _ := first.counts(); begun != 1 || s.arrived.count() != 0 {
				t.Errorf("the units were asked %d times and %d times; want once and never", begun, s.arrived.count())
			}
			s.quiet()
		})
	}
}

// TestGoAwayLosesNothing has a unit send every connection away after a few
// requests, finishing those that it had, as servers do that limit a
// connection's life. There is no other unit.
func TestGoAwayLosesNothing(t *testing.T) {
	const each, requests, width = 25, 1000, 8
	var mu sync.Mutex
	served := map[*peer]int{}
	unit := startFramedUnit(t, func(p *peer, stream uint32, _ int) {
		mu.Lock()
		served[p]++
		n := served[p]
		mu.Unlock()
		if n == each {
			p.goAway(stream, http2.ErrCodeNo)
		}
		if n <= each {
			p.stream(stream, true, whole(strconv.Itoa(n)))
		}
	})
	s := start(t, setup{config: func(c *config.Config) { c.Units[0] = unitAt(c, "mortal", unit.address) }})
	client := s.h2()
	s.wantWhole(s.do(client, s.request(t.Context(), s.tlsURL, "/v1/completions", prompt)))
	var all sync.WaitGroup
	for range width {
		all.Go(func() {
			for range requests / width {
				if body, err := fetch(client, s.request(t.Context(), s.tlsURL, "/v1/completions", prompt)); err != nil {
					t.Errorf("got %q, %v", body, err)
				}
			}
		})
	}
	all.Wait()
	s.outcomes("ok", requests+1)
	if opened := unit.seen().opened; opened < requests/each {
		t.Errorf("the unit saw %d connections, want at least %d", opened, requests/each)
	}
	if got := s.metric("ghostline_client_connections_opened_total"); got != 1 {
		t.Errorf("the client had to open %v connections, want 1", got)
	}
	s.settled()
	s.quiet()
}

// TestPriorityAndCapacity fills units of one place each: in the order of their
// priorities, and then says when to come again.
func TestPriorityAndCapacity(t *testing.T) {
	release := make(chan struct{})
	units := []*counted{{next: held(release)}, {next: held(release)}, {next: held(release)}}
	s := start(t, setup{config: func(c *config.Config) {
		base := *c
		c.Units = nil
		for i, u := range units {
			unit := unitAt(&base, "unit-"+strconv.Itoa(i), serveUnit(t, u))
			unit.Priority, unit.Capacity.InFlight = 10-i, 1 // the last one first
			c.Units = append(c.Units, unit)
		}
	}})
	v := s.visitor(leavers[0])
	var visits []*visit
	for i := range units {
		visits = append(visits, v.start(prompt, false))
		s.eventually("it is at the next unit", units[len(units)-1-i].begunIs(1))
	}
	full := s.post("/v1/completions", prompt)
	full.wantError(t, 503, "no_capacity")
	if full.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	s.outcomes("no_capacity", 1)

	visits[0].leave() // makes room on the unit that is asked first
	s.eventually("there is room", func() bool { return s.metric("ghostline_inflight") == 2 })
	next := v.start(prompt, false)
	s.eventually("it is at the unit with room", units[2].begunIs(2))
	close(release)
	for _, visit := range append(visits[1:], next) {
		if end := <-visit.ended; end.err != nil || end.body != whole("held") {
			t.Errorf("got %q, %v", end.body, end.err)
		}
	}
	for i, u := range units {
		if u.peak > 1 {
			t.Errorf("unit %d had %d requests at once, its capacity is 1", i, u.peak)
		}
	}
	s.settled()
}

// TestFallbackVariant has no unit of the chosen variant serve.
func TestFallbackVariant(t *testing.T) {
	for name, change := range map[string]func(*httpserver.Server){
		"full":  func(*httpserver.Server) {},
		"wrong": func(s *httpserver.Server) { s.Handler = answers(401, nil, "") },
	} {
		t.Run(name, func(t *testing.T) {
			address := serveUnit(t, answers(429, nil, ""), change)
			s := start(t, setup{config: func(c *config.Config) {
				c.Models[0].Variants = []config.Variant{{Name: "next", Weight: 1, Fallback: "stable"}, {Name: "stable"}}
				next := unitAt(c, "unit-next", address)
				next.Serves = "ghost-code/next"
				c.Units = append(c.Units, next)
			}})
			got := s.post("/v1/completions", prompt)
			s.wantWhole(got)
			if v := got.header.Get("X-Ghostline-Variant"); v != "stable" {
				t.Errorf("variant %q, want stable", v)
			}
			if got := s.metric("ghostline_requests_total", "variant", "stable", "unit", "unit-1", "outcome", "ok"); got != 1 {
				t.Errorf("%v counted for the variant that served, want 1", got)
			}
		})
	}
}

// TestAllUnitsRefuse: the client is told when the first of them may be asked
// again, whichever refused last.
func TestAllUnitsRefuse(t *testing.T) {
	for _, first := range []string{"40", "20"} {
		s := spare(t, serveUnit(t, answers(429, http.Header{"Retry-After": {first}}, "")))
		s.setFault("status=429;retry-after=30")
		got := s.post("/v1/completions", prompt)
		got.wantError(t, 503, "no_capacity")
		// What is left of it, rounded up; the test itself may take a few seconds.
		want := map[string]int{"40": 30, "20": 20}[first]
		if after, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || after > want || after < want-9 {
			t.Errorf("Retry-After %q after one of %s s and one of 30 s, want %d", got.header.Get("Retry-After"), first, want)
		}
		if s.arrived.count() != 1 {
			t.Errorf("the second unit was asked %d times, want once", s.arrived.count())
		}
	}
}
