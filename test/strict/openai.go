package strict

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// OpenAI is OpenAI's POST /v1/completions.
//
// Written from the OpenAI API specification 2.3.0 (August 2026): createCompletion,
// CreateCompletionRequest, CreateCompletionResponse, ChatCompletionStreamOptions,
// StopConfiguration, Error, and TooManyRequests, which has Retry-After "when the
// server has computed a retry delay"; from the guides "Rate limits" (headers) and
// "Error codes", and the SDKs, which look for retry-after-ms first. The texts of errors are those that users quote in openai-python's issues
// ("Unrecognized request argument supplied" in 619).
func OpenAI(o Options) *Provider { return newProvider(o, openAI{}) }

type openAI struct{}

// openAIFields are CreateCompletionRequest. Azure's createCompletionRequest has
// the same ranges.
func openAIFields() []field {
	return []field{
		text("model").required(),
		prompts("prompt").required().orNull(),
		integer("best_of").between(0, 20).orNull(),
		boolean("echo").orNull(),
		number("frequency_penalty").between(-2, 2).orNull(),
		biases("logit_bias", isBias).orNull(),
		integer("logprobs").between(0, 5).orNull(),
		integer("max_tokens").from(0).orNull(),
		integer("n").between(1, 128).orNull(),
		number("presence_penalty").between(-2, 2).orNull(),
		integer("seed").orNull(),
		texts("stop").between(1, 4).orNull(),
		boolean("stream").orNull(),
		object("stream_options", boolean("include_usage"), boolean("include_obfuscation")).orNull(),
		text("suffix").orNull(),
		number("temperature").between(0, 2).orNull(),
		number("top_p").between(0, 1).orNull(),
		text("user"),
	}
}

