package feature

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/token"
)

// editor sends requests of one subject over connections of its own.
type editor struct {
	s       *stack
	client  *http.Client
	base    string
	subject string
	header  map[string]string
}

func (s *stack) editor(how func(*stack) (*http.Client, string), header ...string) *editor {
	e := &editor{s: s, subject: "subject-1", header: map[string]string{}}
	e.client, e.base = how(s)
	for i := 0; i < len(header); i += 2 {
		e.header[header[i]] = header[i+1]
	}
	return e
}

// with is the same client with another header.
func (e *editor) with(name, value string) *editor {
	other := *e
	other.header = map[string]string{name: value}
	return &other
}

// of is the same client with another subject.
func (e *editor) of(subject string) *editor {
	other := *e
	other.subject = subject
	return &other
}

func (e *editor) request(ctx context.Context, path, body string) *http.Request {
	req := e.s.request(ctx, e.base, path, body)
	req.Header.Set("Authorization", "Bearer "+e.s.token(func(c *token.Claims) { c.Subject = e.subject }))
	for name, value := range e.header {
		req.Header.Set(name, value)
	}
	return req
}

// ask sends a request and reads its answer.
func (e *editor) ask(body string) reply {
	e.s.t.Helper()
	return e.s.do(e.client, e.request(e.s.t.Context(), "/v1/completions", body))
}

// sent is a request that is on its way.
type sent struct {
	cancel context.CancelFunc
	begun  chan struct{} // closed once a byte of the answer's body has come
	ended  chan reply
	upload *io.PipeWriter // not nil if the body has no end yet
}

func (e *editor) send(body string) *sent {
	ctx, cancel := context.WithCancel(e.s.t.Context())
	return e.start(&sent{cancel: cancel}, e.request(ctx, "/v1/completions", body))
}

// begin sends a request whose body lacks its end.
func (e *editor) begin(body string) *sent {
	ctx, cancel := context.WithCancel(e.s.t.Context())
	r := &sent{cancel: cancel}
	req := e.request(ctx, "/v1/completions", "")
	req.Body, r.upload = io.Pipe()
	req.GetBody, req.ContentLength = nil, -1
	go func() { _, _ = io.WriteString(r.upload, body) }() // an error means that the proxy had enough
	return e.start(r, req)
}

func (e *editor) start(r *sent, req *http.Request) *sent {
	r.begun, r.ended = make(chan struct{}), make(chan reply, 1)
	e.s.t.Cleanup(r.cancel)
	go func() {
		resp, err := e.client.Do(req)
		if err != nil {
			r.ended <- reply{err: err}
			return
		}
		defer resp.Body.Close()
		first := make([]byte, 1)
		if _, err := io.ReadFull(resp.Body, first); err != nil {
			r.ended <- reply{status: resp.StatusCode, header: resp.Header, err: err}
			return
		}
		close(r.begun)
		rest, err := io.ReadAll(resp.Body)
		r.ended <- reply{status: resp.StatusCode, header: resp.Header, body: string(first) + string(rest), err: err}
	}()
	return r
}

// running says whether a function of the proxy runs now, for what cannot be seen
// from outside.
func running(function string) func() bool {
	return func() bool {
		stacks := make([]byte, 4<<20)
		return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "/proxy."+function+"(")
	}
}

const readsBody = "(*exchange).readBody"

// wantSuperseded checks what a client is told whose session sent newer requests.
func wantSuperseded(t *testing.T, r *sent) {
	t.Helper()
	(<-r.ended).wantRefusal(t, refusal{status: 499, code: "superseded", message: "newer requests"})
}
