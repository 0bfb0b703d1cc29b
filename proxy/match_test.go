package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

func TestParseAsk(t *testing.T) {
	for _, tc := range []struct {
		body string
		want ask
	}{
		{`{"prompt":"a"}`, ask{prompts: 1}},
		{` { "prompt" : "" } `, ask{prompts: 1}},
		{`{"prompt":["a","b"],"model":"m"}`, ask{prompts: 2, model: "m"}},
		{`{"m\u006fdel":"\u0061","prompt":"a"}`, ask{prompts: 1, model: "a"}},
		{`{"prompt":"a","stream":true}`, ask{prompts: 1, stream: true}},
		{`{"prompt":"a","stream":false}`, ask{prompts: 1}},
		{`{"prompt":"a","stream":null,"suffix":null,"stop":null,"n":null,"max_tokens":null,"temperature":null,"top_p":null,"stream_options":null}`, ask{prompts: 1}},
		{`{"prompt":"a","stream_options":{"include_usage":true}}`, ask{prompts: 1, usage: true}},
		{`{"prompt":"a","stream_options":{"include_usage":false}}`, ask{prompts: 1}},
		{`{"prompt":"a","stream_options":{}}`, ask{prompts: 1}},
		{`{"prompt":"a","max_tokens":1,"n":16,"temperature":2,"top_p":0.0,"stop":[],"suffix":""}`, ask{prompts: 1, n: 16}},
		{`{"prompt":"a","max_tokens":1e2,"n":1.0,"stop":["a","b"]}`, ask{prompts: 1, n: 1}},
		{`{"prompt":"a","unknown":{"model":"x"},"unknown":2,"Prompts":3}`, ask{prompts: 1}},
		{`{"prompt":"a","x":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`, ask{prompts: 1}},
	} {
		var got ask
		if err := parseAsk([]byte(tc.body), &got); err != nil || got != tc.want {
			t.Errorf("%s: %+v, error %v; want %+v", tc.body, got, err, tc.want)
		}
	}
}