func (openAI) judge(in *inspection) *reply {
	got := in.got
	if !in.at("/v1/completions") {
		if got.Path == "/v1/completions" {
			return openAIError(http.StatusMethodNotAllowed, "invalid_request_error", "method_not_supported",
				fmt.Sprintf("Not allowed to %s on /v1/completions. (HINT: Perhaps you meant to use a different HTTP method?)", got.Method))
		}
		return openAIError(http.StatusNotFound, "invalid_request_error", "", fmt.Sprintf("Invalid URL (%s %s)", got.Method, got.Path))
	}
	if !in.bearer() {
		if got.Header.Get("Authorization") == "" {
			return openAIError(http.StatusUnauthorized, "invalid_request_error", "", "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).")
		}
		return openAIError(http.StatusUnauthorized, "invalid_request_error", "invalid_api_key", "Incorrect API key provided: ***. You can find your API key at https://platform.openai.com/account/api-keys.")
	}
	if refusal := in.openAIBody(openAIFields()); refusal != nil {
		return refusal
	}
	if !in.model() {
		return openAIError(http.StatusNotFound, "invalid_request_error", "model_not_found",
			fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", got.Model))
	}
	return nil
}

// openAIBody holds the body against the fields and their rules. OpenAI and Azure
// refuse fields that they do not know.
func (in *inspection) openAIBody(fields []field) *reply {
	if !in.json() {
		return openAIError(http.StatusBadRequest, "invalid_request_error", "unsupported_content_type",
			"Unsupported content type. This API method only accepts 'application/json' requests.")
	}
	problems := in.body(fields, false)
	var unrecognized []string
	for _, p := range problems {
		switch p.trouble {
		case notAnObject:
			return openAIError(http.StatusBadRequest, "invalid_request_error", "", "We could not parse the JSON body of your request. The OpenAI API expects a JSON payload.")
		case unknown:
			unrecognized = append(unrecognized, p.name)
		}
	}
	if len(unrecognized) > 0 {
		plural := ""
		if len(unrecognized) > 1 {
			plural = "s"
		}
		return openAIError(http.StatusBadRequest, "invalid_request_error", "",
			fmt.Sprintf("Unrecognized request argument%s supplied: %s", plural, strings.Join(unrecognized, ", ")))
	}
	if len(problems) > 0 {
		return openAIProblem(problems[0])
	}
	return in.openAIRules()
}

// openAIRules are those between fields.
func (in *inspection) openAIRules() *reply {
	got := in.got
	bestOf := got.Field("best_of").Int()
	rules := []struct {
		broken         bool
		param, message string
	}{
		{present(got.Field("stream_options")) && !got.Stream, "stream_options",
			"The 'stream_options' parameter is only allowed when 'stream' is enabled."},
		{present(got.Field("best_of")) && bestOf < int64(got.N), "best_of",
			fmt.Sprintf("You requested that the server return more choices than it will generate (HINT: best_of must be >= n, but got best_of=%d and n=%d).", bestOf, got.N)},
		{got.Stream && bestOf > 1 && bestOf > int64(got.N), "best_of",
			"Cannot stream results with best_of > n."},
		{present(got.Field("max_tokens")) && got.MaxTokens == 0 && !got.Field("echo").Bool(), "max_tokens",
			"You requested a length 0 completion, but you did not set the 'echo' parameter. That means that we will return no data to you."},
	}
	for _, rule := range rules {
		if rule.broken {
			in.violate("%s", rule.message)
			return openAIParamError(http.StatusBadRequest, rule.param, "", rule.message)
		}
	}
	return nil
}

func isBias(v gjson.Result) bool { return isInteger(v) && v.Num >= -100 && v.Num <= 100 }

func openAIProblem(p problem) *reply {
	switch p.trouble {
	case missing:
		if p.name == "model" {
			return openAIError(http.StatusBadRequest, "invalid_request_error", "", "you must provide a model parameter")
		}
		return openAIParamError(http.StatusBadRequest, p.name, "missing_required_parameter", fmt.Sprintf("Missing required parameter: '%s'.", p.name))
	case outOfRange:
		return openAIParamError(http.StatusBadRequest, p.name, "integer_out_of_range", fmt.Sprintf("Invalid '%s': expected a value from %g to %g, but got %s instead.", p.name, p.field.low, p.field.high, p.value.Raw))
	default:
		return openAIParamError(http.StatusBadRequest, p.name, "invalid_type", fmt.Sprintf("Invalid type for '%s': expected %s, but got a %s instead.", p.name, p.field.wanted, kindOf(p.value)))
	}
}

// openAIErrorBody is the schema Error: all four are always there.
type openAIErrorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func openAIError(status int, kind, code, message string) *reply {
	return refuse(status, map[string]any{"error": openAIErrorBody{message, kind, nil, orNull(code)}})
}

func openAIParamError(status int, param, code, message string) *reply {
	return refuse(status, map[string]any{"error": openAIErrorBody{message, "invalid_request_error", orNull(param), orNull(code)}})
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (openAI) failure(f Failure, _ *Request) *reply {
	if f.Status != http.StatusTooManyRequests {
		return openAIError(f.Status, "server_error", "", f.message("The server had an error while processing your request. Sorry about that!"))
	}
	r := openAIError(f.Status, "tokens", "rate_limit_exceeded",
		f.message("Rate limit reached for this model in organization org-strict on tokens per min (TPM): Limit 90000, Used 90000, Requested 100. Please try again in "+f.wait().String()+"."))
	if f.Bare {
		return r
	}
	for name, value := range map[string]string{
		"Retry-After": seconds(f.wait()), "Retry-After-Ms": strconv.FormatInt(f.wait().Milliseconds(), 10),
		"X-Ratelimit-Limit-Requests": "3500", "X-Ratelimit-Remaining-Requests": "3499", "X-Ratelimit-Reset-Requests": "17ms",
		"X-Ratelimit-Limit-Tokens": "90000", "X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": f.wait().String(),
	} {
		r.header.Set(name, value)
	}
	return r
}

// seconds rounds up: a client that waits for less is refused again.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// completion is CreateCompletionResponse, the same streamed or not.
type completion struct {
	ID                string `json:"id"`
	Object            string `json:"object"`
	Created           int64  `json:"created"`
	Model             string `json:"model"`
	Choices           []any  `json:"choices"`
	Usage             any    `json:"usage,omitempty"` // a *tokenUsage; nil in it is null
	SystemFingerprint string `json:"system_fingerprint,omitempty"`
	Obfuscation       string `json:"obfuscation,omitempty"`
}

type choice struct {
	Text         string  `json:"text"`
	Index        int     `json:"index"`
	Logprobs     any     `json:"logprobs"`
	FinishReason *string `json:"finish_reason"`
}

type tokenUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

func newUsage(u Usage) *tokenUsage {
	return &tokenUsage{u.Prompt, u.Completion, u.Prompt + u.Completion}
}

func (openAI) answer(x *exchange) answer { return &openAIAnswer{x} }

type openAIAnswer struct{ x *exchange }

func (a *openAIAnswer) header() http.Header {
	return http.Header{
		"Content-Type": {"text/event-stream; charset=utf-8"}, "Openai-Processing-Ms": {"12"}, "Openai-Version": {"2020-10-01"},
		"X-Request-Id":                   {"req_2f6c1b0f4d9b4b5d8a3e7c1d0e9f8a7b"},
		"X-Ratelimit-Limit-Requests":     {"3500"},
		"X-Ratelimit-Remaining-Requests": {"3499"},
		"X-Ratelimit-Reset-Requests":     {"17ms"},
		"X-Ratelimit-Limit-Tokens":       {"90000"},
		"X-Ratelimit-Remaining-Tokens":   {"89000"},
		"X-Ratelimit-Reset-Tokens":       {"666ms"},
	}
}

func (a *openAIAnswer) early() bool  { return true }
func (a *openAIAnswer) begin() error { return nil }
func (a *openAIAnswer) alive() error { return nil }

// chunk is an event. With include_usage, all but the last have a usage that is null.
func (a *openAIAnswer) chunk(choices ...any) completion {
	c := completion{
		ID: "cmpl-CZ3h8qfV0kM2sYt1uQeXlWi7Rb4Ad", Object: "text_completion", Created: time.Now().Unix(),
		Model: a.x.options.Model, Choices: choices, SystemFingerprint: "fp_44709d6fcb",
	}
	if a.x.got.Stream && a.x.got.Usage {
		c.Usage = (*tokenUsage)(nil)
	}
	return c
}

func (a *openAIAnswer) piece(i int, text string) error {
	c := a.chunk(choice{Text: text, Index: i})
	c.Obfuscation = a.padding()
	return a.x.data(c)
}

// padding is what hides the length of a token, unless it is not wanted.
func (a *openAIAnswer) padding() string {
	if wanted := a.x.got.Field("stream_options.include_obfuscation"); wanted.Exists() && !wanted.Bool() {
		return ""
	}
	return "hQ2wZ8"
}

func (a *openAIAnswer) finish(i int, reason string) error {
	return a.x.data(a.chunk(choice{Index: i, FinishReason: &reason}))
}

func (a *openAIAnswer) end() error {
	if a.x.got.Usage {
		c := a.chunk()
		c.Choices, c.Usage = []any{}, newUsage(a.x.usage())
		if err := a.x.data(c); err != nil {
			return err
		}
	}
	return a.x.done()
}

// fail ends the stream without [DONE], as openai-python expects it: an event
// with an error object is raised as APIError.
func (a *openAIAnswer) fail(f Failure) error {
	return a.x.data(map[string]any{"error": openAIErrorBody{
		Message: f.message("The server had an error while processing your request. Sorry about that!"), Type: "server_error"}})
}

func (a *openAIAnswer) whole() any {
	c := a.chunk()
	for i, reason := range a.x.reasons {
		c.Choices = append(c.Choices, choice{Text: a.x.said(i), Index: i, FinishReason: &reason})
	}
	c.Usage = newUsage(a.x.usage())
	return c
}
