package feature

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// serveUnit runs a unit beside the stack's own and returns its address. It
// speaks h2c and HTTP/1.1 unless change says otherwise.
func serveUnit(t *testing.T, handler http.Handler, change ...func(*httpserver.Server)) string {
	t.Helper()
	listener := listen(t)
	address := listener.Addr().String()
	server := &httpserver.Server{
		Name: "unit", Listener: listener, Handler: handler, Log: slog.New(slog.DiscardHandler), Drain: func() time.Duration { return time.Nanosecond },
	}
	for _, c := range change {
		c(server)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Run(ctx) // a unit that is cut off at the end of a test is no failure
	}()
	t.Cleanup(func() { stop(); <-ended })
	return address
}

// unitAt is the stack's first unit under another name and address.
func unitAt(c *config.Config, name, address string) config.Unit {
	u := c.Units[0]
	u.Name, u.URL = name, "http://"+address+"/v1/completions"
	return u
}

// event is one event as a provider sends it.
func event(data string) string { return "data: " + data + "\n\n" }

// chunk is the data of an event with one choice. finish is JSON.
func chunk(index int, text, finish string) string {
	return fmt.Sprintf(`{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"text":%q,"index":%d,"logprobs":null,"finish_reason":%s}]}`,
		text, index, finish)
}

// whole is a stream with the given texts, its finish reason and its end.
func whole(texts ...string) string {
	var out strings.Builder
	for _, text := range texts {
		out.WriteString(event(chunk(0, text, "null")))
	}
	return out.String() + event(chunk(0, "", `"stop"`)) + event("[DONE]")
}

// says answers a stream with these bytes, each part flushed by itself.
func says(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begin(w)
		for _, part := range parts {
			send(w, part)
		}
	}
}

// begin sends the head of a stream.
func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
}

// send sends a part of a stream at once; a client that is gone misses nothing.
func send(w http.ResponseWriter, part string) {
	_, _ = io.WriteString(w, part)
	_ = http.NewResponseController(w).Flush()
}

// answers answers with a status and a body.
func answers(status int, header http.Header, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// switched is a unit that becomes another one.
type switched struct{ now atomic.Pointer[http.Handler] }

func newSwitched(unit http.Handler) *switched {
	s := &switched{}
	s.is(unit)
	return s
}

func (s *switched) is(unit http.Handler) { s.now.Store(&unit) }

func (s *switched) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*s.now.Load()).ServeHTTP(w, r) }

// counted counts the requests of a unit, and those whose client left.
type counted struct {
	next http.Handler

	mu            sync.Mutex
	begun, gone   int
	running, peak int
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.begun++
	c.running++
	c.peak = max(c.peak, c.running)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
		if r.Context().Err() != nil {
			c.gone++
		}
	}()
	c.next.ServeHTTP(w, r)
}

func (c *counted) counts() (begun, gone, running int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun, c.gone, c.running
}

// begunIs is a condition to wait for.
func (c *counted) begunIs(want int) func() bool {
	return func() bool { begun, _, _ := c.counts(); return begun == want }
}

// held answers a stream once it is released, unless its client leaves before.
func held(release <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-release:
			says(whole("held"))(w, r)
		case <-r.Context().Done():
		}
	})
}