func TestParseAskRefuses(t *testing.T) {
	texts := func(n int) string { return `["a"` + strings.Repeat(`,"a"`, n-1) + `]` }
	for _, tc := range []struct{ body, want string }{
		{"", "the request has no body; it must be a JSON object"},
		{" \n", "the request has no body; it must be a JSON object"},
		{"[]", "must be a JSON object"},
		{`"prompt"`, "must be a JSON object"},
		{"prompt=a", "must be a JSON object"},
		{`{"prompt":"a"`, "is not valid JSON"},
		{`{"prompt":"a"}{}`, "is not valid JSON"},
		{`{"prompt":"a",}`, "is not valid JSON"},
		{"{\"prompt\":\"a\nb\"}", "is not valid JSON"},
		{"{\"prompt\":\"\xff\"}", "is not valid UTF-8"},
		{"\xef\xbb\xbf{}", "byte order mark"},
		{`{"prompt":"a","x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, "nests deeper than 64 levels"},
		{strings.Repeat(`{"a":`, 1<<17), "nests deeper than 64 levels"},
		{`{}`, `the field "prompt" is missing; it must be the text before the cursor`},
		{`{"prompt":null}`, `the field "prompt" must be text, or a list of texts`},
		{`{"prompt":7}`, `the field "prompt" must be text, or a list of texts`},
		{`{"prompt":[]}`, `the field "prompt" must be text, or a list of texts`},
		{`{"prompt":[1,2]}`, `the field "prompt" must be text, or a list of texts`},
		{`{"prompt":["a",["b"]]}`, `the field "prompt" must be text, or a list of texts`},
		{`{"prompt":` + texts(maxChoices+1) + `}`, `the field "prompt" must be text, or a list of texts`},
		{`{"prompt":{"a":"b"}}`, `the field "prompt" must be text, or a list of texts`},
		{`{"prompt":"a","model":7}`, `the field "model" must be text`},
		{`{"prompt":"a","suffix":["a"]}`, `the field "suffix" must be text`},
		{`{"prompt":"a","stream":"yes"}`, `the field "stream" must be true or false`},
		{`{"prompt":"a","stream":1}`, `the field "stream" must be true or false`},
		{`{"prompt":"a","stream_options":true}`, `the field "stream_options" must be an object`},
		{`{"prompt":"a","max_tokens":0}`, `the field "max_tokens" must be a whole number from 1`},
		{`{"prompt":"a","max_tokens":-1}`, `the field "max_tokens" must be a whole number from 1`},
		{`{"prompt":"a","max_tokens":1.5}`, `the field "max_tokens" must be a whole number from 1`},
		{`{"prompt":"a","max_tokens":"1"}`, `the field "max_tokens" must be a whole number from 1`},
		{`{"prompt":"a","max_tokens":1e400}`, `the field "max_tokens" must be a whole number from 1`},
		{`{"prompt":"a","n":0}`, `the field "n" must be a whole number from 1 to 16`},
		{`{"prompt":"a","n":17}`, `the field "n" must be a whole number from 1 to 16`},
		{`{"prompt":"a","stop":7}`, `the field "stop" must be text, or a list of up to 16 texts`},
		{`{"prompt":"a","stop":` + texts(maxStops+1) + `}`, `the field "stop" must be text, or a list of up to 16 texts`},
		{`{"prompt":"a","temperature":2.1}`, `the field "temperature" must be a number from 0 to 2`},
		{`{"prompt":"a","temperature":true}`, `the field "temperature" must be a number from 0 to 2`},
		{`{"prompt":"a","top_p":-0.1}`, `the field "top_p" must be a number from 0 to 1`},
		{`{"prompt":` + texts(5) + `,"n":13}`, `the field "n" times the number of prompts is 65; it must be at most 64`},
		{`{"prompt":"a","ſtream":true}`, `must be written "stream"`},
		{`{"prompt":"a","prompt":"b"}`, `the field "prompt" stands twice`},
		{`{"model":"a","m\u006fdel":"b","prompt":"a"}`, `the field "model" stands twice`},
		{`{"Prompt":"a"}`, `the field "Prompt" must be written "prompt"`},
		{`{"prompt":"a","STREAM":true}`, `the field "STREAM" must be written "stream"`},
	} {
		name := tc.body[:min(len(tc.body), 60)]
		err := parseAsk([]byte(tc.body), new(ask))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
			continue
		}
		if e := asClientError(err); e.status != 400 || e.outcome != outcomeBadRequest {
			t.Errorf("%s: status %d, outcome %s", name, e.status, e.outcome)
		}
	}
}

// FuzzParseAsk holds that what is accepted means the same to encoding/json.
func FuzzParseAsk(f *testing.F) {
	f.Add([]byte(`{"prompt":"a","model":"m","stream":true,"stream_options":{"include_usage":true}}`))
	f.Add([]byte(`{"prompt":["a","b"],"n":3,"max_tokens":1e2,"stop":["\n"],"temperature":0.5,"top_p":1}`))
	f.Add([]byte(`{"\u0070rompt":"a","suffix":null,"x":{"prompt":[[]]}}`))
	f.Add([]byte(`{"prompt":"\ud800","model":"\udc00"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var got ask
		if err := parseAsk(body, &got); err != nil {
			if e := asClientError(err); e.status != 400 {
				t.Fatalf("error %v has status %d", err, e.status)
			}
			return
		}
		members := map[string]json.RawMessage{}
		if err := json.Unmarshal(body, &members); err != nil {
			t.Fatalf("accepted, but: %v", err)
		}
		for name := range members {
			for _, f := range fields {
				if strings.EqualFold(name, f.name) && name != f.name {
					t.Errorf("accepted %q", name)
				}
			}
		}
		var want struct {
			Model  *string
			Prompt any
			Stream *bool
			Stop   any
			N      *float64
			Tokens *float64 `json:"max_tokens"`
		}
		for name, into := range map[string]any{
			"model": &want.Model, "prompt": &want.Prompt, "stream": &want.Stream, "stop": &want.Stop, "n": &want.N, "max_tokens": &want.Tokens,
		} {
			if raw, ok := members[name]; ok {
				if err := json.Unmarshal(raw, into); err != nil {
					t.Errorf("accepted %s: %v", name, err)
				}
			}
		}
		if want.Model != nil && *want.Model != got.model && utf16Free(body) {
			t.Errorf("model %q, want %q", got.model, *want.Model)
		}
		if got.stream != (want.Stream != nil && *want.Stream) {
			t.Errorf("stream %t", got.stream)
		}
		if !isTextsOf(want.Prompt, 1, maxChoices) || want.Stop != nil && !isTextsOf(want.Stop, 0, maxStops) {
			t.Errorf("accepted prompt %v, stop %v", want.Prompt, want.Stop)
		}
		if want.N != nil && (*want.N < 1 || *want.N > maxChoices || *want.N != math.Trunc(*want.N)) || want.Tokens != nil && *want.Tokens < 0 {
			t.Errorf("accepted n %v, max_tokens %v", want.N, want.Tokens)
		}
	})
}

// utf16Free is true for a body without escapes of half a character, which
// parsers read in different ways. No model's name has one.
func utf16Free(body []byte) bool { return !bytes.Contains(bytes.ToLower(body), []byte(`\ud`)) }

func isTextsOf(value any, least, most int) bool {
	list, ok := value.([]any)
	if !ok {
		_, ok = value.(string)
		return ok
	}
	return len(list) >= least && len(list) <= most && !slices.ContainsFunc(list, func(v any) bool { _, ok := v.(string); return !ok })
}

// testSnapshot has the models of a config and no units.
func testSnapshot(models ...config.Model) *snapshot {
	s := &snapshot{config: &config.Config{Models: models}}
	s.link()
	return s
}

func TestMatch(t *testing.T) {
	s := testSnapshot(
		config.Model{Name: "ghost-code", Aliases: []string{"copilot-codex"}, Variants: []config.Variant{{Name: "v", Weight: 1}}},
		config.Model{Name: "ghost-prose", Variants: []config.Variant{{Name: "v", Weight: 1}}},
	)
	for _, tc := range []struct {
		name, engine, body string
		models             []string // of the token
		status             int      // 0 is a match
		want               string   // the model, or part of the message
	}{
		{"by name", "", `{"model":"ghost-code","prompt":"a"}`, nil, 0, "ghost-code"},
		{"by alias", "", `{"model":"copilot-codex","prompt":"a"}`, nil, 0, "ghost-code"},
		{"by path", "ghost-prose", `{"prompt":"a"}`, nil, 0, "ghost-prose"},
		{"the path counts", "ghost-prose", `{"model":"ghost-code","prompt":"a"}`, nil, 0, "ghost-prose"},
		{"allowed", "", `{"model":"copilot-codex","prompt":"a"}`, []string{"ghost-code"}, 0, "ghost-code"},
		{"denied", "", `{"model":"ghost-prose","prompt":"a"}`, []string{"ghost-code"}, 403, "not allowed to use the model ghost-prose"},
		{"none", "", `{"prompt":"a"}`, nil, 400, `the field "model" is missing; this service has: ghost-code, ghost-prose`},
		{"unknown", "", `{"model":"x","prompt":"a"}`, []string{"ghost-code"}, 404, "the model is not known; this service has: ghost-code"},
		{"names match by case", "", `{"model":"Ghost-Code","prompt":"a"}`, nil, 404, "is not known"},
		{"nothing allowed", "", `{"model":"x","prompt":"a"}`, []string{}, 404, "no model for this user"},
		{"bad body", "ghost-code", `{"prompt":7}`, nil, 400, `"prompt" must be text`},
	} {
		x := &exchange{snapshot: s, body: []byte(tc.body), engine: tc.engine, claims: &token.Claims{Models: tc.models}}
		err := new(proxy).match(x)
		switch e := asClientError(err); {
		case err == nil && (tc.status != 0 || x.model.Name != tc.want):
			t.Errorf("%s: matched %s, want %d %s", tc.name, x.model.Name, tc.status, tc.want)
		case err != nil && (e.status != tc.status || !strings.Contains(e.message, tc.want)):
			t.Errorf("%s: status %d, message %q; want %d, %q", tc.name, e.status, e.message, tc.status, tc.want)
		}
	}
}

// testBody is a request of about 4 KiB, as Copilot's clients send it.
func testBody() []byte {
	return []byte(`{"model":"ghost-code","prompt":"` + strings.Repeat(`func f() {\n\treturn 1\n}\n`, 165) +
		`","suffix":"}","max_tokens":500,"temperature":0.1,"top_p":1,"n":1,"stop":["\n"],"stream":true,"extra":{"language":"go","next_indent":0}}`)
}

func BenchmarkParseAsk(b *testing.B) {
	body := testBody()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var a ask
		if err := parseAsk(body, &a); err != nil {
			b.Fatal(err)
		}
	}
}

func TestModelNames(t *testing.T) {
	s := testSnapshot(config.Model{Name: "b", Aliases: []string{"a"}}, config.Model{Name: "c"})
	if got := s.modelNames(&exchange{claims: &token.Claims{}}); got != "b, c" {
		t.Errorf("names %q", got)
	}
	if got, want := slices.Sorted(maps.Keys(s.models)), []string{"a", "b", "c"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("known names %v", got)
	}
}
