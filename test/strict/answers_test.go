package strict

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestServed: what the references allow is served, whatever the protocol, and
// says what the model was given to read.
func TestServed(t *testing.T) {
	for _, subject := range subjects() {
		for _, protocol := range []string{"h1", "h2c"} {
			t.Run(subject.name+" "+protocol, func(t *testing.T) {
				s := subject.serve(t, Options{})
				for _, body := range []string{subject.unary, subject.stream} {
					response, answer, err := s.do(t, protocol, call{path: subject.path, body: body}.request(t, s.url, subject.usual))
					if err != nil || response.StatusCode != 200 {
						t.Fatalf("got %v %s %v; want 200", response, answer, err)
					}
					if wanted := 1 + strings.Count(protocol, "2"); response.ProtoMajor != wanted {
						t.Errorf("the protocol was %s", response.Proto)
					}
					got := said(t, answer)
					if !strings.HasPrefix(got, "‹") || !strings.HasSuffix(got, "›") || !strings.Contains(got, "def f(") || !strings.Contains(got, "return x") {
						t.Errorf("the text is %q, of %s", got, answer)
					}
				}
				if got := append(s.Violations(), s.Unknown()...); len(got) > 0 {
					t.Errorf("it is said to be wrong: %q", got)
				}
				got := s.Requests()
				if len(got) != 2 || got[0].Stream || !got[1].Stream || got[0].MaxTokens != 64 || got[0].N != 1 || string(got[1].Body) != subject.stream {
					t.Errorf("the requests are %+v", got)
				}
				if s.Completed() != 2 {
					t.Errorf("%d answers went out whole; want 2", s.Completed())
				}
			})
		}
	}
}

