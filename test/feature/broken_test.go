package feature

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// secret stands for text of a unit that may repeat the prompt: it must never
// reach a client or the log.
const secret = "q7-words-of-the-unit"

func jsonHeader(more ...string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

func providerError(param, code string) string {
	return `{"error":{"message":"` + secret + `","type":"invalid_request_error","param":"` + param + `","code":"` + code + `"}}`
}

// TestErrorsBeforeTheAnswer covers what a unit may answer in place of a
// completion: each becomes a status of ours in words of ours.
func TestErrorsBeforeTheAnswer(t *testing.T) {
	type want struct {
		status           int
		code, retryAfter string
		outcome          string
	}
	upstream := want{502, "upstream_error", "", "upstream_error"}
	misconfigured := want{502, "unit_misconfigured", "", "upstream_error"}
	full := func(after string) want { return want{503, "no_capacity", after, "no_capacity"} }
	for _, tc := range []struct {
		name string
		unit http.Handler
		want want
	}{
		{"400", answers(400, jsonHeader(), providerError("max_tokens", "")), want{400, "invalid_request", "", "bad_request"}},
		{"400 content filter", answers(400, jsonHeader(), providerError("prompt", "content_filter")), want{400, "content_filter", "", "bad_request"}},
		{"400 without JSON", answers(400, nil, secret), want{400, "invalid_request", "", "bad_request"}},
		{"422", answers(422, jsonHeader(), providerError("stop", "bad words "+secret)), want{400, "invalid_request", "", "bad_request"}},
		{"401", answers(401, jsonHeader("WWW-Authenticate", "Bearer"), providerError("", "invalid_api_key")), misconfigured},
		{"403", answers(403, jsonHeader(), providerError("", "")), misconfigured},
		{"404", answers(404, jsonHeader(), providerError("model", "model_not_found")), misconfigured},
		{"429", answers(429, jsonHeader(), providerError("", "")), full("1")},
		{"429 with Retry-After", answers(429, jsonHeader("Retry-After", "7"), ""), full("7")},
		{"429 with retry-after-ms", answers(429, jsonHeader("Retry-After", "9", "Retry-After-Ms", "2500"), ""), full("3")},
		{"429 with zero", answers(429, jsonHeader("Retry-After", "0"), ""), full("1")},
		{"429 with nonsense", answers(429, jsonHeader("Retry-After", secret), ""), full("1")},
		{"429 for a day", answers(429, jsonHeader("Retry-After", "86400"), ""), full("60")},
		{"503", answers(503, nil, ""), full("1")},
		{"503 with Retry-After", answers(503, http.Header{"Retry-After": {"3"}}, secret), full("3")},
		{"500", answers(500, jsonHeader(), providerError("", "")), upstream},
		{"529", answers(529, nil, secret), upstream},
		{"302", answers(302, http.Header{"Location": {"/elsewhere"}}, ""), upstream},
		{"204", answers(204, nil, ""), upstream},
		{"its words for a type", answers(200, http.Header{"Content-Type": {"text/x; of=" + secret}}, "{}"), upstream},
		{"its words for a coding", answers(200, jsonHeader("Content-Encoding", secret), "{}"), upstream},
		{"a page of HTML", answers(200, http.Header{"Content-Type": {"text/html"}}, "<html>"+secret), upstream},
	} {
		for how, body := range map[string]string{"streamed": prompt, "unary": unaryPrompt} {
			t.Run(tc.name+", "+how, func(t *testing.T) {
				s := withUnit(t, tc.unit)
				got := s.post("/v1/completions", body)
				got.wantError(t, tc.want.status, tc.want.code)
				if after := got.header.Get("Retry-After"); after != tc.want.retryAfter {
					t.Errorf("Retry-After %q, want %q", after, tc.want.retryAfter)
				}
				s.outcomes(tc.want.outcome, 1)
				s.keepsSecret(got)
				if n := s.arrived.count(); n != 1 {
					t.Errorf("the unit was asked %d times, want once", n)
				}
			})
		}
	}
}

// keepsSecret checks that nothing of what the unit said got out.
func (s *stack) keepsSecret(got reply) {
	s.t.Helper()
	if strings.Contains(got.body, secret) {
		s.t.Errorf("the client was told the unit's words: %s", got.body)
	}
	if strings.Contains(s.log.String(), secret) {
		s.t.Error("the log has the unit's words")
	}
}

func TestRefusalNamesTheField(t *testing.T) {
	s := withUnit(t, answers(400, jsonHeader(), providerError("max_tokens", "")))
	if got := s.post("/v1/completions", prompt); !strings.Contains(got.body, "max_tokens") {
		t.Errorf("got %s; want the field named", got.body)
	}
	if s := withUnit(t, answers(400, jsonHeader(), providerError("a b "+secret, secret+" x"))); true {
		s.keepsSecret(s.post("/v1/completions", prompt))
	}
}

// TestStreamsThatNeverBegin are status 200 and yet no answer: nothing has gone
// out, so the client gets a real status.
func TestStreamsThatNeverBegin(t *testing.T) {
	filter := event(`{"id":"","choices":[],"prompt_filter_results":[]}`)
	for name, unit := range map[string]http.Handler{
		"an error as JSON":        answers(200, jsonHeader(), providerError("", "")),
		"an error event":          says(event(providerError("", ""))),
		"an error, then the mark": says(event(providerError("", "")) + event("[DONE]")),
		"filters, then an error":  says(filter+event(chunk(0, "", "null")), event(providerError("", ""))),
		"an error among choices":  says(event(`{"choices":[{"index":0,"text":"a","finish_reason":null}],"error":{"message":"` + secret + `"}}`)),
		"the mark at once":        says(event("[DONE]")),
		"nothing":                 says(),
		"only comments":           says(": a\n\n: b\n\n"),
		"no JSON":                 says(event(secret)),
		"a list":                  says(event(`["` + secret + `"]`)),
		"a bare error line":       says("error: " + secret + "\n\n"),
		"too much before text":    says(strings.Repeat(filter, 3000)),
		"broken off":              brokenOff(),
		"broken off in an event":  brokenOff(`data: {"id":"cmpl-1","choi`),
	} {
		t.Run(name, func(t *testing.T) {
			s := withUnit(t, unit)
			got := s.post("/v1/completions", `{"stream_options":{"include_usage":true},`+prompt[1:])
			got.wantError(t, 502, "upstream_error")
			s.outcomes("upstream_error", 1)
			s.keepsSecret(got)
			s.settled()
		})
	}
}

// brokenOff streams parts and then resets its stream or closes its connection.
func brokenOff(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		says(parts...)(w, r)
		panic(http.ErrAbortHandler)
	}
}

