package provider

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/sse"
	"github.com/tidwall/gjson"
)

// TestLlamaCppAsItSpeaks reads what a llama-server really said (0.7.0, build 11669).
func TestLlamaCppAsItSpeaks(t *testing.T) {
	for file, want := range map[string]struct {
		unit   config.Unit
		texts  []string
		finish string
		usage  Usage
	}{
		"completions-stream":          {llama, []string{"Flight.\n"}, "length", Usage{PromptTokens: 3, CompletionTokens: 3, OfChoice: true}},
		"completions-stop-stream":     {llama, []string{"Flight.\n\t"}, "stop", Usage{PromptTokens: 3, CompletionTokens: 5, OfChoice: true}},
		"completions-n2-stream":       {llama, []string{"Flight.\n", "Flight.\n"}, "length", Usage{PromptTokens: 3, CompletionTokens: 6, OfChoice: true}},
		"completions-list-stream":     {llama, []string{"Flight.", ".\n"}, "length", Usage{PromptTokens: 3, CompletionTokens: 4, OfChoice: true}},
		"completions-logprobs-stream": {llama, []string{"Flight"}, "length", Usage{PromptTokens: 3, CompletionTokens: 1, OfChoice: true}},
		"completions-unary":           {llama, []string{"Flight.\n\t"}, "length", Usage{PromptTokens: 3, CompletionTokens: 4}},
		"completions-n2-unary":        {llama, []string{"Flight.\n", "Flight.\n"}, "length", Usage{PromptTokens: 3, CompletionTokens: 3}}, // it counts the first only
		"infill-stream":               {infill, []string{"\t}\n\t"}, "length", Usage{PromptTokens: 30, CompletionTokens: 4, OfChoice: true}},
		"infill-stop-stream":          {infill, []string{"\t"}, "stop", Usage{PromptTokens: 17, CompletionTokens: 2, OfChoice: true}},
		"infill-unary":                {infill, []string{"\t}\n\t"}, "length", Usage{PromptTokens: 30, CompletionTokens: 4, OfChoice: true}},
		"infill-n2-unary":             {infill, []string{"\t}", "\t}"}, "length", Usage{PromptTokens: 17, CompletionTokens: 4, OfChoice: true}},
	} {
		t.Run(file, func(t *testing.T) {
			got, err := replay(t, want.unit, file)
			if err != nil || !slices.Equal(got.texts, want.texts) || got.finish != want.finish || got.usage == nil || *got.usage != want.usage {
				t.Errorf("got %q, %s, %+v, %v; want %q, %s, %+v", got.texts, got.finish, got.usage, err, want.texts, want.finish, want.usage)
			}
			if strings.Contains(got.all, "generation_settings") || strings.Contains(got.all, "fim_prefix") {
				t.Errorf("the prompt or the settings go on: %s", got.all)
			}
		})
	}
	for _, file := range []string{"completions-broken-stream", "infill-broken-stream"} {
		unit := llama
		if strings.HasPrefix(file, "infill") {
			unit = infill
		}
		_, err := replay(t, unit, file)
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("%s: got %v, want the provider's error", file, err)
		}
	}
}

// replayed is an answer that was read to its end.
type replayed struct {
	texts       []string
	finish, all string
	usage       *Usage
}

func replay(t *testing.T, unit config.Unit, file string) (r replayed, err error) {
	t.Helper()
	data, err := os.ReadFile("testdata/llamacpp-" + file + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	d, head := dialectOf(t, unit), &Head{}
	if strings.HasSuffix(file, "-unary") {
		event, err := d.Answer(head, data)
		r.add(event)
		return r, err
	}
	var repeats Repeats
	events := sse.NewReader(bytes.NewReader(data))
	for {
		data, err := events.Next()
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		event, err := repeats.Event(d, head, data)
		if err != nil {
			return r, err
		}
		r.add(event)
	}
}

func (r *replayed) add(event Event) {
	r.all += string(event.Data)
	r.usage = r.usage.Plus(event.Usage)
	for _, c := range gjson.GetBytes(event.Data, "choices").Array() {
		for int(c.Get("index").Int()) >= len(r.texts) {
			r.texts = append(r.texts, "")
		}
		r.texts[c.Get("index").Int()] += c.Get("text").Str
		if reason := c.Get("finish_reason").Str; reason != "" {
			r.finish = reason
		}
	}
}
