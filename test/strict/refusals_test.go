package strict

import (
	"strings"
	"testing"
)

// TestRefusals has, per provider, what it must refuse, and how.
func TestRefusals(t *testing.T) {
	tests := []struct {
		subject string
		name    string
		options Options
		call    call // path and body default to the subject's
		status  int
		body    string // a part of the answer
		say     string // a part of a violation
	}{
		{"OpenAI", "no key", Options{}, call{headers: map[string]string{"Authorization": ""}}, 401, `"You didn't provide an API key.`, "no credential"},
		{"OpenAI", "wrong key", Options{}, call{headers: map[string]string{"Authorization": "Bearer no"}}, 401, `"code":"invalid_api_key"`, "not the provider's"},
		{"OpenAI", "azure's key", Options{}, call{headers: map[string]string{"Authorization": "", "api-key": testKey}}, 401, `"error"`, "Api-Key is not of the API"},
		{"OpenAI", "GET", Options{}, call{method: "GET"}, 405, `"code":"method_not_supported"`, "method is GET"},
		{"OpenAI", "path", Options{}, call{path: "/v1/engines/code/completions"}, 404, `"Invalid URL (POST /v1/engines/code/completions)"`, "path /v1/engines"},
		{"OpenAI", "content type", Options{}, call{headers: map[string]string{"Content-Type": "text/plain"}}, 400, `"unsupported_content_type"`, "Content-Type"},
		{"OpenAI", "not JSON", Options{}, call{body: `{"model":`}, 400, `We could not parse the JSON body`, "not a JSON object"},
		{"OpenAI", "model", Options{}, call{body: `{"model":"x","prompt":"a"}`}, 404, `"code":"model_not_found"`, `model is "x"`},
		{"OpenAI", "no model", Options{}, call{body: `{"prompt":"a"}`}, 400, `you must provide a model parameter`, "model is required"},
		{"OpenAI", "unknown field", Options{}, call{body: `{"model":"code","prompt":"a","nwo":"o/r"}`}, 400, `"Unrecognized request argument supplied: nwo","type":"invalid_request_error","param":null,"code":null`, "nwo is a field"},
		{"OpenAI", "unknown fields", Options{}, call{body: `{"model":"code","prompt":"a","extra":{},"nwo":"o/r"}`}, 400, `arguments supplied: extra, nwo"`, "extra is a field"},
		{"OpenAI", "type", Options{}, call{body: `{"model":"code","prompt":"a","max_tokens":"9"}`}, 400, `"param":"max_tokens","code":"invalid_type"`, "max_tokens is of kind string"},
		{"OpenAI", "n", Options{}, call{body: `{"model":"code","prompt":"a","n":129}`}, 400, `"param":"n"`, "n is out of range"},
		{"OpenAI", "stops", Options{}, call{body: `{"model":"code","prompt":"a","stop":["1","2","3","4","5"]}`}, 400, `"param":"stop"`, "stop is out of range"},
		{"OpenAI", "bias", Options{}, call{body: `{"model":"code","prompt":"a","logit_bias":{"50256":-101}}`}, 400, `"param":"logit_bias"`, "logit_bias"},
		{"OpenAI", "usage without stream", Options{}, call{body: `{"model":"code","prompt":"a","stream_options":{"include_usage":true}}`}, 400, `"param":"stream_options"`, "only allowed when 'stream'"},
		{"OpenAI", "unknown part", Options{}, call{body: `{"model":"code","prompt":"a","stream":true,"stream_options":{"x":1}}`}, 400, `supplied: stream_options.x`, "stream_options.x"},
		{"OpenAI", "best of too few", Options{}, call{body: `{"model":"code","prompt":"a","n":3,"best_of":2}`}, 400, `"param":"best_of"`, "best_of"},

		{"Azure", "bearer", Options{}, call{headers: map[string]string{"api-key": "", "Authorization": "Bearer " + testKey}}, 401, `"code":"401","message":"Access denied`, "Authorization was sent"},
		{"Azure", "both", Options{}, call{headers: bearer()}, 401, `Access denied`, "Authorization was sent"},
		{"Azure", "wrong key", Options{}, call{headers: map[string]string{"api-key": "no"}}, 401, `Access denied`, "not the provider's"},
		{"Azure", "no version", Options{}, call{path: "/openai/deployments/code/completions"}, 404, `"Resource not found"`, "api-version"},
		{"Azure", "old version", Options{}, call{path: "/openai/deployments/code/completions?api-version=2020-01-01"}, 404, `"Resource not found"`, "api-version"},
		{"Azure", "deployment", Options{}, call{path: "/openai/deployments/other/completions?api-version=2024-10-21"}, 404, `"DeploymentNotFound"`, "is not of the API"},
		{"Azure", "unknown field", Options{}, call{body: `{"prompt":"a","extra":{}}`}, 400, `Unrecognized request argument supplied: extra`, "extra is a field"},
		{"Azure v1", "model", Options{}, call{body: `{"model":"x","prompt":"a"}`}, 404, `"DeploymentNotFound"`, `model is "x"`},
		{"Azure v1", "no model", Options{}, call{body: `{"prompt":"a"}`}, 400, `you must provide a model`, "model is required"},
		{"Azure v1", "dated version", Options{}, call{path: "/openai/v1/completions?api-version=2024-10-21"}, 404, `"Resource not found"`, "api-version"},

		{"vLLM", "key", Options{}, call{headers: map[string]string{"Authorization": "Bearer no"}}, 401, `{"error":"Unauthorized"}`, "not the provider's"},
		{"vLLM", "suffix", Options{}, call{body: `{"model":"code","prompt":"a","suffix":"b"}`}, 400, `{"error":{"message":"suffix is not currently supported","type":"BadRequestError","param":null,"code":400}}`, "suffix is not"},
		{"vLLM", "empty suffix", Options{}, call{body: `{"model":"code","prompt":"a","suffix":""}`}, 400, `suffix is not currently supported`, "suffix is not"},
		{"vLLM", "null n", Options{}, call{body: `{"model":"code","prompt":"a","n":null}`}, 400, `'loc': ('body', 'n')`, "n is of kind null"},
		{"vLLM", "greedy n", Options{}, call{body: `{"model":"code","prompt":"a","n":3,"temperature":0}`}, 400, `n must be 1 when using greedy sampling, got 3.`, "greedy"},
		{"vLLM", "empty prompt", Options{}, call{body: `{"model":"code","prompt":""}`}, 400, `must be provided and non-empty`, "non-empty"},
		{"vLLM", "no tokens", Options{}, call{body: `{"model":"code","prompt":"a","max_tokens":0}`}, 400, `max_tokens must be at least 1, got 0.`, "at least 1"},
		{"vLLM", "top_p", Options{}, call{body: `{"model":"code","prompt":"a","top_p":0}`}, 400, `top_p must be in (0, 1]`, "top_p"},
		{"vLLM", "empty stop", Options{}, call{body: `{"model":"code","prompt":"a","stop":["\n",""]}`}, 400, `stop cannot contain an empty string`, "empty string"},
		{"vLLM", "usage without stream", Options{}, call{body: `{"model":"code","prompt":"a","stream_options":{"include_usage":true}}`}, 400, "only be defined when `stream=True`", "Stream options"},
		{"vLLM", "model", Options{}, call{body: `{"model":"x","prompt":"a"}`}, 404, `"type":"NotFoundError","param":null,"code":404`, `model is "x"`},
		{"vLLM", "content type", Options{}, call{headers: map[string]string{"Content-Type": "text/plain"}}, 400, `Only 'application/json' is allowed`, "Content-Type"},
		{"vLLM", "path", Options{}, call{path: "/infill"}, 404, `"message":"Not Found"`, "path /infill"},
		{"vLLM", "GET", Options{}, call{method: "GET"}, 405, `Method Not Allowed`, "method is GET"},

		{"llama.cpp infill", "key", Options{}, call{headers: map[string]string{"Authorization": ""}}, 401, `"type":"authentication_error"`, "no credential"},
		{"llama.cpp infill", "no suffix", Options{}, call{body: `{"input_prefix":"a"}`}, 400, `\"input_suffix\" is required`, "input_suffix is required"},
		{"llama.cpp infill", "no prefix", Options{}, call{body: `{"input_suffix":"a"}`}, 400, `\"input_prefix\" is required`, "input_prefix is required"},
		{"llama.cpp infill", "extra without text", Options{}, call{body: `{"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"x"}]}`}, 400, `input_extra`, "input_extra"},
		{"llama.cpp infill", "prompts", Options{}, call{body: `{"input_prefix":"a","input_suffix":"b","prompt":["c"]}`}, 400, `prompt`, "prompt is of kind array"},
		{"llama.cpp infill", "not taught", Options{NoInsert: true}, call{}, 501, `"type":"not_supported_error"`, "not taught"},
		{"llama.cpp infill", "GET", Options{}, call{method: "GET"}, 404, `File Not Found`, "method is GET"},
		{"llama.cpp completions", "suffix", Options{}, call{body: `{"prompt":"a","suffix":"b"}`}, 500, `{"error":{"code":500,"message":"Unsupported param: suffix","type":"server_error"}}`, "suffix"},
		{"llama.cpp completions", "null suffix", Options{}, call{body: `{"prompt":"a","suffix":null}`}, 500, `Unsupported param: suffix`, "suffix"},
		{"llama.cpp completions", "best of", Options{}, call{body: `{"prompt":"a","best_of":1}`}, 500, `Unsupported param: best_of`, "best_of"},
		{"llama.cpp completions", "echo", Options{}, call{body: `{"prompt":"a","echo":true}`}, 500, `Only no echo is supported`, "echo"},
		{"llama.cpp completions", "n beyond slots", Options{Slots: 2}, call{body: `{"prompt":"a","n":3}`}, 400, `Field 'n': Value must be between 1 <= value <= 2, but got 3`, "n is out of range"},
		{"llama.cpp completions", "type", Options{}, call{body: `{"prompt":"a","max_tokens":"9"}`}, 400, `Field 'max_tokens'`, "max_tokens is of kind string"},
		{"llama.cpp completions", "no prompt", Options{}, call{body: `{"max_tokens":9}`}, 400, `\"prompt\" is required`, "prompt is required"},

		{"Ollama generate", "model", Options{}, call{body: `{"model":"x","prompt":"a"}`}, 404, `{"error":"model 'x' not found"}`, `model is "x"`},
		{"Ollama generate", "cannot insert", Options{NoInsert: true}, call{}, 400, `{"error":"registry.ollama.ai/library/code does not support insert"}`, "cannot insert"},
		{"Ollama generate", "prompts", Options{}, call{body: `{"model":"code","prompt":["a"]}`}, 400, `json: cannot unmarshal array`, "prompt is of kind array"},
		{"Ollama generate", "stop text", Options{}, call{body: `{"model":"code","prompt":"a","options":{"stop":"b"}}`}, 500, `option \"stop\" must be of type array`, "options.stop"},
		{"Ollama generate", "raw system", Options{}, call{body: `{"model":"code","prompt":"a","raw":true,"system":"b"}`}, 400, `raw mode does not support`, "raw with system"},
		{"Ollama generate", "GET", Options{}, call{method: "GET"}, 405, `405 method not allowed`, "method is GET"},
		{"Ollama generate", "path", Options{}, call{path: "/generate"}, 404, `404 page not found`, "path /generate"},
		{"Ollama completions", "prompts", Options{}, call{body: `{"model":"code","prompt":["a"]}`}, 400, `"type":"invalid_request_error","param":null,"code":null`, "prompt is of kind array"},
		{"Ollama completions", "model", Options{}, call{body: `{"model":"x","prompt":"a"}`}, 404, `"type":"not_found_error"`, `model is "x"`},
		{"Ollama completions", "cannot insert", Options{NoInsert: true}, call{}, 400, `does not support insert","type":"invalid_request_error"`, "cannot insert"},

		{"Mistral", "key", Options{}, call{headers: map[string]string{"Authorization": "Bearer no"}}, 401, `{"detail":"Unauthorized"}`, "not the provider's"},
		{"Mistral", "n", Options{}, call{body: `{"model":"code","prompt":"a","n":1}`}, 422, `"extra_forbidden"`, "n is a field"},
		{"Mistral", "usage", Options{}, call{body: `{"model":"code","prompt":"a","stream":true,"stream_options":{"include_usage":true}}`}, 422, `"loc":["body","stream_options"]`, "stream_options is a field"},
		{"Mistral", "seed", Options{}, call{body: `{"model":"code","prompt":"a","seed":1}`}, 422, `"loc":["body","seed"]`, "seed is a field"},
		{"Mistral", "prompts", Options{}, call{body: `{"model":"code","prompt":["a"]}`}, 422, `"string_type"`, "prompt is of kind array"},
		{"Mistral", "temperature", Options{}, call{body: `{"model":"code","prompt":"a","temperature":2}`}, 422, `"less_than_equal"`, "temperature is out of range"},
		{"Mistral", "null stream", Options{}, call{body: `{"model":"code","prompt":"a","stream":null}`}, 422, `"bool_type"`, "stream is of kind null"},
		{"Mistral", "model", Options{}, call{body: `{"model":"x","prompt":"a"}`}, 400, `"type":"invalid_model"`, `model is "x"`},
		{"Mistral", "path", Options{}, call{path: "/v1/completions"}, 404, `no Route matched`, "path /v1/completions"},

		{"DeepSeek", "key", Options{}, call{headers: map[string]string{"Authorization": "Bearer no"}}, 401, `"type":"authentication_error","param":null,"code":"invalid_request_error"`, "not the provider's"},
		{"DeepSeek", "key form", Options{}, call{headers: map[string]string{"Authorization": testKey}}, 401, `auth header format should be Bearer`, "not of the form"},
		{"DeepSeek", "tokens", Options{}, call{body: `{"model":"code","prompt":"a","max_tokens":4097}`}, 400, `Invalid max_tokens value, the valid range of max_tokens is [1, 4096]`, "max_tokens is out of range"},
		{"DeepSeek", "prompts", Options{}, call{body: `{"model":"code","prompt":["a"]}`}, 422, `Failed to deserialize the JSON body`, "prompt is of kind array"},
		{"DeepSeek", "n", Options{}, call{body: `{"model":"code","prompt":"a","n":2}`}, 400, `currently only n = 1 is supported`, "n is 2"},
		{"DeepSeek", "not beta", Options{}, call{path: "/v1/completions"}, 400, `only available when using beta api`, "path /v1/completions"},
		{"DeepSeek", "model", Options{}, call{body: `{"model":"x","prompt":"a"}`}, 400, `Model Not Exist`, `model is "x"`},
		{"DeepSeek", "usage without stream", Options{}, call{body: `{"model":"code","prompt":"a","stream_options":{"include_usage":true}}`}, 400, `stream_options`, "stream_options without stream"},
	}
	for _, tc := range tests {
		t.Run(tc.subject+" "+tc.name, func(t *testing.T) {
			subject := subjectNamed(t, tc.subject)
			s := subject.serve(t, tc.options)
			c := tc.call
			if c.path == "" {
				c.path = subject.path
			}
			if c.body == "" {
				c.body = subject.unary
			}
			response, body, err := s.do(t, "h1", c.request(t, s.url, subject.usual))
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != tc.status || !strings.Contains(body, tc.body) {
				t.Errorf("got %d %s; want %d with %s", response.StatusCode, body, tc.status, tc.body)
			}
			if said := strings.Join(s.Violations(), "\n"); !strings.Contains(said, tc.say) {
				t.Errorf("the violations are %q; want one with %q", said, tc.say)
			}
			if got := s.Requests(); len(got) != 1 || got[0].Refused != tc.status {
				t.Errorf("the requests are %+v; want one, refused with %d", got, tc.status)
			}
		})
	}
}

