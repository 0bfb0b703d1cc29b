package strict

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// LlamaCpp is llama.cpp's server: POST /infill and POST /v1/completions.
//
// Written from llama.cpp's tools/server of 2025 and 2026: README, the request
// schema (server-schema), the handlers post_infill and post_completions_oai, and
// the results of server-task. Builds until late 2025 refuse suffix, best_of and
// echo on /v1/completions, with status 500; later ones skip them without a word, so
// that the text behind the cursor is lost. This one refuses. /infill without
// input_prefix or input_suffix is a 400 by the README's contract, whatever came of
// it in a build.
func LlamaCpp(o Options) *Provider {
	o.Slots = cmp.Or(o.Slots, 4)
	return newProvider(o, llamaCpp{})
}

type llamaCpp struct{}

const (
	infillPath      = "/infill"
	completionsPath = "/v1/completions"
)

// llamaFields are the schema that both paths share. null is the same as absent.
// Numbers without a bound here are brought into their range by the server.
func llamaFields(slots int) []field {
	fields := []field{
		text("model"), boolean("stream"), object("stream_options", boolean("include_usage")), boolean("cache_prompt"),
		boolean("return_tokens"), boolean("return_progress"), integer("sse_ping_interval").from(-1), boolean("timings_per_token"),
		integer("n_predict").from(-1), integer("max_tokens").from(-1), integer("max_completion_tokens").from(-1),
		integer("n_indent").from(0), integer("n_keep").from(-1), integer("n_discard").from(0),
		integer("n").between(1, float64(slots)), integer("n_cmpl").between(1, float64(slots)), integer("n_cache_reuse").from(0),
		integer("t_max_predict_ms").from(-1), array("response_fields", isText), integer("id_slot").from(-1), boolean("verbose"),
		integer("seed"), texts("stop"), anything("logit_bias"), integer("n_probs"), integer("logprobs"), integer("min_keep").from(0),
		boolean("ignore_eos"), boolean("post_sampling_probs"), anything("samplers"), array("lora", gjson.Result.IsObject),
		anything("json_schema"), text("grammar"), array("dry_sequence_breakers", isText), integer("dry_allowed_length").from(0),
		integer("dry_penalty_last_n").from(0), integer("repeat_last_n").from(0), integer("top_k"), integer("mirostat"),
		boolean("backend_sampling"), boolean("echo"),
	}
	for _, name := range []string{
		"temperature", "top_p", "min_p", "top_n_sigma", "xtc_probability", "xtc_threshold", "typical_p", "dynatemp_range", "dynatemp_exponent",
		"repeat_penalty", "frequency_penalty", "presence_penalty", "dry_multiplier", "dry_base", "mirostat_tau", "mirostat_eta",
	} {
		fields = append(fields, number(name))
	}
	for i := range fields {
		fields[i] = fields[i].orNull()
	}
	return fields
}

func infillFields(slots int) []field {
	return append(llamaFields(slots), text("input_prefix").required(), text("input_suffix").required(), text("prompt"), array("input_extra", isExtra))
}

// isExtra is a part of another file: a text and, if it likes, its file's name.
func isExtra(v gjson.Result) bool {
	name := v.Get("filename")
	return v.IsObject() && isText(v.Get("text")) && (!name.Exists() || isText(name))
}

func (llamaCpp) judge(in *inspection) *reply {
	got := in.got
	switch {
	case !in.at(infillPath, completionsPath):
		return refuse(http.StatusNotFound, map[string]any{"error": map[string]any{"message": "File Not Found", "type": "not_found_error", "code": 404}})
	case !in.bearer():
		return refuse(http.StatusUnauthorized, map[string]any{"error": map[string]any{"message": "Invalid API Key", "type": "authentication_error", "code": 401}})
	}
	in.json() // the server does not look
	got.MaxTokens = int(cmp.Or(got.Field("n_predict").Int(), got.Field("max_completion_tokens").Int(), got.Field("max_tokens").Int()))
	got.N = max(int(cmp.Or(got.Field("n_cmpl").Int(), got.Field("n").Int())), 1)
	fields := append(llamaFields(in.options.Slots), prompts("prompt").required(), anything("best_of"), anything("suffix"))
	if got.Path == infillPath {
		if in.options.NoInsert {
			in.violate("infill from a model that was not taught it")
			return llamaError(http.StatusNotImplemented, "not_supported_error", "Infill is not supported by this model: prefix token is missing. suffix token is missing. middle token is missing. ")
		}
		fields = infillFields(in.options.Slots)
		got.Prompts = []string{got.Field("input_prefix").Str + got.Field("prompt").Str}
		got.Suffix, got.HasSuffix = got.Field("input_suffix").Str, present(got.Field("input_suffix"))
	}
	if problems := in.body(fields, true); len(problems) > 0 {
		return llamaProblem(problems[0])
	}
	if got.Path == completionsPath {
		return in.llamaUnsupported()
	}
	return nil
}