// said is the text of an answer in any of the forms.
func said(t *testing.T, answer string) string {
	t.Helper()
	var all strings.Builder
	for _, line := range strings.Split(answer, "\n") {
		line = strings.TrimPrefix(line, "data: ")
		if line == "" || line == "[DONE]" || line[0] == ':' {
			continue
		}
		var one struct {
			Content  string `json:"content"`
			Response string `json:"response"`
			Choices  []struct {
				Text    string `json:"text"`
				Delta   struct{ Content string }
				Message struct{ Content string }
			}
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all.WriteString(one.Content + one.Response)
		for _, choice := range one.Choices {
			all.WriteString(choice.Text + choice.Delta.Content + choice.Message.Content)
		}
	}
	return all.String()
}

// transcript is an answer with what differs between runs cut out.
func transcript(answer string) string {
	answer = regexp.MustCompile(`"created":\d{10,}`).ReplaceAllString(answer, `"created":1`)
	return regexp.MustCompile(`"created_at":"[^"]+"`).ReplaceAllString(answer, `"created_at":"T"`)
}

const filterOK = `{"hate":{"filtered":false,"severity":"safe"},"self_harm":{"filtered":false,"severity":"safe"},"sexual":{"filtered":false,"severity":"safe"},"violence":{"filtered":false,"severity":"safe"}}`

// TestStreams has each provider's stream to the byte.
func TestStreams(t *testing.T) {
	usage := &Usage{Prompt: 5, Completion: 2}
	tests := []struct {
		subject, name string
		script        Script
		body          string
		contentType   string
		want          []string // parts, in order
		whole         bool     // they are all of it
	}{
		{"OpenAI", "usage", Script{Texts: [][]string{{"é", "<"}}, Usage: usage},
			`{"model":"code","prompt":"a","stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}}`, "text/event-stream; charset=utf-8",
			[]string{
				`data: {"id":"cmpl-CZ3h8qfV0kM2sYt1uQeXlWi7Rb4Ad","object":"text_completion","created":1,"model":"code","choices":[{"text":"é","index":0,"logprobs":null,"finish_reason":null}],"usage":null,"system_fingerprint":"fp_44709d6fcb"}` + "\n\n",
				`[{"text":"<","index":0,"logprobs":null,"finish_reason":null}]`, `[{"text":"","index":0,"logprobs":null,"finish_reason":"stop"}],"usage":null`,
				`"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}`, "\n\ndata: [DONE]\n\n",
			}, false},
		{"OpenAI", "obfuscation", Say("x"), `{"model":"code","prompt":"a","stream":true}`, "text/event-stream; charset=utf-8",
			[]string{`"text":"x"`, `"obfuscation":"`, `"finish_reason":"stop"`, "data: [DONE]\n\n"}, false},
		{"OpenAI", "two of two prompts", Script{Texts: [][]string{{"a1", "a2"}, {"b1"}, {"c1"}, {"d1"}}, Finish: "length"}, `{"model":"code","prompt":["p","q"],"n":2,"stream":true}`, "text/event-stream; charset=utf-8",
			[]string{`"a1","index":0`, `"b1","index":1`, `"c1","index":2`, `"d1","index":3`, `"a2","index":0`, `"index":0,"logprobs":null,"finish_reason":"length"`, `"index":3,"logprobs":null,"finish_reason":"length"`}, false},
		{"Azure", "filters beside", Say("x"), `{"prompt":"a","stream":true}`, "text/event-stream; charset=utf-8",
			[]string{
				`data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":` + filterOK + `}]}` + "\n\n",
				`"choices":[{"text":"x","index":0,"logprobs":null,"finish_reason":null,"content_filter_results":` + filterOK + `}]`, `"finish_reason":"stop"`, "data: [DONE]\n\n",
			}, false},
		{"Azure v1", "filters behind", Script{Texts: [][]string{{"x"}}, AsyncFilter: true, Usage: usage}, `{"model":"code","prompt":"a","stream":true,"stream_options":{"include_usage":true}}`, "text/event-stream; charset=utf-8",
			[]string{
				`"model":"gpt-35-turbo-instruct-0914","choices":[{"text":"x","index":0,"logprobs":null,"finish_reason":null}]`,
				`data: {"choices":[{"content_filter_offsets":{"check_offset":5,"end_offset":6,"start_offset":5},"content_filter_results":` + filterOK + `,"finish_reason":null,"index":0}],"created":0,"id":"","model":"","object":""}` + "\n\n",
				`"finish_reason":"stop"`, `"content_filter_results":` + filterOK + `,"finish_reason":null,"index":0}]`, `"choices":[],"usage":{"prompt_tokens":5`, "data: [DONE]\n\n",
			}, false},
		{"Azure", "blocked", Script{Texts: [][]string{{"x"}}, Finish: "content_filter"}, `{"prompt":"a","stream":true,"stream_options":{"include_usage":true}}`, "text/event-stream; charset=utf-8",
			[]string{`"text":"","index":0,"logprobs":null,"finish_reason":"content_filter","content_filter_results":`, `"violence":{"filtered":true,"severity":"medium"}}}],"usage":null,"system_fingerprint":"fp_44709d6fcb"}` + "\n\ndata: [DONE]\n\n"}, false},
		{"Azure", "blocked behind", Script{Texts: [][]string{{"x"}}, Finish: "content_filter", AsyncFilter: true}, `{"prompt":"a","stream":true}`, "text/event-stream; charset=utf-8",
			[]string{`"violence":{"filtered":true,"severity":"medium"}},"finish_reason":"content_filter","index":0}],"created":0,"id":"","model":"","object":""}` + "\n\ndata: [DONE]\n\n"}, false},
		{"vLLM", "usage", Script{Texts: [][]string{{"x"}}, Usage: usage}, `{"model":"code","prompt":"a","stream":true,"stream_options":{"include_usage":true}}`, "text/event-stream; charset=utf-8",
			[]string{
				`data: {"id":"cmpl-7c2f5e0a9b1d4c3e","object":"text_completion","created":1,"model":"code","choices":[{"index":0,"text":"x","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}` + "\n\n",
				`"text":"","logprobs":null,"finish_reason":"stop"`, `"choices":[],"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2}}` + "\n\ndata: [DONE]\n\n",
			}, false},
		{"vLLM", "reason with the last text", Script{Texts: [][]string{{"x", "y"}}, Finish: "length"}, `{"model":"code","prompt":"a","stream":true}`, "text/event-stream; charset=utf-8",
			[]string{`"text":"x","logprobs":null,"finish_reason":null`, `"text":"y","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}` + "\n\ndata: [DONE]\n\n"}, false},
		{"llama.cpp infill", "stop word", Script{Texts: [][]string{{"x"}}, Usage: usage}, `{"input_prefix":"a","input_suffix":"b","prompt":"c","stop":["\n"],"stream":true}`, "text/event-stream",
			[]string{
				`data: {"index":0,"content":"x","tokens":[],"stop":false,"id_slot":0,"tokens_predicted":1,"tokens_evaluated":5}` + "\n\n",
				`data: {"index":0,"content":"","tokens":[],"stop":true,"id_slot":0,"tokens_predicted":2,"tokens_evaluated":5,"model":"code","generation_settings":{`,
				`"prompt":"<|fim_prefix|>ac<|fim_suffix|>b<|fim_middle|>"`, `"stop_type":"word","stopping_word":"\n"`, `"timings":{`,
			}, false},
		{"llama.cpp completions", "usage beside the reason", Script{Texts: [][]string{{"x"}}, Usage: usage}, `{"prompt":"a","stream":true}`, "text/event-stream",
			[]string{
				`data: {"choices":[{"text":"x","index":0,"logprobs":null,"finish_reason":null}],"created":1,"model":"code","system_fingerprint":"b9310-4d3daf80","object":"text_completion","id":"chatcmpl-`,
				`{"choices":[{"text":"","index":0,"logprobs":null,"finish_reason":"stop"}]`, `"usage":{"completion_tokens":2,"prompt_tokens":5,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":0}}`, "data: [DONE]\n\n",
			}, false},
		{"Ollama generate", "streams unless told not to", Script{Texts: [][]string{{"é"}}, Finish: "length", Usage: usage}, `{"model":"code","prompt":"a"}`, "application/x-ndjson",
			[]string{
				`{"model":"code","created_at":"T","response":"é","done":false}` + "\n",
				`{"model":"code","created_at":"T","response":"","done":true,"done_reason":"length","context":[1,2,3],"total_duration":10706818083,"load_duration":6338219291,"prompt_eval_count":5,"prompt_eval_duration":130079000,"eval_count":2,"eval_duration":4232710000}` + "\n",
			}, true},
		{"Ollama completions", "usage", Script{Texts: [][]string{{"x"}}, Usage: usage}, `{"model":"code","prompt":"a","stream":true,"stream_options":{"include_usage":true}}`, "text/event-stream",
			[]string{
				`data: {"id":"cmpl-442","object":"text_completion","created":1,"choices":[{"text":"x","index":0,"finish_reason":null}],"model":"code","system_fingerprint":"fp_ollama","usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}` + "\n\n",
				`data: {"id":"cmpl-442","object":"text_completion","created":1,"choices":[{"text":"","index":0,"finish_reason":"stop"}],"model":"code","system_fingerprint":"fp_ollama","usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}` + "\n\n",
				`data: {"id":"cmpl-442","object":"text_completion","created":1,"choices":[],"model":"code","system_fingerprint":"fp_ollama","usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}` + "\n\n",
				"data: [DONE]\n\n",
			}, true},
		{"Mistral", "deltas", Script{Texts: [][]string{{"x"}}, Usage: usage}, `{"model":"code","prompt":"a","stream":true,"random_seed":3}`, "text/event-stream; charset=utf-8",
			[]string{
				`data: {"id":"e5cc70bb28c444948073e77776eb30ef","object":"chat.completion.chunk","created":1,"model":"code","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n",
				`data: {"id":"e5cc70bb28c444948073e77776eb30ef","object":"chat.completion.chunk","created":1,"model":"code","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n",
				`data: {"id":"e5cc70bb28c444948073e77776eb30ef","object":"chat.completion.chunk","created":1,"model":"code","choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}` + "\n\n",
				"data: [DONE]\n\n",
			}, true},
		{"DeepSeek", "signs of life", Script{Texts: [][]string{{"x"}}, Usage: usage, KeepAlives: 2}, `{"model":"code","prompt":"a","stream":true,"stream_options":{"include_usage":true}}`, "text/event-stream; charset=utf-8",
			[]string{": keep-alive\n\n: keep-alive\n\ndata: {", `"choices":[{"text":"x","index":0,"logprobs":null,"finish_reason":null}],"usage":null`, `"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_cache_hit_tokens":0,"prompt_cache_miss_tokens":5}`, "data: [DONE]\n\n"}, false},
	}
	for _, tc := range tests {
		t.Run(tc.subject+" "+tc.name, func(t *testing.T) {
			subject := subjectNamed(t, tc.subject)
			s := subject.serve(t, Options{})
			s.Next(tc.script)
			response, answer, err := s.do(t, "h2c", call{path: subject.path, body: tc.body}.request(t, s.url, subject.usual))
			if err != nil || response.StatusCode != 200 || response.Header.Get("Content-Type") != tc.contentType {
				t.Fatalf("got %v %s %v; want 200 and %s", response, answer, err, tc.contentType)
			}
			answer = transcript(answer)
			if whole := strings.Join(tc.want, ""); tc.whole && answer != whole {
				t.Errorf("got\n%s\nwant\n%s", answer, whole)
			}
			inOrder(t, answer, tc.want)
			if got := s.Violations(); len(got) > 0 {
				t.Errorf("it is said to be wrong: %q", got)
			}
		})
	}
}

func inOrder(t *testing.T, answer string, parts []string) {
	t.Helper()
	rest := answer
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("no %s where it should be in\n%s", part, answer)
		}
		rest = after
	}
}

