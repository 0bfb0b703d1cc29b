package load

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var errNoToken = errors.New("no token today")

// failingTokens gives out so many tokens and then none.
type failingTokens struct{ left atomic.Int64 }

func (f *failingTokens) Token(context.Context) (string, error) {
	if f.left.Add(-1) < 0 {
		return "", errNoToken
	}
	return "token", nil
}

func (f *failingTokens) Invalidate(string) {}

// status answers with a status and an error body.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		io.WriteString(w, `{"error":{"message":"secret prompt","type":"some_type","code":"some_code"}}`)
	}
}

func stream(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { events(w, text) }
}

// outcomeTest is an answer and what it counts as.
type outcomeTest struct {
	name    string
	handler http.HandlerFunc
	want    Outcome
	h1      Outcome // if it is another over HTTP/1.1
	example string
}

func outcomeTests() []outcomeTest {
	return []outcomeTest{
		{name: "whole", handler: stream(wholeAnswer), want: Whole},
		{name: "Mistral's form", handler: stream(`data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}` + "\n\n" + doneEvent), want: Whole},
		{name: "no text", handler: stream(finishEvent + doneEvent), want: Whole},
		{name: "302", handler: status(302), want: StatusOther, example: "302 some_code"},
		{name: "401", handler: status(401), want: Status401, example: "401 some_code"},
		{name: "404", handler: status(404), want: Status4xx, example: "404 some_code"},
		{name: "429", handler: status(429), want: Status429, example: "429 some_code"},
		{name: "499", handler: status(499), want: Superseded, example: "499 some_code"},
		{name: "500", handler: status(500), want: Status5xx, example: "500 some_code"},
		{name: "503", handler: status(503), want: Status503, example: "503 some_code"},
		{name: "no finish reason", handler: stream(textEvent + doneEvent), want: NoEnd},
		{name: "no [DONE]", handler: stream(textEvent + finishEvent), want: NoEnd},
		{name: "neither", handler: stream(textEvent), want: NoEnd},
		{name: "nothing", handler: stream(""), want: NoEnd},
		{name: "error event", handler: stream(textEvent + `data: {"error":{"code":"overloaded","message":"x"}}` + "\n\n" + doneEvent), want: ErrorEvent, example: "overloaded"},
		{name: "not JSON", handler: stream("data: {\"choices\n\n"), want: BadAnswer},
		{name: "not events", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<p>Welcome</p>")
		}, want: BadAnswer},
		{name: "reset before the answer", handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			want: BrokenOff, h1: Lost, example: "INTERNAL_ERROR"},
		{name: "reset mid-stream", handler: func(w http.ResponseWriter, _ *http.Request) {
			events(w, textEvent)
			panic(http.ErrAbortHandler)
		}, want: BrokenOff, example: "INTERNAL_ERROR"},
		{name: "connection cut before the answer", handler: func(_ http.ResponseWriter, r *http.Request) { sever(r) }, want: Lost},
		{name: "connection cut mid-stream", handler: func(w http.ResponseWriter, r *http.Request) {
			events(w, textEvent)
			sever(r)
		}, want: Lost, h1: BrokenOff},
		{name: "silence", handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, want: TimedOut},
		{name: "silence mid-stream", handler: func(w http.ResponseWriter, r *http.Request) {
			events(w, textEvent)
			<-r.Context().Done()
		}, want: TimedOut},
	}
}

// TestOutcomes: each way in which an answer can go wrong is told from the others,
// over HTTP/2 and HTTP/1.1.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, test := range outcomeTests() {
		for _, protocol := range []Protocol{ProtocolAuto, ProtocolH1} {
			want := test.want
			if protocol == ProtocolH1 && test.h1 != 0 {
				want = test.h1
			}
			t.Run(test.name+" "+string(protocol), func(t *testing.T) {
				t.Parallel()
				o := quick(serve(t, test.handler).URL)
				o.Target.Protocol = protocol
				o.Users, o.Requests, o.Typing.CancelPercent = 2, 6, 0
				if want == TimedOut {
					o.Timeout = 50 * time.Millisecond
				}
				r := report(t, o)
				if got := count(r, want); got != 6 || r.Requests.Sent != 6 {
					t.Errorf("%d of %d requests are %s:\n%s", got, r.Requests.Sent, want, r.text())
				}
				if e := r.Errors[want.String()]; protocol == ProtocolAuto && want.IsError() && test.example != "" && e.Example != test.example {
					t.Errorf("the example is %q, want %q", e.Example, test.example)
				}
			})
		}
	}
}

// count is how many requests of a report ended so.
func count(r *Report, o Outcome) int64 {
	switch o {
	case Whole:
		return r.Requests.Whole
	case Superseded:
		return r.Requests.Superseded
	}
	return r.Errors[o.String()].Count
}

// TestRefusedLater: a server that goes away after the first connection.
func TestRefusedLater(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		listener.Close()
		if err == nil {
			conn.Close()
		}
	}()
	o := quick("http://" + listener.Addr().String())
	o.Users, o.Requests, o.Typing.CancelPercent = 1, 10, 0
	r := report(t, o)
	if r.Errors["connection_refused"].Count < 9 || r.Requests.Errors != 10 || r.Connections.Failed < 9 || r.Connections.Opened != 1 {
		t.Errorf("want 9 or 10 refused connections:\n%s", r.text())
	}
}

