package feature

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// spokenErrors are the errors that each provider says within a stream, as bytes.
var spokenErrors = map[string]map[string]string{
	"OpenAI": {
		"object": event(providerError("", "server_error")),
	},
	"Azure": {
		"object":         event(`{"error":{"message":"` + secret + `","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"x"}}}`),
		"after a filter": event(openAIFilter) + event(providerError("", "server_error")),
	},
	"vLLM": {
		"object":         event(`{"error":{"message":"` + secret + `","type":"InternalServerError","param":null,"code":500}}`),
		"flat object":    event(`{"object":"error","message":"` + secret + `","type":"BadRequestError","param":null,"code":400}`),
		"aborted":        event(chunk(0, "", `"abort"`)),
		"failed":         event(chunk(0, "", `"error"`)),
		"with text":      event(chunk(0, secret, `"abort"`)),
		"among the data": event(`{"id":"cmpl-1","choices":[],"error":{"message":"` + secret + `"}}`),
	},
	"llama.cpp": {
		"object":   event(`{"error":{"code":500,"message":"` + secret + `","type":"server_error"}}`),
		"bare":     "error: " + `{"code":500,"message":"` + secret + `","type":"server_error"}` + "\n\n",
		"an event": "event: error\n" + event(`{"error":{"code":500,"message":"`+secret+`","type":"server_error"}}`),
	},
	"llama.cpp infill": {
		"object": event(`{"error":{"code":500,"message":"` + secret + `","type":"server_error"}}`),
		"bare":   "error: " + `{"code":500,"message":"` + secret + `","type":"server_error"}` + "\n\n",
	},
	"Ollama": {
		"object":         event(`{"error":{"message":"` + secret + `","type":"api_error","param":null,"code":null}}`),
		"an empty chunk": event(`{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"text":"","index":0,"finish_reason":null}]}`),
	},
	"Ollama generate": {
		"text":       `{"error":"` + secret + `"}` + "\n",
		"object":     `{"error":{"message":"` + secret + `"}}` + "\n",
		"at the end": `{"model":"m","response":"","done":true,"done_reason":"stop","error":"` + secret + `"}` + "\n",
		"unloaded":   `{"model":"m","created_at":"2026-11-30T10:00:00Z","response":"","done":true,"done_reason":"unload"}` + "\n",
	},
	"Mistral": {
		"flat object": event(`{"object":"error","message":"` + secret + `","type":"invalid_request_error","param":null,"code":"1500","raw_status_code":500}`),
		"object":      event(`{"error":{"message":"` + secret + `","type":"internal_server_error","code":3000}}`),
		"failed":      event(fmt.Sprintf(mistralChunk, "", "", `"error"`, "")),
	},
	"DeepSeek": {
		"object":      event(`{"error":{"message":"` + secret + `","type":"server_error","param":null,"code":"internal_error"}}`),
		"interrupted": event(chunk(0, "", `"insufficient_system_resource"`)),
		"kept alive":  ": keep-alive\n\n" + event(`{"error":{"message":"`+secret+`"}}`),
	},
}

// isHint says whether an error is only told by what is missing after it.
func isHint(name string) bool { return name == "bare" || name == "an empty chunk" }

// TestErrorEventsBeforeTheAnswer: nothing has gone out, so the client gets a real
// status, whatever the provider says behind its error.
func TestErrorEventsBeforeTheAnswer(t *testing.T) {
	each(t, speakers, overOne, func(t *testing.T, p speaker, s *stack, unit *switched) {
		client, base := overH2C(s)
		n := 0.0
		for name, said := range spokenErrors[p.name] {
			for behind, parts := range p.behind(name, said) {
				unit.is(p.says(parts...))
				got := p.ask(s, client, base, prompt)
				n++
				if got.status != 502 {
					t.Errorf("%s, %s: got %d %q, want 502", name, behind, got.status, got.body)
				}
				got.wantError(t, 502, "upstream_error")
				s.keepsSecret(got)
			}
		}
		s.outcomes("upstream_error", n)
		s.settled()
	})
}

