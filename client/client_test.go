package client

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fixedToken is a Tokens that counts what it is told.
type fixedToken struct {
	mu          sync.Mutex
	token       string
	renewed     string // what Invalidate changes token to, if not empty
	invalidated int
}

func (f *fixedToken) Token(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.token, nil
}

func (f *fixedToken) Invalidate(string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.invalidated++
	if f.renewed != "" {
		f.token = f.renewed
	}
}

// testServer is an HTTP/2 server that counts the connections it accepts.
type testServer struct {
	*httptest.Server
	accepted atomic.Int64
}

type serverOptions struct {
	cleartext  bool
	http1      bool // nothing but HTTP/1.1
	maxStreams int
}

func newTestServer(t *testing.T, o serverOptions, h http.HandlerFunc) *testServer {
	t.Helper()
	s := &testServer{Server: httptest.NewUnstartedServer(h)}
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: o.maxStreams}
	s.Config.Protocols = new(http.Protocols)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that tests break off
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.accepted.Add(1)
		}
	}
	switch {
	case o.http1:
		s.Config.Protocols.SetHTTP1(true)
		s.StartTLS()
	case o.cleartext:
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	default:
		s.Config.Protocols.SetHTTP2(true)
		s.EnableHTTP2 = true
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return s
}

func (s *testServer) client(t *testing.T) *Client {
	return s.clientWith(t, &fixedToken{token: "token-1"})
}

