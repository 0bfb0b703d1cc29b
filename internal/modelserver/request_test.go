package modelserver

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRequest(t *testing.T) {
	seed := int64(-3)
	for _, test := range []struct {
		name, body string
		want       request
	}{
		{"the least", `{"prompt":"a"}`,
			request{model: "ngram", prompts: []string{"a"}, maxTokens: 16, n: 1, temperature: 1}},
		{"nulls and what it does not know", `{"prompt":"a","suffix":null,"stop":null,"n":null,"max_tokens":null,"temperature":null,
			"seed":null,"stream":null,"stream_options":null,"echo":null,"extra":{"language":"go"},"logprobs":2}`,
			request{model: "ngram", prompts: []string{"a"}, maxTokens: 16, n: 1, temperature: 1}},
		{"all of it", `{"model":"m","prompt":["a","b"],"suffix":"c","stop":"d","max_tokens":5,"n":2,"temperature":0,"top_p":0.5,"seed":-3,
			"stream":true,"stream_options":{"include_usage":true},"echo":false}`,
			request{model: "m", prompts: []string{"a", "b"}, suffix: "c", stops: []string{"d"}, maxTokens: 5, n: 2,
				seed: &seed, stream: true, includeUsage: true}},
		{"an empty prompt and several stops", `{"prompt":"","stop":["a","b","c","d"]}`,
			request{model: "ngram", prompts: []string{""}, stops: []string{"a", "b", "c", "d"}, maxTokens: 16, n: 1, temperature: 1}},
		{"the last of two", `{"prompt":["a","b"],"prompt":"c"}`,
			request{model: "ngram", prompts: []string{"c"}, maxTokens: 16, n: 1, temperature: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseRequest([]byte(test.body), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&test.want, got, cmp.AllowUnexported(request{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseRequestRefuses(t *testing.T) {
	for _, test := range []struct {
		name, body   string
		param, wants string
	}{
		{"nothing", " \n", "", "empty"},
		{"no JSON", `prompt=a`, "", "not JSON: syntax error at byte 1"},
		{"half of it", `{"prompt":"a`, "", "not JSON"},
		{"two values", `{"prompt":"a"} {}`, "", "not JSON"},
		{"an array", `[]`, "", "the body is a JSON array; it must be an object"},
		{"no prompt", `{"suffix":"a"}`, "prompt", "prompt is missing"},
		{"null prompt", `{"prompt":null}`, "prompt", "prompt is missing"},
		{"no prompts", `{"prompt":[]}`, "prompt", "prompt is missing"},
		{"a number", `{"prompt":12}`, "prompt", "prompt is a number; it must be a string"},
		{"tokens", `{"prompt":[1,2]}`, "prompt", "tokens are not understood here"},
		{"arrays of tokens", `{"prompt":[[1],[2]]}`, "prompt", "an array with an array"},
		{"null among prompts", `{"prompt":["a",null]}`, "prompt", "an array with null"},
		{"suffix", `{"prompt":"a","suffix":["b"]}`, "suffix", "got a JSON array, wanted string"},
		{"stream", `{"prompt":"a","stream":"yes"}`, "stream", "got a JSON string, wanted bool"},
		{"fraction", `{"prompt":"a","max_tokens":1.5}`, "max_tokens", "got a JSON number, wanted int"},
		{"max_tokens", `{"prompt":"a","max_tokens":-1}`, "max_tokens", "max_tokens is -1; it must be from 1"},
		{"no tokens", `{"prompt":"a","max_tokens":0}`, "max_tokens", "from 1 to 8192"},
		{"n", `{"prompt":"a","n":0}`, "n", "n is 0; it must be at least 1"},
		{"n of several prompts", `{"prompt":["a","b"],"n":65}`, "n", "at most 128"},
		{"temperature", `{"prompt":"a","temperature":2.1}`, "temperature", "temperature is 2.1; it must be from 0 to 2"},
		{"top_p", `{"prompt":"a","top_p":-1}`, "top_p", "from 0 to 1"},
		{"stops", `{"prompt":"a","stop":["1","2","3","4","5"]}`, "stop", "stop has 5 texts; it may have 4"},
		{"empty stop", `{"prompt":"a","stop":""}`, "stop", "empty text"},
		{"stop", `{"prompt":"a","stop":{}}`, "stop", "stop is an object"},
		{"echo", `{"prompt":"a","echo":true}`, "echo", "echo is not supported"},
		{"deep nesting", `{"prompt":"a","x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "", "not JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := parseRequest([]byte(test.body), nil)
			var failure *apiError
			if !errors.As(err, &failure) {
				t.Fatalf("error %v; want an *apiError", err)
			}
			if failure.status != http.StatusBadRequest || failure.param != test.param || !strings.Contains(failure.message, test.wants) {
				t.Errorf("got %d, param %q: %s\nwant 400, param %q, with %q", failure.status, failure.param, failure.message, test.param, test.wants)
			}
		})
	}
}

func TestParseRequestKnowsItsModels(t *testing.T) {
	models := []string{"one", "two"}
	if _, err := parseRequest([]byte(`{"model":"two","prompt":"a"}`), models); err != nil {
		t.Errorf("a model that is there: %v", err)
	}
	for _, body := range []string{`{"model":"three","prompt":"a"}`, `{"prompt":"a"}`} {
		_, err := parseRequest([]byte(body), models)
		var failure *apiError
		if !errors.As(err, &failure) || failure.status != http.StatusNotFound || failure.code != "model_not_found" ||
			!strings.Contains(failure.message, "one, two") {
			t.Errorf("%s: %v; want a 404 that names the models", body, err)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","prompt":["a","b"],"stop":"d","max_tokens":5,"n":2,"temperature":0.5,"seed":3,"stream":true}`))
	f.Add([]byte(`{"prompt":[1,2],"stop":[null]}`))
	f.Add([]byte(`{"prompt": "\ud800"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := parseRequest(body, nil)
		if err != nil {
			var failure *apiError
			if !errors.As(err, &failure) || failure.status != http.StatusBadRequest || failure.message == "" {
				t.Fatalf("error %#v; want a 400 with a message", err)
			}
			return
		}
		if len(req.prompts) == 0 || req.maxTokens < 1 || req.n < 1 || len(req.prompts)*req.n > maxCompletions || req.model == "" {
			t.Fatalf("accepted %+v", req)
		}
	})
}