// TestNoDone: two providers end a stream without [DONE].
func TestNoDone(t *testing.T) {
	for _, name := range []string{"llama.cpp infill", "Ollama generate"} {
		subject := subjectNamed(t, name)
		s := subject.serve(t, Options{})
		_, answer, err := s.do(t, "h1", call{path: subject.path, body: subject.stream}.request(t, s.url, subject.usual))
		if err != nil || strings.Contains(answer, "[DONE]") {
			t.Errorf("%s: got %s %v; want no [DONE]", name, answer, err)
		}
	}
}

// TestObjects has each provider's answer that is not a stream.
func TestObjects(t *testing.T) {
	script := Script{Texts: [][]string{{"x", "y"}}, Usage: &Usage{Prompt: 5, Completion: 2}}
	openAIUsage := `"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7`
	for name, want := range map[string][]string{
		"OpenAI":                {`"object":"text_completion"`, `"choices":[{"text":"xy","index":0,"logprobs":null,"finish_reason":"stop"}]`, openAIUsage},
		"Azure":                 {`"choices":[{"text":"xy","index":0,"logprobs":null,"finish_reason":"stop","content_filter_results":`, openAIUsage, `"prompt_filter_results":[{"prompt_index":0,`},
		"vLLM":                  {`"choices":[{"index":0,"text":"xy","logprobs":null,"finish_reason":"stop","stop_reason":null`, `"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2}`, `"service_tier":null`},
		"llama.cpp infill":      {`"index":0,"content":"xy"`, `"stop":true`, `"tokens_predicted":2,"tokens_evaluated":5`, `"stop_type":"eos"`},
		"llama.cpp completions": {`"choices":[{"text":"xy","index":0,"logprobs":null,"finish_reason":"stop"}]`, `"usage":{"completion_tokens":2,"prompt_tokens":5,"total_tokens":7`},
		"Ollama generate":       {`"response":"xy","done":true,"done_reason":"stop"`, `"prompt_eval_count":5`, `"eval_count":2`},
		"Ollama completions":    {`"choices":[{"text":"xy","index":0,"finish_reason":"stop"}]`, `"system_fingerprint":"fp_ollama"`, openAIUsage},
		"Mistral":               {`"object":"chat.completion"`, `"message":{"content":"xy","prefix":false,"role":"assistant","tool_calls":null}`, openAIUsage},
		"DeepSeek":              {`"choices":[{"text":"xy","index":0,"logprobs":null,"finish_reason":"stop"}]`, openAIUsage + `,"prompt_cache_hit_tokens":0`},
	} {
		t.Run(name, func(t *testing.T) {
			subject := subjectNamed(t, name)
			s := subject.serve(t, Options{})
			s.Next(script)
			response, answer, err := s.do(t, "h1", call{path: subject.path, body: subject.unary}.request(t, s.url, subject.usual))
			if err != nil || response.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("got %v %s %v", response, answer, err)
			}
			inOrder(t, answer, want)
			if !json.Valid([]byte(answer)) {
				t.Errorf("not JSON: %s", answer)
			}
		})
	}
}

