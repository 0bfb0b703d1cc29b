package feature

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/test/strict"
	"github.com/tidwall/gjson"
)

// providerRow is a provider as a unit of it is set up. Its stand-in refuses what the
// provider's published API does not have.
type providerRow struct {
	name     string
	provider func(strict.Options) *strict.Provider
	unit     config.Unit
	path     string // of the unit's URL
	several  bool   // it can give several answers
	keeps    bool   // it takes what only Copilot's clients send
	// retryAfter is what a client is told whose request met a 429 that says 2.5 s in the
	// provider's way.
	retryAfter string
}

var qwen = &config.FillInTheMiddle{Template: "Qwen"}

// providerRows has a row for each API of each provider.
var providerRows = []providerRow{
	{"OpenAI", strict.OpenAI, config.Unit{Provider: config.ProviderOpenAI, Protocol: config.ProtocolH2C}, "/v1/completions", true, false, "3"},
	{"AzureOpenAI, deployment", strict.AzureOpenAI, config.Unit{Provider: config.ProviderAzureOpenAI, Protocol: config.ProtocolH2C}, "/openai/deployments/upstream-model/completions?api-version=2024-10-21", true, false, "3"},
	{"AzureOpenAI, v1", strict.AzureOpenAI, config.Unit{Provider: config.ProviderAzureOpenAI, Protocol: config.ProtocolH2C}, "/openai/v1/completions", true, false, "3"},
	{"VLLM", strict.VLLM, config.Unit{Provider: config.ProviderVLLM, Protocol: config.ProtocolHTTP1, FillInTheMiddle: qwen}, "/v1/completions", true, true, "3"},
	{"LlamaCpp Infill", strict.LlamaCpp, config.Unit{Provider: config.ProviderLlamaCpp, Protocol: config.ProtocolHTTP1}, "/infill", true, true, "3"},
	{"LlamaCpp Completions", strict.LlamaCpp, config.Unit{Provider: config.ProviderLlamaCpp, API: config.APICompletions, Protocol: config.ProtocolHTTP1, FillInTheMiddle: qwen}, "/v1/completions", true, true, "3"},
	{"Ollama Generate", strict.Ollama, config.Unit{Provider: config.ProviderOllama, Protocol: config.ProtocolHTTP1}, "/api/generate", false, true, "3"},
	{"Ollama Generate, template", strict.Ollama, config.Unit{Provider: config.ProviderOllama, Protocol: config.ProtocolHTTP1, FillInTheMiddle: qwen}, "/api/generate", false, true, "3"},
	{"Ollama Completions", strict.Ollama, config.Unit{Provider: config.ProviderOllama, API: config.APICompletions, Protocol: config.ProtocolHTTP1}, "/v1/completions", false, true, "3"},
	{"Mistral", strict.Mistral, config.Unit{Provider: config.ProviderMistral, Protocol: config.ProtocolH2C}, "/v1/fim/completions", false, false, "3"},
	{"DeepSeek", strict.DeepSeek, config.Unit{Provider: config.ProviderDeepSeek, Protocol: config.ProtocolH2C}, "/beta/completions", false, false, "1"},
}

// eachProvider runs a test for each row, with a stack whose unit is its stand-in.
func eachProvider(t *testing.T, test func(*testing.T, providerRow, *stack, *strict.Provider)) {
	for _, row := range providerRows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // some wait most of the time
			p := row.provider(strict.Options{Key: unitKey, Model: "upstream-model"})
			s := start(t, setup{unit: p, config: row.setUp})
			test(t, row, s, p)
			for _, violation := range p.Violations() {
				t.Errorf("the provider's API does not allow it: %s", violation)
			}
			for _, unknown := range p.Unknown() {
				if !row.keeps || !copilotOnly.MatchString(unknown) {
					t.Errorf("the provider's API does not have it: %s", unknown)
				}
			}
		})
	}
}

func (row providerRow) setUp(c *config.Config) {
	u := &c.Units[0]
	address := strings.TrimSuffix(u.URL, "/v1/completions")
	u.Provider, u.API, u.Protocol, u.FillInTheMiddle = row.unit.Provider, row.unit.API, row.unit.Protocol, row.unit.FillInTheMiddle
	u.URL = address + row.path
}

var copilotOnly = regexp.MustCompile(`: (extra|nwo|code_annotations)$`)

// copilotBody is what a Copilot client sends, with more fields in front.
func copilotBody(more string) string {
	return `{` + more + `"model":"ghost-code","prompt":"def café(a):\n    return ","max_tokens":400,"temperature":0.2,"top_p":1,"n":1,"stop":["\n\n\n"],` +
		`"nwo":"owner/name","code_annotations":false,"extra":{"language":"python","next_indent":4,"trim_by_indentation":true,"prompt_tokens":9,"suffix_tokens":3,"context":["x = 1"]}}`
}

