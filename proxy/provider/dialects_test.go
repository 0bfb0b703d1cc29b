package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// unitOf is a unit with the defaults that its config would have.
func unitOf(t testing.TB, u config.Unit) config.Unit {
	t.Helper()
	c := config.Config{Units: []config.Unit{u}}
	c.SetDefaults()
	return c.Units[0]
}

func dialectOf(t testing.TB, u config.Unit) Dialect {
	t.Helper()
	d, err := For(unitOf(t, u))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var (
	qwen       = &config.FillInTheMiddle{Template: "Qwen"}
	azure      = config.Unit{Provider: config.ProviderAzureOpenAI, URL: "https://a/openai/deployments/code/completions?api-version=2024-10-21"}
	azureOld   = config.Unit{Provider: config.ProviderAzureOpenAI, URL: "https://a/openai/deployments/code/completions?api-version=2024-02-01"}
	azureV1    = config.Unit{Provider: config.ProviderAzureOpenAI, URL: "https://a/openai/v1/completions"}
	vllm       = config.Unit{Provider: config.ProviderVLLM, FillInTheMiddle: qwen}
	infill     = config.Unit{Provider: config.ProviderLlamaCpp}
	llama      = config.Unit{Provider: config.ProviderLlamaCpp, API: config.APICompletions, FillInTheMiddle: qwen}
	llamaBound = config.Unit{Provider: config.ProviderLlamaCpp, API: config.APICompletions, FillInTheMiddle: qwen, MaxTokens: 64}
	generate   = config.Unit{Provider: config.ProviderOllama}
	generateT  = config.Unit{Provider: config.ProviderOllama, FillInTheMiddle: qwen}
	ollama     = config.Unit{Provider: config.ProviderOllama, API: config.APICompletions}
	codestral  = config.Unit{Provider: config.ProviderMistral}
	deepSeek   = config.Unit{Provider: config.ProviderDeepSeek}
)

// copilot is what a Copilot client sends, the prompt and the suffix aside.
const copilot = `"max_tokens":500,"temperature":0.1,"top_p":1,"n":1,"stop":["\n"],"stream":true,"nwo":"a/b","code_annotations":false,"extra":{"language":"go","context":["x \u003c","y"]}`

// TestDialectRequests gives what each provider is sent. What a dialect does not name
// must stay as the client wrote it.
func TestDialectRequests(t *testing.T) {
	const usage = `"stream_options":{"include_usage":true},`
	const both = `{"prompt":"a\u00e9\"","suffix":"\\z",` + copilot + `}`
	for name, tc := range map[string]struct {
		unit       config.Unit
		body, want string
	}{
		"OpenAI": {config.Unit{Provider: config.ProviderOpenAI}, both,
			`{"model":"m",` + usage + `"prompt":"a\u00e9\"","suffix":"\\z","max_tokens":500,"temperature":0.1,"top_p":1,"n":1,"stop":["\n"],"stream":true}`},
		"OpenAI with a template": {config.Unit{Provider: config.ProviderOpenAI, FillInTheMiddle: qwen, MaxTokens: 90}, both,
			`{"model":"m","prompt":"<|fim_prefix|>a\u00e9\"<|fim_suffix|>\\z<|fim_middle|>","max_tokens":90,` + usage + `"temperature":0.1,"top_p":1,"n":1,"stop":["\n"],"stream":true}`},
		"Azure": {azure, `{"prompt":"a","suffix":"z","max_tokens":4000,"extra":1,"stream":true}`,
			`{"max_tokens":500,` + usage + `"prompt":"a","suffix":"z","stream":true}`},
		"Azure by a version without usage": {azureOld, `{"prompt":"a","stream":true,"stream_options":{"include_usage":true}}`, `{"prompt":"a","stream":true}`},
		"Azure, v1":                        {azureV1, `{"prompt":"a","stream":true}`, `{"model":"m",` + usage + `"prompt":"a","stream":true}`},
		"vLLM": {vllm, both,
			`{"model":"m","prompt":"<|fim_prefix|>a\u00e9\"<|fim_suffix|>\\z<|fim_middle|>",` + usage + copilot + `}`},
		"vLLM, an empty suffix":  {vllm, `{"prompt":"a","suffix":"","stream":true}`, `{"model":"m",` + usage + `"prompt":"a","stream":true}`},
		"vLLM, suffix null":      {vllm, `{"prompt":"a","suffix":null,"stream":true}`, `{"model":"m",` + usage + `"prompt":"a","stream":true}`},
		"vLLM, several prompts":  {vllm, `{"prompt":["a","b"],"suffix":"z","min_tokens":2,"stream":true}`, `{"model":"m","prompt":["<|fim_prefix|>a<|fim_suffix|>z<|fim_middle|>","<|fim_prefix|>b<|fim_suffix|>z<|fim_middle|>"],` + usage + `"min_tokens":2,"stream":true}`},
		"a model without a mark": {config.Unit{Provider: config.ProviderVLLM, FillInTheMiddle: &config.FillInTheMiddle{Template: config.TemplateNone}}, `{"prompt":"a","suffix":"z","stream":true}`, `{"model":"m",` + usage + `"prompt":"a","stream":true}`},
		"the suffix first":       {config.Unit{Provider: config.ProviderVLLM, FillInTheMiddle: &config.FillInTheMiddle{Template: "Codestral"}}, `{"prompt":"a","suffix":"z","stream":true}`, `{"model":"m","prompt":"[SUFFIX]z[PREFIX]a",` + usage + `"stream":true}`},
		"marks of one's own": {config.Unit{Provider: config.ProviderVLLM, FillInTheMiddle: &config.FillInTheMiddle{Prefix: "\"p\n", Suffix: "<s>", Middle: "\\"}}, `{"prompt":"a","suffix":"z","stream":true}`,
			`{"model":"m","prompt":"\"p\na<s>z\\",` + usage + `"stream":true}`},
		"llama.cpp, infill": {infill, both,
			`{"input_prefix":"a\u00e9\"","input_suffix":"\\z","model":"m","n_predict":500,"input_extra":[{"filename":"","text":"x \u003c"},{"filename":"","text":"y"}],"cache_prompt":true,` +
				`"temperature":0.1,"top_p":1,"n":1,"stop":["\n"],"stream":true,"nwo":"a/b","code_annotations":false,"extra":{"language":"go","context":["x \u003c","y"]}}`},
		"llama.cpp, infill, no suffix, its own fields": {infill, `{"prompt":["a"],"cache_prompt":false,"input_extra":[1],"extra":{"context":["x"]},"top_k":5}`,
			`{"input_prefix":"a","input_suffix":"","model":"m","cache_prompt":false,"input_extra":[1],"extra":{"context":["x"]},"top_k":5}`},
		"llama.cpp, infill, a bound for what has none": {config.Unit{Provider: config.ProviderLlamaCpp, MaxTokens: 64}, `{"prompt":"a","max_tokens":null}`,
			`{"input_prefix":"a","input_suffix":"","model":"m","n_predict":64,"cache_prompt":true}`},
		"llama.cpp, infill, a stop text": {infill, `{"prompt":"a","stop":"\n"}`,
			`{"input_prefix":"a","input_suffix":"","model":"m","stop":["\n"],"cache_prompt":true}`},
		"llama.cpp, infill, its own bound": {config.Unit{Provider: config.ProviderLlamaCpp, MaxTokens: 64}, `{"prompt":"a","n_predict":9,"cache_prompt":true}`,
			`{"input_prefix":"a","input_suffix":"","model":"m","n_predict":9,"cache_prompt":true}`},
		"llama.cpp, infill, no bound of its own": {config.Unit{Provider: config.ProviderLlamaCpp, MaxTokens: 64}, `{"prompt":"a","max_completion_tokens":-1,"cache_prompt":true}`,
			`{"input_prefix":"a","input_suffix":"","model":"m","n_predict":64,"cache_prompt":true}`},
		"llama.cpp, its own bound beside OpenAI's": {llamaBound, `{"prompt":"a","max_tokens":9,"n_predict":-1,"max_completion_tokens":500}`, `{"model":"m","prompt":"a","max_tokens":9}`},
		"llama.cpp, its own bound alone":           {llamaBound, `{"prompt":"a","n_predict":-1}`, `{"model":"m","max_tokens":64,"prompt":"a"}`},
		"llama.cpp, its own bound, lower":          {llamaBound, `{"prompt":"a","max_tokens":null,"n_predict":7}`, `{"model":"m","max_tokens":7,"prompt":"a"}`},
		"llama.cpp, both too large":                {llamaBound, `{"prompt":"a","max_tokens":900,"n_predict":700}`, `{"model":"m","max_tokens":64,"prompt":"a"}`},
		"llama.cpp": {llama, `{"prompt":"a","suffix":"z","best_of":1,"echo":false,"n":2,"stream":true}`,
			`{"model":"m","prompt":"<|fim_prefix|>a<|fim_suffix|>z<|fim_middle|>",` + usage + `"n":2,"stream":true}`},
		"Ollama, generate": {generate, both,
			`{"suffix":"\\z","model":"m","prompt":"a\u00e9\"","options":{"temperature":0.1,"top_p":1,"stop":["\n"],"num_predict":500},"stream":true,"nwo":"a/b","code_annotations":false,"extra":{"language":"go","context":["x \u003c","y"]}}`},
		"Ollama, generate, unary, no suffix": {generate, `{"prompt":["a"],"stop":"\n","seed":7,"options":{"num_ctx":9,"seed":1},"logprobs":2,"keep_alive":"5m","max_tokens":null}`,
			`{"model":"m","prompt":"a","options":{"stop":["\n"],"seed":7,"num_ctx":9},"stream":false,"raw":true,"keep_alive":"5m"}`},
		"Ollama, generate, a template": {generateT, `{"prompt":"a","suffix":"z","stream":true,"temperature":null}`,
			`{"model":"m","prompt":"<|fim_prefix|>a<|fim_suffix|>z<|fim_middle|>","options":{},"stream":true,"raw":true}`},
		"Ollama, generate, its own bound": {config.Unit{Provider: config.ProviderOllama, MaxTokens: 64}, `{"prompt":"a","options":{"num_predict":9}}`,
			`{"model":"m","prompt":"a","options":{"num_predict":9},"stream":false,"raw":true}`},
		"Ollama, generate, in other letter case": {config.Unit{Provider: config.ProviderOllama, MaxTokens: 64}, `{"prompt":"a","Options":{"num_predict":-1},"RAW":false,"\u006fptionS":{}}`,
			`{"model":"m","prompt":"a","options":{"num_predict":64},"stream":false,"raw":true}`},
		"Ollama": {ollama, `{"prompt":["a"],"suffix":"z","n":1,"stream":true}`, `{"model":"m","prompt":"a",` + usage + `"suffix":"z","stream":true}`},
		"Mistral": {codestral, `{"prompt":"a","suffix":"z","seed":7,"min_tokens":1,"stream_options":{},"logprobs":2,"user":"u",` + copilot + `}`,
			`{"model":"m","random_seed":7,"prompt":"a","suffix":"z","min_tokens":1,"max_tokens":500,"temperature":0.1,"top_p":1,"stop":["\n"],"stream":true}`},
		"DeepSeek": {deepSeek, `{"prompt":["a"],"suffix":"z","max_tokens":9000,"n":1,"echo":true,"stream":true}`,
			`{"model":"m","prompt":"a","max_tokens":4096,` + usage + `"suffix":"z","echo":true,"stream":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := dialectOf(t, tc.unit).Request(Request{Body: []byte(tc.body), Model: "m", Stream: strings.Contains(tc.body, `"stream":true`), Credential: "key"})
			if err != nil || string(out.Body) != tc.want {
				t.Errorf("got %s, %v\nwant %s", out.Body, err, tc.want)
			}
			want := []Header{{"Authorization", "Bearer key"}}
			if tc.unit.Provider == config.ProviderAzureOpenAI {
				want = []Header{{"api-key", "key"}}
			}
			if diff := cmp.Diff(want, out.Headers); diff != "" {
				t.Errorf("headers (-want +got)\n%s", diff)
			}
		})
	}
}

// TestMaxTokensHold: no spelling of a request gets more tokens than its unit allows, from
// providers that would give them.
func TestMaxTokensHold(t *testing.T) {
	bounded := func(u config.Unit) config.Unit { u.MaxTokens = 50; return u }
	type sent = map[string]any // by path: what is sent there; nil is nothing
	for name, tc := range map[string]struct {
		unit config.Unit
		body string
		want sent
	}{
		"llama.cpp, its own field":          {llama, `{"prompt":"a","max_tokens":10,"n_predict":9000}`, sent{"max_tokens": 10.0, "n_predict": nil}},
		"llama.cpp, without bound":          {llama, `{"prompt":"a","n_predict":-1}`, sent{"max_tokens": 50.0, "n_predict": nil}},
		"llama.cpp, in another form":        {llama, `{"prompt":"a","n_predict":"9000"}`, sent{"max_tokens": 50.0, "n_predict": nil}},
		"llama.cpp, by an escape":           {llama, `{"prompt":"a","n\u005fpredict":9000,"n_predict":1}`, sent{"max_tokens": 50.0, "n_predict": nil}},
		"llama.cpp, twice":                  {llama, `{"prompt":"a","n_predict":1,"n_predict":9000}`, sent{"max_tokens": 1.0, "n_predict": nil}},
		"llama.cpp, within the bound":       {llama, `{"prompt":"a","max_tokens":10,"n_predict":20}`, sent{"max_tokens": 10.0, "n_predict": nil}},
		"llama.cpp, nothing said":           {llama, `{"prompt":"a"}`, sent{"max_tokens": 50.0, "n_predict": nil}},
		"llama.cpp, infill, its own field":  {infill, `{"prompt":"a","n_predict":9000}`, sent{"n_predict": 50.0}},
		"Ollama, nothing said":              {ollama, `{"prompt":"a","max_tokens":null}`, sent{"max_tokens": 50.0}},
		"Ollama, generate, its own field":   {generate, `{"prompt":"a","options":{"num_predict":-1,"num_ctx":9}}`, sent{"options.num_predict": 50.0, "options.num_ctx": 9.0}},
		"Ollama, generate, in capitals":     {generate, `{"prompt":"a","max_tokens":9,"Options":{"num_predict":9000},"option\u017f":{"num_predict":-1},"RAW":false}`, sent{"options.num_predict": 9.0, "Options": nil, "optionſ": nil, "RAW": nil}},
		"vLLM has a bound of its own":       {vllm, `{"prompt":"a"}`, sent{"max_tokens": nil}},
		"OpenAI: others' fields are nobody": {config.Unit{Provider: config.ProviderOpenAI}, `{"prompt":"a","n_predict":9000,"max_tokens":51}`, sent{"max_tokens": 50.0, "n_predict": 9000.0}},
	} {
		out, err := dialectOf(t, bounded(tc.unit)).Request(Request{Body: []byte(tc.body), Model: "m"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for path, want := range tc.want {
			if got := gjson.GetBytes(out.Body, path).Value(); got != want {
				t.Errorf("%s: %s is %v, want %v, in %s", name, path, got, want, out.Body)
			}
		}
	}
}

// TestVLLMIsSentEachIDOnce: a second one would be refused while the first runs.
func TestVLLMIsSentEachIDOnce(t *testing.T) {
	out, err := dialectOf(t, vllm).Request(Request{Body: []byte(`{"prompt":"a","request_id":"x"}`), Model: "m", ID: "r-1", Unique: func() string { return "z" }})
	want := Outbound{Body: []byte(`{"model":"m","prompt":"a"}`), Headers: []Header{{"X-Request-Id", "r-1-z"}}}
	if diff := cmp.Diff(want, out); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// TestWhatAProviderCannotDo: an answer must not be less than was asked for unseen.
func TestWhatAProviderCannotDo(t *testing.T) {
	single := []config.Unit{generate, ollama, codestral}
	for body, units := range map[string][]config.Unit{
		`{"prompt":"a","n":2}`:                     append(single, deepSeek),
		`{"prompt":"a","best_of":2}`:               append(single, deepSeek, infill, llama),
		`{"prompt":"a","echo":true}`:               append(single, infill, llama),
		`{"prompt":"a","suffix":"z","echo":true}`:  {vllm, {Provider: config.ProviderOpenAI, FillInTheMiddle: qwen}},
		`{"prompt":["a","b"]}`:                     append(single, infill, deepSeek),
		`{"prompt":"","suffix":"z","stream":true}`: {generate, ollama},
	} {
		for _, unit := range units {
			if out, err := dialectOf(t, unit).Request(Request{Body: []byte(body), Model: "m"}); err == nil || !strings.HasPrefix(err.Error(), `the field "`) {
				t.Errorf("%s %s, %s: got %s, %v; want an error that names the field", unit.Provider, unit.API, body, out.Body, err)
			}
		}
	}
	for body, units := range map[string][]config.Unit{
		`{"prompt":"a","echo":true}`:                    {azure, vllm, deepSeek},
		`{"prompt":"a","suffix":"","echo":true}`:        {azure, vllm, deepSeek},
		`{"prompt":"a","suffix":"z","echo":true}`:       {azure, deepSeek},
		`{"prompt":["a","b"],"n":2}`:                    {azure, vllm, llama},
		`{"prompt":"a","n":2}`:                          {azure, vllm, llama, infill},
		`{"prompt":"a","n":1,"best_of":1,"echo":false}`: append(single, deepSeek, llama, azure, vllm),
		`{"prompt":"a","n":null,"best_of":null}`:        append(single, deepSeek),
	} {
		for _, unit := range units {
			if _, err := dialectOf(t, unit).Request(Request{Body: []byte(body), Model: "m"}); err != nil {
				t.Errorf("%s %s, %s: %v", unit.Provider, unit.API, body, err)
			}
		}
	}
}

