package feature

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/tidwall/gjson"
)

// withUnit is a stack whose unit is handler.
func withUnit(t *testing.T, handler http.Handler) *stack {
	t.Helper()
	return start(t, setup{unit: handler})
}

// TestReport3EventsArriveOneByOne has the unit hold each event until the client has
// read the one before.
func TestReport3EventsArriveOneByOne(t *testing.T) {
	read := make(chan struct{})
	s := withUnit(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begin(w)
		for i := range 5 {
			send(w, event(chunk(0, fmt.Sprint(i), "null")))
			select {
			case <-read:
			case <-r.Context().Done():
				return
			}
		}
		send(w, event(chunk(0, "", `"stop"`))+event("[DONE]"))
	}))
	for _, tc := range []struct {
		name   string
		client func(*stack) (*http.Client, string)
	}{{"h2", overTLS}, {"h2c", overH2C}, {"h1", overH1}} {
		t.Run(tc.name, func(t *testing.T) {
			s.in(t)
			client, base := tc.client(s)
			resp, err := client.Do(s.request(t.Context(), base, "/v1/completions", prompt))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			for i := range 5 {
				want := event(chunk(0, fmt.Sprint(i), "null"))
				got := make([]byte, len(want))
				if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
					t.Fatalf("event %d is %q, %v; want %q", i, got, err, want)
				}
				read <- struct{}{}
			}
			rest, err := io.ReadAll(resp.Body)
			if want := event(chunk(0, "", `"stop"`)) + event("[DONE]"); err != nil || string(rest) != want {
				t.Errorf("the rest is %q, %v; want %q", rest, err, want)
			}
		})
	}
}

// TestBatchIsOneFlush counts DATA frames: what came together leaves together.
func TestBatchIsOneFlush(t *testing.T) {
	read := make(chan struct{})
	first := event(chunk(0, "a", "null")) + event(chunk(0, "b", "null")) + event(chunk(0, "c", "null"))
	second := event(chunk(0, "d", "null")) + event(chunk(0, "e", "null"))
	last := event(chunk(0, "", `"stop"`)) + event("[DONE]")
	s := withUnit(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begin(w)
		for _, batch := range []string{first, second} {
			send(w, batch)
			select {
			case <-read:
			case <-r.Context().Done():
				return
			}
		}
		send(w, last)
	}))
	c := s.framed()
	stream := c.post(prompt)
	for _, want := range []string{first, second} {
		got := c.read(stream, func(r framedReply) bool { return len(r.body()) >= len(want) })
		if len(got.data) != 1 || got.body() != want {
			t.Errorf("a batch came as %d DATA frames %q; want one with %q", len(got.data), got.data, want)
		}
		read <- struct{}{}
	}
	if got := c.read(stream, nil); len(got.data) != 1 || got.body() != last {
		t.Errorf("the last batch came as %d DATA frames %q; want one with %q", len(got.data), got.data, last)
	}
}

// TestUsageIsMeteredAndPassedIfAsked also covers the other chunks that have no
// choices, such as a content filter's.
func TestUsageIsMeteredAndPassedIfAsked(t *testing.T) {
	filter := `{"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}`
	usage := `{"id":"cmpl-1","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`
	text, stop := event(chunk(0, "a", "null")), event(chunk(0, "", `"stop"`))
	s := withUnit(t, says(event(filter)+text+event(filter)+stop+event(usage)+event("[DONE]")))
	for i, tc := range []struct{ options, want string }{
		{``, text + stop + event("[DONE]")},
		{`"stream_options":null,`, text + stop + event("[DONE]")},
		{`"stream_options":{"include_usage":false},`, text + stop + event("[DONE]")},
		{`"stream_options":{"include_usage":true},`, event(filter) + text + event(filter) + stop + event(usage) + event("[DONE]")},
	} {
		got := s.post("/v1/completions", "{"+tc.options+prompt[1:])
		if got.body != tc.want {
			t.Errorf("with %q got %q, want %q", tc.options, got.body, tc.want)
		}
		s.outcomes("ok", float64(i+1))
		if p, c := s.metric("ghostline_tokens_total", "kind", "prompt"), s.metric("ghostline_tokens_total", "kind", "completion"); p != float64(11*(i+1)) || c != float64(7*(i+1)) {
			t.Errorf("with %q metered %v and %v, want 11 and 7 for each", tc.options, p, c)
		}
		sent := s.arrived.last(t).body
		if !gjson.Get(sent, "stream_options.include_usage").Bool() {
			t.Errorf("with %q the unit was sent %s, which does not ask for the usage", tc.options, sent)
		}
	}
}