// texts joins the texts of each choice of an answer in OpenAI's form.
func (r reply) texts() []string {
	var texts []string
	events := r.events()
	if len(events) == 0 {
		events = []string{r.body}
	}
	for _, data := range events {
		for _, choice := range gjson.Get(data, "choices").Array() {
			for int(choice.Get("index").Int()) >= len(texts) {
				texts = append(texts, "")
			}
			texts[choice.Get("index").Int()] += choice.Get("text").Str
		}
	}
	return texts
}

// finish is the finish reason of the first choice.
func (r reply) finish() string {
	events := r.events()
	if len(events) == 0 {
		events = []string{r.body}
	}
	for _, data := range events {
		for _, choice := range gjson.Get(data, "choices").Array() {
			if reason := choice.Get("finish_reason").Str; reason != "" {
				return reason
			}
		}
	}
	return ""
}

const textBefore, textBehind = "def café(a):\n    return ", "\n\nprint(café(1))"

// TestProviders asks every provider in each way: with and without a suffix, streamed
// and not. What its model was given to read comes back as the answer.
func TestProviders(t *testing.T) {
	eachProvider(t, func(t *testing.T, row providerRow, s *stack, p *strict.Provider) {
		for _, stream := range []string{"true", "false"} {
			for _, suffix := range []string{"", textBehind} {
				t.Run("stream "+stream+", suffix "+suffix, func(t *testing.T) {
					s.in(t)
					field, err := json.Marshal(suffix)
					if err != nil {
						t.Fatal(err)
					}
					got := s.post("/v1/completions", copilotBody(`"stream":`+stream+`,"suffix":`+string(field)+`,`))
					arrived := p.Requests()[len(p.Requests())-1]
					text := strings.Join(got.texts(), "")
					if got.status != 200 || got.finish() != "stop" || text != arrived.Echo(0) {
						t.Fatalf("got %d %s, which says %q; want %q", got.status, got.body, text, arrived.Echo(0))
					}
					prefixAt, suffixAt := strings.Index(text, textBefore), strings.Index(text, textBehind)
					if prefixAt < 0 || suffix != "" && suffixAt < prefixAt {
						t.Errorf("the model was given %q; want the text before the cursor, then that behind it", text)
					}
					if stream == "true" && !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
						t.Errorf("the stream ends with %q", got.body[max(0, len(got.body)-40):])
					}
					if arrived.MaxTokens != 400 || arrived.Temperature != 0.2 || len(arrived.Stop) != 1 || arrived.Stop[0] != "\n\n\n" || arrived.Model != "" && arrived.Model != "upstream-model" {
						t.Errorf("what arrived: %s", arrived.Body)
					}
				})
			}
		}
		s.in(t)
		s.outcomes("ok", 4)
		if in := s.metric("ghostline_tokens_total", "kind", "prompt"); in == 0 {
			t.Error("no prompt tokens are metered")
		}
		s.settled()
		s.quiet()
	})
}

// TestProvidersSayUsage: what a request cost is metered whatever the client asked for.
func TestProvidersSayUsage(t *testing.T) {
	eachProvider(t, func(t *testing.T, row providerRow, s *stack, p *strict.Provider) {
		for _, stream := range []string{"true", "false"} {
			script := strict.Say("a", "é", "b")
			script.Usage = &strict.Usage{Prompt: 11, Completion: 7}
			p.Next(script)
			if got := s.post("/v1/completions", copilotBody(`"stream":`+stream+`,`)); strings.Join(got.texts(), "") != "aéb" {
				t.Errorf("got %d %s", got.status, got.body)
			}
		}
		if in, out := s.metric("ghostline_tokens_total", "kind", "prompt"), s.metric("ghostline_tokens_total", "kind", "completion"); in != 22 || out != 14 {
			t.Errorf("%v prompt and %v completion tokens are metered, want 22 and 14", in, out)
		}
	})
}

// TestReport16SeveralAnswers asks for two answers: those who can keep them apart, all
// others say that they cannot.
func TestReport16SeveralAnswers(t *testing.T) {
	eachProvider(t, func(t *testing.T, row providerRow, s *stack, p *strict.Provider) {
		for _, stream := range []string{"true", "false"} {
			body := strings.Replace(copilotBody(`"stream":`+stream+`,`), `"n":1`, `"n":2`, 1)
			if !row.several {
				got := s.post("/v1/completions", body)
				got.wantError(t, 400, "invalid_request")
				if !strings.Contains(got.body, `field \"n\" must be 1`) {
					t.Errorf("got %s; want the field named", got.body)
				}
				continue
			}
			p.Next(strict.Script{Texts: [][]string{{"a", "b"}, {"x", "y", "z"}}})
			if got := s.post("/v1/completions", body).texts(); len(got) != 2 || got[0] != "ab" || got[1] != "xyz" {
				t.Errorf("stream %s: got %q, want ab and xyz", stream, got)
			}
		}
		if n := len(p.Requests()); !row.several && n != 0 {
			t.Errorf("%d requests reached the provider, want none", n)
		}
	})
}

