package feature

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/modelserver"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/tidwall/gjson"
)

// sdk is the OpenAI SDK for Go, pointed at the proxy as a user would.
type sdk struct {
	openai.Client
	sent   atomic.Int32 // requests, retries included
	answer func(*http.Response)
}

func newSDK(s *stack, token string) *sdk {
	c := &sdk{}
	c.Client = openai.NewClient(
		option.WithBaseURL(s.tlsURL+"/v1/"),
		option.WithAPIKey(token),
		option.WithHTTPClient(s.h2()),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			c.sent.Add(1)
			resp, err := next(r)
			if err == nil && c.answer != nil {
				c.answer(resp)
			}
			return resp, err
		}),
	)
	return c
}

func sdkRequest(maxTokens int64) openai.CompletionNewParams {
	return openai.CompletionNewParams{
		Model:       "ghost-code",
		Prompt:      openai.CompletionNewParamsPromptUnion{OfString: openai.String("func (s *Server) Close() error {\n\t")},
		Suffix:      openai.String("\n}\n"),
		MaxTokens:   openai.Int(maxTokens),
		Temperature: openai.Float(0),
	}
}

func TestOpenAISDKStreamsWhatItGetsInOnePiece(t *testing.T) {
	s := start(t, setup{})
	c := newSDK(s, s.token())

	whole, err := c.Completions.New(t.Context(), sdkRequest(24))
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.Choices) != 1 || whole.Choices[0].Text == "" || whole.Choices[0].FinishReason == "" || whole.Usage.CompletionTokens == 0 {
		t.Fatalf("unary: got %+v; want one choice with text, a finish reason and usage", whole)
	}

	ask := sdkRequest(24)
	ask.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.Completions.NewStreaming(t.Context(), ask)
	defer stream.Close()
	var text strings.Builder
	var reason strings.Builder
	var tokens int64
	chunks := 0
	for stream.Next() {
		chunk := stream.Current()
		tokens += chunk.Usage.CompletionTokens
		for _, choice := range chunk.Choices {
			chunks++
			text.WriteString(choice.Text)
			reason.WriteString(string(choice.FinishReason))
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	want := whole.Choices[0]
	if text.String() != want.Text || reason.String() != string(want.FinishReason) || tokens != whole.Usage.CompletionTokens || chunks < 2 {
		t.Errorf("streamed %q (%s, %d tokens) in %d chunks; want %q (%s, %d tokens) in several",
			text.String(), reason.String(), tokens, chunks, want.Text, want.FinishReason, whole.Usage.CompletionTokens)
	}
	if got := gjson.Get(s.arrived.last(t).body, "suffix").String(); got != "\n}\n" {
		t.Errorf("suffix %q came to the unit, want the SDK's", got)
	}
	s.outcomes("ok", 2)
}

func TestOpenAISDKClosesAStream(t *testing.T) {
	s := start(t, setup{model: modelserver.Options{TokensPerSecond: 20}})
	c := newSDK(s, s.token())
	stream := c.Completions.NewStreaming(t.Context(), sdkRequest(2000))
	if !stream.Next() {
		t.Fatalf("no first chunk: %v", stream.Err())
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	s.eventually("the model server stopped mid-stream", func() bool {
		stats := s.model.Stats()
		return stats.CancelledDecode == 1 && stats.Inflight == 0 && stats.Saved > 0
	})
	s.outcomes("cancelled", 1)
}

func TestOpenAISDKCancelsBeforeTheFirstByte(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *sdk) error{
		"streaming": func(ctx context.Context, c *sdk) error {
			stream := c.Completions.NewStreaming(ctx, sdkRequest(8))
			defer stream.Close()
			stream.Next()
			return stream.Err()
		},
		"unary": func(ctx context.Context, c *sdk) error {
			_, err := c.Completions.New(ctx, sdkRequest(8))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, setup{model: modelserver.Options{FirstToken: time.Minute}})
			c := newSDK(s, s.token())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- ask(ctx, c) }()
			s.eventually("the model server works", func() bool { return s.model.Stats().Working == 1 })
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the cancel", err)
			}
			s.eventually("the model server stopped before the first token", func() bool {
				stats := s.model.Stats()
				return stats.CancelledPrefill == 1 && stats.Inflight == 0
			})
			s.outcomes("cancelled", 1)
		})
	}
}

func TestOpenAISDKSendsAFinalErrorOnce(t *testing.T) {
	s := start(t, setup{})
	for _, tc := range []struct {
		name, token string
		ask         openai.CompletionNewParams
		status      int
		code        string
		outcome     string
	}{
		{"a field of the wrong value", s.token(), sdkRequest(-1), http.StatusBadRequest, "invalid_request", "bad_request"},
		{"a token that is none", "sk-none", sdkRequest(8), http.StatusUnauthorized, "invalid_token", "denied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newSDK(s, tc.token)
			var told string
			c.answer = func(resp *http.Response) { told = resp.Header.Get("X-Should-Retry") }
			_, err := c.Completions.New(t.Context(), tc.ask)
			var refusal *openai.Error
			if !errors.As(err, &refusal) || refusal.StatusCode != tc.status || refusal.Code != tc.code || refusal.Message == "" {
				t.Fatalf("got %v; want status %d, code %s and a message", err, tc.status, tc.code)
			}
			if told != "false" || c.sent.Load() != 1 {
				t.Errorf("X-Should-Retry was %q and the SDK sent %d requests; want false and 1", told, c.sent.Load())
			}
			s.outcomes(tc.outcome, 1)
		})
	}
	if n := s.arrived.count(); n != 0 {
		t.Errorf("%d requests came to the unit, want none", n)
	}
}

func TestOpenAISDKComesBackWhereThereIsNoCapacity(t *testing.T) {
	s := start(t, setup{model: modelserver.Options{Fault: "status=503;retry-after=1"}})
	c := newSDK(s, s.token())
	var refusals []http.Header
	c.answer = func(resp *http.Response) {
		if resp.StatusCode == http.StatusServiceUnavailable {
			refusals = append(refusals, resp.Header)
			if err := s.model.SetFault(""); err != nil {
				t.Error(err)
			}
		}
	}
	got, err := c.Completions.New(t.Context(), sdkRequest(8))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Choices) != 1 || got.Choices[0].Text == "" {
		t.Errorf("got %+v, want a completion", got)
	}
	if len(refusals) != 1 || refusals[0].Get("Retry-After") != "1" || refusals[0].Get("X-Should-Retry") == "false" || c.sent.Load() != 2 {
		t.Errorf("%d refusals %v, %d requests; want one with Retry-After: 1, and a second request", len(refusals), refusals, c.sent.Load())
	}
	s.outcomes("no_capacity", 1)
	s.outcomes("ok", 1)
}