func TestUsageOfTheModelServer(t *testing.T) {
	s := start(t, setup{})
	asked := s.post("/v1/completions", `{"stream_options":{"include_usage":true},`+prompt[1:]).events()
	s.wantWhole(s.post("/v1/completions", prompt))
	s.wantWhole(reply{status: 200, body: event(s.post("/v1/completions", unaryPrompt).body) + event("[DONE]")})
	s.outcomes("ok", 3)
	usage := gjson.Get(asked[len(asked)-2], "usage")
	if usage.Get("completion_tokens").Int() < 1 || usage.Get("prompt_tokens").Int() < 1 {
		t.Fatalf("the event before the end is %s, want the usage", asked[len(asked)-2])
	}
	if got, want := s.metric("ghostline_tokens_total", "kind", "prompt"), 3*usage.Get("prompt_tokens").Float(); got != want {
		t.Errorf("metered %v prompt tokens, want %v", got, want)
	}
	if got, want := s.metric("ghostline_tokens_total", "kind", "completion"), float64(s.model.Stats().Tokens); got != want {
		t.Errorf("metered %v completion tokens, the model generated %v", got, want)
	}
}

// TestUnknownFieldsAreKept in both directions, byte for byte.
func TestUnknownFieldsAreKept(t *testing.T) {
	odd := `{"id":"x","big":12345678901234567890123,"e":1E+2,"u":"\u00e9\/","choices":[{"index":0,"text":"a","finish_reason":"stop","content_filter_results":{"hate":{"filtered":false}},"new":[1, 2]}], "system_fingerprint":"fp"}`
	s := withUnit(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if gjson.GetBytes(body, "stream").Bool() {
			says(event(odd)+event("[DONE]"))(w, r)
			return
		}
		answers(200, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, odd)(w, r)
	}))
	extra := `"future":{"a":[1,2.50,"\u00e9"]},"logit_bias":{"50256":-100},`
	if got := s.post("/v1/completions", "{"+extra+prompt[1:]); got.body != event(odd)+event("[DONE]") {
		t.Errorf("streamed %q, want %q", got.body, odd)
	}
	if sent := s.arrived.last(t).body; !strings.Contains(sent, `"future":{"a":[1,2.50,"\u00e9"]}`) || !strings.Contains(sent, `"logit_bias":{"50256":-100}`) {
		t.Errorf("the unit was sent %s", sent)
	}
	if got := s.post("/v1/completions", unaryPrompt); got.body != odd {
		t.Errorf("unary %q, want %q", got.body, odd)
	}
}

// TestMistralForm asks on Mistral's path, with a unit that speaks OpenAI's form.
func TestMistralForm(t *testing.T) {
	s := start(t, setup{})
	body := `{"prompt":"func main() {\n\t","suffix":"\n}","max_tokens":8,"min_tokens":1,"random_seed":42,"temperature":0,"model":"ghost-code"`
	got := s.post("/v1/fim/completions", body+`,"stream":true}`)
	s.wantWhole(got)
	var text, reason string
	for _, e := range got.events()[:len(got.events())-1] {
		choice := gjson.Get(e, "choices.0")
		if choice.Get("text").Exists() || !choice.Get("delta.content").Exists() || gjson.Get(e, "object").String() != "chat.completion.chunk" {
			t.Errorf("event %s: want choices with delta.content", e)
		}
		text += choice.Get("delta.content").String()
		reason += choice.Get("finish_reason").String()
	}
	sent := s.arrived.last(t).body
	if gjson.Get(sent, "seed").Raw != "42" || gjson.Get(sent, "random_seed").Exists() || gjson.Get(sent, "min_tokens").Exists() {
		t.Errorf("the unit was sent %s; want seed in place of random_seed, and no min_tokens", sent)
	}
	unary := s.post("/v1/fim/completions", body+"}")
	choice := gjson.Get(unary.body, "choices.0")
	if unary.status != 200 || choice.Get("message.content").String() != text || choice.Get("message.role").String() != "assistant" ||
		choice.Get("text").Exists() || choice.Get("finish_reason").String() != reason || gjson.Get(unary.body, "object").String() != "chat.completion" {
		t.Errorf("unary %s; want message.content %q, ended by %q", unary.body, text, reason)
	}
	if gjson.Get(unary.body, "usage.total_tokens").Int() < 1 {
		t.Errorf("unary %s: has no usage", unary.body)
	}
}