// TestProvidersAreCancelled has the client leave before and after the first byte,
// streamed and not: the provider must notice.
func TestProvidersAreCancelled(t *testing.T) {
	eachProvider(t, func(t *testing.T, row providerRow, s *stack, p *strict.Provider) {
		hang := func(after int) strict.Script {
			script := strict.Say("a", "b", "c")
			script.Hang = &strict.Hang{After: after}
			return script
		}
		leave := func(body string, hang strict.Script, begun bool) {
			t.Helper()
			p.Next(hang)
			asked := len(p.Requests())
			r := s.editor(overTLS).send(body)
			s.eventually("the provider is asked", func() bool { return len(p.Requests()) > asked })
			if begun {
				<-r.begun
			}
			r.cancel()
			<-r.ended
		}
		leave(copilotBody(`"stream":true,`), hang(0), false)
		leave(copilotBody(`"stream":false,`), hang(0), false)
		s.eventually("both are cancelled before their first byte", func() bool { return p.Cancelled(strict.BeforeFirstByte) == 2 })
		leave(copilotBody(`"stream":true,`), hang(1), true)
		s.eventually("one is cancelled in mid-stream", func() bool { return p.Cancelled(strict.MidStream) == 1 })
		s.outcomes("cancelled", 3)
		s.settled()
		if lost := s.unitConnectionsLost(); row.unit.Protocol == config.ProtocolH2C && lost != 0 {
			t.Errorf("%d connections to the unit were lost; a cancel must cost none", lost)
		}
	})
}

// TestProvidersFail has each provider fail in its own words: before the first token
// that is a status, later the stream breaks off.
func TestProvidersFail(t *testing.T) {
	fail := func(f strict.Failure) strict.Script {
		script := strict.Say("a", "b", "c")
		f.Message = secret
		script.Fail = &f
		return script
	}
	eachProvider(t, func(t *testing.T, row providerRow, s *stack, p *strict.Provider) {
		ask := func(stream string, script strict.Script) reply {
			p.Next(script)
			got := s.post("/v1/completions", copilotBody(`"stream":`+stream+`,`))
			s.keepsSecret(got)
			return got
		}
		for _, stream := range []string{"true", "false"} {
			ask(stream, fail(strict.Failure{Status: 500})).wantError(t, 502, "upstream_error")
			if got := ask(stream, fail(strict.Failure{Status: 400})); got.status != 400 || gjson.Get(got.body, "error.type").Str != "invalid_request_error" {
				t.Errorf("got %d %s for a 400", got.status, got.body)
			}
			ask(stream, fail(strict.Failure{Cut: true})).wantError(t, 502, "upstream_error")
			// A provider that answers is not ejected.
			if got := ask(stream, strict.Say("a")); got.status != 200 {
				t.Errorf("got %d %s after the failures", got.status, got.body)
			}
		}
		ask("true", fail(strict.Failure{})).wantError(t, 502, "upstream_error")
		for name, f := range map[string]strict.Failure{"an error": {After: 2}, "a cut": {After: 2, Cut: true}} {
			got := ask("true", fail(f))
			events := got.events()
			if got.status != 200 || strings.Join(got.texts(), "") != "ab" || got.err == nil || strings.Contains(got.body, "[DONE]") ||
				!strings.Contains(events[len(events)-1], `"code":"broken_off"`) {
				t.Errorf("%s after two tokens: got %d %q, %v; want these, an error and a reset", name, got.status, got.body, got.err)
			}
		}
		s.settled()
	})
}

// TestReport8ProvidersThatAreFull says how long a provider is left alone after a 429: as
// long as it says in its own way, and a second if it says nothing.
func TestReport8ProvidersThatAreFull(t *testing.T) {
	eachProvider(t, func(t *testing.T, row providerRow, s *stack, p *strict.Provider) {
		script := strict.Script{Fail: &strict.Failure{Status: 429, RetryAfter: 2500 * time.Millisecond}}
		p.Next(script)
		got := s.post("/v1/completions", copilotBody(`"stream":true,`))
		got.wantError(t, 503, "no_capacity")
		if after := got.header.Get("Retry-After"); after != row.retryAfter {
			t.Errorf("Retry-After %q, want %q", after, row.retryAfter)
		}
		s.wantState("unit-1", "cooling")
		s.eventually("it is asked again", func() bool { return s.post("/v1/completions", copilotBody(`"stream":true,`)).status == 200 })
	})
}