// TestServedViolations are those that the provider does not notice.
func TestServedViolations(t *testing.T) {
	tests := []struct {
		subject, name string
		call          call
		say           string
	}{
		{"OpenAI", "gzip", call{headers: map[string]string{"Accept-Encoding": "gzip, identity"}}, `Accept-Encoding offers "gzip"`},
		{"OpenAI", "a client's header", call{headers: map[string]string{"X-Copilot-Async": "1"}}, "header X-Copilot-Async is not of the API"},
		{"llama.cpp completions", "a conversation", call{headers: map[string]string{"X-Conversation-Id": "1"}}, "header X-Conversation-Id"},
		{"OpenAI", "a query", call{path: "/v1/completions?api-version=1"}, "query parameter api-version"},
		{"OpenAI", "a field twice", call{body: `{"model":"code","prompt":"a","prompt":"b"}`}, "prompt is there twice"},
		{"llama.cpp infill", "content type", call{headers: map[string]string{"Content-Type": "text/plain"}}, "Content-Type"},
		{"Ollama generate", "raw suffix", call{body: `{"model":"code","prompt":"a","suffix":"b","raw":true}`}, "suffix with raw"},
		{"Ollama generate", "empty prompt", call{body: `{"model":"code","prompt":"","suffix":"b","stream":false}`}, "an empty prompt only loads"},
	}
	for _, tc := range tests {
		t.Run(tc.subject+" "+tc.name, func(t *testing.T) {
			subject := subjectNamed(t, tc.subject)
			s := subject.serve(t, Options{})
			c := tc.call
			if c.path == "" {
				c.path = subject.path
			}
			if c.body == "" {
				c.body = subject.unary
			}
			response, body, err := s.do(t, "h1", c.request(t, s.url, subject.usual))
			if err != nil || response.StatusCode != 200 {
				t.Fatalf("got %v %s %v; want 200", response, body, err)
			}
			if got := s.Violations(); len(got) != 1 || !strings.Contains(got[0], tc.say) {
				t.Errorf("the violations are %q; want one with %q", got, tc.say)
			}
		})
	}
}

