package strict

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestBrokenStreams: what fails in a stream, before and behind the first token,
// in the form of each provider.
func TestBrokenStreams(t *testing.T) {
	const openAIError = `data: {"error":{"message":"no","type":"server_error","param":null,"code":null}}` + "\n\n"
	const vllmError = `data: {"error":{"message":"no","type":"InternalServerError","param":null,"code":500}}` + "\n\ndata: [DONE]\n\n"
	const llamaError = `data: {"error":{"code":500,"message":"no","type":"server_error"}}` + "\n\n"
	tests := []struct {
		subject string
		status  int    // of a failure before the first token
		early   string // the end of the answer then
		late    string // and behind a token
	}{
		{"OpenAI", 200, openAIError, openAIError},
		{"Azure", 200, openAIError, openAIError},
		{"vLLM", 200, vllmError, vllmError},
		{"llama.cpp infill", 500, `{"error":{"code":500,"message":"no","type":"server_error"}}`, llamaError},
		{"llama.cpp completions", 500, `{"error":{"code":500,"message":"no","type":"server_error"}}`, llamaError},
		{"Ollama generate", 500, `{"error":"no"}`, `"response":"x","done":false}` + "\n" + `{"error":"no"}` + "\n"},
		{"Ollama completions", 500, `{"error":{"message":"no","type":"api_error","param":null,"code":null}}`, `"choices":[{"text":"","index":0,"finish_reason":null}],"model":"","system_fingerprint":"fp_ollama"}` + "\n\n"},
		{"Mistral", 200, `"finish_reason":"error"}]}` + "\n\ndata: [DONE]\n\n", `"finish_reason":"error"}]}` + "\n\ndata: [DONE]\n\n"},
		{"DeepSeek", 200, "data: [DONE]\n\n", `"finish_reason":"insufficient_system_resource"}],"system_fingerprint":"fp_eaab8d114b_prod0820_fp8_kvcache"}` + "\n\ndata: [DONE]\n\n"},
	}
	for _, tc := range tests {
		t.Run(tc.subject, func(t *testing.T) {
			subject := subjectNamed(t, tc.subject)
			s := subject.serve(t, Options{})
			early, late := Say("x", "y"), Say("x", "y")
			early.Fail, late.Fail = &Failure{Message: "no"}, &Failure{Message: "no", After: 1}
			s.Next(early, late)
			for i, want := range []string{tc.early, tc.late} {
				response, answer, err := s.do(t, "h2c", call{path: subject.path, body: subject.stream}.request(t, s.url, subject.usual))
				if err != nil {
					t.Fatal(err)
				}
				answer = transcript(answer)
				if !strings.HasSuffix(answer, want) || strings.Count(answer, "[DONE]") != strings.Count(want, "[DONE]") {
					t.Errorf("got\n%s\nwant the end\n%s", answer, want)
				}
				if i == 0 && response.StatusCode != tc.status || i == 1 && response.StatusCode != 200 {
					t.Errorf("the status is %d", response.StatusCode)
				}
				if got := strings.Contains(answer, `"x"`); got != (i == 1) || strings.Contains(answer, `"y"`) {
					t.Errorf("got the pieces of %s", answer)
				}
			}
		})
	}
}

// TestFailuresWithStatus: other statuses, and what was not to be streamed.
func TestFailuresWithStatus(t *testing.T) {
	tests := []struct {
		subject string
		fail    Failure
		status  int
		want    string
	}{
		{"OpenAI", Failure{Status: 503}, 503, `"type":"server_error"`},
		{"OpenAI", Failure{}, 500, `"type":"server_error"`},
		{"Azure", Failure{Status: 400}, 400, `"code":"content_filter"`},
		{"Azure", Failure{Status: 500}, 500, `"type":"server_error"`},
		{"vLLM", Failure{}, 500, `"type":"InternalServerError","param":null,"code":500`},
		{"llama.cpp infill", Failure{Status: 503}, 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`},
		{"llama.cpp completions", Failure{}, 500, `"message":"Compute error."`},
		{"Ollama generate", Failure{Status: 503}, 503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`},
		{"Ollama completions", Failure{Status: 503}, 503, `"type":"api_error"`},
		{"Mistral", Failure{Status: 503}, 503, `"raw_status_code":503`},
		{"DeepSeek", Failure{Status: 503}, 503, `server is overloaded`},
	}
	for _, tc := range tests {
		t.Run(tc.subject, func(t *testing.T) {
			subject := subjectNamed(t, tc.subject)
			s := subject.serve(t, Options{})
			s.Next(Script{Fail: &tc.fail})
			response, answer, err := s.do(t, "h1", call{path: subject.path, body: subject.unary}.request(t, s.url, subject.usual))
			if err != nil || response.StatusCode != tc.status || !strings.Contains(answer, tc.want) {
				t.Errorf("got %v %s %v; want %d with %s", response, answer, err, tc.status, tc.want)
			}
		})
	}
}