func TestTokenFails(t *testing.T) {
	t.Parallel()
	o := quick(serve(t, stream(wholeAnswer)).URL)
	tokens := &failingTokens{}
	tokens.left.Store(3) // of which the warm-up of one user takes two
	o.Tokens = append(o.Tokens, tokens)
	o.Users, o.Requests, o.Typing.CancelPercent = 1, 10, 0
	if r := report(t, o); r.Errors["no_token"].Count != 9 || r.Requests.Whole != 1 {
		t.Errorf("want 1 whole answer and 9 without a token:\n%s", r.text())
	}
}

// TestGoAway: a server that sends its connections away costs no request, and the
// new connections are counted.
func TestGoAway(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%10 == 0 {
			w.Header().Set("Connection", "close") // over HTTP/2: GOAWAY
		}
		events(w, wholeAnswer)
	})
	o := quick(s.URL)
	o.Users, o.Typing.CancelPercent = 2, 0
	r := report(t, o)
	if r.Requests.Whole != 100 || r.Connections.Reopened == 0 || r.Connections.ClosedByCancel != 0 {
		t.Errorf("want 100 whole answers over several connections:\n%s", r.text())
	}
}

// failingFirst fails the first try of each request as fail does.
func failingFirst(fail http.HandlerFunc) (handler http.HandlerFunc, gap func() time.Duration) {
	var mu sync.Mutex
	first := map[string]time.Time{}
	shortest := time.Hour
	return func(w http.ResponseWriter, r *http.Request) {
			id := r.Header.Get("X-Request-Id")
			mu.Lock()
			at, again := first[id]
			if again {
				shortest = min(shortest, time.Since(at))
			} else {
				first[id] = time.Now()
			}
			mu.Unlock()
			if again {
				events(w, wholeAnswer)
				return
			}
			fail(w, r)
		}, func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return shortest
		}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	after := func(code, seconds int, more ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if seconds > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(seconds))
			}
			for _, name := range more {
				w.Header().Set(name, "false")
			}
			w.WriteHeader(code)
		}
	}
	for _, test := range []struct {
		name    string
		fail    http.HandlerFunc
		retries int
		whole   int64
		atLeast time.Duration
	}{
		{"not asked for", after(503, 0), 0, 0, 0},
		{"503", after(503, 0), 1, 8, firstBackoff / 2},
		{"429 with Retry-After", after(429, 1), 1, 8, time.Second},
		{"reset", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1, 0, 0}, // it may have cost work
		{"connection cut", func(_ http.ResponseWriter, r *http.Request) { sever(r) }, 3, 8, 0},
		{"400", after(400, 0), 1, 0, 0},
		{"X-Should-Retry", after(503, 0, "X-Should-Retry"), 1, 0, 0},
		{"longer than the timeout", after(503, 3600), 1, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			handler, gap := failingFirst(test.fail)
			o := quick(serve(t, handler).URL)
			o.Users, o.Requests, o.Retries, o.Typing.CancelPercent = 1, 8, test.retries, 0
			r := report(t, o)
			if r.Requests.Whole != test.whole || r.Requests.Retries != test.whole || r.Requests.Sent != 8 {
				t.Errorf("want %d whole answers by as many retries:\n%s", test.whole, r.text())
			}
			if got := gap(); got < test.atLeast {
				t.Errorf("a retry came after %s, want at least %s", got, test.atLeast)
			}
		})
	}
}

// TestWorthAnotherTry: nothing is sent again that may have cost work.
func TestWorthAnotherTry(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ask  ask
		want bool
	}{
		{ask{outcome: Lost}, true},
		{ask{outcome: Lost, firstByte: 1}, false},
		{ask{outcome: Status503}, true},
		{ask{outcome: Status503, final: true}, false},
		{ask{outcome: Whole}, false},
		{ask{outcome: CancelledBefore}, false},
		{ask{outcome: BrokenOff}, false},
		{ask{outcome: TimedOut}, false},
		{ask{outcome: Status4xx}, false},
	} {
		if got := test.ask.again(); got != test.want {
			t.Errorf("%s, first byte %v, final %v: %v", test.ask.outcome, test.ask.firstByte, test.ask.final, got)
		}
	}
}

// TestRefusedToken: a token that the server refuses is given back, and a retry has
// another.
func TestRefusedToken(t *testing.T) {
	t.Parallel()
	tokens := &numberedTokens{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer 0" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		events(w, wholeAnswer)
	})
	o := quick(s.URL)
	o.Tokens = append(o.Tokens, tokens)
	o.Users, o.Requests, o.Typing.CancelPercent = 1, 5, 0
	if r := report(t, o); r.Errors["status_401"].Count != 1 || r.Requests.Whole != 4 || r.Tokens.Refreshed != 1 {
		t.Errorf("want one refused token and four whole answers:\n%s", r.text())
	}
	*tokens = numberedTokens{}
	o.Retries = 1
	if r := report(t, o); r.Requests.Whole != 5 || r.Requests.Retries != 1 {
		t.Errorf("want five whole answers by one retry:\n%s", r.text())
	}
}

// numberedTokens are 0, 1, 2 and so on, one for each that was refused.
type numberedTokens struct{ n int }

func (n *numberedTokens) Token(context.Context) (string, error) { return strconv.Itoa(n.n), nil }
func (n *numberedTokens) Invalidate(string)                     { n.n++ }
