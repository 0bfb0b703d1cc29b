package strict

import (
	"fmt"
	"net/http"
	"time"
)

// VLLM is vLLM's OpenAI-compatible POST /v1/completions.
//
// Written from vLLM's server of 2026: the request and response models and the
// stream of entrypoints/openai/completion, the renderer that refuses a suffix,
// the checks of SamplingParams, and the middleware that asks for --api-key.
// Pydantic's lax mode, which takes "16" for 16, is not followed.
func VLLM(o Options) *Provider { return newProvider(o, vllm{}) }

type vllm struct{}

// vllmFields are CompletionRequest. Only fields with a None in their type may be null.
func vllmFields() []field {
	return []field{
		text("model").orNull(),
		prompts("prompt").orNull(),
		boolean("echo").orNull(),
		number("frequency_penalty").between(-2, 2).orNull(),
		biases("logit_bias", isNumber).orNull(),
		integer("logprobs").from(-1).orNull(),
		integer("max_tokens").from(0).orNull(),
		integer("n").from(1),
		number("presence_penalty").between(-2, 2).orNull(),
		integer("seed").orNull(),
		texts("stop").orNull(),
		boolean("stream").orNull(),
		object("stream_options", boolean("include_usage").orNull(), boolean("continuous_usage_stats").orNull()).orNull(),
		text("suffix").orNull(),
		number("temperature").from(0).orNull(),
		number("top_p").between(0, 1).orNull(),
		text("user").orNull(),
		boolean("use_beam_search"), integer("top_k").from(-1).orNull(), number("min_p").between(0, 1).orNull(),
		number("repetition_penalty").from(0).orNull(), number("length_penalty"), array("stop_token_ids", isInteger).orNull(),
		boolean("include_stop_str_in_output"), boolean("ignore_eos"), integer("min_tokens").from(0), boolean("skip_special_tokens"),
		boolean("spaces_between_special_tokens"), integer("truncate_prompt_tokens").from(-1).orNull(), text("truncation_side").orNull(),
		array("allowed_token_ids", isInteger).orNull(), integer("prompt_logprobs").from(-1).orNull(), array("bad_words", isText),
		boolean("add_special_tokens"), object("response_format").orNull(), object("structured_outputs").orNull(),
		integer("priority"), text("request_id"), text("session_id").orNull(), boolean("return_tokens_as_token_ids").orNull(),
		boolean("return_token_ids").orNull(), text("cache_salt").orNull(), object("kv_transfer_params").orNull(),
		object("vllm_xargs").orNull(), integer("stream_interval").from(1).orNull(),
	}
}

func (vllm) judge(in *inspection) *reply {
	got := in.got
	switch {
	case !in.at("/v1/completions") && got.Path == "/v1/completions":
		return vllmError(http.StatusMethodNotAllowed, "Method Not Allowed", "Method Not Allowed")
	case got.Path != "/v1/completions":
		return vllmError(http.StatusNotFound, "Not Found", "Not Found")
	case !in.bearer():
		return refuse(http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
	case !in.json():
		return vllmError(http.StatusBadRequest, "Bad Request", "Unsupported Media Type: Only 'application/json' is allowed")
	}
	if problems := in.body(vllmFields(), true); len(problems) > 0 {
		return vllmError(http.StatusBadRequest, "Bad Request", pydantic(problems[0]))
	}
	if got.Model != "" && !in.model() {
		return vllmError(http.StatusNotFound, "NotFoundError", fmt.Sprintf("The model `%s` does not exist.", got.Model))
	}
	return in.vllmRules()
}

// vllmRules are those between fields and on values. A suffix is refused whatever
// it says, even "".
func (in *inspection) vllmRules() *reply {
	got := in.got
	temperature := got.Field("temperature")
	maxTokens := got.Field("max_tokens")
	rules := []struct {
		broken  bool
		message string
	}{
		{got.HasSuffix, "suffix is not currently supported"},
		{present(got.Field("stream_options")) && len(got.Field("stream_options").Map()) > 0 && !got.Stream, "Stream options can only be defined when `stream=True`."},
		{!present(got.Field("prompt")) || got.Field("prompt").Raw == `""`, "Either prompt or prompt_embeds must be provided and non-empty."},
		{present(maxTokens) && got.MaxTokens < 1 && !got.Field("echo").Bool(), fmt.Sprintf("max_tokens must be at least 1, got %d.", got.MaxTokens)},
		// Greedy sampling starts below 1e-5, and has only one outcome.
		{present(temperature) && temperature.Num < 1e-5 && got.N > 1, fmt.Sprintf("n must be 1 when using greedy sampling, got %d.", got.N)},
		{present(got.Field("top_p")) && got.Field("top_p").Num == 0, "top_p must be in (0, 1], got 0.0."},
		{hasEmpty(got.Stop), "stop cannot contain an empty string."},
		{got.Stream && got.Field("use_beam_search").Bool(), "Streaming is not currently supported with beam search"},
	}
	for _, rule := range rules {
		if rule.broken {
			in.violate("%s", rule.message)
			return vllmError(http.StatusBadRequest, "BadRequestError", rule.message)
		}
	}
	return nil
}

func hasEmpty(texts []string) bool {
	for _, text := range texts {
		if text == "" {
			return true
		}
	}
	return false
}

// pydantic says a problem as a Python dictionary in a string.
func pydantic(p problem) string {
	if p.trouble == notAnObject {
		return "1 validation error:\n  {'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error', 'input': {}, 'ctx': {'error': 'Expecting value'}}"
	}
	return fmt.Sprintf("1 validation error:\n  {'type': '%s', 'loc': ('body', '%s'), 'msg': '%s', 'input': %s}", pydanticType(p), p.name, pydanticMessage(p), p.value.Raw)
}

func pydanticType(p problem) string {
	switch p.trouble {
	case missing:
		return "missing"
	case unknown:
		return "extra_forbidden"
	case outOfRange:
		if p.value.Num < p.field.low {
			return "greater_than_equal"
		}
		return "less_than_equal"
	}
	switch p.field.wanted {
	case "an integer":
		return "int_type"
	case "a number":
		return "float_type"
	case "a boolean":
		return "bool_type"
	case "an array", "an object":
		return "dict_type"
	default:
		return "string_type"
	}
}

func pydanticMessage(p problem) string {
	switch p.trouble {
	case missing:
		return "Field required"
	case unknown:
		return "Extra inputs are not permitted"
	case outOfRange:
		if p.value.Num < p.field.low {
			return fmt.Sprintf("Input should be greater than or equal to %g", p.field.low)
		}
		return fmt.Sprintf("Input should be less than or equal to %g", p.field.high)
	default:
		return "Input should be " + p.field.wanted
	}
}

// vllmErrorBody is ErrorInfo: code is the status, a number.
type vllmErrorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

func vllmError(status int, kind, message string) *reply {
	return refuse(status, map[string]any{"error": vllmErrorBody{message, kind, nil, status}})
}

// failure: vLLM has no limit of its own, so a 429 is an ingress's.
func (vllm) failure(f Failure, _ *Request) *reply {
	if f.Status == http.StatusTooManyRequests {
		return ingress(f)
	}
	return vllmError(f.Status, "InternalServerError", f.message("EngineCore encountered an issue. See stack trace (above) for the root cause."))
}

func (vllm) answer(x *exchange) answer { return &vllmAnswer{x} }

type vllmAnswer struct{ x *exchange }

func (a *vllmAnswer) header() http.Header {
	return http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}
}

