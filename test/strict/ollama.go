package strict

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Ollama is Ollama's POST /api/generate and POST /v1/completions.
//
// Written from Ollama of August 2026: docs/api.md, docs/api/errors.mdx,
// docs/api/openai-compatibility.mdx, and, where they are silent, api/types.go,
// openai/openai.go, middleware/openai.go and GenerateHandler of server/routes.go.
// It has no credentials; Options.Key is for one that stands behind a gateway.
func Ollama(o Options) *Provider { return newProvider(o, ollama{}) }

type ollama struct{}

const generatePath = "/api/generate"

// generateFields are GenerateRequest. Go decodes null as absent.
func generateFields() []field {
	return allNullable([]field{
		text("model"), text("prompt"), text("suffix"), text("system"), text("template"), array("context", isInteger), boolean("stream"),
		boolean("raw"), anything("format"), anything("keep_alive"), array("images", isText), object("options", optionFields()...),
		anything("think"), boolean("truncate"), boolean("shift"), boolean("logprobs"), integer("top_logprobs").between(0, 20),
	})
}

// optionFields are Options and Runner: "stop" is an array, never a string.
func optionFields() []field {
	fields := []field{array("stop", isText), boolean("use_mmap")}
	for _, name := range []string{
		"num_keep", "seed", "num_predict", "top_k", "repeat_last_n", "num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "draft_num_predict",
	} {
		fields = append(fields, integer(name))
	}
	for _, name := range []string{
		"top_p", "min_p", "typical_p", "temperature", "repeat_penalty", "presence_penalty", "frequency_penalty",
	} {
		fields = append(fields, number(name))
	}
	return allNullable(fields)
}

// ollamaFields are CompletionRequest. What its documentation ticks off as not
// supported (n, best_of, echo, logit_bias, user) it skips.
func ollamaFields() []field {
	return allNullable([]field{
		text("model"), text("prompt"), number("frequency_penalty"), integer("max_tokens"), number("presence_penalty"), integer("seed"),
		texts("stop"), boolean("stream"), object("stream_options", boolean("include_usage")), number("temperature"), number("top_p"),
		text("suffix"), integer("logprobs"),
	})
}

func allNullable(fields []field) []field {
	for i := range fields {
		fields[i] = fields[i].orNull()
	}
	return fields
}

func (ollama) judge(in *inspection) *reply {
	got := in.got
	if !in.at(generatePath, completionsPath) {
		if got.Path == generatePath || got.Path == completionsPath {
			return &reply{http.StatusMethodNotAllowed, http.Header{"Content-Type": {"text/plain"}}, []byte("405 method not allowed")}
		}
		return &reply{http.StatusNotFound, http.Header{"Content-Type": {"text/plain"}}, []byte("404 page not found")}
	}
	if !in.bearer() {
		return &reply{http.StatusUnauthorized, http.Header{"Content-Type": {"text/plain"}}, []byte("unauthorized")}
	}
	in.json() // the server does not look
	got.N = 1 // it knows no other
	fields := ollamaFields()
	if got.Path == generatePath {
		fields = generateFields()
		got.readGenerate()
	}
	if problems := in.body(fields, true); len(problems) > 0 {
		return ollamaProblem(got, problems[0])
	}
	return in.ollamaRules()
}

// readGenerate reads what /api/generate has elsewhere. It streams unless told not to.
func (r *Request) readGenerate() {
	r.Stream = !r.Field("stream").Exists() || r.Field("stream").Type != gjson.False
	r.MaxTokens = max(int(r.Field("options.num_predict").Int()), 0)
	r.Stop = textsOf(r.Field("options.stop"))
	r.Seed, r.HasSeed = r.Field("options.seed").Int(), present(r.Field("options.seed"))
	r.Temperature = r.Field("options.temperature").Num
}

