package feature

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// tell sends feedback about a request; fields are more JSON.
func (e *editor) tell(id, event string, fields ...string) reply {
	e.s.t.Helper()
	body := fmt.Sprintf(`{"request_id":%q,"event":%q%s}`, id, event, strings.Join(fields, ""))
	return e.s.do(e.client, e.request(e.s.t.Context(), "/v1/feedback", body))
}

// wantTold checks that feedback was taken.
func wantTold(t *testing.T, got reply) {
	t.Helper()
	if id := got.header.Get("X-Request-Id"); got.status != http.StatusNoContent || got.body != "" || id == "" || id != got.header.Get("X-GitHub-Request-Id") {
		t.Errorf("got %d %q with the id %q, want 204", got.status, got.body, id)
	}
}

// told is how often an event was counted for a variant.
func (s *stack) told(variant, event string) float64 {
	return s.metric("ghostline_feedback_total", "model", "ghost-code", "variant", variant, "event", event)
}

// twoVariants is a config that splits users over two variants.
func twoVariants(c *config.Config) {
	c.Models[0].Variants = []config.Variant{{Name: "stable", Weight: 1}, {Name: "next", Weight: 1}}
	c.Units[1].Serves = "ghost-code/next"
}

// TestFeedback has users of two variants tell what became of their completions:
// it counts for the variant that served each, every event once.
func TestFeedback(t *testing.T) {
	s, _ := cast(t, setup{config: twoVariants}, says(whole("a")), says(whole("b")))
	counts := map[string]float64{"stable": 0, "next": 0}
	var e *editor
	var id string
	for i := range 12 {
		how := []func(*stack) (*http.Client, string){overTLS, overH2C, overH1}[i%3]
		e = s.editor(how).of(fmt.Sprintf("subject-%d", i))
		got := e.ask(prompt)
		s.wantWhole(got)
		id = got.header.Get("X-Request-Id")
		for range 2 {
			wantTold(t, e.tell(id, "shown"))
			wantTold(t, e.tell(id, []string{"accepted", "rejected"}[i%2]))
		}
		counts[got.header.Get("X-Ghostline-Variant")]++
	}
	for variant, n := range counts {
		if n == 0 {
			t.Errorf("nobody of twelve was served by %s", variant)
		}
		if shown, judged := s.told(variant, "shown"), s.told(variant, "accepted")+s.told(variant, "rejected"); shown != n || judged != n {
			t.Errorf("%s: %v shown, %v accepted or rejected; want %v of each", variant, shown, judged, n)
		}
	}
	unknown := refusal{status: 404, code: "request_not_found", message: "knows no such completion of this user"}
	e.of("somebody-else").tell(id, "rejected").wantRefusal(t, unknown)
	e.tell("never-asked", "shown").wantRefusal(t, unknown)
	if got := s.metric("ghostline_feedback_total"); got != 24 {
		t.Errorf("%v events are counted, want 24", got)
	}
	if got := s.metric("ghostline_requests_total"); got != 12 {
		t.Errorf("%v requests are counted, want the 12 completions", got)
	}
	s.settled()
	s.quiet()
}

// TestFeedbackIsAboutAnswers: of what has no answer there is nothing to tell.
func TestFeedbackIsAboutAnswers(t *testing.T) {
	s, units := cast(t, setup{}, answers(400, nil, "{}"))
	e := s.editor(overTLS, "X-Request-Id", "r-1")
	e.ask(prompt).wantError(t, 400, "invalid_request")
	if got := e.tell("r-1", "shown"); got.status != 404 {
		t.Errorf("got %d about a request that failed, want 404", got.status)
	}
	units[0].is(says(whole("a")))
	s.wantWhole(e.ask(prompt))
	wantTold(t, e.tell("r-1", "shown"))
	s.settled()
}

// TestFeedbackOfAnotherProxy: what this proxy did not serve it counts where the
// client tells, once too.
func TestFeedbackOfAnotherProxy(t *testing.T) {
	s, _ := cast(t, setup{config: twoVariants}, says(whole("a")), says(whole("b")))
	e := s.editor(overTLS)
	where := func(model, variant string) string { return fmt.Sprintf(`,"model":%q,"variant":%q`, model, variant) }
	for range 3 {
		wantTold(t, e.tell("r-1", "accepted", where("ghost-code", "next")))
		wantTold(t, e.tell("r-1", "shown", where("copilot-codex", "next")))
	}
	wantTold(t, e.tell("r-1", "rejected")) // it is known by now
	wantTold(t, e.tell("r-1", "rejected", where("ghost-code", "stable")))
	unknown := refusal{status: 404, code: "request_not_found", message: "another proxy may have served it"}
	e.tell("r-2", "shown", where("ghost-code", "gone")).wantRefusal(t, unknown)
	e.tell("r-2", "shown", where("gone", "next")).wantRefusal(t, unknown)
	req := e.request(t.Context(), "/v1/feedback", `{"request_id":"r-2","event":"shown"`+where("ghost-code", "next")+"}")
	req.Header.Set("Authorization", "Bearer "+s.token(func(c *token.Claims) { c.Models = []string{"other"} }))
	s.do(e.client, req).wantRefusal(t, unknown)
	for event, want := range map[string]float64{"shown": 1, "accepted": 1, "rejected": 1} {
		if got := s.told("next", event); got != want {
			t.Errorf("%v %s, want %v", got, event, want)
		}
	}
	if got := s.metric("ghostline_feedback_total"); got != 3 {
		t.Errorf("%v events in all, want 3", got)
	}
}

