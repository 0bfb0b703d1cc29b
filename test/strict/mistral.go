package strict

import (
	"fmt"
	"net/http"
	"time"
)

// Mistral is Mistral's POST /v1/fim/completions.
//
// Written from Mistral's API reference as its Python client 2.5.1 has it
// (FIMCompletionRequest, FIMCompletionResponse, CompletionChunk, DeltaMessage,
// HTTPValidationError). Errors and headers are those that users quote: of an
// unknown field in eca's issue 231, of limits in client-ts' issue 169. Whether a 429
// has Retry-After differs between reports, and the reference is silent: see
// [Failure.RetryAfter].
func Mistral(o Options) *Provider { return newProvider(o, mistral{}) }

type mistral struct{}

func mistralFields() []field {
	return []field{
		text("model").required(),
		text("prompt").required(),
		number("temperature").between(0, 1.5).orNull(),
		number("top_p").between(0, 1).orNull(),
		integer("max_tokens").from(0).orNull(),
		integer("min_tokens").from(0).orNull(),
		boolean("stream"),
		texts("stop").orNull(),
		integer("random_seed").from(0).orNull(),
		object("metadata").orNull(),
		text("suffix").orNull(),
		text("prompt_cache_key").orNull(),
	}
}

func (mistral) judge(in *inspection) *reply {
	got := in.got
	got.N = 1 // it knows no other
	got.Seed, got.HasSeed = got.Field("random_seed").Int(), present(got.Field("random_seed"))
	switch {
	case !in.at("/v1/fim/completions") && got.Path == "/v1/fim/completions":
		return refuse(http.StatusMethodNotAllowed, map[string]string{"detail": "Method Not Allowed"})
	case got.Path != "/v1/fim/completions":
		return refuse(http.StatusNotFound, map[string]string{"message": "no Route matched with those values"})
	case !in.bearer():
		return refuse(http.StatusUnauthorized, map[string]string{"detail": "Unauthorized"})
	}
	in.json()
	if problems := in.body(mistralFields(), false); len(problems) > 0 {
		return mistralInvalid(problems)
	}
	if !in.model() {
		return mistralError(http.StatusBadRequest, "invalid_model", "1500", fmt.Sprintf("Invalid model: %s", got.Model))
	}
	return nil
}

// mistralInvalid is the 422 of a body that does not fit, in which message is an
// object, not a text.
func mistralInvalid(problems []problem) *reply {
	var detail []any
	for _, p := range problems {
		one := map[string]any{"type": pydanticType(p), "loc": []any{"body", p.name}, "msg": pydanticMessage(p), "input": p.value.Value()}
		if p.trouble == notAnObject {
			one = map[string]any{"type": "json_invalid", "loc": []any{"body", 0}, "msg": "JSON decode error", "input": map[string]any{}}
		}
		detail = append(detail, one)
	}
	return refuse(http.StatusUnprocessableEntity, map[string]any{
		"object": "error", "message": map[string]any{"detail": detail}, "type": "invalid_request_error", "param": nil, "code": nil,
	})
}

func mistralError(status int, kind, code, message string) *reply {
	return refuse(status, map[string]any{
		"object": "error", "message": message, "type": kind, "param": nil, "code": code, "raw_status_code": status,
	})
}

func (mistral) failure(f Failure, _ *Request) *reply {
	if f.Status != http.StatusTooManyRequests {
		return mistralError(f.Status, "internal_server_error", "3700", f.message("Service unavailable."))
	}
	r := mistralError(f.Status, "rate_limited", "1300", f.message("Rate limit exceeded"))
	if !f.Bare {
		r.header.Set("X-Ratelimit-Limit-Req-Minute", "720")
		r.header.Set("X-Ratelimit-Remaining-Req-Minute", "0")
		if f.RetryAfter != 0 {
			r.header.Set("Retry-After", seconds(f.RetryAfter))
		}
	}
	return r
}

func (mistral) answer(x *exchange) answer { return &mistralAnswer{x} }

type mistralAnswer struct{ x *exchange }

func (a *mistralAnswer) header() http.Header {
	return http.Header{
		"Content-Type":                 {"text/event-stream; charset=utf-8"},
		"X-Ratelimit-Limit-Req-Minute": {"720"}, "X-Ratelimit-Remaining-Req-Minute": {"717"},
		"X-Ratelimit-Limit-Tokens-Minute": {"5000000"}, "X-Ratelimit-Remaining-Tokens-Minute": {"4999911"},
		"X-Ratelimit-Tokens-Query-Cost": {"52"},
	}
}

func (a *mistralAnswer) early() bool  { return true }
func (a *mistralAnswer) alive() error { return nil }

type mistralChunk struct {
	ID      string      `json:"id"`
	Object  string      `json:"object"`
	Created int64       `json:"created"`
	Model   string      `json:"model"`
	Choices []any       `json:"choices"`
	Usage   *tokenUsage `json:"usage,omitempty"`
}

type mistralDelta struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

type mistralChoice struct {
	Index        int          `json:"index"`
	Delta        mistralDelta `json:"delta"`
	FinishReason *string      `json:"finish_reason"`
}

func (a *mistralAnswer) chunk(object string, choices ...any) mistralChunk {
	return mistralChunk{"e5cc70bb28c444948073e77776eb30ef", object, time.Now().Unix(), a.x.options.Model, choices, nil}
}

func (a *mistralAnswer) send(c mistralChoice, usage *tokenUsage) error {
	chunk := a.chunk("chat.completion.chunk", c)
	chunk.Usage = usage
	return a.x.data(chunk)
}

// begin names the role, without text.
func (a *mistralAnswer) begin() error {
	return a.send(mistralChoice{Delta: mistralDelta{Role: "assistant"}}, nil)
}

func (a *mistralAnswer) piece(i int, text string) error {
	return a.send(mistralChoice{Index: i, Delta: mistralDelta{Content: text}}, nil)
}

// finish always has the usage.
func (a *mistralAnswer) finish(i int, reason string) error {
	return a.send(mistralChoice{Index: i, FinishReason: &reason}, newUsage(a.x.usage()))
}

func (a *mistralAnswer) end() error { return a.x.done() }

// fail ends with the reason "error", which the reference has, and with [DONE].
func (a *mistralAnswer) fail(Failure) error {
	reason := "error"
	if err := a.send(mistralChoice{FinishReason: &reason}, nil); err != nil {
		return err
	}
	return a.x.done()
}

func (a *mistralAnswer) whole() any {
	c := a.chunk("chat.completion", map[string]any{
		"index": 0, "finish_reason": a.x.reasons[0],
		"message": map[string]any{"role": "assistant", "content": a.x.said(0), "tool_calls": nil, "prefix": false},
	})
	c.Usage = newUsage(a.x.usage())
	return c
}