// behind is how a stream may go on after an error.
func (p speaker) behind(name, said string) map[string][]string {
	ways := map[string][]string{"nothing": {said}}
	if p.done != "" {
		ways["the mark"] = []string{said + p.event(p.done)}
		ways["the mark later"] = []string{said, p.event(p.done)}
	}
	if !isHint(name) {
		ways["an end"] = []string{said, p.end()}
		ways["the answer"] = []string{said, p.stream("b")}
	}
	return ways
}

// TestReport5DoneAfterAnError: an answer that ends in an error keeps what came of
// it, and never looks whole, although the provider may say its mark of the end.
func TestReport5DoneAfterAnError(t *testing.T) {
	each(t, speakers, overBoth, func(t *testing.T, p speaker, s *stack, unit *switched) {
		n := 0.0
		begun, want := p.event(p.text("a"))+p.event(p.text("b")), p.got("a")+p.got("b")
		for name, said := range spokenErrors[p.name] {
			after := want
			if name == "an empty chunk" {
				after += said // it is a chunk like others
			}
			for behind, parts := range p.behind(name, said) {
				client, base := overH2C(s)
				if n++; int(n)%2 == 0 {
					client, base = overH1(s)
				}
				parts[0] = begun + parts[0]
				unit.is(p.says(parts...))
				if got := p.ask(s, client, base, prompt); !s.broke(got, after) {
					t.Errorf("%s, %s: got %d %q, %v", name, behind, got.status, got.body, got.err)
				}
			}
		}
		s.outcomes("upstream_error", n)
		s.settled()
	})
}

// broke is wantBroken, and says whether it was so.
func (s *stack) broke(got reply, after string) bool {
	s.t.Helper()
	s.wantBroken(got, after)
	return strings.HasPrefix(got.body, after) && got.err != nil
}

// TestReport5MissingDone: without the provider's mark, the end is whole if a finish
// reason came, and only then.
func TestReport5MissingDone(t *testing.T) {
	each(t, speakers, overBoth, func(t *testing.T, p speaker, s *stack, unit *switched) {
		client, base := overH2C(s)
		begun, want := p.event(p.text("a"))+p.event(p.text("b")), p.got("a")+p.got("b")
		for name, parts := range map[string][]string{
			"at once": {begun + p.event(p.last)}, "later": {begun, p.event(p.last)}, "in one piece": {strings.TrimRight(begun+p.event(p.last), "\n")},
		} {
			unit.is(p.says(parts...))
			if got := p.ask(s, client, base, prompt); got.err != nil || got.body != want+p.gotEnd() {
				t.Errorf("%s: got %d %q, %v; want the mark of the end", name, got.status, got.body, got.err)
			}
		}
		unit.is(p.says(p.event(p.last)))
		if got := p.ask(s, client, base, prompt); got.err != nil || got.body != p.gotEnd() {
			t.Errorf("nothing but a finish reason: got %d %q, %v", got.status, got.body, got.err)
		}
		s.outcomes("ok", 4)
		cut := p.event(p.last)
		for _, parts := range [][]string{{begun}, {begun, cut[:len(cut)/2]}, {begun, cut[:len(cut)-len("}\n\n")]}} {
			unit.is(p.says(parts...))
			s.wantBroken(p.ask(s, client, base, prompt), want)
		}
		if p.done != "" {
			unit.is(p.says(begun + p.event(p.done)))
			s.wantBroken(p.ask(s, client, base, prompt), want)
		}
		s.settled()
	})
}

// refused is an error body in a provider's form, and what the client is told of it.
type refused struct {
	status      int
	body        string
	code, param string
}