// llamaUnsupported refuses what OpenAI has and llama.cpp has not, even if it is null.
func (in *inspection) llamaUnsupported() *reply {
	got := in.got
	message := ""
	switch {
	case got.Field("echo").Bool():
		message = "Only no echo is supported"
	case got.Field("best_of").Exists():
		message = "Unsupported param: best_of"
	case got.Field("suffix").Exists():
		message = "Unsupported param: suffix"
	case len(got.Prompts) == 0:
		message = `"prompt" must not be empty`
	default:
		return nil
	}
	in.violate("%s", message)
	return llamaError(http.StatusInternalServerError, "server_error", message)
}

func llamaProblem(p problem) *reply {
	message := ""
	switch p.trouble {
	case notAnObject:
		message = "[json.exception.parse_error.101] parse error at line 1, column 1: syntax error while parsing value"
		return llamaError(http.StatusInternalServerError, "server_error", message)
	case missing:
		message = fmt.Sprintf(`"%s" is required`, p.name)
	case outOfRange:
		message = fmt.Sprintf("Field '%s': Value must be between %g <= value <= %g, but got %g", p.name, p.field.low, p.field.high, p.value.Num)
	default:
		message = fmt.Sprintf("Field '%s': [json.exception.type_error.302] type must be %s, but is %s", p.name, strings.TrimPrefix(p.field.wanted, "a "), kindOf(p.value))
	}
	return llamaError(http.StatusBadRequest, "invalid_request_error", message)
}

type llamaErrorBody struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
}

func llamaError(status int, kind, message string) *reply {
	return refuse(status, map[string]any{"error": llamaErrorBody{status, message, kind}})
}

// failure: the server has no limit of its own, so a 429 is an ingress's; a 503 is
// a model that is still being loaded.
func (llamaCpp) failure(f Failure, _ *Request) *reply {
	switch f.Status {
	case http.StatusTooManyRequests:
		return ingress(f)
	case http.StatusServiceUnavailable:
		return llamaError(f.Status, "unavailable_error", f.message("Loading model"))
	default:
		return llamaError(f.Status, "server_error", f.message("Compute error."))
	}
}

func (llamaCpp) answer(x *exchange) answer {
	if x.got.Path == infillPath {
		return &infillAnswer{llamaAnswer{x: x}}
	}
	return &llamaAnswer{x: x}
}

// llamaAnswer is the form of /v1/completions.
type llamaAnswer struct{ x *exchange }

func (a *llamaAnswer) header() http.Header {
	return http.Header{"Content-Type": {"text/event-stream"}, "Server": {"llama.cpp"}}
}

// early: the first result decides on the status.
func (a *llamaAnswer) early() bool  { return false }
func (a *llamaAnswer) begin() error { return nil }

// alive sends an empty comment, behind a status that then is out before the first
// result: builds with sse_ping_interval do so.
func (a *llamaAnswer) alive() error {
	if !a.x.streams {
		return nil
	}
	if err := a.x.begin(); err != nil {
		return err
	}
	return a.x.write([]byte(":\n\n"))
}

type llamaChunk struct {
	Choices           []any          `json:"choices"`
	Created           int64          `json:"created"`
	Model             string         `json:"model"`
	SystemFingerprint string         `json:"system_fingerprint"`
	Object            string         `json:"object"`
	Usage             *llamaUsage    `json:"usage,omitempty"`
	ID                string         `json:"id"`
	Timings           map[string]any `json:"timings,omitempty"`
}

type llamaUsage struct {
	Completion int            `json:"completion_tokens"`
	Prompt     int            `json:"prompt_tokens"`
	Total      int            `json:"total_tokens"`
	Details    map[string]int `json:"prompt_tokens_details"`
}

func (a *llamaAnswer) chunk(choices ...any) llamaChunk {
	return llamaChunk{Choices: choices, Created: time.Now().Unix(), Model: a.x.options.Model, SystemFingerprint: "b9310-4d3daf80", Object: "text_completion", ID: "chatcmpl-T9zQ3mYp0bXk5VhRw8LcNfJ2sGdAeU7i"}
}

func (a *llamaAnswer) piece(i int, text string) error {
	return a.x.data(a.chunk(choice{Text: text, Index: i}))
}