func (in *inspection) ollamaRules() *reply {
	got := in.got
	switch {
	case got.Model == "" || !in.model():
		return ollamaError(got, http.StatusNotFound, fmt.Sprintf("model '%s' not found", got.Model))
	case got.Field("raw").Bool() && (got.Field("system").Str != "" || got.Field("template").Str != "" || len(got.Field("context").Array()) > 0):
		in.violate("raw with system, template or context")
		return ollamaError(got, http.StatusBadRequest, "raw mode does not support template, system, or context")
	case got.Suffix != "" && in.options.NoInsert:
		in.violate("suffix to a model that cannot insert")
		return ollamaError(got, http.StatusBadRequest, fmt.Sprintf("registry.ollama.ai/library/%s does not support insert", got.Model))
	}
	// What follows is served, and not as it was meant.
	if got.Field("raw").Bool() && got.Suffix != "" {
		in.violate("suffix with raw: the template is not applied, so the model does not see it")
	}
	if len(got.Prompts) == 0 || got.Prompts[0] == "" {
		in.violate("an empty prompt only loads the model: there will be no text")
	}
	return nil
}

// ollamaProblem is what Go's decoder says. Options are decoded later, by the
// scheduler, which answers 500.
func ollamaProblem(got *Request, p problem) *reply {
	status := http.StatusBadRequest
	message := fmt.Sprintf("json: cannot unmarshal %s into Go struct field GenerateRequest.%s of type %s", kindOf(p.value), p.name, p.field.wanted)
	switch {
	case p.trouble == notAnObject && len(got.Body) == 0:
		message = "missing request body"
	case p.trouble == notAnObject:
		message = "invalid character 'x' looking for beginning of value"
	case p.trouble == outOfRange:
		message = fmt.Sprintf("%s must be between %g and %g", p.name, p.field.low, p.field.high)
	case strings.HasPrefix(p.name, "options."):
		status = http.StatusInternalServerError
		message = fmt.Sprintf("option %q must be of type %s", strings.TrimPrefix(p.name, "options."), strings.TrimPrefix(strings.TrimPrefix(p.field.wanted, "an "), "a "))
	}
	return ollamaError(got, status, message)
}

// ollamaError has the form of the path.
func ollamaError(got *Request, status int, message string) *reply {
	if got.Path == generatePath {
		return refuse(status, map[string]string{"error": message})
	}
	kind := "api_error"
	switch status {
	case http.StatusBadRequest:
		kind = "invalid_request_error"
	case http.StatusNotFound:
		kind = "not_found_error"
	}
	return refuse(status, map[string]any{"error": openAIErrorBody{Message: message, Type: kind}})
}

// failure: 503 is a full queue. A model on this machine has no limit, so a 429 is
// an ingress's.
func (ollama) failure(f Failure, got *Request) *reply {
	switch f.Status {
	case http.StatusTooManyRequests:
		return ingress(f)
	case http.StatusServiceUnavailable:
		return ollamaError(got, f.Status, f.message("server busy, please try again.  maximum pending requests exceeded"))
	default:
		return ollamaError(got, f.Status, f.message("an error was encountered while running the model"))
	}
}

func (ollama) answer(x *exchange) answer {
	if x.got.Prompts == nil || x.got.Prompts[0] == "" {
		x.pieces, x.reasons = [][]string{nil}, []string{"load"}
		x.streams = x.streams && x.got.Path != generatePath // one object, whatever was asked
	}
	if x.got.Path == generatePath {
		return &generateAnswer{x: x}
	}
	return &ollamaAnswer{x: x}
}

// generateAnswer is newline-delimited JSON.
type generateAnswer struct{ x *exchange }

func (a *generateAnswer) header() http.Header {
	return http.Header{"Content-Type": {"application/x-ndjson"}}
}

// early: the first result decides on the status.
func (a *generateAnswer) early() bool  { return false }
func (a *generateAnswer) begin() error { return nil }
func (a *generateAnswer) alive() error { return nil }

type generated struct {
	Model      string `json:"model"`
	CreatedAt  string `json:"created_at"`
	Response   string `json:"response"`
	Done       bool   `json:"done"`
	DoneReason string `json:"done_reason,omitempty"`
	Context    []int  `json:"context,omitempty"`

	Total         int64 `json:"total_duration,omitempty"` // nanoseconds
	Load          int64 `json:"load_duration,omitempty"`
	PromptCount   int   `json:"prompt_eval_count,omitempty"`
	PromptElapsed int64 `json:"prompt_eval_duration,omitempty"`
	Count         int   `json:"eval_count,omitempty"`
	Elapsed       int64 `json:"eval_duration,omitempty"`
}