// TestOddObjects: an array where several infills are asked for, empty lines
// before an object, and a prompt that only loads.
func TestOddObjects(t *testing.T) {
	tests := []struct {
		subject, body string
		script        Script
		want          []string
	}{
		{"llama.cpp infill", `{"input_prefix":"a","input_suffix":"b","n_cmpl":2}`, Script{}, []string{`[{"index":0,`, `},{"index":1,`}},
		{"DeepSeek", `{"model":"code","prompt":"a"}`, Script{KeepAlives: 3}, []string{"\n\n\n{"}},
		{"llama.cpp infill", `{"input_prefix":"a","input_suffix":"b","stream":true}`, Script{KeepAlives: 2}, []string{":\n\n:\n\ndata: {"}},
		{"llama.cpp completions", `{"prompt":"a","stream":true}`, Script{KeepAlives: 1, Fail: &Failure{}}, []string{":\n\n" + `data: {"error":{"code":500`}},
		{"llama.cpp completions", `{"prompt":"a"}`, Script{KeepAlives: 1}, []string{`{"choices":`}},
		{"Ollama generate", `{"model":"code","prompt":""}`, Script{}, []string{`"response":"","done":true,"done_reason":"load"}`}},
		{"Ollama completions", `{"model":"code","prompt":"","stream":true}`, Script{}, []string{`"text":"","index":0,"finish_reason":"load"`, "[DONE]"}},
	}
	for _, tc := range tests {
		subject := subjectNamed(t, tc.subject)
		s := subject.serve(t, Options{})
		s.Next(tc.script)
		response, answer, err := s.do(t, "h2c", call{path: subject.path, body: tc.body}.request(t, s.url, subject.usual))
		if err != nil || response.StatusCode != 200 {
			t.Fatalf("%s: got %v %s %v", tc.subject, response, answer, err)
		}
		inOrder(t, answer, tc.want)
	}
}