// TestKeylessProvider: a credential that nobody asked for is a leak.
func TestKeylessProvider(t *testing.T) {
	s := serve(t, Ollama(Options{Model: testModel}))
	subject := subjectNamed(t, "Ollama completions")
	for i, usual := range []map[string]string{nil, bearer()} {
		if _, _, err := s.do(t, "h1", call{path: subject.path, body: subject.unary}.request(t, s.url, usual)); err != nil {
			t.Fatal(err)
		}
		if got := s.Violations(); len(got) != i {
			t.Errorf("after %d credentials the violations are %q", i, got)
		}
	}
}

// TestUnknown has what providers skip without a word.
func TestUnknown(t *testing.T) {
	for subject, tests := range map[string]map[string]string{
		"Azure":                 {`{"model":"code","prompt":"a"}`: "model"},
		"vLLM":                  {`{"model":"code","prompt":"a","extra":{}}`: "extra", `{"model":"code","prompt":"a","best_of":1}`: "best_of"},
		"llama.cpp infill":      {`{"input_prefix":"a","input_suffix":"b","nwo":"c"}`: "nwo", `{"input_prefix":"a","input_suffix":"b","suffix":"c"}`: "suffix"},
		"llama.cpp completions": {`{"prompt":"a","user":"u"}`: "user"},
		"Ollama generate":       {`{"model":"code","prompt":"a","max_tokens":9}`: "max_tokens", `{"model":"code","prompt":"a","options":{"max_tokens":9}}`: "options.max_tokens"},
		"Ollama completions":    {`{"model":"code","prompt":"a","n":3}`: "n", `{"model":"code","prompt":"a","logit_bias":{}}`: "logit_bias"},
		"DeepSeek":              {`{"model":"code","prompt":"a","seed":1}`: "seed", `{"model":"code","prompt":"a","n":1}`: "n"},
	} {
		for body, want := range tests {
			t.Run(subject+" "+want, func(t *testing.T) {
				subject := subjectNamed(t, subject)
				s := subject.serve(t, Options{})
				response, answer, err := s.do(t, "h1", call{path: subject.path, body: body}.request(t, s.url, subject.usual))
				if err != nil || response.StatusCode != 200 {
					t.Fatalf("got %v %s %v; want 200", response, answer, err)
				}
				if got := s.Unknown(); len(got) != 1 || got[0] != "request 1: "+want {
					t.Errorf("the unknown fields are %q; want %s", got, want)
				}
				if got := s.Violations(); len(got) != 0 {
					t.Errorf("the violations are %q; want none", got)
				}
			})
		}
	}
}