func TestUnaryAnswersThatAreNone(t *testing.T) {
	for name, unit := range map[string]http.Handler{
		"an error":      answers(200, jsonHeader(), providerError("", "")),
		"no choices":    answers(200, jsonHeader(), `{"id":"x"}`),
		"empty choices": answers(200, jsonHeader(), `{"choices":[]}`),
		"no JSON":       answers(200, jsonHeader(), secret),
		"nothing":       answers(200, jsonHeader(), ""),
		"half of it":    answers(200, jsonHeader("Content-Length", "900"), `{"choices":[{"index":0,"text":"`+secret),
		"a stream":      says(whole("a")),
	} {
		t.Run(name, func(t *testing.T) {
			s := withUnit(t, unit)
			got := s.post("/v1/completions", unaryPrompt)
			got.wantError(t, 502, "upstream_error")
			s.outcomes("upstream_error", 1)
			s.keepsSecret(got)
			s.settled()
		})
	}
}

// TestStreamsThatBreakOff: the client gets what came, an error event, and a
// reset; never a mark of the end.
func TestStreamsThatBreakOff(t *testing.T) {
	three := event(chunk(0, "a", "null")) + event(chunk(0, "b", "null")) + event(chunk(0, "c", "null"))
	unit := &switched{}
	failed, n := event(providerError("", "")), 0.0
	for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
		s := start(t, setup{unit: unit, config: func(c *config.Config) { c.Units[0].Protocol = protocol }})
		n = 0
		for name, handler := range map[string]http.Handler{
			"an error":                    says(three + failed),
			"an error, then the mark":     says(three, failed+event("[DONE]")),
			"an error, then a whole end":  says(three, failed, event(chunk(0, "", `"stop"`))+event("[DONE]")),
			"the mark without a reason":   says(three + event("[DONE]")),
			"an end without a reason":     says(three),
			"no JSON":                     says(three, event(secret)),
			"half an event":               says(three + `data: {"choices":[{"index":0,"text":"` + secret),
			"a reset":                     brokenOff(three),
			"a reset in an event":         brokenOff(three, `data: {"choices":[{"index":0,`),
			"a reset before the mark":     brokenOff(three, ""),
			"a bare error, then silence":  says(three, "error: "+secret+"\n\n"),
			"one event, and then nothing": says(three, ": bye\n\n"),
		} {
			unit.is(handler)
			for _, how := range []leaver{leavers[0], leavers[1], leavers[2]} {
				t.Run("unit "+protocol+", "+name+", client "+how.name, func(t *testing.T) {
					s.in(t)
					client, base := how.client(s)
					got := s.do(client, s.request(t.Context(), base, "/v1/completions", prompt))
					n++
					s.wantBroken(got, three)
					s.outcomes("upstream_error", n)
				})
			}
		}
		s.settled()
	}
}

