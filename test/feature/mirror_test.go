package feature

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/tidwall/gjson"
)

const (
	exactPrompt = `{"prompt":"func main() {\n\t","max_tokens":8,"stream":true,"temperature":0,"model":"ghost-code"}`
	exactUnary  = `{"prompt":"func main() {\n\t","max_tokens":8,"temperature":0,"model":"ghost-code"}`
)

// judge runs a stack of which unit-0 serves users, and every request is mirrored
// to unit-1, the candidate's.
func judge(t *testing.T, change func(*config.Config), units ...http.Handler) (*stack, []*actor) {
	t.Helper()
	return cast(t, setup{config: func(c *config.Config) {
		c.Models[0].Variants = []config.Variant{{Name: "stable", Weight: 1}, {Name: "candidate"}}
		c.Models[0].Mirrors = []config.Mirror{{Of: "stable", To: "candidate", Percent: 100}}
		c.Units[1].Serves = "ghost-code/candidate"
		if change != nil {
			change(c)
		}
	}}, units...)
}

// mirrored waits until so many copies have ended so, and no more have in all.
func (s *stack) mirrored(result string, n, all float64) {
	s.t.Helper()
	s.eventually("copies end as "+result, func() bool { return s.metric("ghostline_mirror_total", "result", result) == n })
	s.eventually("all copies have ended", func() bool { return s.metric("ghostline_mirror_total") == all })
	if got := s.metric("ghostline_mirror_total", "model", "ghost-code", "of", "stable", "variant", "candidate", "result", result); got != n {
		s.t.Errorf("%v of %v are the mirror's", got, n)
	}
}

// compared checks how many answers were compared, and how they were.
func (s *stack) compared(equal, different, sampled float64) {
	s.t.Helper()
	for result, want := range map[string]float64{"equal": equal, "different": different, "sampled": sampled} {
		s.eventually("answers are compared as "+result, func() bool { return s.metric("ghostline_mirror_compared_total", "result", result) == want })
	}
}

// unary answers with one choice.
func unary(text string) http.HandlerFunc {
	return answers(200, jsonHeader(), `{"choices":[{"index":0,"text":"`+text+`","finish_reason":"stop"}]}`)
}

// TestMirrorComparesAnswers plants a difference and finds it.
func TestMirrorComparesAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, body                string
		user, copied              http.Handler
		equal, different, sampled float64
		agreement                 float64
		lengths                   [2]float64
	}{
		{"equal", exactPrompt, says(whole("a", "b")), says(whole("ab")), 1, 0, 0, 1, [2]float64{2, 2}},
		{"a planted difference", exactPrompt, says(whole("if a", " == b")), says(whole("if a", " != b")), 0, 1, 0, 5. / 9, [2]float64{9, 9}},
		{"a part of it", exactPrompt, says(whole("abcd")), says(whole("ab")), 0, 1, 0, .5, [2]float64{4, 2}},
		{"nothing said", exactPrompt, says(whole()), says(whole()), 1, 0, 0, 1, [2]float64{0, 0}},
		{"unary, equal", exactUnary, unary("ab"), unary("ab"), 1, 0, 0, 1, [2]float64{2, 2}},
		{"unary, different", exactUnary, unary("ab"), unary("aX"), 0, 1, 0, .5, [2]float64{2, 2}},
		{"not exact", prompt, says(whole("a")), says(whole("bcd")), 0, 0, 1, 0, [2]float64{1, 3}},
	} {
		for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
			t.Run(tc.name+", unit "+protocol, func(t *testing.T) {
				s, units := judge(t, func(c *config.Config) { c.Units[1].Protocol = protocol }, tc.user, tc.copied)
				if got := s.post("/v1/completions", tc.body); got.status != http.StatusOK || got.err != nil {
					t.Errorf("the user got %d %q, %v", got.status, got.body, got.err)
				}
				s.mirrored("ok", 1, 1)
				s.compared(tc.equal, tc.different, tc.sampled)
				if n, got := s.metric("ghostline_mirror_agreement"), s.sum("ghostline_mirror_agreement"); n != 1-tc.sampled || got != tc.agreement {
					t.Errorf("agreement %v of %v answers, want %v", got, n, tc.agreement)
				}
				for i, side := range []string{"primary", "mirror"} {
					if got := s.sum("ghostline_mirror_length_bytes", "side", side); got != tc.lengths[i] {
						t.Errorf("%s has %v bytes, want %v", side, got, tc.lengths[i])
					}
				}
				wantAsked(t, units, 1, 1)
				s.outcomes("ok", 1)
				s.settled()
				s.quiet()
			})
		}
	}
}