func (a *generateAnswer) line(g generated) error {
	return a.x.write(append(marshal(g), '\n'))
}

func (a *generateAnswer) now(text string) generated {
	return generated{Model: a.x.got.Model, CreatedAt: time.Now().UTC().Format(time.RFC3339Nano), Response: text}
}

func (a *generateAnswer) piece(_ int, text string) error { return a.line(a.now(text)) }

func (a *generateAnswer) last(text, reason string) generated {
	u, g := a.x.usage(), a.now(text)
	g.Done, g.DoneReason = true, reason
	if reason == "load" {
		return g
	}
	if !a.x.got.Field("raw").Bool() {
		g.Context = []int{1, 2, 3}
	}
	g.Total, g.Load, g.PromptElapsed, g.Elapsed = 10706818083, 6338219291, 130079000, 4232710000
	g.PromptCount, g.Count = u.Prompt, u.Completion
	return g
}

func (a *generateAnswer) finish(_ int, reason string) error { return a.line(a.last("", reason)) }
func (a *generateAnswer) end() error                        { return nil }
func (a *generateAnswer) whole() any                        { return a.last(a.x.said(0), a.x.reasons[0]) }

func (a *generateAnswer) fail(f Failure) error {
	return a.x.write(append(marshal(map[string]string{"error": f.message("an error was encountered while running the model")}), '\n'))
}

// ollamaAnswer is made from the other's lines by a middleware, which knows nothing
// of errors: one becomes an event without text.
type ollamaAnswer struct{ x *exchange }

func (a *ollamaAnswer) header() http.Header {
	return http.Header{"Content-Type": {"text/event-stream"}}
}

func (a *ollamaAnswer) early() bool  { return false }
func (a *ollamaAnswer) begin() error { return nil }
func (a *ollamaAnswer) alive() error { return nil }

type ollamaChunk struct {
	ID                string      `json:"id"`
	Object            string      `json:"object"`
	Created           int64       `json:"created"`
	Choices           []any       `json:"choices"`
	Model             string      `json:"model"`
	SystemFingerprint string      `json:"system_fingerprint"`
	Usage             *tokenUsage `json:"usage,omitempty"`
}

type ollamaChoice struct {
	Text         string  `json:"text"`
	Index        int     `json:"index"`
	FinishReason *string `json:"finish_reason"`
}

// chunk: with include_usage every event has a usage, of zeros but in the last.
func (a *ollamaAnswer) chunk(model string, choices ...any) ollamaChunk {
	c := ollamaChunk{"cmpl-442", "text_completion", time.Now().Unix(), choices, model, "fp_ollama", nil}
	if a.x.got.Usage {
		c.Usage = &tokenUsage{}
	}
	return c
}

func (a *ollamaAnswer) piece(i int, text string) error {
	return a.x.data(a.chunk(a.x.got.Model, ollamaChoice{Text: text, Index: i}))
}

func (a *ollamaAnswer) finish(i int, reason string) error {
	return a.x.data(a.chunk(a.x.got.Model, ollamaChoice{Index: i, FinishReason: &reason}))
}

func (a *ollamaAnswer) end() error {
	if a.x.got.Usage {
		c := a.chunk(a.x.got.Model)
		c.Choices, c.Usage = []any{}, newUsage(a.x.usage())
		if err := a.x.data(c); err != nil {
			return err
		}
	}
	return a.x.done()
}

// fail sends an event without text, reason and model, and no [DONE].
func (a *ollamaAnswer) fail(Failure) error { return a.x.data(a.chunk("", ollamaChoice{})) }

func (a *ollamaAnswer) whole() any {
	c := a.chunk(a.x.got.Model, ollamaChoice{Text: a.x.said(0), FinishReason: &a.x.reasons[0]})
	c.Usage = newUsage(a.x.usage())
	return c
}
