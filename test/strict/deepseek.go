package strict

import (
	"fmt"
	"net/http"
	"time"
)

// DeepSeek is DeepSeek's POST /beta/completions.
//
// Written from the DeepSeek API documentation of 2026: "Create FIM Completion
// (Beta)", the guide "FIM Completion (Beta)" (4K tokens), "Error Codes" and "Rate
// Limit" (signs of life; no retry header). The texts of errors are those that users
// quote (DeepSeek-V3's issue 69, DeepSeek-R1's issue 82).
func DeepSeek(o Options) *Provider { return newProvider(o, deepSeek{}) }

type deepSeek struct{}

func deepSeekFields() []field {
	return []field{
		text("model").required(),
		text("prompt").required(),
		boolean("echo").orNull(),
		number("frequency_penalty").between(-2, 2).orNull(),
		integer("logprobs").between(0, 20).orNull(),
		integer("max_tokens").between(1, 4096).orNull(),
		number("presence_penalty").between(-2, 2).orNull(),
		texts("stop").between(0, 16).orNull(),
		boolean("stream").orNull(),
		object("stream_options", boolean("include_usage")).orNull(),
		text("suffix").orNull(),
		number("temperature").between(0, 2).orNull(),
		number("top_p").between(0, 1).orNull(),
	}
}

func (deepSeek) judge(in *inspection) *reply {
	got := in.got
	switch {
	case !in.at("/beta/completions"):
		if got.Path == "/completions" || got.Path == "/v1/completions" {
			return deepSeekInvalid(http.StatusBadRequest, `completions api is only available when using beta api (set base_url="https://api.deepseek.com/beta")`)
		}
		return &reply{status: http.StatusNotFound}
	case !in.bearer():
		if sent := got.Header.Get("Authorization"); len(sent) < 7 || sent[:7] != "Bearer " {
			return deepSeekError(http.StatusUnauthorized, "authentication_error", "Authentication Fails (auth header format should be Bearer sk-...)")
		}
		return deepSeekError(http.StatusUnauthorized, "authentication_error", "Authentication Fails, Your api key: ****rict is invalid")
	case !in.json():
		return deepSeekInvalid(http.StatusUnsupportedMediaType, "Expected request with `Content-Type: application/json`")
	}
	if problems := in.body(deepSeekFields(), true); len(problems) > 0 {
		return deepSeekProblem(problems[0])
	}
	switch {
	case got.N > 1:
		in.violate("n is %d; DeepSeek makes one completion", got.N)
		return deepSeekInvalid(http.StatusBadRequest, "Invalid n value (currently only n = 1 is supported)")
	case present(got.Field("stream_options")) && !got.Stream:
		in.violate("stream_options without stream")
		return deepSeekInvalid(http.StatusBadRequest, "stream_options should be set along with stream = true")
	case !in.model():
		return deepSeekInvalid(http.StatusBadRequest, "Model Not Exist")
	}
	return nil
}

func deepSeekProblem(p problem) *reply {
	if p.trouble == outOfRange {
		return deepSeekInvalid(http.StatusBadRequest, fmt.Sprintf("Invalid %s value, the valid range of %s is [%g, %g]", p.name, p.name, p.field.low, p.field.high))
	}
	why := "expected value at line 1 column 1"
	switch p.trouble {
	case missing:
		why = fmt.Sprintf("missing field `%s`", p.name)
	case wrongKind:
		why = fmt.Sprintf("%s: invalid type: %s, expected %s", p.name, kindOf(p.value), p.field.wanted)
	}
	return deepSeekInvalid(http.StatusUnprocessableEntity, "Failed to deserialize the JSON body into the target type: "+why)
}

func deepSeekInvalid(status int, message string) *reply {
	return deepSeekError(status, "invalid_request_error", message)
}

func deepSeekError(status int, kind, message string) *reply {
	code := "invalid_request_error"
	return refuse(status, map[string]any{"error": openAIErrorBody{message, kind, nil, &code}})
}

// failure: no header says when to come back. A 402 is an account without money.
func (deepSeek) failure(f Failure, _ *Request) *reply {
	switch f.Status {
	case http.StatusTooManyRequests:
		return deepSeekError(f.Status, "rate_limit_error", f.message("Too many requests. Your current concurrency is 501, which exceeds your concurrency limit of 500 based on your remaining balance. Please top up your balance to restore your concurrency."))
	case http.StatusPaymentRequired:
		return deepSeekError(f.Status, "unknown_error", f.message("Insufficient Balance"))
	}
	return deepSeekError(f.Status, "server_error", f.message("The server is overloaded, please retry your request after a brief wait."))
}

func (deepSeek) answer(x *exchange) answer { return &deepSeekAnswer{openAIAnswer{x}} }

type deepSeekAnswer struct{ openAIAnswer }

func (a *deepSeekAnswer) header() http.Header {
	return http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}, "X-Ds-Trace-Id": {"f4df5a993138deebb15c7be7adb7f727"}}
}

// alive sends a comment in a stream, and an empty line before an object.
func (a *deepSeekAnswer) alive() error {
	if a.x.got.Stream {
		if err := a.x.begin(); err != nil {
			return err
		}
		return a.x.write([]byte(": keep-alive\n\n"))
	}
	if !a.x.begun {
		header := a.header()
		header.Set("Content-Type", "application/json")
		if err := a.x.status(header); err != nil {
			return err
		}
	}
	return a.x.write([]byte("\n"))
}

type deepSeekUsage struct {
	tokenUsage
	CacheHit  int `json:"prompt_cache_hit_tokens"`
	CacheMiss int `json:"prompt_cache_miss_tokens"`
}

func (a *deepSeekAnswer) usage() deepSeekUsage {
	u := newUsage(a.x.usage())
	return deepSeekUsage{*u, 0, u.Prompt}
}

func (a *deepSeekAnswer) chunk(choices ...any) completion {
	c := a.openAIAnswer.chunk(choices...)
	c.ID, c.Created, c.SystemFingerprint = "2d6f1b7c-3f0e-4e0b-8a5c-9b1d2e3f4a5b", time.Now().Unix(), "fp_eaab8d114b_prod0820_fp8_kvcache"
	return c
}

func (a *deepSeekAnswer) piece(i int, text string) error {
	return a.x.data(a.chunk(choice{Text: text, Index: i}))
}

func (a *deepSeekAnswer) finish(i int, reason string) error {
	return a.x.data(a.chunk(choice{Index: i, FinishReason: &reason}))
}

func (a *deepSeekAnswer) end() error {
	if a.x.got.Usage {
		c := a.chunk()
		c.Choices, c.Usage = []any{}, a.usage()
		if err := a.x.data(c); err != nil {
			return err
		}
	}
	return a.x.done()
}

// fail ends with the reason that the reference has for it, and with [DONE].
func (a *deepSeekAnswer) fail(Failure) error {
	if err := a.finish(0, "insufficient_system_resource"); err != nil {
		return err
	}
	return a.x.done()
}

func (a *deepSeekAnswer) whole() any {
	c := a.chunk()
	for i, reason := range a.x.reasons {
		c.Choices = append(c.Choices, choice{Text: a.x.said(i), Index: i, FinishReason: &reason})
	}
	c.Usage = a.usage()
	return c
}