// TestMirrorTellsFailures: each way in which a candidate can fail is told apart,
// and no user notices.
func TestMirrorTellsFailures(t *testing.T) {
	for _, tc := range []struct {
		result string
		unit   http.Handler
	}{
		{"error", answers(500, nil, "")},
		{"error", says(event("garbage"))},
		{"broken", brokenOff(event(chunk(0, "a", "null")))},
		{"timeout", http.HandlerFunc(never)},
		{"invalid", answers(400, nil, "{}")},
		{"refused", answers(429, nil, "{}")},
		{"misconfigured", answers(401, nil, "{}")},
		{"unreachable", nil},
	} {
		t.Run(tc.result, func(t *testing.T) {
			unit := tc.unit
			if unit == nil {
				unit = http.HandlerFunc(never)
			}
			s, _ := judge(t, func(c *config.Config) {
				c.Timeouts.FirstByte = config.Duration(time.Second)
				if tc.unit == nil {
					c.Units[1].URL = "http://" + nobody(t) + "/v1/completions"
				}
			}, says(whole("a", "b")), unit)
			s.complete()
			s.outcomes("ok", 1)
			if tc.result == "unreachable" { // which the proxy may know before it asks
				s.eventually("the copy has ended", func() bool {
					return s.metric("ghostline_mirror_total", "result", "unreachable")+s.metric("ghostline_mirror_total", "result", "no_capacity") == 1
				})
			} else {
				s.mirrored(tc.result, 1, 1)
			}
			s.compared(0, 0, 0)
			if got := s.metric("ghostline_mirror_first_byte_seconds"); got != 0 {
				t.Errorf("%v first bytes are compared, want none", got)
			}
			s.settled()
		})
	}
}

// TestMirrorTellsSlowness: a candidate that takes longer than the user's variant
// is seen to.
func TestMirrorTellsSlowness(t *testing.T) {
	release := make(chan struct{})
	s, units := judge(t, nil, says(whole("a")), held(release))
	began := time.Now()
	s.complete()
	took := time.Since(began)
	s.eventually("the candidate is asked", units[1].begunIs(1))
	asked := time.Now()
	s.eventually("it has taken longer", func() bool { return time.Since(asked) > took })
	close(release)
	s.mirrored("ok", 1, 1)
	primary, mirror := s.sum("ghostline_mirror_first_byte_seconds", "side", "primary"), s.sum("ghostline_mirror_first_byte_seconds", "side", "mirror")
	if primary <= 0 || mirror <= primary {
		t.Errorf("first bytes after %v s and %v s of the candidate; want the latter to be later", primary, mirror)
	}
}

// TestMirrorHasItsTime: a copy's stream goes on for as long as a user's may.
func TestMirrorHasItsTime(t *testing.T) {
	const limit = time.Second
	release := make(chan struct{})
	s, units := judge(t, func(c *config.Config) { c.Timeouts.FirstByte = config.Duration(limit) }, says(whole("ab")), beginsAndHolds(release))
	s.complete()
	s.eventually("the candidate is asked", units[1].begunIs(1))
	asked := time.Now()
	s.eventually("the time for its first byte is over", func() bool { return time.Since(asked) > limit+limit/5 })
	close(release)
	s.mirrored("ok", 1, 1)
	s.quiet()
}