// TestChoicesThatNeverCame: with the provider's own mark an answer may have fewer
// choices than were asked for; without it, those that are missing may be lost.
func TestChoicesThatNeverCame(t *testing.T) {
	unit := newSwitched(says())
	s := start(t, setup{unit: unit})
	one := event(chunk(0, "a", `"stop"`))
	two := strings.Replace(prompt, "{", `{"n":2,`, 1)
	unit.is(says(one + event("[DONE]")))
	s.wantWhole(s.post("/v1/completions", two))
	unit.is(says(one))
	s.wantWhole(s.post("/v1/completions", prompt))
	s.wantBroken(s.post("/v1/completions", two), one)
	s.settled()
}

// wantBroken checks an answer that broke off after these bytes.
func (s *stack) wantBroken(got reply, after string) {
	s.t.Helper()
	rest, ok := strings.CutPrefix(got.body, after)
	events := reply{body: rest}.events()
	if !ok || got.status != 200 || len(events) != 1 || !strings.HasPrefix(events[0], `{"error":{"message":`) || !strings.Contains(events[0], `"code":"broken_off"`) {
		s.t.Errorf("got %d %q; want %q and an error event", got.status, got.body, after)
	}
	if got.err == nil || strings.Contains(got.body, "[DONE]") {
		s.t.Errorf("got %q, ended by %v; want a broken stream without the mark of its end", got.body, got.err)
	}
	s.keepsSecret(got)
}

// TestFaultsOfTheModelServer runs through what the stand-in for a GPU can do.
func TestFaultsOfTheModelServer(t *testing.T) {
	for fault, status := range map[string]int{
		"status=400": 400, "status=401": 502, "status=403": 502, "status=404": 502, "status=422": 400, "status=429": 503,
		"status=429;retry-after=5": 503, "status=500": 502, "status=503": 503, "garbage": 502, "break=headers": 502, "break-after=0": 502,
		"error-first": 502, "hang=headers": 504, "hang-after=0": 504, "break-after=3": 0, "error-after=3": 0, "no-done": 0,
	} {
		t.Run(fault, func(t *testing.T) {
			// Each has a proxy of its own, which thinks no ill of the unit yet.
			s := start(t, setup{config: func(c *config.Config) { c.Timeouts.FirstByte = config.Duration(100 * time.Millisecond) }})
			s.setFault(fault)
			got := s.do(s.h2(), s.request(t.Context(), s.tlsURL, "/v1/completions", prompt))
			s.settled()
			if status != 0 {
				if got.status != status {
					t.Errorf("got %d %s, want %d", got.status, got.body, status)
				}
				return
			}
			events := got.events()
			if got.err == nil || len(events) < 2 || !strings.HasPrefix(events[len(events)-1], `{"error"`) {
				t.Errorf("got %q, %v; want a broken stream that ends in an error event", got.body, got.err)
			}
		})
	}
}

// TestConnectionRefused has nobody listen where the unit should be.
func TestConnectionRefused(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) { c.Units[0] = unitAt(c, "nobody", nobody(t)) }})
	got := s.post("/v1/completions", prompt)
	got.wantError(t, 503, "no_capacity")
	if after := got.header.Get("Retry-After"); after != "1" {
		t.Errorf("Retry-After %q, want 1", after)
	}
	s.outcomes("no_capacity", 1)
	s.settled()
}

// nobody is an address that nobody listens on.
func nobody(t *testing.T) string {
	t.Helper()
	listener := listen(t)
	defer listener.Close()
	return listener.Addr().String()
}
