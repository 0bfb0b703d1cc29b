package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/ghostline-dev/ghostline/proxy/sse"
)

// relayed is a stream as one kind of unit says it.
type relayed struct {
	name string
	unit config.Unit
	// text is the format of an event with text, end all that follows the last.
	text, end string
}

var relays = []relayed{
	{
		"OpenAI", config.Unit{Provider: config.ProviderOpenAI},
		`data: {"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m","choices":[{"text":%q,"index":0,"logprobs":null,"finish_reason":null}]}` + "\n\n",
		`data: {"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m","choices":[{"text":"","index":0,"logprobs":null,"finish_reason":"length"}]}` + "\n\ndata: [DONE]\n\n",
	},
	{
		"Azure", config.Unit{Provider: config.ProviderAzureOpenAI, URL: "https://u.test/openai/v1/completions"},
		`data: {"choices":[{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"finish_reason":null,"index":0,"logprobs":null,"text":%q}],"created":1700000000,"id":"cmpl-1","model":"m","object":"text_completion","usage":null}` + "\n\n",
		`data: {"choices":[{"content_filter_results":{},"finish_reason":"length","index":0,"logprobs":null,"text":""}],"created":1700000000,"id":"cmpl-1","model":"m","object":"text_completion","usage":null}` + "\n\ndata: [DONE]\n\n",
	},
	{
		"Mistral", config.Unit{Provider: config.ProviderMistral},
		`data: {"id":"m-1","object":"chat.completion.chunk","created":1700000000,"model":"codestral","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}` + "\n\n",
		`data: {"id":"m-1","object":"chat.completion.chunk","created":1700000000,"model":"codestral","choices":[{"index":0,"delta":{"content":""},"finish_reason":"length"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}` + "\n\ndata: [DONE]\n\n",
	},
	{
		"infill", config.Unit{Provider: config.ProviderLlamaCpp, API: config.APIInfill},
		`data: {"index":0,"content":%q,"tokens":[1],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":11}` + "\n\n",
		`data: {"index":0,"content":"","tokens":[],"stop":true,"model":"m","tokens_predicted":7,"tokens_evaluated":11,"stop_type":"limit","stopping_word":""}` + "\n\n",
	},
	{
		"generate", config.Unit{Provider: config.ProviderOllama, API: config.APIGenerate},
		`{"model":"m","created_at":"2026-11-30T10:00:00.1Z","response":%q,"done":false}` + "\n",
		`{"model":"m","created_at":"2026-11-30T10:00:00.2Z","response":"","done":true,"done_reason":"length","prompt_eval_count":11,"eval_count":7}` + "\n",
	},
}

// stream is a stream with so many events, of which the last ends the answer.
func (r relayed) stream(events int) string {
	var out strings.Builder
	for i := range events - 1 {
		fmt.Fprintf(&out, r.text, fmt.Sprint(" token", i))
	}
	return out.String() + r.end
}

// answer is an answer of this unit, to be read from src.
func (r relayed) answer(tb testing.TB, src io.Reader) *answer {
	tb.Helper()
	dialect, err := provider.For(r.unit)
	if err != nil {
		tb.Fatal(err)
	}
	x := &exchange{form: openAIForm{}, ask: ask{stream: true, prompts: 1}, unit: &unit{Unit: r.unit, dialect: dialect}}
	a := &answer{x: x, ctx: tb.Context(), body: io.NopCloser(src), reading: &reading{events: sse.NewReader(nil)}}
	a.head = provider.Head{ID: "cmpl-1", Model: "ghost-code", Created: time.Unix(1700000000, 0)}
	a.events.Reset(a, dialect.Framing())
	return a
}

// relay takes one event through framing, dialect and form; false at the end.
func (a *answer) relay(tb testing.TB, out []byte) ([]byte, bool) {
	event, err := a.next()
	if err != nil {
		tb.Fatal(err)
	}
	return a.appendEvent(out, event), !event.Done
}