// finish always has the usage, of this completion, beside a choice.
func (a *llamaAnswer) finish(i int, reason string) error {
	c := a.chunk(choice{Index: i, FinishReason: &reason})
	c.Usage, c.Timings = a.usage(len(a.x.pieces[i])), a.timings(i)
	return a.x.data(c)
}

func (a *llamaAnswer) usage(completion int) *llamaUsage {
	u := a.x.usage()
	if a.x.script.Usage != nil {
		completion = u.Completion
	}
	return &llamaUsage{completion, u.Prompt, completion + u.Prompt, map[string]int{"cached_tokens": 0}}
}

func (a *llamaAnswer) timings(i int) map[string]any {
	return map[string]any{
		"cache_n": 0, "prompt_n": a.x.usage().Prompt, "prompt_ms": 8.5, "prompt_per_token_ms": 0.5, "prompt_per_second": 2000.0,
		"predicted_n": len(a.x.pieces[i]), "predicted_ms": 12.25, "predicted_per_token_ms": 4.0, "predicted_per_second": 250.0,
	}
}

func (a *llamaAnswer) end() error { return a.x.done() }

// fail ends the stream without [DONE].
func (a *llamaAnswer) fail(f Failure) error {
	return a.x.data(map[string]any{"error": llamaErrorBody{500, f.message("Compute error."), "server_error"}})
}

// whole puts the choices of all results into the first: its usage is of one.
func (a *llamaAnswer) whole() any {
	c := a.chunk()
	for i, reason := range a.x.reasons {
		c.Choices = append(c.Choices, choice{Text: a.x.said(i), Index: i, FinishReason: &reason})
	}
	c.Usage, c.Timings = a.usage(len(a.x.pieces[0])), a.timings(0)
	return c
}

// infillAnswer is the server's own form.
type infillAnswer struct{ llamaAnswer }

type infillPiece struct {
	Index     int    `json:"index"`
	Content   string `json:"content"`
	Tokens    []int  `json:"tokens"`
	Stop      bool   `json:"stop"`
	Slot      int    `json:"id_slot"`
	Predicted int    `json:"tokens_predicted"`
	Evaluated int    `json:"tokens_evaluated"`
}

type infillResult struct {
	infillPiece
	Model    string         `json:"model"`
	Settings map[string]any `json:"generation_settings"`
	Prompt   string         `json:"prompt"`
	NewLine  bool           `json:"has_new_line"`
	Cut      bool           `json:"truncated"`
	StopType string         `json:"stop_type"`
	StopWord string         `json:"stopping_word"`
	Cached   int            `json:"tokens_cached"`
	Timings  map[string]any `json:"timings"`
}

func (a *infillAnswer) part(i int, text string, predicted int) infillPiece {
	return infillPiece{i, text, []int{}, false, i, predicted, a.x.usage().Prompt}
}

func (a *infillAnswer) piece(i int, text string) error {
	return a.x.data(a.part(i, text, a.x.sent+1))
}

// result is the last of a completion: "stop" is "eos", or "word" if a stopping
// word is asked for, "length" is "limit".
func (a *infillAnswer) result(i int, text, reason string) infillResult {
	got, u := a.x.got, a.x.usage()
	predicted := len(a.x.pieces[i])
	if a.x.script.Usage != nil {
		predicted = u.Completion
	}
	r := infillResult{
		infillPiece: a.part(i, text, predicted), Model: a.x.options.Model, StopType: "eos",
		Prompt:  "<|fim_prefix|>" + got.Prompts[0] + "<|fim_suffix|>" + got.Suffix + "<|fim_middle|>",
		NewLine: strings.Contains(a.x.said(i), "\n"), Cached: u.Prompt + predicted, Timings: a.timings(i),
		Settings: map[string]any{
			"seed": got.Seed, "temperature": got.Temperature, "n_predict": got.MaxTokens, "max_tokens": got.MaxTokens, "stop": got.Stop,
			"stream": got.Stream, "samplers": []string{"penalties", "top_k", "top_p", "min_p", "temperature"}, "lora": []any{},
		},
	}
	r.Stop = true
	switch {
	case reason == "length":
		r.StopType = "limit"
	case len(got.Stop) > 0:
		r.StopType, r.StopWord = "word", got.Stop[0]
	}
	return r
}

func (a *infillAnswer) finish(i int, reason string) error { return a.x.data(a.result(i, "", reason)) }

// end sends nothing: there is no [DONE].
func (a *infillAnswer) end() error { return nil }

// whole is one result, or an array of them.
func (a *infillAnswer) whole() any {
	var all []infillResult
	for i, reason := range a.x.reasons {
		all = append(all, a.result(i, a.x.said(i), reason))
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}
