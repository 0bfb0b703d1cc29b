package feature

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// speaker is how one kind of unit says a stream, and what a client gets for it.
type speaker struct {
	name string
	// unit is what of the config's unit differs from the stack's own, its path is
	// that of the URL.
	unit config.Unit
	path string
	// text and last are the data of an event with text, and of the one that ends
	// the answer. Text is as it stands in a JSON string.
	text func(text string) string
	last string
	// answer is the body of a unary answer.
	answer string
	// done is the data of the provider's mark of the end, if it has one.
	done string
	// lines says that data are lines, without the frame of server-sent events.
	lines bool
	// gets, getsLast and getsAnswer are what clients get for text, last and answer;
	// without them it is the same.
	gets       func(text string) string
	getsLast   string
	getsAnswer string
}

// event frames data as the unit does.
func (p speaker) event(data string) string {
	if p.lines {
		return data + "\n"
	}
	return event(data)
}

// end is the last event and the mark of the end.
func (p speaker) end() string {
	if p.done == "" {
		return p.event(p.last)
	}
	return p.event(p.last) + p.event(p.done)
}

// stream is a whole stream of these texts.
func (p speaker) stream(texts ...string) string {
	var out strings.Builder
	for _, text := range texts {
		out.WriteString(p.event(p.text(text)))
	}
	return out.String() + p.end()
}

// got is what the client gets for an event with this text.
func (p speaker) got(text string) string {
	if p.gets == nil {
		return event(p.text(text))
	}
	return event(p.gets(text))
}

// gotEnd is what the client gets for the end.
func (p speaker) gotEnd() string {
	if p.gets == nil {
		return event(p.last) + event("[DONE]")
	}
	return event(p.getsLast) + event("[DONE]")
}

func (p speaker) gotStream(texts ...string) string {
	var out strings.Builder
	for _, text := range texts {
		out.WriteString(p.got(text))
	}
	return out.String() + p.gotEnd()
}

// gotAnswer is what the client gets for a unary answer.
func (p speaker) gotAnswer() string {
	if p.gets == nil {
		return p.answer
	}
	return p.getsAnswer
}

// contentType is that of the unit's streams.
func (p speaker) contentType() string {
	if p.lines {
		return "application/x-ndjson"
	}
	return "text/event-stream"
}

// says is the unit that answers a stream with these bytes, each part flushed by
// itself.
func (p speaker) says(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", p.contentType())
		w.WriteHeader(http.StatusOK)
		for _, part := range parts {
			send(w, part)
		}
	}
}

// start runs a stack with this unit, over an HTTP version.
func (p speaker) start(t *testing.T, protocol string, unit http.Handler) *stack {
	t.Helper()
	return start(t, setup{unit: unit, config: func(c *config.Config) { p.configure(&c.Units[0], protocol) }})
}

func (p speaker) configure(u *config.Unit, protocol string) {
	u.Provider, u.API, u.FillInTheMiddle, u.Protocol = p.unit.Provider, p.unit.API, p.unit.FillInTheMiddle, protocol
	u.URL = strings.TrimSuffix(u.URL, "/v1/completions") + p.path
}

// readID is the request id of the tests that look at each byte: translated answers
// have it in theirs.
const readID = "read-1"

// ask sends a request and reads its answer, whose time stands still.
func (p speaker) ask(s *stack, client *http.Client, base, body string) reply {
	s.t.Helper()
	req := s.request(s.t.Context(), base, "/v1/completions", body)
	req.Header.Set("X-Request-Id", readID)
	got := s.do(client, req)
	got.body = created.ReplaceAllString(got.body, `"created":1`)
	return got
}

var created = regexp.MustCompile(`"created":\d+`)

// translated is the data of an event that the proxy has made itself.
func translated(text, reason, more string) string {
	return `{"id":"cmpl-` + readID + `","object":"text_completion","created":1,"model":"ghost-code","choices":[{"text":"` + text +
		`","index":0,"logprobs":null,"finish_reason":` + reason + `}]` + more + `}`
}

const (
	metered      = `"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}`
	openAIFilter = `{"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}`
)

// inOpenAIForm speaks as OpenAI does.
func inOpenAIForm(name, path string, unit config.Unit) speaker {
	return speaker{
		name: name, unit: unit, path: path, last: chunk(0, "", `"stop"`), answer: chunk(0, "a", `"stop"`), done: "[DONE]",
		text: func(text string) string { return strings.Replace(chunk(0, "TEXT", "null"), "TEXT", text, 1) },
	}
}