// TestLongEventsAreNotKept: what was read into is used again, unless it is large.
func TestLongEventsAreNotKept(t *testing.T) {
	isKept := func(length int) bool {
		p, r := new(proxy), relays[0]
		a := r.answer(t, strings.NewReader(fmt.Sprintf(r.text, strings.Repeat("a", length))))
		a.ctx, a.cancel = context.WithCancelCause(t.Context())
		a.clock = &clock{timer: time.NewTimer(time.Hour)}
		a.relay(t, nil)
		p.close(a)
		return p.readings.Get() != nil
	}
	for i := 0; !isKept(1 << 10); i++ { // a pool forgets now and then while races are looked for
		if i == 100 {
			t.Fatal("what a short event was read into is not used again")
		}
	}
	if isKept(1 << 20) {
		t.Error("what a long event was read into is kept")
	}
}

// TestReport4RelaySplitAnywhere: the same answer, wherever a read ends.
func TestReport4RelaySplitAnywhere(t *testing.T) {
	for _, r := range relays {
		t.Run(r.name, func(t *testing.T) {
			all := func(src io.Reader) string {
				var out []byte
				for a, more := r.answer(t, src), true; more; {
					if out, more = a.relay(t, out); !more {
						break
					}
				}
				return string(out)
			}
			stream := strings.Replace(r.stream(3), "token0", `é…🙂\u00e9\n`, 1)
			want := all(strings.NewReader(stream))
			if !strings.Contains(want, `é…🙂\u00e9\n`) {
				t.Fatalf("got %q", want)
			}
			for at := range stream {
				if got := all(io.MultiReader(strings.NewReader(stream[:at]), strings.NewReader(stream[at:]))); got != want {
					t.Errorf("split at %d: got %q, want %q", at, got, want)
				}
			}
		})
	}
}

// TestReadEndsWithTheExchange: what has come of an answer is not read to its end once the
// exchange is over. A unit that packs well has all of a stream arrive at once.
func TestReadEndsWithTheExchange(t *testing.T) {
	for _, written := range []*clientStream{nil, {}} { // before the first byte, and after it
		src := &endless{}
		a := relays[0].answer(t, src)
		ctx, cancel := context.WithCancelCause(t.Context())
		a.ctx, a.cancel, a.out = ctx, cancel, written
		a.clock = startClock(&exchange{snapshot: &snapshot{config: &config.Config{}}, received: time.Now().Add(time.Hour)}, nil, cancel)
		src.after = func() { cancel(errCancelled) }
		if _, err := a.next(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of the exchange", err)
		}
		a.clock.stop()
		if src.reads > 1 {
			t.Errorf("the body was read %d times after the end", src.reads-1)
		}
	}
}

// endless is a body that never ends, and has nothing in it.
type endless struct {
	reads int
	after func() // is called after the first read
}

func (e *endless) Read(p []byte) (int, error) {
	switch e.reads++; e.reads {
	case 1:
		defer e.after()
	case 1000:
		return 0, io.ErrNoProgress // or the test would not end either
	}
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

// TestPassThroughAllocatesNothing: an event that leaves in the form in which it came
// costs no memory.
func TestPassThroughAllocatesNothing(t *testing.T) {
	const runs, events = 10, 100
	for _, r := range relays[:2] {
		a := r.answer(t, strings.NewReader(r.stream((runs+2)*events)))
		out := make([]byte, 0, 1<<10)
		relay := func() {
			for range events {
				out, _ = a.relay(t, out[:0])
			}
		}
		if got := testing.AllocsPerRun(runs, relay); got > 0 {
			t.Errorf("%s: %v allocations for %d events, want none", r.name, got, events)
		}
	}
}

// BenchmarkRelay takes the eleven events of a completion through framing, dialect and
// form, from bytes to bytes.
func BenchmarkRelay(b *testing.B) {
	for _, r := range relays {
		b.Run(r.name, func(b *testing.B) {
			input := r.stream(11)
			src := strings.NewReader(input)
			a := r.answer(b, src)
			var out []byte
			b.SetBytes(int64(len(input)))
			b.ReportAllocs()
			for b.Loop() {
				src.Reset(input)
				a.events.Reset(a, a.x.unit.dialect.Framing())
				a.seen, a.finished = 0, 0
				events := 0
				for more := true; more; events++ {
					out, more = a.relay(b, out[:0])
				}
				if events != 12 { // with the mark of the end
					b.Fatalf("%d events", events)
				}
			}
		})
	}
}