func (a *vllmAnswer) early() bool  { return true }
func (a *vllmAnswer) begin() error { return nil }
func (a *vllmAnswer) alive() error { return nil }

// vllmChoice has null for what it has not, and no field for what was not asked for.
type vllmChoice struct {
	Index          int     `json:"index"`
	Text           string  `json:"text"`
	Logprobs       any     `json:"logprobs"`
	FinishReason   *string `json:"finish_reason"`
	StopReason     *string `json:"stop_reason"`
	PromptTokenIDs []int   `json:"prompt_token_ids"`
	TokenIDs       []int   `json:"token_ids"`
}

type vllmChunk struct {
	ID      string     `json:"id"`
	Object  string     `json:"object"`
	Created int64      `json:"created"`
	Model   string     `json:"model"`
	Choices []any      `json:"choices"`
	Usage   *vllmUsage `json:"usage,omitempty"`
}

type vllmUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Total      int `json:"total_tokens"`
	Completion int `json:"completion_tokens"`
}

func (a *vllmAnswer) chunk(choices ...any) vllmChunk {
	return vllmChunk{ID: "cmpl-7c2f5e0a9b1d4c3e", Object: "text_completion", Created: time.Now().Unix(), Model: a.x.options.Model, Choices: choices}
}

func (a *vllmAnswer) usage() *vllmUsage {
	u := a.x.usage()
	return &vllmUsage{u.Prompt, u.Prompt + u.Completion, u.Completion}
}

// atOnce says that the last piece of completion i has the reason with it: what
// ends at a limit has no token behind its last.
func (a *vllmAnswer) atOnce(i int) bool { return a.x.reasons[i] == "length" && len(a.x.pieces[i]) > 0 }

func (a *vllmAnswer) piece(i int, text string) error {
	one := vllmChoice{Index: i, Text: text}
	if a.atOnce(i) && a.x.sent+1 == len(a.x.pieces[i]) {
		one.FinishReason = &a.x.reasons[i]
	}
	c := a.chunk(one)
	if a.x.got.Field("stream_options.continuous_usage_stats").Bool() && a.x.got.Usage {
		c.Usage = a.usage()
	}
	return a.x.data(c)
}

func (a *vllmAnswer) finish(i int, reason string) error {
	if a.atOnce(i) {
		return nil
	}
	return a.x.data(a.chunk(vllmChoice{Index: i, FinishReason: &reason}))
}

func (a *vllmAnswer) end() error {
	if a.x.got.Usage {
		c := a.chunk()
		c.Choices, c.Usage = []any{}, a.usage()
		if err := a.x.data(c); err != nil {
			return err
		}
	}
	return a.x.done()
}

// fail sends [DONE] behind the error: a client that looks only for it takes a
// broken answer for a whole one.
func (a *vllmAnswer) fail(f Failure) error {
	if err := a.x.data(map[string]any{"error": vllmErrorBody{f.message("Internal server error"), "InternalServerError", nil, 500}}); err != nil {
		return err
	}
	return a.x.done()
}

func (a *vllmAnswer) whole() any {
	c := struct {
		vllmChunk
		ServiceTier       *string `json:"service_tier"`
		SystemFingerprint *string `json:"system_fingerprint"`
		KVTransferParams  any     `json:"kv_transfer_params"`
	}{vllmChunk: a.chunk()}
	for i, reason := range a.x.reasons {
		c.Choices = append(c.Choices, vllmChoice{Index: i, Text: a.x.said(i), FinishReason: &reason})
	}
	c.Usage = a.usage()
	return c
}