var refusedBodies = map[string][]refused{
	"OpenAI": {{400, providerError("max_tokens", "bad_value"), "bad_value", "max_tokens"}},
	"Azure":  {{400, `{"error":{"message":"` + secret + `","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{}}}`, "content_filter", "prompt"}},
	"vLLM": {
		{400, `{"error":{"message":"` + secret + `","type":"BadRequestError","param":"max_tokens","code":400}}`, "invalid_request", "max_tokens"},
		{400, `{"object":"error","message":"` + secret + `","type":"BadRequestError","param":"max_tokens","code":400}`, "invalid_request", "max_tokens"},
		{422, `{"detail":[{"type":"int_parsing","loc":["body","max_tokens"],"msg":"` + secret + `","input":"` + secret + `"}]}`, "invalid_request", "max_tokens"},
	},
	"llama.cpp":        {{400, `{"error":{"code":400,"message":"` + secret + `","type":"invalid_request_error"}}`, "invalid_request", ""}},
	"llama.cpp infill": {{400, `{"error":{"code":400,"message":"` + secret + `","type":"invalid_request_error"}}`, "invalid_request", ""}},
	"Ollama":           {{400, `{"error":{"message":"` + secret + `","type":"invalid_request_error","param":null,"code":null}}`, "invalid_request", ""}},
	"Ollama generate":  {{400, `{"error":"` + secret + `"}`, "invalid_request", ""}},
	"Mistral": {
		{422, `{"object":"error","message":{"detail":[{"type":"x","loc":["body","max_tokens"],"msg":"` + secret + `"}]},"type":"invalid_request_error","param":null,"code":null}`, "invalid_request", "max_tokens"},
		{400, `{"object":"error","message":"` + secret + `","type":"invalid_request_message_order","param":null,"code":"3230"}`, "invalid_request", ""},
	},
	"DeepSeek": {{400, `{"error":{"message":"` + secret + `","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, "invalid_request_error", ""}},
}

// TestReport7ErrorBodyUnderStream: a request for a stream that is refused gets a
// status and a body that says why, whether the unit packed its own or not.
func TestReport7ErrorBodyUnderStream(t *testing.T) {
	each(t, speakers, overOne, func(t *testing.T, p speaker, s *stack, unit *switched) {
		client, base := overH2C(s)
		for _, r := range refusedBodies[p.name] {
			said := answers(r.status, jsonHeader(), r.body)
			for name, as := range map[string]http.Handler{
				"plain": said, "as a stream": streams(p, said), "packed": packs("gzip", 0, said), "in chunks": flushes(said),
			} {
				unit.is(as)
				got := p.ask(s, client, base, prompt)
				got.wantError(t, 400, r.code)
				if named := strings.Contains(got.body, "field at fault"); named != (r.param != "") || !strings.Contains(got.body, r.param) {
					t.Errorf("%s: got %s; want the field %q named", name, got.body, r.param)
				}
				s.keepsSecret(got)
			}
			unit.is(streams(p, answers(200, nil, r.body)))
			if p.lines {
				unit.is(streams(p, answers(200, nil, r.body+"\n")))
			}
			got := p.ask(s, client, base, prompt)
			got.wantError(t, 502, "upstream_error")
			s.keepsSecret(got)
			unit.is(answers(200, jsonHeader(), r.body))
			got = p.ask(s, client, base, prompt)
			got.wantError(t, 502, "upstream_error")
			s.keepsSecret(got)
		}
		s.settled()
	})
}

// flushes sends the head of an answer before its body.
func flushes(unit http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { unit.ServeHTTP(flusher{w}, r) }
}

type flusher struct{ http.ResponseWriter }

func (f flusher) WriteHeader(status int) {
	f.ResponseWriter.WriteHeader(status)
	_ = http.NewResponseController(f.ResponseWriter).Flush() // an error shows in the next write
}

// TestRefusalsWithBadBodies: a status stands, although its body cannot be read.
func TestRefusalsWithBadBodies(t *testing.T) {
	each(t, speakers[:1], overBoth, func(t *testing.T, p speaker, s *stack, unit *switched) {
		for name, more := range map[string][]string{
			"another coding": {"Content-Encoding", "br"}, "not packed": {"Content-Encoding", "gzip"}, "cut off": {"Content-Length", "9999"},
		} {
			for _, body := range []string{prompt, unaryPrompt} {
				client, base := overH2C(s)
				unit.is(answers(400, jsonHeader(more...), secret))
				got := p.ask(s, client, base, body)
				got.wantError(t, 400, "invalid_request")
				s.keepsSecret(got)
				unit.is(answers(503, jsonHeader(append(more, "Retry-After-Ms", "1")...), secret))
				got = p.ask(s, client, base, body)
				got.wantError(t, 503, "no_capacity")
				if after := got.header.Get("Retry-After"); after != "1" {
					t.Errorf("%s: Retry-After %q, want 1", name, after)
				}
				s.eventually("the unit has cooled", func() bool { state, _ := s.unitState("unit-1"); return state != "cooling" })
			}
		}
		s.settled()
	})
}