// TestProviderWithAWrongKey is a unit that needs somebody; its 401 would have the
// client throw its own token away.
func TestProviderWithAWrongKey(t *testing.T) {
	for _, row := range providerRows {
		t.Run(row.name, func(t *testing.T) {
			p := row.provider(strict.Options{Key: "another-key", Model: "upstream-model"})
			s := start(t, setup{unit: p, config: row.setUp})
			s.post("/v1/completions", copilotBody(`"stream":true,`)).wantError(t, 502, "unit_misconfigured")
		})
	}
}

// TestOllamaWithoutInsert: Ollama blames the request for a model that has no place for
// a suffix, which is the unit's setup.
func TestOllamaWithoutInsert(t *testing.T) {
	for _, row := range providerRows {
		if row.unit.Provider != config.ProviderOllama || row.unit.FillInTheMiddle != nil {
			continue
		}
		p := row.provider(strict.Options{Key: unitKey, Model: "upstream-model", NoInsert: true})
		s := start(t, setup{unit: p, config: row.setUp})
		s.post("/v1/completions", copilotBody(`"suffix":"z",`)).wantError(t, 502, "unit_misconfigured")
		if got := s.post("/v1/completions", copilotBody("")); got.status != 502 && got.status != 200 {
			t.Errorf("%s without a suffix: %d %s", row.name, got.status, got.body)
		}
	}
}

// TestProvidersOnEveryPath asks by each path; the answer has the path's form, whatever
// the provider speaks.
func TestProvidersOnEveryPath(t *testing.T) {
	eachProvider(t, func(t *testing.T, row providerRow, s *stack, p *strict.Provider) {
		p.Next(strict.Say("a", "b"), strict.Say("a", "b"), strict.Say("a", "b"))
		if got := s.post("/v1/engines/copilot-codex/completions", copilotBody(`"stream":true,`)); strings.Join(got.texts(), "") != "ab" {
			t.Errorf("the path of Copilot: got %d %s", got.status, got.body)
		}
		got := s.post("/v1/fim/completions", `{"model":"ghost-code","prompt":"a","suffix":"z","random_seed":7,"max_tokens":9,"stream":true}`)
		text := ""
		for _, data := range got.events() {
			text += gjson.Get(data, "choices.0.delta.content").Str
		}
		if text != "ab" || !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
			t.Errorf("the path of Mistral: got %d %s", got.status, got.body)
		}
		got = s.post("/v1/fim/completions", `{"model":"ghost-code","prompt":"a","suffix":"z","random_seed":7,"max_tokens":9}`)
		if gjson.Get(got.body, "choices.0.message.content").Str != "ab" || gjson.Get(got.body, "object").Str != "chat.completion" {
			t.Errorf("the path of Mistral, unary: got %d %s", got.status, got.body)
		}
		for _, arrived := range p.Requests()[1:] {
			if arrived.HasSeed && arrived.Seed != 7 {
				t.Errorf("the seed arrived as %d", arrived.Seed)
			}
		}
	})
}

// TestProviderHeaders: nothing of the client's own headers reaches a provider.
func TestProviderHeaders(t *testing.T) {
	eachProvider(t, func(t *testing.T, row providerRow, s *stack, p *strict.Provider) {
		req := s.request(context.Background(), s.plainURL, "/v1/completions", copilotBody(`"stream":true,`))
		for _, name := range []string{"X-Conversation-Id", "Cookie", "Editor-Version", "VScode-MachineId", "Api-Key", "Openai-Organization", "X-Forwarded-For"} {
			req.Header.Set(name, "from-the-client")
		}
		if got := s.do(s.h2c(), req); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		for name, values := range p.Requests()[0].Header {
			if strings.Contains(strings.Join(values, " "), "from-the-client") {
				t.Errorf("%s went on", http.CanonicalHeaderKey(name))
			}
		}
	})
}

// TestVLLMIsSentEachIDOnce: clients that reconnect send an id again, which an engine
// may not bear while it has that one.
func TestVLLMIsSentEachIDOnce(t *testing.T) {
	s := start(t, setup{unit: http.HandlerFunc(theRequest), config: func(c *config.Config) {
		c.Units[0].Provider, c.Units[0].FillInTheMiddle = config.ProviderVLLM, &config.FillInTheMiddle{Template: "Qwen"}
	}})
	seen := map[string]bool{}
	for range 3 {
		req := s.request(t.Context(), s.plainURL, "/v1/completions", prompt)
		req.Header.Set("X-Request-Id", "again")
		if got := s.do(s.h2c(), req); got.status != http.StatusOK || got.header.Get("X-Request-Id") != "again" {
			t.Errorf("got %d %s, %v", got.status, got.body, got.header)
		}
		id := s.arrived.last(t).header.Get("X-Request-Id")
		if seen[id] || !strings.HasPrefix(id, "again-") {
			t.Errorf("the unit got the id %q, and before %v", id, seen)
		}
		seen[id] = true
	}
}
