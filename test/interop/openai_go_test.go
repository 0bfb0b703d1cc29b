package interop

import (
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// TestOpenAIGoSDK asks llama.cpp by OpenAI's SDK for Go, which test/feature has do more
// against our own model server: whole, streamed, and left in mid-stream.
func TestOpenAIGoSDK(t *testing.T) {
	e := startEngine(t, "-np", "1", "-c", "32768")
	s := start(t, setup{config: e.infill()})
	sdk := openai.NewClient(option.WithBaseURL(s.files.ProxyURL()+"/v1/"), option.WithAPIKey(s.token()), option.WithHTTPClient(s.http()))
	ask := func(maxTokens int64) openai.CompletionNewParams {
		return openai.CompletionNewParams{
			Model: "ghost-code", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(before)},
			Suffix: openai.String(behind), MaxTokens: openai.Int(maxTokens), Temperature: openai.Float(0),
		}
	}
	whole, err := sdk.Completions.New(t.Context(), ask(40))
	check(t, err)
	stream := sdk.Completions.NewStreaming(t.Context(), ask(40))
	defer stream.Close()
	var text strings.Builder
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text.WriteString(choice.Text)
		}
	}
	check(t, stream.Err())
	if text.Len() < 20 || len(whole.Choices) != 1 || whole.Choices[0].Text != text.String() || whole.Usage.CompletionTokens != 40 {
		t.Errorf("whole: got %+v; streamed: %q; want the same", whole, text.String())
	}

	left := sdk.Completions.NewStreaming(t.Context(), ask(endless))
	if !left.Next() {
		t.Fatalf("no first chunk: %v", left.Err())
	}
	check(t, left.Close())
	looking(t, quiet, "the slot is free", func() bool { return e.processing() == 0 })
	eventually(t, "the proxy counts a cancel", func() bool { return s.outcomes("cancelled") == 1 })
	if made := e.metric("tokens_predicted_total"); made >= endless/2 {
		t.Errorf("the engine made %v tokens", made)
	}
}