// TestCut: the connection or stream breaks off, before the status or behind a token.
func TestCut(t *testing.T) {
	subject := subjectNamed(t, "OpenAI")
	s := subject.serve(t, Options{})
	for _, protocol := range []string{"h1", "h2c"} {
		early, late := Say("x", "y"), Say("x", "y")
		early.Fail, late.Fail = &Failure{Cut: true}, &Failure{Cut: true, After: 1}
		s.Next(early, late)
		request := func() *http.Request {
			return call{path: subject.path, body: subject.stream}.request(t, s.url, subject.usual)
		}
		if _, answer, err := s.do(t, protocol, request()); err == nil {
			t.Errorf("%s: got %s; want no answer", protocol, answer)
		}
		if _, answer, err := s.do(t, protocol, request()); err == nil || !strings.Contains(answer, `"text":"x"`) || strings.Contains(answer, `"text":"y"`) {
			t.Errorf("%s: got %s %v; want a text and an error", protocol, answer, err)
		}
	}
}

// TestCancels: every provider notices its client leave, before the first byte and
// behind a token, streamed or not, on every protocol.
func TestCancels(t *testing.T) {
	for _, subject := range subjects() {
		for _, protocol := range []string{"h1", "h2c"} {
			t.Run(subject.name+" "+protocol, func(t *testing.T) {
				s := subject.serve(t, Options{})
				silent, headed, late := Script{Hang: &Hang{}}, Script{Hang: &Hang{Headers: true}}, Script{Hang: &Hang{After: 1}}
				s.Next(silent, silent, headed, late)
				for i, body := range []string{subject.unary, subject.stream} {
					ctx, leave := context.WithCancel(t.Context())
					request := call{path: subject.path, body: body}.request(t, s.url, subject.usual).WithContext(ctx)
					left := make(chan error)
					go func() {
						_, err := s.clients[protocol].Do(request)
						left <- err
					}()
					eventually(t, "the request arrives", func() bool { return len(s.Requests()) == i+1 })
					leave()
					if err := <-left; !errors.Is(err, context.Canceled) {
						t.Errorf("the client got %v", err)
					}
					eventually(t, "the provider notices", func() bool { return s.Cancelled(BeforeFirstByte) == i+1 })
				}
				for i, phase := range []Phase{BeforeFirstByte, MidStream} {
					leaveBehindHeaders(t, s, protocol, call{path: subject.path, body: subject.stream}.request(t, s.url, subject.usual), phase)
					eventually(t, "the provider notices", func() bool { return s.Cancelled(phase) == 3-2*i })
				}
				if s.Completed() != 0 {
					t.Errorf("%d answers went out whole; want none", s.Completed())
				}
			})
		}
	}
}

// leaveBehindHeaders leaves once the status is there, or, mid-stream, the first token.
func leaveBehindHeaders(t *testing.T, s served, protocol string, request *http.Request, phase Phase) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	response, err := s.clients[protocol].Do(request.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if phase == MidStream {
		readUntil(t, response.Body, "‹")
	}
}

// readUntil reads lines up to one with the part.
func readUntil(t *testing.T, body io.Reader, part string) {
	t.Helper()
	for lines := bufio.NewScanner(body); ; {
		if !lines.Scan() {
			t.Fatalf("the answer ends without %q: %v", part, lines.Err())
		}
		if strings.Contains(lines.Text(), part) {
			return
		}
	}
}

// TestHangUntil: a silence that ends, so that a test can hold an answer between
// two events; each arrives on its own.
func TestHangUntil(t *testing.T) {
	for _, protocol := range []string{"h1", "h2c"} {
		subject := subjectNamed(t, "Mistral")
		s := subject.serve(t, Options{})
		until := make(chan struct{})
		script := Say("first", "second")
		script.Hang = &Hang{After: 1, Until: until}
		s.Next(script)
		response, err := s.clients[protocol].Do(call{path: subject.path, body: subject.stream}.request(t, s.url, subject.usual))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		readUntil(t, response.Body, "first")
		if s.Completed() != 0 {
			t.Errorf("%s: the answer did not wait", protocol)
		}
		close(until)
		readUntil(t, response.Body, "[DONE]")
		eventually(t, "the answer is whole", func() bool { return s.Completed() == 1 })
	}
}

// TestScriptsInOrder: one script for each request that is served, then echoes.
func TestScriptsInOrder(t *testing.T) {
	subject := subjectNamed(t, "DeepSeek")
	s := subject.serve(t, Options{})
	s.Next(Say("one"), Say("two"))
	for _, tc := range []struct{ body, want string }{
		{`{"model":"x"}`, ""}, {subject.unary, "one"}, {subject.stream, "two"}, {subject.unary, "‹def f(¦return x›"},
		{`{"model":"code","prompt":"abcdef","max_tokens":1}`, "‹ab"}, // a token is all that was asked for
	} {
		response, answer, err := s.do(t, "h1", call{path: subject.path, body: tc.body}.request(t, s.url, subject.usual))
		if err != nil {
			t.Fatal(err)
		}
		if got := said(t, answer); got != tc.want {
			t.Errorf("%s got %d %s; want the text %q", tc.body, response.StatusCode, answer, tc.want)
		}
	}
}