// TestLimits: a 429 as each provider says it, and when to come back.
func TestLimits(t *testing.T) {
	for name, want := range map[string]struct {
		body    string
		headers map[string]string
	}{
		"OpenAI":                {`"code":"rate_limit_exceeded"`, map[string]string{"Retry-After": "3", "Retry-After-Ms": "2500", "X-Ratelimit-Reset-Tokens": "2.5s", "X-Ratelimit-Remaining-Tokens": "0"}},
		"Azure":                 {`{"error":{"code":"429"`, map[string]string{"Retry-After": "3", "Retry-After-Ms": "2500", "X-Ratelimit-Limit-Tokens": "-1", "X-Ratelimit-Reset-Tokens": "0"}},
		"vLLM":                  {`<h1>Too Many Requests</h1>`, map[string]string{"Retry-After": "3", "Content-Type": "text/html"}},
		"llama.cpp infill":      {`<h1>Too Many Requests</h1>`, map[string]string{"Retry-After": "3"}},
		"llama.cpp completions": {`<h1>Too Many Requests</h1>`, map[string]string{"Retry-After": "3"}},
		"Ollama generate":       {`<h1>Too Many Requests</h1>`, map[string]string{"Retry-After": "3"}},
		"Mistral":               {`"type":"rate_limited"`, map[string]string{"Retry-After": "3", "X-Ratelimit-Remaining-Req-Minute": "0"}},
		"DeepSeek":              {`"Too many requests. Your current concurrency is`, map[string]string{"Retry-After": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			subject := subjectNamed(t, name)
			s := subject.serve(t, Options{})
			limit := Failure{Status: 429, RetryAfter: 2500 * time.Millisecond}
			bare := limit
			bare.Bare = true
			s.Next(Script{Fail: &limit}, Script{Fail: &bare}, Script{Fail: &bare, Header: map[string][]string{"retry-after": {"9"}}})
			for i, header := range []map[string]string{want.headers, {"Retry-After": "", "Retry-After-Ms": ""}, {"Retry-After": "9"}} {
				response, body, err := s.do(t, "h2c", call{path: subject.path, body: subject.stream}.request(t, s.url, subject.usual))
				if err != nil || response.StatusCode != 429 || !strings.Contains(body, want.body) {
					t.Fatalf("%d: got %v %s %v; want 429 with %s", i, response, body, err, want.body)
				}
				for name, value := range header {
					if got := response.Header.Get(name); got != value {
						t.Errorf("%d: %s is %q; want %q", i, name, got, value)
					}
				}
			}
			if got := s.Violations(); len(got) > 0 {
				t.Errorf("a limit is no violation: %q", got)
			}
		})
	}
}
