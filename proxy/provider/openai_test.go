package provider

import (
	"encoding/json"
	"errors"
	"net/textproto"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/google/go-cmp/cmp"
)

// openAI is the dialect of a unit without any setting.
var openAI = newOpenAI(config.Unit{})

func TestRequest(t *testing.T) {
	for _, tc := range []struct {
		name string
		req  Request
		want string
	}{
		{"model is the provider's", Request{Body: []byte(`{"model":"ghost-code","prompt":"a"}`), Model: "gpt-41"}, `{"model":"gpt-41","prompt":"a"}`},
		{"model is added", Request{Body: []byte(`{"prompt":"a"}`), Model: "gpt-41"}, `{"model":"gpt-41","prompt":"a"}`},
		{"an escaped name is the same name", Request{Body: []byte(`{"m\u006fdel":"x","prompt":"a"}`), Model: "m"}, `{"model":"m","prompt":"a"}`},
		{"the model's name is escaped", Request{Body: []byte(`{"prompt":"a"}`), Model: "a\"\n"}, `{"model":"a\"\n","prompt":"a"}`},
		{"the rest is the same, byte for byte",
			Request{Body: []byte(` { "prompt" : "\ud83e\udd89\/é" , "seed":1e400,"x":{"model":1, "y":[ 1.50 ]},"":null } `), Model: "m"},
			`{"model":"m","prompt":"\ud83e\udd89\/é","seed":1e400,"x":{"model":1, "y":[ 1.50 ]},"":null}`},
		{"what only clients know is left out",
			Request{Body: []byte(`{"prompt":"a","extra":{"language":"go"},"nwo":"a/b","min_tokens":1,"e\u0078tra":2,"extras":3}`), Model: "m"},
			`{"model":"m","prompt":"a","extras":3}`},
		{"not a stream: no stream_options", Request{Body: []byte(`{"prompt":"a","stream":false}`), Model: "m"}, `{"model":"m","prompt":"a","stream":false}`},
		{"not a stream: the client's stream_options would be refused", Request{Body: []byte(`{"prompt":"a","stream_options":{"include_usage":true}}`), Model: "m"}, `{"model":"m","prompt":"a"}`},
		{"a stream is asked for its usage", Request{Body: []byte(`{"prompt":"a","stream":true}`), Model: "m", Stream: true},
			`{"model":"m","stream_options":{"include_usage":true},"prompt":"a","stream":true}`},
		{"stream_options are merged", Request{Body: []byte(`{"stream_options":{"x":[1, 2],"include_usage":false},"prompt":"a"}`), Model: "m", Stream: true},
			`{"model":"m","stream_options":{"include_usage":true,"x":[1, 2]},"prompt":"a"}`},
		{"stream_options with an escaped name", Request{Body: []byte(`{"stream\u005foptions":{"x":1},"prompt":"a"}`), Model: "m", Stream: true},
			`{"model":"m","stream_options":{"include_usage":true,"x":1},"prompt":"a"}`},
		{"stream_options null", Request{Body: []byte(`{"stream_options":null,"prompt":"a"}`), Model: "m", Stream: true},
			`{"model":"m","stream_options":{"include_usage":true},"prompt":"a"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := string(tc.req.Body)
			got, err := openAI.Request(tc.req)
			if err != nil || string(got.Body) != tc.want {
				t.Errorf("body %s, error %v\nwant %s", got.Body, err, tc.want)
			}
			if len(got.Headers) != 0 {
				t.Errorf("headers %v without a credential", got.Headers)
			}
			if string(tc.req.Body) != before {
				t.Errorf("the client's body was changed to %s", tc.req.Body)
			}
		})
	}
}

func TestCredential(t *testing.T) {
	out, err := openAI.Request(Request{Body: []byte(`{"prompt":"a"}`), Model: "m", Credential: "key-1"})
	if want := []Header{{"Authorization", "Bearer key-1"}}; err != nil || !reflect.DeepEqual(out.Headers, want) {
		t.Errorf("headers %v, error %v; want %v", out.Headers, err, want)
	}
	if strings.Contains(string(out.Body), "key-1") {
		t.Errorf("the credential is in the body: %s", out.Body)
	}
}

// chunk is an event with the given choices.
func chunk(choices string) string { return `{"id":"c","choices":[` + choices + `]}` }

func TestEvent(t *testing.T) {
	for _, tc := range []struct {
		name, data string
		want       Event // without Data, which is the data unless said otherwise
	}{
		{"text", chunk(`{"index":0,"text":"a","finish_reason":null}`), Event{Choices: 1, Tokens: 1, Seen: 1}},
		{"finish_reason null is none", chunk(`{"index":0,"text":"","finish_reason": null }`), Event{Choices: 1, Seen: 1}},
		{"an empty finish_reason is none", chunk(`{"index":0,"text":"a","finish_reason":""}`), Event{Choices: 1, Tokens: 1, Seen: 1}},
		{"no finish_reason", chunk(`{"index":0,"text":"a"}`), Event{Choices: 1, Tokens: 1, Seen: 1}},
		{"the last", chunk(`{"index":0,"text":"","finish_reason":"stop"}`), Event{Choices: 1, Seen: 1, Finished: 1}},
		{"text and the end", chunk(`{"finish_reason":"length","text":"a"}`), Event{Choices: 1, Tokens: 1, Seen: 1, Finished: 1}},
		{"text null", chunk(`{"index":0,"text":null}`), Event{Choices: 1, Seen: 1}},
		{"text is no text", chunk(`{"index":0,"text":5}`), Event{Choices: 1, Seen: 1}},
		{"escaped names", chunk(`{"\u0069ndex":2,"te\u0078t":"a"}`), Event{Choices: 1, Tokens: 1, Seen: 4}},
		{"several choices", chunk(`{"index":0,"text":"a"},{"index":2,"text":"","finish_reason":"stop"},{"index":1,"text":"b"}`),
			Event{Choices: 3, Tokens: 2, Seen: 7, Finished: 4}},
		{"index 63", chunk(`{"index":63,"text":"a"}`), Event{Choices: 1, Tokens: 1, Seen: 1 << 63}},
		{"a larger index counts as 63", chunk(`{"index":64,"text":"a","finish_reason":"stop"},{"index":1e30,"text":"a"}`),
			Event{Choices: 2, Tokens: 2, Seen: 1 << 63, Finished: 1 << 63}},
		{"unknown fields", `{"choices":[{"text":"a","logprobs":{"x":[1]}}],"new":{"choices":5}}`, Event{Choices: 1, Tokens: 1, Seen: 1}},
		{"no choices", chunk(``), Event{}},
		{"only a filter's result", `{"id":"","choices":[],"prompt_filter_results":[{}]}`, Event{}},
		{"usage", `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`, Event{Usage: &Usage{PromptTokens: 7, CompletionTokens: 3}}},
		{"usage and text", `{"choices":[{"text":"a"}],"usage":{"prompt_tokens":7}}`, Event{Choices: 1, Tokens: 1, Seen: 1, Usage: &Usage{PromptTokens: 7}}},
		{"usage null", `{"choices":[{"text":"a"}],"usage":null}`, Event{Choices: 1, Tokens: 1, Seen: 1}},
		{"usage that is none", `{"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":"x"}}`, Event{Usage: &Usage{}}},
		{"error null", `{"error":null,"choices":[{"text":"a"}]}`, Event{Choices: 1, Tokens: 1, Seen: 1}},
		{"an error in a nested field", `{"choices":[{"text":"a","error":"x"}]}`, Event{Choices: 1, Tokens: 1, Seen: 1}},
		{"choices are no list", `{"choices":{"text":"a"}}`, Event{}},
		{"a choice is no object", chunk(`"a",[{"text":"b"}]`), Event{Choices: 2, Seen: 1}},
		{"empty object", `{}`, Event{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.Data = []byte(tc.data)
			got, err := openAI.Event(nil, []byte(tc.data))
			if diff := cmp.Diff(tc.want, got, ignoreText); diff != "" || err != nil {
				t.Errorf("error %v (-want +got)\n%s", err, diff)
			}
		})
	}
}

func TestEventData(t *testing.T) {
	for _, tc := range []struct{ name, data, want string }{
		{"several lines", "{\n \"choices\":\r\n[]\n}", `{  "choices":  [] }`},
		{"blanks around", " \t{\"choices\":[]}\n", `{"choices":[]}`},
		{"line ends in text stay escaped", `{"choices":[{"text":"a\nb"}]}`, `{"choices":[{"text":"a\nb"}]}`},
	} {
		got, err := openAI.Event(nil, []byte(tc.data))
		if string(got.Data) != tc.want || err != nil {
			t.Errorf("%s: data %q, error %v; want %q", tc.name, got.Data, err, tc.want)
		}
	}
}

func TestDone(t *testing.T) {
	for _, data := range []string{"[DONE]", " [DONE]", "[DONE] \t", "\n[DONE]\r\n"} {
		if got, err := openAI.Event(nil, []byte(data)); err != nil || !reflect.DeepEqual(got, Event{Done: true}) {
			t.Errorf("%q: %+v, error %v", data, got, err)
		}
	}
}

func TestNotAnEvent(t *testing.T) {
	for _, data := range []string{"", " ", "[done]", "[DONE", "DONE", "[]", `[{"choices":[]}]`, "null", "7", `"a"`, "{", `{"a":1}{}`, `{"a":1,}`, "{'a':1}", "<html>"} {
		for name, read := range map[string]func(*Head, []byte) (Event, error){"event": openAI.Event, "answer": openAI.Answer} {
			got, err := read(nil, []byte(data))
			if !errors.Is(err, errNotJSON) || !reflect.DeepEqual(got, Event{}) {
				t.Errorf("%s %q: %+v, error %v", name, data, got, err)
			}
		}
	}
}

func TestErrorInAnswer(t *testing.T) {
	const secret = "def hunter2():"
	for _, tc := range []struct {
		data string
		want Refusal
	}{
		{`{"error":{"message":"` + secret + `","type":"server_error","code":"overloaded","param":"max_tokens"}}`, Refusal{Param: "max_tokens", Code: "overloaded"}},
		{`{"error":{"message":"` + secret + `","code":503}}`, Refusal{}},
		{`{"error":"` + secret + `"}`, Refusal{}},
		{`{"error":{}}`, Refusal{}},
		{`{"error":true}`, Refusal{}},
		{`{"choices":[{"text":"a"}],"error":{"code":"` + secret + `"}}`, Refusal{}},
	} {
		for name, read := range map[string]func(*Head, []byte) (Event, error){"event": openAI.Event, "answer": openAI.Answer} {
			_, err := read(nil, []byte(tc.data))
			reported, ok := errors.AsType[*Error](err)
			if !ok || reported.Refusal != tc.want {
				t.Errorf("%s %s: error %v, want %+v", name, tc.data, err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter") {
				t.Errorf("%s: the error repeats the provider's text: %v", name, err)
			}
		}
	}
}

func TestAnswer(t *testing.T) {
	got, err := openAI.Answer(nil, []byte(`{"choices":[{"index":0,"text":"a","finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`))
	if err != nil || got.Choices != 1 || got.Finished != 1 || *got.Usage != (Usage{PromptTokens: 1, CompletionTokens: 2}) {
		t.Errorf("answer %+v, error %v", got, err)
	}
	if _, err := openAI.Answer(nil, []byte(`{"choices":[]}`)); !errors.Is(err, errNoChoice) {
		t.Errorf("error %v, want %v", err, errNoChoice)
	}
	if _, err := openAI.Answer(nil, []byte(`[DONE]`)); !errors.Is(err, errNotJSON) {
		t.Errorf("error %v, want %v", err, errNotJSON)
	}
}

// TestRefusalHasNoFreeText gives what may be told to a client: names, no text.
func TestRefusalHasNoFreeText(t *testing.T) {
	for _, tc := range []struct {
		body string
		want Refusal
	}{
		{`{"error":{"message":"bad","param":"max_tokens","code":"invalid_value"}}`, Refusal{Param: "max_tokens", Code: "invalid_value"}},
		{`{"error":{"param":"stop[0].x","code":"a.b"}}`, Refusal{Param: "stop[0].x", Code: "a.b"}},
		{`{"error":{"param":" n ","code":null}}`, Refusal{Param: "n"}},
		{`{"error":{"param":"the prompt def f():","code":"it is bad"}}`, Refusal{}},
		{`{"error":{"param":"a\nb","code":"a\"b"}}`, Refusal{}},
		{`{"error":{"param":"` + strings.Repeat("a", 65) + `","code":"é"}}`, Refusal{}},
		{`{"error":{"param":7,"code":400}}`, Refusal{}},
		{`{"error":{"param":["n"],"code":{"a":1}}}`, Refusal{}},
		{`{"error":"max_tokens"}`, Refusal{}},
		{`{"detail":[{"loc":["body","n"],"msg":"bad"}]}`, Refusal{Param: "n"}},
		{`{"detail":[{"loc":["body","def f():"],"msg":"bad"}]}`, Refusal{}},
		{`{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","extra"]}]},"type":"invalid_request_error","param":null}`, Refusal{Param: "extra"}},
		{`{"object":"error","message":"def f():","type":"BadRequestError","param":"suffix","code":400}`, Refusal{Param: "suffix"}},
		{`{"error":""m" does not support insert"}`, Refusal{}},
		{`[]`, Refusal{}}, {``, Refusal{}}, {`<html>error</html>`, Refusal{}}, {`{"error":{"param":"n"`, Refusal{Param: "n"}},
	} {
		if got := openAI.Refusal([]byte(tc.body)); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.body, got, tc.want)
		}
	}
}

// TestEveryProviderHasADialect asks the config which providers it takes.
func TestEveryProviderHasADialect(t *testing.T) {
	_, err := config.Decode([]byte(`{"units":[{"provider":"?"}]}`))
	if err == nil {
		t.Fatal("an unknown provider is accepted")
	}
	list := regexp.MustCompile(`units\[0\]\.provider: .*one of (.*)`).FindStringSubmatch(err.Error())
	if list == nil {
		t.Fatalf("the error does not list the providers: %v", err)
	}
	for name := range strings.SplitSeq(list[1], ", ") {
		if dialect, err := For(config.Unit{Provider: name}); err != nil || dialect == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := For(config.Unit{Provider: "?"}); err == nil {
		t.Error("an unknown provider has a dialect")
	}
}

// FuzzEvent compares with encoding/json what an event is said to hold.
func FuzzEvent(f *testing.F) {
	for _, data := range []string{
		"[DONE]", chunk(`{"index":0,"text":"a","finish_reason":null}`), chunk(`{"index":64,"text":"a"},{"index":-1}`),
		`{"error":{"code":"x"}}`, "{\n\"choices\":[],\n\"usage\":{\"prompt_tokens\":1}}", `{"choices":[[],{}],"usage":[]}`, `{"choices":[{"text":"a"}],"choices":[]}`,
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		event, err := openAI.Event(nil, data)
		if err != nil {
			if !reflect.DeepEqual(event, Event{}) {
				t.Errorf("an event %+v beside the error %v", event, err)
			}
			return
		}
		if event.Done {
			return
		}
		if strings.ContainsAny(string(event.Data), "\r\n") {
			t.Errorf("the data has several lines: %q", event.Data)
		}
		if event.Finished&^event.Seen != 0 || event.Tokens > event.Choices {
			t.Errorf("finished %b, seen %b, %d tokens of %d choices", event.Finished, event.Seen, event.Tokens, event.Choices)
		}
		var before, after any
		if json.Unmarshal(data, &before) != nil {
			return // gjson takes some text for valid that is not UTF-8
		}
		if err := json.Unmarshal(event.Data, &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("the data became %q: %v", event.Data, err)
		}
	})
}

func BenchmarkRequest(b *testing.B) {
	body := []byte(`{"model":"ghost-code","prompt":"` + strings.Repeat(`func f() {\n\treturn 1\n}\n`, 170) + `","suffix":"}","max_tokens":500,"temperature":0.1,` +
		`"n":1,"stop":["\n"],"stream":true,"extra":{"language":"go","next_indent":0}}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := openAI.Request(Request{Body: body, Model: "gpt-41", Stream: true, Credential: "key"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	data := []byte(`{"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"gpt-41","choices":[{"index":0,"text":" return a + b","logprobs":null,"finish_reason":null}]}`)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := openAI.Event(nil, data); err != nil {
			b.Fatal(err)
		}
	}
}

func TestWorked(t *testing.T) {
	for _, tc := range []struct {
		values []string
		want   time.Duration
		ok     bool
	}{
		{[]string{"120"}, 120 * time.Millisecond, true},
		{[]string{"0"}, 0, true},
		{[]string{"0.25"}, 250 * time.Microsecond, true},
		{[]string{"600000"}, 10 * time.Minute, true},
		{[]string{"600001"}, 0, false},
		{[]string{"-1"}, 0, false},
		{[]string{"NaN"}, 0, false},
		{[]string{"Inf"}, 0, false},
		{[]string{"1e9"}, 0, false},
		{[]string{"12ms"}, 0, false},
		{[]string{""}, 0, false},
		{[]string{"1.0000000000000000000000"}, 0, false},
		{[]string{"1", "2"}, 0, false},
		{nil, 0, false},
	} {
		got, ok := openAI.Worked(textproto.MIMEHeader{"Openai-Processing-Ms": tc.values})
		if got != tc.want || ok != tc.ok {
			t.Errorf("%q: %s, %t; want %s, %t", tc.values, got, ok, tc.want, tc.ok)
		}
	}
}