// TestFeedbackHasARate: a flood of feedback would push what is remembered of
// others' completions out.
func TestFeedbackHasARate(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		c.Limits.PerSubject = config.SubjectLimits{RequestsPerSecond: 0.001, Burst: 1}
	}})
	e := s.editor(overH2C)
	got := e.ask(prompt)
	s.wantWhole(got)
	id := got.header.Get("X-Request-Id")
	wantTold(t, e.tell(id, "shown"))
	wantTold(t, e.tell(id, "accepted"))
	limited := e.tell(id, "accepted")
	limited.wantError(t, http.StatusTooManyRequests, "too_many_requests")
	if limited.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

// TestBadFeedback is refused with the field at fault.
func TestBadFeedback(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) { c.Timeouts.ReadBody = shortly }})
	for _, how := range leavers[:3] {
		t.Run(how.name, func(t *testing.T) {
			s.in(t)
			e := s.editor(how.client)
			post := func(body string, change ...func(*http.Request)) reply {
				req := e.request(t.Context(), "/v1/feedback", body)
				for _, c := range change {
					c(req)
				}
				return s.do(e.client, req)
			}
			for body, message := range map[string]string{
				"":                                  "one JSON object with request_id and event",
				`{"request_id":"r-1"`:               "one JSON object with request_id and event",
				`{"event":"shown"}`:                 `"request_id"`,
				`{"request_id":["r"]}`:              `"request_id" must be text`,
				`{"request_id":"r-1","event":"no"}`: `"event" must be one of shown, accepted, rejected`,
				`{"request_id":"r-1","event":"shown","model":"ghost-code"}`: `"model" and "variant" go together`,
				`{"request_id":"r-1","event":"shown","variant":1}`:          `"variant" must be text`,
			} {
				post(body).wantRefusal(t, refusal{status: 400, code: "invalid_request", message: message})
			}
			post("{}", func(r *http.Request) { r.Header.Del("Authorization") }).wantRefusal(t, refusal{status: 401, code: "missing_token"})
			post("{}", func(r *http.Request) { r.Header.Set("Authorization", "Bearer forged") }).wantRefusal(t, refusal{status: 401, code: "invalid_token"})
			got := post("", func(r *http.Request) { r.Method = http.MethodGet })
			got.wantRefusal(t, refusal{status: 405, code: "method_not_allowed", message: "use POST"})
			if got.header.Get("Allow") != "POST" {
				t.Errorf("Allow is %q", got.header.Get("Allow"))
			}
			large := `{"request_id":"r-1","event":"shown","x":"` + strings.Repeat("x", 5<<10) + `"}`
			tooLarge := refusal{status: 413, code: "body_too_large", message: "4096 bytes"}
			post(large).wantRefusal(t, tooLarge)
			post("", func(r *http.Request) { // of a length that is not known before
				r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader(large)), nil, -1
			}).wantRefusal(t, tooLarge)
			slow, upload := io.Pipe()
			defer upload.Close()
			go func() { _, _ = io.WriteString(upload, `{"request_id":`) }() // an error means that the proxy had enough
			post("", func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = slow, nil, 100 }).
				wantRefusal(t, refusal{status: 408, code: "body_timeout", retry: true})
			s.wantWhole(e.ask(prompt)) // the connection works on, where the protocol allows that
		})
	}
	s.settled()
	s.eventually("a client that leaves leaves nothing", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		e := s.editor(overTLS)
		req := e.request(ctx, "/v1/feedback", "")
		body, upload := io.Pipe()
		req.Body, req.GetBody, req.ContentLength = body, nil, -1
		defer upload.Close()
		go cancel()
		_, err := e.client.Do(req)
		return err != nil && s.metric("ghostline_inflight") == 0
	})
	if got := s.metric("ghostline_feedback_total"); got != 0 {
		t.Errorf("%v events are counted, want none", got)
	}
	s.quiet()
}

// TestFeedbackOfAVariantThatIsGone: a reload forgets its series, and what comes
// later about it does no harm.
func TestFeedbackOfAVariantThatIsGone(t *testing.T) {
	s, _ := cast(t, setup{config: func(c *config.Config) {
		twoVariants(c)
		c.Models[0].Variants[0].Weight = 0
	}}, says(whole("a")), says(whole("b")))
	e := s.editor(overTLS, "X-Request-Id", "r-1")
	s.wantWhole(e.ask(prompt))
	wantTold(t, e.tell("r-1", "shown"))
	if got := s.told("next", "shown"); got != 1 {
		t.Errorf("%v shown, want 1", got)
	}
	s.reconfigure(func(c *config.Config) {
		c.Models[0].Variants = []config.Variant{{Name: "stable", Weight: 1}}
		c.Units = c.Units[:1]
	})
	wantTold(t, e.tell("r-1", "accepted"))
	if page := s.admin("/metrics"); strings.Contains(page, `ghostline_feedback_total{event="shown",model="ghost-code",variant="next"}`) ||
		!strings.Contains(page, `ghostline_feedback_total{event="shown",model="ghost-code",variant="stable"} 0`) {
		t.Error("the series of the variant that is gone stay, or those of the other went too")
	}
	s.quiet()
}
