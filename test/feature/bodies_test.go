package feature

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// secretText stands in the prompts of refused bodies: no answer, log line or
// metric may repeat it.
const secretText = "sesame-prompt-text"

// withField is a good body with one more member.
func withField(member string) string {
	return `{"model":"ghost-code","prompt":"` + secretText + `",` + member + `}`
}

// withPrompt is a body whose prompt is the given JSON.
func withPrompt(value string) string { return `{"model":"ghost-code","prompt":` + value + `}` }

func TestBodiesThatAreNoRequest(t *testing.T) {
	runBodies(t, []badBody{
		{"empty", "", "has no body"},
		{"white space", " \r\n\t ", "has no body"},
		{"text", "prompt=" + secretText, "must be a JSON object"},
		{"a list", `[{"prompt":"x"}]`, "must be a JSON object"},
		{"a string", `"` + secretText + `"`, "must be a JSON object"},
		{"null", "null", "must be a JSON object"},
		{"broken off", `{"model":"ghost-code","prompt":"` + secretText, "not valid JSON"},
		{"two values", withPrompt(`"x"`) + withPrompt(`"y"`), "not valid JSON"},
		{"something after it", withPrompt(`"x"`) + "\n;", "not valid JSON"},
		{"a comma too many", `{"prompt":"x",}`, "not valid JSON"},
		{"single quotes", `{'prompt':'x'}`, "not valid JSON"},
		{"a comment", `{"prompt":"x" /* why */}`, "not valid JSON"},
		{"NaN", withField(`"temperature":NaN`), "not valid JSON"},
		{"a leading zero", withField(`"n":01`), "not valid JSON"},
		{"a hexadecimal number", withField(`"n":0x1`), "not valid JSON"},
		{"an unknown escape", withPrompt(`"\x41"`), "not valid JSON"},
		{"a raw NUL", withPrompt("\"a\x00b\""), "not valid JSON"},
		{"a raw line end in text", withPrompt("\"a\nb\""), "not valid JSON"},
		{"invalid UTF-8", withPrompt("\"" + secretText + "\xff\""), "not valid UTF-8"},
		{"an overlong form", withPrompt("\"\xc0\xaf\""), "not valid UTF-8"},
		{"a raw surrogate", withPrompt("\"\xed\xa0\x80\""), "not valid UTF-8"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "not valid UTF-8"},
		{"gzip", "\x1f\x8b\x08\x00\x00\x00\x00\x00", "not valid UTF-8"},
		{"a byte order mark", "\ufeff" + withPrompt(`"x"`), "byte order mark"},
		{"10,000 objects deep", strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000), "deeper than 64"},
		{"10,000 lists deep", withField(`"extra":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)), "deeper than 64"},
		{"10,000 lists that never end", `{"prompt":` + strings.Repeat("[", 10_000), "deeper than 64"},
		{"closed before it is open", `{"a":` + strings.Repeat("]", 10_000) + strings.Repeat("[", 10_000), "not valid JSON"},
	})
}

func TestFieldsOfTheWrongKind(t *testing.T) {
	var bodies []badBody
	add := func(field string, bodyOf func(value string) string, values ...string) {
		for _, value := range values {
			bodies = append(bodies, badBody{field + " " + value, bodyOf(value), `"` + field + `" must be`})
		}
	}
	add("prompt", withPrompt, "null", "42", "true", "{}", "[]", `[1,2,3]`, `[[1],[2]]`, `["a",1]`, `["a",null]`,
		`[`+strings.Repeat(`"a",`, 16)+`"a"]`)
	add("model", func(v string) string { return `{"prompt":"x","model":` + v + `}` }, "null", "1", `["ghost-code"]`)
	for field, values := range map[string][]string{
		"n":              {"0", "-1", "17", "1.5", `"1"`, "true", "[1]", "1e400", "1e-1"},
		"max_tokens":     {"-1", "1.5", `"8"`, "99999999999", "1e400", "{}"},
		"stream":         {`"yes"`, "1", "0", "[]"},
		"stream_options": {"true", `"usage"`, "[]"},
		"stop":           {"1", "{}", "[1]", `["a",null]`, "[" + strings.Repeat(`"a",`, 16) + `"a"]`},
		"temperature":    {"-0.1", "2.1", `"1"`, "1e999", "[0]", "true"},
		"top_p":          {"-1", "1.01", `"1"`},
		"suffix":         {"1", "[]", "{}", "true"},
	} {
		add(field, func(v string) string { return withField(`"` + field + `":` + v) }, values...)
	}
	bodies = append(bodies, badBody{"n for each prompt", `{"model":"ghost-code","n":13,"prompt":["a","b","c","d","e"]}`, "is 65; it must be at most 64"})
	runBodies(t, bodies)
}

// TestFieldsThatParsersReadDifferently refuses what the proxy and a unit could
// take for two different requests.
func TestFieldsThatParsersReadDifferently(t *testing.T) {
	runBodies(t, []badBody{
		{"prompt twice", withField(`"prompt":"y"`), `"prompt" stands twice`},
		{"stream twice, alike", withField(`"stream":true,"stream":true`), `"stream" stands twice`},
		{"model twice, once escaped", withField(`"mod\u0065l":"other"`), `"model" stands twice`},
		{"n twice, once null", withField(`"n":null,"n":2`), `"n" stands twice`},
		{"in capitals", `{"model":"ghost-code","PROMPT":"x"}`, `"PROMPT" must be written "prompt"`},
		{"in capitals too", withField(`"Model":"other"`), `"Model" must be written "model"`},
		{"in escaped capitals", withField(`"\u0053tream":true`), `"Stream" must be written "stream"`},
		// Go's encoding/json takes these two letters for an s and a k.
		{"a long s", withField(`"ſtream":true`), `"ſtream" must be written "stream"`},
		{"a Kelvin sign", withField(`"max_to\u212Aens":9`), `must be written "max_tokens"`},
	})
}

func TestBodiesWithoutPrompt(t *testing.T) {
	runBodies(t, []badBody{
		{"empty object", "{}", `"prompt" is missing`},
		{"only a model", `{"model":"ghost-code"}`, `"prompt" is missing`},
		{"only deeper", `{"model":"ghost-code","extra":{"prompt":"x"}}`, `"prompt" is missing`},
		{"messages of a chat", `{"model":"ghost-code","messages":[{"role":"user","content":"x"}]}`, `"prompt" is missing`},
	})
}

type badBody struct{ name, body, message string }

// runBodies expects each body to be refused as such on every completion path.
func runBodies(t *testing.T, bodies []badBody) {
	s := start(t, setup{})
	client := s.h2c()
	var answers []reply
	paths := []string{"/v1/completions", "/v1/engines/ghost-code/completions", "/v1/fim/completions"}
	for _, tc := range bodies {
		t.Run(tc.name, func(t *testing.T) {
			for _, path := range paths {
				got := s.do(client, s.request(t.Context(), s.plainURL, path, tc.body))
				got.wantRefusal(t, refusal{status: http.StatusBadRequest, code: "invalid_request", message: tc.message})
				answers = append(answers, got)
			}
		})
	}
	s.wantArrivals(0)
	s.outcomes("bad_request", float64(len(answers)))
	s.wantNoLeak(answers, secretText)
}

func TestModelsThatAreNotServed(t *testing.T) {
	s := start(t, setup{})
	notFound := refusal{status: http.StatusNotFound, code: "model_not_found", message: "this service has: ghost-code"}
	missing := refusal{status: http.StatusBadRequest, code: "invalid_request", message: `"model" is missing; this service has: ghost-code`}
	for _, tc := range []struct {
		name, path, body string
		want             refusal
	}{
		{"missing", "/v1/completions", `{"prompt":"x"}`, missing},
		{"empty", "/v1/completions", `{"prompt":"x","model":""}`, missing},
		{"missing in Mistral's form", "/v1/fim/completions", `{"prompt":"x"}`, missing},
		{"unknown", "/v1/completions", `{"prompt":"x","model":"gpt-x"}`, notFound},
		{"in capitals", "/v1/completions", `{"prompt":"x","model":"Ghost-Code"}`, notFound},
		{"with its variant", "/v1/completions", `{"prompt":"x","model":"ghost-code/stable"}`, notFound},
		{"as the unit knows it", "/v1/completions", `{"prompt":"x","model":"upstream-model"}`, notFound},
		{"unknown in the path", "/v1/engines/gpt-x/completions", `{"prompt":"x"}`, notFound},
		{"unknown in the path, known in the body", "/v1/engines/gpt-x/completions", withPrompt(`"x"`), notFound},
		{"escaped in the path", "/v1/engines/ghost%2Fcode/completions", withPrompt(`"x"`),
			refusal{status: http.StatusNotFound, code: "path_not_found", message: "/v1/engines/{model}/completions"}},
	} {
		t.Run(tc.name, func(t *testing.T) { s.post(tc.path, tc.body).wantRefusal(t, tc.want) })
	}
	s.wantArrivals(0)
}

// TestOddBodiesThatAreRight must not be refused by a zealous check.
func TestOddBodiesThatAreRight(t *testing.T) {
	s := start(t, setup{})
	for _, tc := range []struct{ name, body, path, want string }{
		{"empty prompt", withPrompt(`""`), "prompt", `""`},
		{"list of texts", withPrompt(`["a","b"]`), "prompt", `["a","b"]`},
		{"escaped NUL", withPrompt(`"a\u0000b"`), "prompt", `"a\u0000b"`},
		{"half a surrogate pair, as an editor cuts it", withPrompt(`"\ud83d"`), "prompt", `"\ud83d"`},
		{"escaped name", `{"model":"ghost-code","prom\u0070t":"x"}`, "prompt", `"x"`},
		{"nulls", withField(`"n":null,"max_tokens":null,"stop":null,"stream":null,"suffix":null,"temperature":null`), "n", "null"},
		{"bounds", withField(`"n":16,"max_tokens":1,"stop":[],"temperature":2,"top_p":1`), "n", "16"},
		{"unknown fields", withField(`"logit_bias":{"50256":-100},"x":[[[1]]]`), "x", "[[[1]]]"},
		{"a number too large for anything", withField(`"x":1e999999`), "x", "1e999999"},
		{"60 levels", withField(`"x":` + strings.Repeat("[", 60) + strings.Repeat("]", 60)), "model", `"upstream-model"`},
		{"brackets in text", withPrompt(`"` + strings.Repeat(`[{\"`, 1000) + `"`), "model", `"upstream-model"`},
		{"the known name wins over the unit's", withField(`"x":"upstream-model"`), "model", `"upstream-model"`},
		{"white space around it", " \r\n" + withPrompt(`"x"`) + "\n ", "prompt", `"x"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := s.post("/v1/completions", tc.body); got.status != http.StatusOK || !gjson.Valid(got.body) {
				t.Errorf("got %d %.200q; want a completion", got.status, got.body)
			}
			if sent := gjson.Get(s.arrived.last(t).body, tc.path).Raw; sent != tc.want {
				t.Errorf("the unit got %s: %.100s; want %.100s", tc.path, sent, tc.want)
			}
		})
	}
}

// counting is a body that says how much of it was taken.
type counting struct {
	io.Reader
	taken int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.taken += n
	return n, err
}

// TestReport6LargeRequests: no buffer on the way is smaller than the limit.
func TestReport6LargeRequests(t *testing.T) {
	s := start(t, setup{})
	client, base := overTLS(s)
	for _, size := range []int{32 << 10, 32<<10 + 1, 64<<10 + 1, 900 << 10} {
		prompt := strings.Repeat("x", size)
		if got := s.do(client, s.request(t.Context(), base, "/v1/completions", withPrompt(`"`+prompt+`"`))); got.status != http.StatusOK {
			t.Errorf("a prompt of %d bytes got %d %.200q", size, got.status, got.body)
		}
		if sent := gjson.Get(s.arrived.last(t).body, "prompt").String(); sent != prompt {
			t.Errorf("of a prompt of %d bytes %d came to the unit", size, len(sent))
		}
	}
}

// TestReport6BodiesThatAreTooLarge: the refusal says how large a body may be.
func TestReport6BodiesThatAreTooLarge(t *testing.T) {
	s := start(t, setup{})
	const size, limit = 2 << 20, 1 << 20
	body := withPrompt(`"` + strings.Repeat("x", size) + `"`)
	want := refusal{status: http.StatusRequestEntityTooLarge, code: "body_too_large", message: "1048576 bytes"}
	for _, tc := range []struct {
		name   string
		client *http.Client
		length int64 // -1: not said
	}{
		{"h2c", s.h2c(), int64(len(body))},
		{"h2c, length unknown", s.h2c(), -1},
		{"h1", s.h1(), int64(len(body))},
		{"h1, chunked", s.h1(), -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sent := &counting{Reader: strings.NewReader(body)}
			req := s.request(t.Context(), s.plainURL, "/v1/completions", "")
			req.Body, req.ContentLength = io.NopCloser(sent), tc.length
			s.do(tc.client, req).wantRefusal(t, want)
			// What one window or the sockets' buffers hold may have left before the answer came.
			if tc.client.Transport.(*http.Transport).Protocols.UnencryptedHTTP2() && tc.length > 0 && sent.taken >= len(body) {
				t.Errorf("%d bytes were taken of a body that its length condemns", sent.taken)
			}
		})
	}
	s.wantArrivals(0)
	s.outcomes("bad_request", 4)

	exact := withPrompt(`"x"`) + strings.Repeat(" ", limit-len(withPrompt(`"x"`)))
	if got := s.post("/v1/completions", exact); got.status != http.StatusOK {
		t.Errorf("a body of exactly the limit got %d %.200q", got.status, got.body)
	}
	s.post("/v1/completions", exact+" ").wantRefusal(t, want)
}