// TestDialectEvents gives what becomes of each provider's events.
func TestDialectEvents(t *testing.T) {
	head := func(choice string) string {
		return `{"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"ghost-code","choices":[` + choice + `]`
	}
	one := func(text, reason string) string {
		return head(`{"text":` + text + `,"index":0,"logprobs":null,"finish_reason":` + reason + `}`)
	}
	const usage = `,"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	begun, over := Event{Choices: 1, Tokens: 1, Seen: 1}, Event{Choices: 1, Seen: 1, Finished: 1, Usage: &Usage{PromptTokens: 3, CompletionTokens: 2}}
	overOne := Event{Choices: 1, Seen: 1, Finished: 1, Usage: &Usage{PromptTokens: 3, CompletionTokens: 2, OfChoice: true}}
	empty := Event{Choices: 1, Seen: 1}
	for name, tc := range map[string]struct {
		unit       config.Unit
		data, want string
		event      Event
	}{
		"infill":                          {infill, `{"index":0,"content":"a\u00e9","tokens":[],"stop":false,"id_slot":0}`, one(`"a\u00e9"`, "null") + "}", begun},
		"infill, no text":                 {infill, `{"content":"","stop":false}`, one(`""`, "null") + "}", empty},
		"infill, the end":                 {infill, `{"content":"","stop":true,"stop_type":"eos","tokens_predicted":2,"tokens_evaluated":3,"prompt":"secret"}`, one(`""`, `"stop"`) + usage, overOne},
		"infill, a stop text":             {infill, `{"content":"","stop":true,"stop_type":"word","stopping_word":"\n","tokens_predicted":2,"tokens_evaluated":3}`, one(`""`, `"stop"`) + usage, overOne},
		"infill, the limit":               {infill, `{"content":"","stop":true,"stop_type":"limit","tokens_predicted":2,"tokens_evaluated":3}`, one(`""`, `"length"`) + usage, overOne},
		"generate":                        {generate, `{"model":"x","created_at":"t","response":"a","done":false}`, one(`"a"`, "null") + "}", begun},
		"generate, the end":               {generate, `{"response":"","done":true,"done_reason":"stop","context":[1],"prompt_eval_count":3,"eval_count":2}`, one(`""`, `"stop"`) + usage, over},
		"generate, the limit":             {generate, `{"response":"","done":true,"done_reason":"length","prompt_eval_count":3,"eval_count":2}`, one(`""`, `"length"`) + usage, over},
		"generate, an error that is none": {generate, `{"error":null,"response":"a","done":false}`, one(`"a"`, "null") + "}", begun},
		"infill, the mark of a hop":       {infill, `[DONE]`, ``, Event{Done: true}},
		"infill, a byte order mark":       {infill, "\ufeff" + `{"content":"a"}`, one(`"a"`, "null") + "}", begun},
		"generate, no reason":             {generate, `{"response":"","done":true,"prompt_eval_count":3,"eval_count":2}`, one(`""`, `"stop"`) + usage, over},
		"Mistral":                         {codestral, `{"id":"x","object":"chat.completion.chunk","created":1,"model":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}`, `{"object":"text_completion","choices":[{"text":"a","index":0,"finish_reason":null}],"id":"x","created":1,"model":"c"}`, begun},
		"Mistral, no content":             {codestral, `{"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}`, `{"object":"text_completion","choices":[{"text":"","index":0,"finish_reason":null}]}`, empty},
		"Mistral, content in parts":       {codestral, `{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a\u00e9"},{"type":"reference","reference_ids":[1]},{"type":"text","text":"\n"},7]},"finish_reason":null}]}`, `{"object":"text_completion","choices":[{"text":"a\u00e9\n","index":0,"finish_reason":null}]}`, begun},
		"Mistral, its limit":              {codestral, `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"model_length"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, `{"object":"text_completion","choices":[{"text":"","finish_reason":"length","index":0}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, over},
		"Azure, the first":                {azure, `{"id":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}`, ``, Event{}},
		"Azure, the filter":               {azure, `{"id":"","choices":[{"index":0,"text":"","finish_reason":null,"content_filter_results":{}}]}`, ``, Event{}},
		"Azure, cut by filter":            {azure, `{"id":"","choices":[{"index":0,"text":"","finish_reason":"content_filter"}]}`, ``, Event{Choices: 1, Seen: 1, Finished: 1}},
		"Azure, text":                     {azure, `{"id":"c","choices":[{"index":0,"text":"a","finish_reason":null}]}`, ``, begun},
		"DeepSeek, the end":               {deepSeek, `{"choices":[{"index":0,"text":"","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, ``, over},
	} {
		t.Run(name, func(t *testing.T) {
			d, want := dialectOf(t, tc.unit), tc.event
			want.Last = want.Finished != 0 && (cmp.Equal(tc.unit, infill) || cmp.Equal(tc.unit, generate))
			switch {
			case want.Done:
			case tc.want == "":
				want.Data = []byte(tc.data)
			default:
				want.Data = []byte(tc.want)
			}
			got, err := d.Event(&Head{ID: "cmpl-1", Model: "ghost-code", Created: time.Unix(1700000000, 0)}, []byte(tc.data))
			if diff := cmp.Diff(want, got, ignoreText); diff != "" || err != nil {
				t.Errorf("error %v (-want +got)\n%s", err, diff)
			}
		})
	}
}

// TestCountsThatCannotBe: what a provider says of its tokens is added to what all others
// cost, so a count that cannot be one is none.
func TestCountsThatCannotBe(t *testing.T) {
	forms := map[string]config.Unit{
		`{"choices":[{"text":"a","finish_reason":"stop"}],"usage":{"prompt_tokens":N,"completion_tokens":N}}`:              deepSeek,
		`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":N,"completion_tokens":N}}`: codestral,
		`{"content":"a","stop":true,"tokens_evaluated":N,"tokens_predicted":N}`:                                            infill,
		`{"response":"a","done":true,"prompt_eval_count":N,"eval_count":N}`:                                                generate,
	}
	for said, want := range map[string]int64{
		"7": 7, "7.0": 7, "2147483647": 2147483647, "2147483648": 0, "9223372036854775807": 0, "1e400": 0, "-1": 0, "-1e400": 0, `"7"`: 0, "true": 0, "null": 0, "[7]": 0,
	} {
		for form, unit := range forms {
			event, err := dialectOf(t, unit).Event(&Head{}, []byte(strings.ReplaceAll(form, "N", said)))
			if got := event.Usage; err != nil || got == nil || got.PromptTokens != want || got.CompletionTokens != want {
				t.Errorf("%s: %s of %s is %+v, want %d", unit.Provider, said, form, got, want)
			}
		}
	}
	event, err := dialectOf(t, infill).Answer(&Head{}, []byte(`[{"content":"a","stop":true,"tokens_predicted":9223372036854775807},{"index":1,"content":"b","stop":true,"tokens_predicted":9223372036854775807}]`))
	if err != nil || event.Usage.CompletionTokens != 0 {
		t.Errorf("got %+v, %v for two choices that cost all that there is", event.Usage, err)
	}
}

// TestDialectErrors gives what each provider says in place of an event.
func TestDialectErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		unit config.Unit
		data string
		code string
	}{
		"vLLM":                        {vllm, `{"error":{"message":"secret","type":"InternalServerError","code":500}}`, ""},
		"vLLM before 0.10":            {vllm, `{"object":"error","message":"secret","type":"InternalServerError","param":null,"code":500}`, ""},
		"vLLM gives up":               {vllm, `{"choices":[{"index":0,"text":"","finish_reason":"abort"}]}`, "abort"},
		"infill":                      {infill, `{"error":{"code":500,"message":"secret","type":"server_error"}}`, ""},
		"llama.cpp":                   {llama, `{"error":{"code":500,"message":"secret","type":"server_error"}}`, ""},
		"generate":                    {generate, `{"error":"secret"}`, ""},
		"generate loads only":         {generate, `{"response":"","done":true,"done_reason":"load"}`, "load"},
		"Mistral":                     {codestral, `{"object":"error","message":"secret","type":"internal_server_error","code":"3000"}`, ""},
		"Mistral fails":               {codestral, `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, "error"},
		"DeepSeek has no room for it": {deepSeek, `{"choices":[{"index":0,"text":"a","finish_reason":"insufficient_system_resource"}]}`, "insufficient_system_resource"},
	} {
		t.Run(name, func(t *testing.T) {
			event, err := dialectOf(t, tc.unit).Event(&Head{}, []byte(tc.data))
			reported, ok := err.(*Error)
			if !ok || reported.Code != tc.code || event.Data != nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %+v, %v; want the provider's error with the code %q", event, err, tc.code)
			}
		})
	}
}

// TestPartOfAnAnswer: what does not say that it is the last is not passed on as all.
func TestPartOfAnAnswer(t *testing.T) {
	for body, unit := range map[string]config.Unit{
		`{"response":"a","done":false}`: generate,
		`{"response":"a"}`:              generate,
		`{"content":"a","stop":false}`:  infill,
		`[{"content":"a","stop":true},{"index":1,"content":"b","stop":false}]`: infill,
	} {
		if event, err := dialectOf(t, unit).Answer(&Head{}, []byte(body)); err == nil {
			t.Errorf("%s is taken for whole: %s", body, event.Data)
		}
	}
}

// TestEventsThatAreNone: what would be lost unseen, or told of another choice, breaks the
// answer off.
func TestEventsThatAreNone(t *testing.T) {
	units := map[string]config.Unit{"OpenAI": {Provider: config.ProviderOpenAI}, "infill": infill, "generate": generate, "Mistral": codestral}
	for name, events := range map[string][]string{
		"OpenAI":   {`{"choices":[{"index":-1,"text":"a"}]}`, `{"choices":[{"index":0.5,"text":"a"}]}`, `{"choices":[{"index":"0","text":"a"}]}`, `{"choices":[{"index":[],"text":"a"}]}`},
		"infill":   {`{"index":-1,"content":"a"}`, `{"index":true,"content":"a"}`, `{"content":["a"]}`, `{"content":{"text":"a"}}`, `{"content":1,"stop":true}`},
		"generate": {`{"response":["a"],"done":false}`, `{"response":1,"done":true}`},
		"Mistral": {
			`{"choices":[{"index":-1,"delta":{"content":"a"}}]}`, `{"choices":[{"index":1.5,"delta":{"content":"a"}}]}`,
			`{"choices":[{"index":0,"delta":{"content":1}}]}`,
			`{"error":null,"error":{"message":"secret"},"choices":[{"delta":{"content":"a"}}]}`, `{"object":"x","object":"error","choices":[{"delta":{"content":"a"}}]}`,
		},
	} {
		for _, data := range events {
			if event, err := dialectOf(t, units[name]).Event(&Head{}, []byte(data)); err == nil || event.Data != nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: got %+v, %v for %s; want an error", name, event, err, data)
			}
		}
	}
	for name, data := range map[string]string{
		"OpenAI": `{"choices":[{"index":null,"text":null}]}`, "infill": `{"index":null,"content":null}`, "generate": `{"response":null,"done":false}`,
		"Mistral": `{"choices":[{"index":0,"delta":{"content":null}}],"choices":[{"index":1.0,"delta":null}]}`,
	} {
		event, err := dialectOf(t, units[name]).Event(&Head{}, []byte(data))
		if err != nil || event.Tokens != 0 || event.Choices != 1 && name != "Mistral" || name == "Mistral" && event.Seen != 3 {
			t.Errorf("%s: got %+v, %v for %s", name, event, err, data)
		}
	}
}

// TestMisconfigured: some providers blame the request for how a unit was set up.
func TestMisconfigured(t *testing.T) {
	for _, unit := range []config.Unit{generate, ollama} {
		if r := dialectOf(t, unit).Refusal([]byte(`{"error":"registry.ollama.ai/library/m:latest does not support insert"}`)); !r.Misconfigured {
			t.Errorf("%s: got %+v, want it misconfigured", unit.API, r)
		}
	}
}

// FuzzDialects reads whatever bytes as each provider's events and answers: nothing
// panics, and what comes of it is one line of JSON.
func FuzzDialects(f *testing.F) {
	for _, data := range []string{`{"content":"a","stop":true}`, `{"response":"a","done":true}`, `{"choices":[{"delta":{"content":"a"},"index":99}]}`, "[DONE]", `{"id":"","choices":[{}]}`} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, unit := range []config.Unit{azure, vllm, infill, llama, generate, ollama, codestral, deepSeek} {
			d := dialectOf(t, unit)
			for _, read := range []func(*Head, []byte) (Event, error){d.Event, d.Answer} {
				event, err := read(&Head{ID: "i", Model: "m"}, append([]byte(nil), data...))
				if err != nil || event.Done {
					continue
				}
				if _, bad := object(event.Data); bad != nil || strings.ContainsAny(string(event.Data), "\r\n") {
					t.Errorf("%s %s made %q of %q", unit.Provider, unit.API, event.Data, data)
				}
				if event.Finished&^event.Seen != 0 || event.Tokens > event.Choices {
					t.Errorf("%s %s: %+v of %q", unit.Provider, unit.API, event, data)
				}
			}
			d.Refusal(data)
		}
	})
}

// FuzzDialectRequests puts whatever body to each provider: what comes of JSON is JSON.
func FuzzDialectRequests(f *testing.F) {
	f.Add([]byte(`{"prompt":"a","suffix":"\ud83e","stop":"x","options":{},"max_tokens":5,"extra":{"context":["a"]}}`))
	f.Add([]byte(`{"prompt":["a"],"suffix":"z"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := object(body); err != nil || onePrompt(body) == nil || onePrompt(body)[0] != '"' {
			return // the proxy has checked that much
		}
		for _, unit := range []config.Unit{azure, azureOld, vllm, infill, llama, generate, generateT, ollama, codestral, deepSeek} {
			out, err := dialectOf(t, unit).Request(Request{Body: body, Model: "m", Stream: true})
			if err != nil {
				continue
			}
			if _, err := object(out.Body); err != nil {
				t.Errorf("%s %s made %q of %q", unit.Provider, unit.API, out.Body, body)
			}
		}
	})
}