// speakers are all kinds of units.
var speakers = []speaker{
	inOpenAIForm("OpenAI", "/v1/completions", config.Unit{Provider: config.ProviderOpenAI}),
	inOpenAIForm("Azure", "/openai/deployments/code/completions?api-version=2024-10-21", config.Unit{Provider: config.ProviderAzureOpenAI}),
	inOpenAIForm("vLLM", "/v1/completions", config.Unit{Provider: config.ProviderVLLM, FillInTheMiddle: &config.FillInTheMiddle{Template: "Qwen"}}),
	inOpenAIForm("llama.cpp", "/v1/completions", config.Unit{
		Provider: config.ProviderLlamaCpp, API: config.APICompletions, FillInTheMiddle: &config.FillInTheMiddle{Template: "Qwen"}}),
	inOpenAIForm("Ollama", "/v1/completions", config.Unit{Provider: config.ProviderOllama, API: config.APICompletions}),
	inOpenAIForm("DeepSeek", "/beta/completions", config.Unit{Provider: config.ProviderDeepSeek}),
	{
		name: "llama.cpp infill", unit: config.Unit{Provider: config.ProviderLlamaCpp, API: config.APIInfill}, path: "/infill",
		text: func(text string) string {
			return `{"index":0,"content":"` + text + `","tokens":[1],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":11}`
		},
		last:       fmt.Sprintf(infillEnd, ""),
		answer:     fmt.Sprintf(infillEnd, "a"),
		gets:       func(text string) string { return translated(text, "null", "") },
		getsLast:   translated("", `"stop"`, ","+metered),
		getsAnswer: translated("a", `"stop"`, ","+metered),
	},
	{
		name: "Ollama generate", unit: config.Unit{Provider: config.ProviderOllama, API: config.APIGenerate}, path: "/api/generate", lines: true,
		text: func(text string) string {
			return `{"model":"m","created_at":"2026-11-30T10:00:00.1Z","response":"` + text + `","done":false}`
		},
		last:       fmt.Sprintf(generateEnd, ""),
		answer:     fmt.Sprintf(generateEnd, "a"),
		gets:       func(text string) string { return translated(text, "null", "") },
		getsLast:   translated("", `"stop"`, ","+metered),
		getsAnswer: translated("a", `"stop"`, ","+metered),
	},
	{
		name: "Mistral", unit: config.Unit{Provider: config.ProviderMistral}, path: "/v1/fim/completions", done: "[DONE]",
		text:       func(text string) string { return fmt.Sprintf(mistralChunk, `"role":"assistant",`, text, "null", "") },
		last:       fmt.Sprintf(mistralChunk, "", "", `"stop"`, ","+metered),
		gets:       func(text string) string { return fmt.Sprintf(mistralGets, text, "null", "") },
		getsLast:   fmt.Sprintf(mistralGets, "", `"stop"`, ","+metered),
		answer:     `{"id":"m-1","object":"chat.completion","created":1,"model":"codestral","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],` + metered + `}`,
		getsAnswer: fmt.Sprintf(mistralGets, "a", `"stop"`, ","+metered),
	},
}

const (
	infillEnd    = `{"index":0,"content":"%s","tokens":[],"stop":true,"model":"m","tokens_predicted":7,"tokens_evaluated":11,"stop_type":"eos","stopping_word":"","timings":{}}`
	generateEnd  = `{"model":"m","created_at":"2026-11-30T10:00:00.2Z","response":"%s","done":true,"done_reason":"stop","prompt_eval_count":11,"eval_count":7}`
	mistralChunk = `{"id":"m-1","object":"chat.completion.chunk","created":1,"model":"codestral","choices":[{"index":0,"delta":{%s"content":"%s"},"finish_reason":%s}]%s}`
	mistralGets  = `{"object":"text_completion","choices":[{"text":"%s","index":0,"finish_reason":%s}],"id":"m-1","created":1,"model":"codestral"%s}`
)

// speakerNamed is one of speakers.
func speakerNamed(name string) speaker {
	for _, p := range speakers {
		if p.name == name {
			return p
		}
	}
	panic("nobody is called " + name)
}

// forms are a speaker for each form that a stream has. In OpenAI's, the providers
// differ only in what they say.
var forms = []speaker{speakerNamed("OpenAI"), speakerNamed("llama.cpp infill"), speakerNamed("Ollama generate"), speakerNamed("Mistral")}

// each runs a test with each of these units over HTTP versions, in a stack whose
// unit can be changed.
func each(t *testing.T, units []speaker, protocols []string, test func(t *testing.T, p speaker, s *stack, unit *switched)) {
	for _, p := range units {
		for _, protocol := range protocols {
			t.Run(p.name+" over "+protocol, func(t *testing.T) {
				unit := &switched{}
				test(t, p, p.start(t, protocol, unit), unit)
			})
		}
	}
}

var (
	overBoth = []string{config.ProtocolH2C, config.ProtocolHTTP1}
	overOne  = []string{config.ProtocolH2C}
)