func (s *testServer) clientWith(t *testing.T, tokens Tokens) *Client {
	t.Helper()
	var roots *x509.CertPool
	if s.Certificate() != nil {
		roots = x509.NewCertPool()
		roots.AddCert(s.Certificate())
	}
	c, err := New(Options{
		ProxyURL: s.URL,
		Tokens:   tokens,
		RootCAs:  roots,
		Plugin:   Product{"ghostline-test", "1.2.3"},
		Editor:   Product{"ed", "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// write sends events and what follows them as one SSE answer.
func write(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		fmt.Fprintf(w, "data: %s\n\n", e)
	}
	http.NewResponseController(w).Flush()
}

func text(s string) string {
	return `{"choices":[{"index":0,"text":"` + s + `","finish_reason":null}]}`
}

const (
	stop = `{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}`
	done = "[DONE]"
)

// collect reads a completion to its end.
func collect(c *Client, ctx context.Context, r Request) (string, error) {
	var b strings.Builder
	for e, err := range c.Complete(ctx, r) {
		if err != nil {
			return b.String(), err
		}
		b.WriteString(e.Text)
	}
	return b.String(), nil
}

func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]serverOptions{"TLS": {}, "cleartext": {cleartext: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got http.Request
			var body map[string]any
			s := newTestServer(t, o, func(w http.ResponseWriter, r *http.Request) {
				got = http.Request{Method: r.Method, RequestURI: r.RequestURI, Proto: r.Proto, Header: r.Header}
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				write(w, text("a"), stop, done)
			})
			temperature := 0.0
			answer, err := collect(s.client(t), t.Context(), Request{
				Model: "ghost-code", Prompt: "if a < b &&", Suffix: "}", MaxTokens: 7, Temperature: &temperature, N: 2,
				Stop: []string{"\n"}, Usage: true, RequestID: "id-1", Extra: map[string]json.RawMessage{"extra": []byte(`{"language":"go"}`)},
			})
			if err != nil || answer != "a" {
				t.Fatalf("answer %q, %v", answer, err)
			}
			if diff := cmp.Diff([]string{"POST", "/v1/completions", "HTTP/2.0"}, []string{got.Method, got.RequestURI, got.Proto}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for header, want := range map[string]string{
				"Authorization": "Bearer token-1", "X-Request-Id": "id-1", "Accept": "text/event-stream", "Content-Type": "application/json",
				"User-Agent": "ghostline-test/1.2.3", "Editor-Plugin-Version": "ghostline-test/1.2.3", "Editor-Version": "ed/1", "Accept-Encoding": "",
			} {
				if got.Header.Get(header) != want {
					t.Errorf("%s is %q, want %q", header, got.Header.Get(header), want)
				}
			}
			want := map[string]any{
				"model": "ghost-code", "prompt": "if a < b &&", "suffix": "}", "max_tokens": 7.0, "temperature": 0.0, "n": 2.0,
				"stop": []any{"\n"}, "stream": true, "stream_options": map[string]any{"include_usage": true}, "extra": map[string]any{"language": "go"},
			}
			if diff := cmp.Diff(want, body); diff != "" {
				t.Errorf("body: -want +got:\n%s", diff)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, serverOptions{}, func(w http.ResponseWriter, r *http.Request) {
		write(w, `{"choices":[],"prompt_filter_results":[]}`,
			`{"choices":[{"index":1,"text":"b","finish_reason":null},{"index":0,"text":"a","finish_reason":null}]}`,
			`{"choices":[{"index":0,"text":"!","finish_reason":"length"}]}`, `{"choices":[{"index":1,"text":"","finish_reason":"stop"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`, done)
	})
	var got []Event
	for e, err := range s.client(t).Complete(t.Context(), Request{Model: "m", N: 2, Usage: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := []Event{
		{Index: 1, Text: "b"}, {Index: 0, Text: "a"}, {Index: 0, Text: "!", FinishReason: "length"}, {Index: 1, FinishReason: "stop"},
		{Usage: &Usage{PromptTokens: 3, CompletionTokens: 2, TotalTokens: 5}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStreamEnd(t *testing.T) {
	t.Parallel()
	abort := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	for name, test := range map[string]struct {
		events    []string
		n         int
		end       func(http.ResponseWriter)
		truncated bool
		says      string
	}{
		"done":                          {events: []string{text("a"), stop, done}},
		"done without a finish reason":  {events: []string{text("a"), done}},
		"finish reason without done":    {events: []string{text("a"), stop}},
		"one of two finished":           {events: []string{text("a"), stop}, n: 2, truncated: true},
		"end without either":            {events: []string{text("a")}, truncated: true, says: "without [DONE]"},
		"reset":                         {events: []string{text("a")}, end: abort, truncated: true},
		"reset before the first event":  {events: []string{}, end: abort, truncated: true},
		"reset after the finish reason": {events: []string{text("a"), stop}, end: abort, truncated: true},
		"error event":                   {events: []string{text("a"), `{"error":{"message":"broke","type":"server_error","code":17}}`, done}, truncated: true, says: "200 (17): broke"},
		"not JSON":                      {events: []string{text("a"), `{"choices":`, done}, truncated: true, says: "not the JSON object"},
		"cut inside an event":           {end: func(w http.ResponseWriter) { io.WriteString(w, "data: "+text("a")[:20]) }, truncated: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestServer(t, serverOptions{}, func(w http.ResponseWriter, r *http.Request) {
				write(w, test.events...)
				if test.end != nil {
					test.end(w)
				}
			})
			_, err := collect(s.client(t), t.Context(), Request{Model: "m", N: test.n})
			if errors.Is(err, ErrTruncated) != test.truncated || (err != nil) != test.truncated {
				t.Fatalf("error %v, want truncated: %t", err, test.truncated)
			}
			if err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one that says %q", err, test.says)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		header map[string]string
		body   string
		want   Error
	}{
		"JSON": {429, map[string]string{"Retry-After": "7", "X-Request-Id": "id-9"}, `{"error":{"message":"slow down","type":"limited","code":"rate_limit"}}`,
			Error{Status: 429, Type: "limited", Code: "rate_limit", Message: "slow down", RequestID: "id-9", RetryAfter: 7 * time.Second}},
		"date": {503, map[string]string{"Retry-After": "Mon, 02 Nov 2026 10:00:30 GMT", "Date": "Mon, 02 Nov 2026 10:00:00 GMT"}, `{"error":{"message":"full"}}`,
			Error{Status: 503, Message: "full", RetryAfter: 30 * time.Second}},
		"plain text": {466, nil, "This version\x1b[31m is no longer served.\n", Error{Status: 466, Message: "This version[31m is no longer served."}},
		"no body":    {502, nil, "", Error{Status: 502, Message: "Bad Gateway"}},
		"long body":  {500, nil, strings.Repeat("é", 5000), Error{Status: 500, Message: strings.Repeat("é", 512)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestServer(t, serverOptions{}, func(w http.ResponseWriter, r *http.Request) {
				for k, v := range test.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			})
			_, err := collect(s.client(t), t.Context(), Request{Model: "m"})
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("error %v, want an *Error", err)
			}
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if errors.Is(err, ErrTruncated) {
				t.Error("a refusal is no truncated answer")
			}
		})
	}
}

func TestWrongServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		o    serverOptions
		want string
	}{
		"an answer of another type": {serverOptions{}, `content type "text/html", want text/event-stream`},
		"HTTP/1.1 only":             {serverOptions{http1: true}, "the server does not speak HTTP/2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestServer(t, test.o, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
			_, err := collect(s.client(t), t.Context(), Request{Model: "m"})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

func TestUnauthorized(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tokens   *fixedToken
		requests int64
		ok       bool
	}{
		"a new token helps":          {&fixedToken{token: "old", renewed: "good"}, 2, true},
		"a new token helps not":      {&fixedToken{token: "old", renewed: "other"}, 2, false},
		"there is no new token":      {&fixedToken{token: "old"}, 1, false},
		"the token was good at once": {&fixedToken{token: "good"}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			s := newTestServer(t, serverOptions{}, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				if r.Header.Get("Authorization") != "Bearer good" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				write(w, text("a"), stop, done)
			})
			tokens := test.tokens
			_, err := collect(s.clientWith(t, tokens), t.Context(), Request{Model: "m"})
			if (err == nil) != test.ok || requests.Load() != test.requests || tokens.invalidated > 1 {
				t.Errorf("error %v after %d requests and %d invalidations", err, requests.Load(), tokens.invalidated)
			}
		})
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, serverOptions{}, func(w http.ResponseWriter, r *http.Request) { t.Error("a bad request was sent") })
	c := s.client(t)
	for want, r := range map[string]Request{
		"Model is missing":       {},
		"RequestID must be":      {Model: "m", RequestID: "a b"},
		"a field of Request":     {Model: "m", Extra: map[string]json.RawMessage{"stream": []byte("false")}},
		`Extra["x"] is not JSON`: {Model: "m", Extra: map[string]json.RawMessage{"x": []byte("{")}},
	} {
		if _, err := collect(c, t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
	if n := c.Connections(); n != 0 {
		t.Errorf("%d connections opened, want 0", n)
	}
}

func TestClosedClient(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, serverOptions{}, func(w http.ResponseWriter, r *http.Request) {})
	c := s.client(t)
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	c.Close()
	if _, err := collect(c, t.Context(), Request{Model: "m"}); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}