// TestNamesOfTheModel asks by name, alias and path; the unit is always asked by
// the name that it knows.
func TestNamesOfTheModel(t *testing.T) {
	s := start(t, setup{})
	bare := `{"prompt":"func ","max_tokens":4,"stream":true}`
	for _, tc := range []struct{ path, body string }{
		{"/v1/completions", `{"model":"ghost-code",` + bare[1:]},
		{"/v1/completions", `{"model":"copilot-codex",` + bare[1:]},
		{"/v1/engines/ghost-code/completions", bare},
		{"/v1/engines/copilot-codex/completions", bare},
		{"/v1/engines/copilot-codex/completions", `{"model":"whatever",` + bare[1:]}, // the path counts
	} {
		got := s.post(tc.path, tc.body)
		s.wantWhole(got)
		sent := s.arrived.last(t)
		if name := gjson.Get(sent.body, "model").String(); name != "upstream-model" || strings.Count(sent.body, `"model"`) != 1 {
			t.Errorf("%s %s: the unit was sent %s", tc.path, tc.body, sent.body)
		}
		if sent.path != "/v1/completions" {
			t.Errorf("the unit was asked at %s", sent.path)
		}
	}
	if got := s.metric("ghostline_requests_total", "model", "ghost-code", "variant", "stable", "outcome", "ok"); got != 5 {
		t.Errorf("%v counted under the model's own name, want 5", got)
	}
}

// TestWhatTheUnitReceives: of the client's headers only a few go on, and the
// fields that only Copilot's clients and proxies understand stay here.
func TestWhatTheUnitReceives(t *testing.T) {
	for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
		t.Run(protocol, func(t *testing.T) {
			s := start(t, setup{config: func(c *config.Config) { c.Units[0].Protocol = protocol }})
			req := s.request(t.Context(), s.tlsURL, "/v1/engines/copilot-codex/completions",
				`{"prompt":"a","suffix":"b","max_tokens":4,"temperature":0,"n":1,"stop":["\n\n"],"stream":true,"nwo":"owner/name","extra":{"language":"go","prompt_tokens":3}}`)
			for name, value := range map[string]string{
				"X-Request-Id": "request-1", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate": "a=b",
				"Editor-Version": "vscode/1.99.0", "VScode-SessionId": "session", "VScode-MachineId": "machine", "OpenAI-Intent": "copilot-ghost",
				"Cookie": "a=b", "X-Forwarded-For": "10.0.0.1", "Forwarded": "for=10.0.0.1", "Accept-Encoding": "gzip, br", "Accept": "*/*", "Referer": "x",
				"X-Conversation-Id": "c", "OpenAI-Organization": "o", "Api-Key": "k", "User-Agent": "editor/1", "Priority": "u=1", "Baggage": "x=y",
			} {
				req.Header.Set(name, value)
			}
			s.wantWhole(s.do(s.h2(), req))
			sent := s.arrived.last(t)
			sent.header.Del("Content-Length")
			want := http.Header{
				"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Accept-Encoding": {"identity"}, "User-Agent": {"ghostline"},
				"X-Request-Id": {"request-1"}, "Traceparent": {req.Header.Get("Traceparent")}, "Tracestate": {"a=b"}, "Authorization": {"Bearer " + unitKey},
			}
			if !maps.EqualFunc(sent.header, want, slices.Equal) {
				t.Errorf("the unit was sent the headers %v\nwant %v", sent.header, want)
			}
			if want := `{"model":"upstream-model","stream_options":{"include_usage":true},"prompt":"a","suffix":"b","max_tokens":4,"temperature":0,"n":1,"stop":["\n\n"],"stream":true}`; sent.body != want {
				t.Errorf("the unit was sent %s\nwant %s", sent.body, want)
			}
		})
	}
}
