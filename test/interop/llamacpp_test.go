package interop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// endless is more than the engine says within a test.
const endless = 25_000

// quiet is how seldom the engine is looked at after a cancel. It looks whether a client
// that it has nothing for is still there after a second in which it told nobody anything,
// and to be asked for its metrics is to tell.
const quiet = 1500 * time.Millisecond

const before, behind = "// add café\nfunc add(a, b int) int {\n\t", "\n}\n"

// llamaRow is one of the engine's APIs, with what it is asked directly to compare.
type llamaRow struct {
	name, api, path string
	direct          func(n int) string
	text, tokens    string // where its own answer has the text and its length
}

var llamaRows = []llamaRow{
	{"Infill", config.APIInfill, "/infill", func(n int) string {
		return fmt.Sprintf(`{"input_prefix":%q,"input_suffix":%q,"n_predict":%d,"temperature":0}`, before, behind, n)
	}, "content", "tokens_predicted"},
	{"Completions", config.APICompletions, "/v1/completions", func(n int) string {
		marked := "<|fim_prefix|>" + before + "<|fim_suffix|>" + behind + "<|fim_middle|>"
		return fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"temperature":0}`, marked, n)
	}, "choices.0.text", "usage.completion_tokens"},
}

// eachLlama runs a test for each API of an engine with these flags.
func eachLlama(t *testing.T, flags []string, test func(*testing.T, llamaRow, *engine, *stack)) {
	for _, row := range llamaRows {
		t.Run(row.name, func(t *testing.T) {
			e := startEngine(t, flags...)
			test(t, row, e, start(t, setup{config: e.unit(row.api, row.path)}))
		})
	}
}

// TestLlamaCppSaysTheSame compares an answer through the proxy with the engine's own.
func TestLlamaCppSaysTheSame(t *testing.T) {
	eachLlama(t, []string{"-np", "2"}, func(t *testing.T, row llamaRow, e *engine, s *stack) {
		own := e.ask(row.path, row.direct(40))
		want, tokens := own.Get(row.text).Str, own.Get(row.tokens).Int()
		if tokens != 40 || len(want) < 20 {
			t.Fatalf("the engine says %q, %d tokens; want 40", want, tokens)
		}
		unary := s.complete(t.Context(), completion(40))
		if unary.err != nil || unary.text(0) != want || unary.finish(0) != "length" || unary.tokens() != tokens {
			t.Errorf("unary: got %v; want %q, length and %d tokens", unary, want, tokens)
		}
		streamed := s.complete(t.Context(), completion(40, "stream", true, "stream_options.include_usage", true))
		if streamed.err != nil || streamed.text(0) != want || streamed.finish(0) != "length" || streamed.tokens() != tokens || !streamed.done || len(streamed.events) < 20 {
			t.Errorf("streamed: got %v; want %q, length, %d tokens and [DONE]", streamed, want, tokens)
		}
		word := want[5:9]
		stopped := s.complete(t.Context(), completion(40, "stream", true, "stop", []string{word}))
		if head, _, _ := strings.Cut(want, word); stopped.text(0) != head || stopped.finish(0) != "stop" {
			t.Errorf("with a stop: got %v; want %q and stop", stopped, head)
		}
		two := s.complete(t.Context(), completion(12, "stream", true, "n", 2))
		if two.err != nil || two.text(0) != want[:len(two.text(0))] || two.text(0) == "" || two.text(1) != two.text(0) || two.finish(1) != "length" {
			t.Errorf("two answers: got %v; want both %.12q…", two, want)
		}
	})
}

// TestReport1LlamaCppSeesACancel has clients leave while the engine works for them. Its
// slot must be free long before the answer would have ended.
func TestReport1LlamaCppSeesACancel(t *testing.T) {
	eachLlama(t, []string{"-np", "1", "-c", "32768"}, func(t *testing.T, row llamaRow, e *engine, s *stack) {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("stream %t", stream), func(t *testing.T) {
				tokens := e.metric("tokens_predicted_total")
				ctx, cancel := context.WithCancel(t.Context())
				ended := s.begin(ctx, completion(endless, "stream", stream))
				eventually(t, "the slot is busy", func() bool { return e.processing() == 1 })
				cancel()
				if got := <-ended; !errors.Is(got.err, context.Canceled) {
					t.Errorf("the request ended with %v; want the cancel", got)
				}
				looking(t, quiet, "the slot is free", func() bool { return e.processing() == 0 })
				if made := e.metric("tokens_predicted_total") - tokens; made >= endless/2 {
					t.Errorf("the engine made %v tokens of %d before it was told", made, endless)
				}
			})
		}
		eventually(t, "both are counted", func() bool { return s.outcomes("cancelled") == 2 })
		if got := s.complete(t.Context(), completion(8)); got.err != nil || got.text(0) == "" {
			t.Errorf("after the cancels: got %v; want a completion", got)
		}
	})
}

// TestReport1LlamaCppSeesACancelInItsQueue has a client leave that waits for the one
// slot: the engine must forget it, and go on for the other one, which is not streamed,
// since the engine would never be quiet.
func TestReport1LlamaCppSeesACancelInItsQueue(t *testing.T) {
	e := startEngine(t, "-np", "1", "-c", "32768")
	s := start(t, setup{config: e.infill()})
	first, stop := context.WithCancel(t.Context())
	defer stop()
	busy := s.begin(first, completion(endless), "Vscode-Sessionid", "first")
	eventually(t, "the slot is busy", func() bool { return e.processing() == 1 })
	second, cancel := context.WithCancel(t.Context())
	waiting := s.begin(second, completion(8, "stream", true), "Vscode-Sessionid", "second")
	eventually(t, "the other one waits", func() bool { return e.deferred() == 1 })
	cancel()
	<-waiting
	looking(t, quiet, "nobody waits", func() bool { return e.deferred() == 0 })
	select {
	case got := <-busy:
		t.Errorf("the first request ended: %v", got)
	default:
	}
	if e.processing() != 1 {
		t.Error("the first request lost its slot")
	}
	stop()
	<-busy
	looking(t, quiet, "the slot is free", func() bool { return e.processing() == 0 })
}

// TestReport7LlamaCppFailsInMidStream has two answers outgrow the cache that they share:
// what was said stays, and the stream must not look whole.
func TestReport7LlamaCppFailsInMidStream(t *testing.T) {
	eachLlama(t, []string{"-np", "2", "-c", "512", "--kv-unified"}, func(t *testing.T, _ llamaRow, _ *engine, s *stack) {
		endless := completion(endless, "stream", true)
		first := s.begin(t.Context(), endless, "Vscode-Sessionid", "first")
		second := s.begin(t.Context(), endless, "Vscode-Sessionid", "second")
		broken := 0
		for _, got := range []answer{<-first, <-second} {
			switch {
			case got.status != http.StatusOK || got.text(0) == "":
				t.Errorf("got %v; want a stream that begins", got)
			case !got.done && got.finish(0) == "":
				broken++
			case !got.done || got.finish(0) != "length":
				t.Errorf("got %v; want a stream that is whole, with a finish reason and [DONE], or has neither", got)
			}
		}
		if broken == 0 {
			t.Error("no stream broke off")
		}
		eventually(t, "each that broke off is counted", func() bool { return s.outcomes("upstream_error") == float64(broken) })
	})
}

// TestLlamaCppRefusesAPromptThatIsTooLong: before the first token that is the client's
// fault, and no unit's.
func TestLlamaCppRefusesAPromptThatIsTooLong(t *testing.T) {
	e := startEngine(t, "-np", "1", "-c", "256")
	s := start(t, setup{config: e.unit(config.APICompletions, "/v1/completions")})
	got := s.complete(t.Context(), completion(8, "stream", true, "prompt", strings.Repeat("a long prompt ", 60)))
	if got.status != http.StatusBadRequest || got.err != nil {
		t.Errorf("got %v; want 400", got)
	}
	if strings.Contains(got.body, "a long prompt") {
		t.Errorf("the error repeats the prompt: %s", got.body)
	}
}

// TestLlamaCppWantsItsKey: the unit's credential is what lets a request in.
func TestLlamaCppWantsItsKey(t *testing.T) {
	e := startEngine(t, "--api-key", engineKey)
	with := start(t, setup{config: func(c *config.Config) { e.infill()(c); c.Units[0].Credential = engineCredential }})
	if got := with.complete(t.Context(), completion(8)); got.err != nil || got.text(0) == "" {
		t.Errorf("with its key: got %v; want a completion", got)
	}
	without := start(t, setup{config: e.infill()})
	if got := without.complete(t.Context(), completion(8)); got.status != http.StatusBadGateway {
		t.Errorf("without its key: got %v; want 502", got)
	}
	if state := metric(t, without.files.AdminURL(), "ghostline_unit_state", `state="misconfigured"`); state != 1 {
		t.Errorf("%v units are misconfigured, want 1", state)
	}
}