// TestReport10MirrorArrives is what a candidate is sent: the user's request as its own
// dialect, model and credential have it.
func TestReport10MirrorArrives(t *testing.T) {
	for _, tc := range []struct{ name, path, body string }{
		{"streamed", "/v1/completions", `{"prompt":"a","suffix":"b","max_tokens":8,"stream":true,"model":"ghost-code","nwo":"x/y"}`},
		{"unary", "/v1/completions", `{"prompt":"a","suffix":"b","max_tokens":8,"model":"ghost-code"}`},
		{"the path that names the model", "/v1/engines/copilot-codex/completions", `{"prompt":"a","suffix":"b","max_tokens":8,"stream":true}`},
		{"Mistral's", "/v1/fim/completions", `{"prompt":"a","suffix":"b","max_tokens":8,"random_seed":7,"stream":true,"model":"ghost-code"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var user, copied arrivals
			answer := func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if gjson.GetBytes(body, "stream").Bool() {
					says(whole("ab"))(w, r)
				} else {
					unary("ab")(w, r)
				}
			}
			s, _ := cast(t, setup{before: func(s *stack) { s.write("credentials/judged", "judged-key\n") }, config: func(c *config.Config) {
				c.Models[0].Variants = []config.Variant{{Name: "stable", Weight: 1}, {Name: "candidate"}}
				c.Models[0].Mirrors = []config.Mirror{{Of: "stable", To: "candidate", Percent: 100}}
				u := &c.Units[1]
				u.Serves, u.UpstreamModel, u.Credential = "ghost-code/candidate", "candidate-model", "judged"
			}}, user.record(http.HandlerFunc(answer)), copied.record(http.HandlerFunc(answer)))
			req := s.request(t.Context(), s.plainURL, tc.path, tc.body)
			req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			secret := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
			got := s.do(s.h2c(), req)
			s.mirrored("ok", 1, 1)
			of, to := user.last(t), copied.last(t)
			if want := strings.Replace(of.body, `"upstream-model"`, `"candidate-model"`, 1); to.body != want || want == of.body {
				t.Errorf("the candidate got %s; want %s", to.body, want)
			}
			if key := to.header.Get("Authorization"); key != "Bearer judged-key" {
				t.Errorf("the candidate got the credential %q", key)
			}
			for _, name := range []string{"X-Request-Id", "Traceparent", "Accept", "Accept-Encoding", "Content-Type"} {
				if to.header.Get(name) != of.header.Get(name) || to.header.Get(name) == "" {
					t.Errorf("%s is %q, and %q for the user's variant", name, to.header.Get(name), of.header.Get(name))
				}
			}
			for name, values := range to.header {
				if text := strings.Join(values, ","); strings.Contains(text, secret) || strings.Contains(text, unitKey) {
					t.Errorf("the candidate was sent a secret in %s", name)
				}
			}
			if to.path != of.path || copied.count() != 1 {
				t.Errorf("the candidate was asked %d times, for %s", copied.count(), to.path)
			}
			s.wantNoLeak([]reply{got}, "judged-key", secret)
		})
	}
}

// TestReport10MirrorIsNotBilled: what copies cost is counted apart.
func TestReport10MirrorIsNotBilled(t *testing.T) {
	usage := func(prompt, completion string) http.HandlerFunc {
		return says(event(chunk(0, "a", `"stop"`)) + event(`{"choices":[],"usage":{"prompt_tokens":`+prompt+`,"completion_tokens":`+completion+`}}`) + event("[DONE]"))
	}
	s, units := judge(t, nil, usage("3", "2"), usage("5", "7"))
	s.complete()
	s.mirrored("ok", 1, 1)
	units[0].is(says(whole("a")))
	units[1].is(says(whole("b", "c")))
	s.complete()
	s.mirrored("ok", 2, 2)
	for kind, want := range map[string][2]float64{"prompt": {3, 5}, "completion": {2, 7}, "unmetered": {1, 2}} {
		user, copied := s.metric("ghostline_tokens_total", "kind", kind), s.metric("ghostline_mirror_tokens_total", "kind", kind)
		if user != want[0] || copied != want[1] {
			t.Errorf("%s: %v of users and %v of copies, want %v", kind, user, copied, want)
		}
	}
	if got := s.metric("ghostline_requests_total"); got != 2 {
		t.Errorf("%v requests are counted, want the users' 2", got)
	}
	for name, want := range map[string]float64{"ghostline_first_byte_seconds": 2, "ghostline_request_duration_seconds": 2, "ghostline_retries_total": 0} {
		if got := s.metric(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := s.metric("ghostline_unit_attempts_total", "unit", "unit-1", "result", "ok"); got != 2 {
		t.Errorf("%v attempts at the candidate, want 2", got)
	}
}
