package feature

import (
	"context"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestMirrorSamples: of many requests the mirror gets its part.
func TestMirrorSamples(t *testing.T) {
	const n, part = 2000, .25
	s, units := judge(t, func(c *config.Config) { c.Models[0].Mirrors[0].Percent = 100 * part }, says(whole("a")), says(whole("a")))
	client := s.h2c()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range n / 10 {
				if _, err := fetch(client, s.request(t.Context(), s.plainURL, "/v1/completions", prompt)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s.settled()
	drawn := 0.0
	s.eventually("all copies have ended", func() bool {
		drawn = s.metric("ghostline_mirror_total")
		return drawn == s.metric("ghostline_mirror_total", "result", "dropped")+float64(units[1].asked())
	})
	// Five standard deviations.
	if off := math.Abs(drawn - n*part); off > 5*math.Sqrt(n*part*(1-part)) {
		t.Errorf("%v of %d are mirrored, want about %v", drawn, n, n*part)
	}
	s.outcomes("ok", n)
	s.quiet()
}

// TestNotMirrored: there is nothing to compare with where the user's variant
// gave no answer.
func TestNotMirrored(t *testing.T) {
	s, units := judge(t, func(c *config.Config) {
		c.Models[0].Variants = append(c.Models[0].Variants, config.Variant{Name: "spare"})
		c.Models[0].Variants[0].Fallback = "spare"
		c.Units[2].Serves = "ghost-code/spare"
	}, http.HandlerFunc(never), says(whole("judged")), says(whole("spare")))
	v := s.visitor(leavers[1])
	for _, body := range []string{prompt, unaryPrompt} {
		visit := v.start(body, false)
		s.eventually("it waits", func() bool { return s.status().Units[0].InFlight == 1 })
		visit.leave()
		s.settled()
	}
	units[0].is(answers(400, nil, "{}"))
	s.post("/v1/completions", prompt).wantError(t, 400, "invalid_request")
	units[0].is(answers(429, nil, "{}"))
	if got := s.post("/v1/completions", prompt); got.header.Get("X-Ghostline-Variant") != "spare" || got.body != whole("spare") {
		t.Errorf("got %q from %s, want the fallback's answer", got.body, got.header.Get("X-Ghostline-Variant"))
	}
	s.settled()
	if got := s.metric("ghostline_mirror_total"); got != 0 || units[1].asked() != 0 {
		t.Errorf("%v copies, the candidate was asked %d times; want none", got, units[1].asked())
	}
}

// TestReport1TypedThroughMirror is what becomes of the copy of an answer that the user
// types through.
func TestReport1TypedThroughMirror(t *testing.T) {
	for _, onCancel := range []string{config.OnCancelCancel, config.OnCancelComplete} {
		for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
			t.Run(onCancel+", unit "+protocol, func(t *testing.T) {
				release := make(chan struct{})
				s, units := judge(t, func(c *config.Config) {
					c.Models[0].Mirrors[0].OnCancel = onCancel
					c.Units[1].Protocol = protocol
				}, beginsAndHolds(nil), beginsAndHolds(release))
				v := s.visitor(leavers[0])
				visit := v.start(exactPrompt, false)
				<-visit.begun
				s.eventually("the candidate is asked", units[1].begunIs(1))
				visit.leave()
				s.outcomes("cancelled", 1)
				if onCancel == config.OnCancelCancel {
					s.eventually("the candidate knows", func() bool { _, gone, running := units[1].counts(); return gone == 1 && running == 0 })
					s.mirrored("cancelled", 1, 1)
				} else {
					if _, gone, running := units[1].counts(); gone != 0 || running != 1 {
						t.Errorf("at the candidate %d have left and %d run, want none and 1", gone, running)
					}
					close(release)
					s.mirrored("ok", 1, 1)
				}
				s.compared(0, 0, 0)
				s.settled()
				s.wantState("unit-1", "active")
				s.quiet()
			})
		}
	}
}

// What a mirror runs and has waiting at once; see docs/mirrors.md.
const mirrorsRun, mirrorsWait = 32, 64

// fillMirror has as many requests answered as the mirror runs at once, whose
// copies the candidate holds.
func (s *stack) fillMirror(candidate *actor) {
	s.t.Helper()
	for range mirrorsRun {
		s.complete()
	}
	s.eventually("the mirror is at work", candidate.begunIs(mirrorsRun))
}

// TestTypedThroughWhileItsMirrorWaits: a copy that is cancelled in its queue is
// never sent.
func TestTypedThroughWhileItsMirrorWaits(t *testing.T) {
	for _, onCancel := range []string{config.OnCancelCancel, config.OnCancelComplete} {
		t.Run(onCancel, func(t *testing.T) {
			release := make(chan struct{})
			s, units := judge(t, func(c *config.Config) {
				c.Models[0].Mirrors[0].OnCancel = onCancel
				c.Timeouts.FirstByte = config.Duration(time.Minute)
			}, says(whole("a")), held(release))
			s.fillMirror(units[1])
			units[0].is(beginsAndHolds(nil))
			v := s.visitor(leavers[1])
			for range 3 {
				visit := v.start(prompt, false)
				<-visit.begun
				visit.leave()
			}
			s.outcomes("cancelled", 3)
			close(release)
			if onCancel == config.OnCancelCancel {
				s.mirrored("cancelled", 3, mirrorsRun+3)
				wantAsked(t, units, mirrorsRun+3, mirrorsRun)
			} else {
				s.mirrored("ok", mirrorsRun+3, mirrorsRun+3)
				wantAsked(t, units, mirrorsRun+3, mirrorsRun+3)
			}
			s.settled()
			s.quiet()
		})
	}
}

// TestMirrorIsNeverInTheWay: beside a candidate that hangs users get their
// answers; its copies pile up to the bounds and no further.
func TestMirrorIsNeverInTheWay(t *testing.T) {
	const over = 200
	release := make(chan struct{})
	s, units := judge(t, func(c *config.Config) { c.Timeouts.FirstByte = config.Duration(time.Minute) }, says(whole("a", "b")), held(release))
	s.fillMirror(units[1])
	for range mirrorsWait {
		s.complete()
	}
	s.mirrored("dropped", 0, 0)
	before := s.footprint()
	client := s.h2c()
	body := strings.Replace(prompt, "func main", strings.Repeat("x", 100<<10), 1)
	for range over {
		s.wantWhole(s.do(client, s.request(t.Context(), s.plainURL, "/v1/completions", body)))
	}
	s.mirrored("dropped", over, over)
	now := s.footprint()
	if now.goroutines > before.goroutines+20 || now.heap > before.heap+10<<20 {
		t.Errorf("before %+v, and after %d copies were dropped %+v", before, over, now)
	}
	wantAsked(t, units, mirrorsRun+mirrorsWait+over, mirrorsRun)
	close(release)
	s.mirrored("ok", mirrorsRun+mirrorsWait, mirrorsRun+mirrorsWait+over)
	s.outcomes("ok", mirrorsRun+mirrorsWait+over)
	s.settled()
	s.complete()
	s.mirrored("ok", mirrorsRun+mirrorsWait+1, mirrorsRun+mirrorsWait+over+1)
	s.quiet()
}

// TestMirrorsGetWhatIsSpare: a variant that serves users too keeps a fifth of its
// places for them.
func TestMirrorsGetWhatIsSpare(t *testing.T) {
	for _, tc := range []struct {
		name     string
		fallback string // of the user's variant
		places   int
	}{{"serves users too", "candidate", 8}, {"serves only copies", "", 10}} {
		t.Run(tc.name, func(t *testing.T) {
			release := make(chan struct{})
			s, units := judge(t, func(c *config.Config) {
				c.Models[0].Variants[0].Fallback = tc.fallback
				c.Units[1].Capacity.InFlight = 10
				c.Timeouts.FirstByte = config.Duration(time.Minute)
			}, says(whole("a")), held(release))
			for range 13 {
				s.complete()
			}
			s.mirrored("no_capacity", float64(13-tc.places), float64(13-tc.places))
			s.eventually("the candidate has as many as it may", units[1].begunIs(tc.places))
			if tc.fallback != "" {
				units[0].is(answers(429, nil, "{}"))
				client := s.h2c()
				for range 2 {
					go func() { _, _ = fetch(client, s.request(t.Context(), s.plainURL, "/v1/completions", prompt)) }()
				}
				s.eventually("users have the others", units[1].begunIs(10))
			}
			close(release)
			s.mirrored("ok", float64(tc.places), 13)
			s.settled()
		})
	}
}

// TestEjectedCandidateComesBack: a candidate that failed is left alone for a
// while, and tried by a copy then.
func TestEjectedCandidateComesBack(t *testing.T) {
	s, units := judge(t, nil, says(whole("a")), answers(500, nil, ""))
	for n := range 5 {
		s.complete()
		s.mirrored("error", float64(n+1), float64(n+1))
	}
	s.wantState("unit-1", "ejected")
	s.complete()
	s.mirrored("no_capacity", 1, 6)
	wantAsked(t, units, 6, 5)
	units[1].is(says(whole("a")))
	s.eventually("it is back", func() bool {
		s.complete()
		s.settled()
		state, _ := s.unitState("unit-1")
		return state == "active" && s.metric("ghostline_mirror_total", "result", "ok") > 0
	})
	s.wantLog("a unit is back", `"unit":"unit-1"`)
}

// TestDrainEndsMirrors: a proxy that goes does not wait for copies.
func TestDrainEndsMirrors(t *testing.T) {
	s, units := judge(t, func(c *config.Config) {
		c.Timeouts.FirstByte, c.Timeouts.Total = config.Duration(time.Minute), config.Duration(time.Minute)
	}, says(whole("a")), http.HandlerFunc(never))
	for range mirrorsRun + 5 {
		s.complete()
	}
	s.eventually("the mirror is at work", units[1].begunIs(mirrorsRun))
	s.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	select {
	case err := <-s.stopped:
		s.stopped <- err // for the end of the test
	case <-ctx.Done():
		t.Fatal("the proxy waits for its copies")
	}
	s.eventually("the candidate knows", func() bool { _, gone, running := units[1].counts(); return gone == mirrorsRun && running == 0 })
	s.mirrored("cancelled", mirrorsRun+5, mirrorsRun+5)
	wantAsked(t, units, mirrorsRun+5, mirrorsRun)
}

// TestReloadEndsAMirror: copies that run and wait when the config drops their
// mirror end as they can, and its series are forgotten.
func TestReloadEndsAMirror(t *testing.T) {
	for name, drop := range map[string]func(*config.Config){
		"the mirror goes": func(c *config.Config) { c.Models[0].Mirrors = nil },
		"its variant goes": func(c *config.Config) {
			c.Models[0].Mirrors, c.Models[0].Variants, c.Units = nil, c.Models[0].Variants[:1], c.Units[:1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			s, units := judge(t, func(c *config.Config) { c.Timeouts.FirstByte = config.Duration(time.Minute) }, says(whole("a")), held(release))
			s.fillMirror(units[1])
			for range 5 { // that wait
				s.complete()
			}
			before := s.config
			before.Models = append([]config.Model(nil), before.Models...)
			s.reconfigure(drop)
			s.complete()
			if page := s.admin("/metrics"); strings.Contains(page, "\nghostline_mirror_") {
				t.Error("the series of the mirror stay")
			}
			close(release)
			s.eventually("the candidate works for nobody", func() bool { _, _, running := units[1].counts(); return running == 0 })
			s.settled()
			s.complete()
			if page := s.admin("/metrics"); strings.Contains(page, "\nghostline_mirror_") {
				t.Error("the series of the mirror are back")
			}
			s.reconfigure(func(c *config.Config) { *c = before })
			s.complete()
			s.mirrored("ok", 1, 1)
			s.compared(0, 0, 1)
			s.quiet()
		})
	}
}
