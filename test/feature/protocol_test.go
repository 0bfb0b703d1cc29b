package feature

import (
	"bufio"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

const goodBody = `{"model":"ghost-code","prompt":"x","max_tokens":2}`

// hangs is when a test gives up on an answer that does not come.
const hangs = 20 * time.Second

func TestChunkedBody(t *testing.T) {
	s := start(t, setup{})
	req := s.request(t.Context(), s.plainURL, "/v1/completions", goodBody)
	req.ContentLength = -1
	if got := s.do(s.h1(), req); got.status != http.StatusOK {
		t.Errorf("a chunked body got %d %.200q, want 200", got.status, got.body)
	}
	head := s.head("Transfer-Encoding: chunked")
	for name, body := range map[string]string{
		"a chunk size that is no number": "zz\r\n" + goodBody + "\r\n0\r\n\r\n",
		"a chunk longer than its size":   "2\r\n" + goodBody + "\r\n0\r\n\r\n",
		"a negative chunk size":          "-1\r\n" + goodBody + "\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := s.dial(t).send(head + body).answer()
			got.wantRefusal(t, refusal{status: http.StatusBadRequest, code: "invalid_request", message: "framed wrongly"})
		})
	}
	s.wantArrivals(1)
}

// TestExpectContinue looks for the 100 that asks for the body: it must come for
// a good request and for no other, or the body was sent for nothing.
func TestExpectContinue(t *testing.T) {
	s := start(t, setup{})
	for name, client := range map[string]*http.Client{"h1": s.h1(), "h2c": s.h2c()} {
		client.Transport.(*http.Transport).ExpectContinueTimeout = hangs
		for _, tc := range []struct {
			name, path, token string
			status            int
		}{
			{"good", "/v1/completions", s.token(), http.StatusOK},
			{"bad token", "/v1/completions", "bad", http.StatusUnauthorized},
			{"unknown path", "/v2", s.token(), http.StatusNotFound},
		} {
			t.Run(name+" "+tc.name, func(t *testing.T) {
				var asked atomic.Bool
				trace := &httptrace.ClientTrace{Got100Continue: func() { asked.Store(true) }}
				req := s.request(httptrace.WithClientTrace(t.Context(), trace), s.plainURL, tc.path, "")
				sent := &counting{Reader: strings.NewReader(goodBody)}
				req.Body, req.ContentLength = io.NopCloser(sent), int64(len(goodBody))
				req.Header.Set("Expect", "100-continue")
				req.Header.Set("Authorization", "Bearer "+tc.token)
				got := s.do(client, req)
				if good := tc.status == http.StatusOK; got.status != tc.status || asked.Load() != good || (sent.taken > 0) != good {
					t.Errorf("got %d %.100q, 100 was sent: %v, body: %d bytes", got.status, got.body, asked.Load(), sent.taken)
				}
			})
		}
	}
	got := s.dial(t).send(s.head("Content-Length: 2000000", "Expect: 100-continue")).answer()
	got.wantRefusal(t, refusal{status: http.StatusRequestEntityTooLarge, code: "body_too_large"})
	s.wantArrivals(2)
}

func TestBodiesThatNeverEnd(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) { c.Timeouts.ReadBody = config.Duration(50 * time.Millisecond) }})
	want := refusal{status: http.StatusRequestTimeout, code: "body_timeout", message: "50ms", retry: true}
	for name, text := range map[string]string{
		"h1":          s.head("Content-Length: 100") + `{"model":`,
		"h1, chunked": s.head("Transfer-Encoding: chunked") + "9\r\n{\"model\":\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn := s.dial(t).send(text)
			conn.answer().wantRefusal(t, want)
			conn.wantEnd()
		})
	}
	client := s.h2c()
	for name, length := range map[string]int64{"h2c": 100, "h2c, length unknown": -1} {
		t.Run(name, func(t *testing.T) {
			body, rest := io.Pipe()
			defer rest.Close()
			go func() { _, _ = rest.Write([]byte(`{"model":`)) }()
			req := s.request(t.Context(), s.plainURL, "/v1/completions", "")
			req.Body, req.ContentLength = body, length
			s.do(client, req).wantRefusal(t, want)
			if again := s.do(client, s.request(t.Context(), s.plainURL, "/v1/completions", goodBody)); again.status != http.StatusOK {
				t.Errorf("the next request got %d %.200q", again.status, again.body)
			}
		})
	}
	s.outcomes("timeout", 4)
	s.wantArrivals(2)
	if got := s.metric("ghostline_client_connections_opened_total"); got != 3 {
		t.Errorf("%v connections were opened, want one for each on h1 and one for h2", got)
	}
}

// TestAnswersThatNeedNoBody sends heads whose bodies never follow. Go's server
// would wait for such a body before it answers, for as long as the client likes.
func TestAnswersThatNeedNoBody(t *testing.T) {
	s := start(t, setup{})
	for _, tc := range []struct {
		name, head string
		status     int
	}{
		{"bad token", strings.Replace(s.head("Content-Length: 100"), "Bearer ", "Bearer x", 1), http.StatusUnauthorized},
		{"bad token, chunked", strings.Replace(s.head("Transfer-Encoding: chunked"), "Bearer ", "Bearer x", 1), http.StatusUnauthorized},
		{"unknown path", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", http.StatusNotFound},
		{"wrong method", "PUT /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", http.StatusMethodNotAllowed},
		{"models", strings.Replace(s.head("Content-Length: 100"), "POST /v1/completions", "GET /v1/models", 1), http.StatusOK},
		{"models without token", "GET /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", http.StatusUnauthorized},
		{"ready", "GET /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", http.StatusOK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // each waits a second for its body
			conn := s.dial(t)
			if got := conn.send(tc.head).answer(); got.status != tc.status {
				t.Errorf("got %d %.100q, want %d", got.status, got.body, tc.status)
			}
			conn.wantEnd() // what may still come of the body must not be read as a request
		})
	}
}

// TestUnreadBodiesAreNoRequests hides a request in a body that is refused
// unread.
func TestUnreadBodiesAreNoRequests(t *testing.T) {
	s := start(t, setup{})
	hidden := s.head("Content-Length: "+strconv.Itoa(len(goodBody))) + goodBody
	conn := s.dial(t).send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " + strconv.Itoa(len(hidden)) + "\r\n\r\n" + hidden +
		"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	conn.answer().wantRefusal(t, refusal{status: http.StatusUnauthorized, code: "missing_token"})
	if got := conn.answer(); got.status != http.StatusOK || got.body != "ok\n" {
		t.Errorf("the second answer is %d %q, want that of /readyz", got.status, got.body)
	}
	conn.wantEnd()
	s.wantArrivals(0)
}

// TestHalfClosed closes the client's half of an HTTP/1.1 connection. Go's server
// cannot tell this from a client that is gone, so it is a cancel, without an
// answer: a 200 with nothing in it would look like a completion.
func TestHalfClosed(t *testing.T) {
	gone := make(chan struct{})
	s := start(t, setup{unit: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(gone)
	})})
	t.Run("before the body's end", func(t *testing.T) {
		conn := s.dial(t).send(s.head("Content-Length: 100") + `{"model":`).halfClose()
		conn.wantEnd()
		s.outcomes("cancelled", 1)
		s.wantArrivals(0)
	})
	t.Run("while the answer is awaited", func(t *testing.T) {
		conn := s.dial(t).send(s.head("Content-Length: "+strconv.Itoa(len(goodBody))) + goodBody)
		s.eventually("the request is at the unit", func() bool { return s.arrived.count() == 1 })
		conn.halfClose().wantEnd()
		<-gone
		s.outcomes("cancelled", 2)
	})
}

func TestHeadersThatAreTooLarge(t *testing.T) {
	s := start(t, setup{})
	for _, size := range []int{128 << 10, 1 << 20} {
		conn := s.dial(t)
		go func() {
			_, _ = io.WriteString(conn, s.head("X-Large: "+strings.Repeat("x", size), "Content-Length: 0"))
		}()
		if got := conn.answer(); got.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%d bytes on h1 got %d %.100q, want 431", size, got.status, got.body)
		}
	}
	if got := s.post("/v1/completions", goodBody); got.status != http.StatusOK {
		t.Errorf("afterwards a good request got %d %.100q", got.status, got.body)
	}
	req := s.request(t.Context(), s.plainURL, "/v1/completions", goodBody)
	req.Header.Set("X-Large", strings.Repeat("x", 32<<10))
	if got := s.do(s.h1(), req); got.status != http.StatusOK {
		t.Errorf("a header of 32 KiB got %d %.100q, want 200", got.status, got.body)
	}
}

func TestMethods(t *testing.T) {
	s := start(t, setup{})
	clients := map[string]*http.Client{"h1": s.h1(), "h2c": s.h2c()}
	for path, allowed := range map[string]string{
		"/v1/completions": "POST", "/v1/engines/ghost-code/completions": "POST", "/v1/fim/completions": "POST", "/v1/models": "GET", "/v1/feedback": "POST",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "post"} {
			if method == allowed {
				continue
			}
			for name, client := range clients {
				t.Run(name+" "+method+" "+path, func(t *testing.T) {
					req := s.request(t.Context(), s.plainURL, path, "")
					req.Method = method
					got := s.do(client, req)
					if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != allowed {
						t.Errorf("got %d with Allow %q, want 405 with %s", got.status, got.header.Get("Allow"), allowed)
					}
					if method != http.MethodHead {
						got.wantRefusal(t, refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed", message: "use " + allowed})
					}
				})
			}
		}
	}
	s.wantArrivals(0)
}

func TestPaths(t *testing.T) {
	s := start(t, setup{})
	unknown := refusal{status: http.StatusNotFound, code: "path_not_found",
		message: "completions are at /v1/completions, /v1/engines/{model}/completions and /v1/fim/completions, the models at /v1/models, feedback at /v1/feedback"}
	for _, path := range []string{
		"/", "/v1", "/v1/", "/v1/completions/", "//v1/completions", "/v1//completions", "/V1/completions", "/v1/completions%00",
		"/v1/./completions", "/v1/x/../completions", "/v1/%2e%2e/v1/completions", "/v1%2fcompletions/", "/v1/completions;x", "/v1/completions%20",
		"/v1/engines//completions", "/v1/engines/completions", "/v1/engines/a/b/completions", "/v1/engines/a%2fb/completions",
		"/v1/engines/ghost-code/completions/", "/v1/engines/ghost-code/chat/completions",
		"/v1/chat/completions", "/v1/fim", "/v1/models/ghost-code", "/statusz", "/metrics", "/healthz", "/debug/pprof/", "/v1/feedback/",
	} {
		for name, client := range map[string]*http.Client{"h1": s.h1(), "h2c": s.h2c()} {
			t.Run(name+" "+path, func(t *testing.T) {
				s.do(client, s.request(t.Context(), s.plainURL, path, goodBody)).wantRefusal(t, unknown)
			})
		}
	}
	s.wantArrivals(0)
	for _, path := range []string{"/v1/completions?", "/v1/completions?api-version=1", "/v1/engines/ghost%2dcode/completions", "/v1/engines/copilot-codex/completions"} {
		if got := s.post(path, goodBody); got.status != http.StatusOK {
			t.Errorf("%s got %d %.200q, want 200", path, got.status, got.body)
		}
	}
}

// TestHeadersThatDoNotMatter: what clients say of form and encoding changes
// nothing, and an answer is never compressed, because that holds events back.
func TestHeadersThatDoNotMatter(t *testing.T) {
	s := start(t, setup{})
	for _, header := range []http.Header{
		{"Content-Type": {"text/plain; charset=utf-16"}},
		{"Content-Type": nil},
		{"Content-Type": {"nonsense;;;=,", "application/xml"}},
		{"Accept-Encoding": {"gzip, br, zstd"}},
		{"Accept-Encoding": {"gzip;q=1, identity;q=0"}},
		{"Accept": {"image/png"}},
		{"Te": {"trailers"}},
		{"Range": {"bytes=0-1"}},
		{"If-None-Match": {"*"}},
		{"User-Agent": {""}},
		{"Editor-Version": {"\xff/" + strings.Repeat("9", 1000)}},
	} {
		for stream, contentType := range map[string]string{"true": "text/event-stream; charset=utf-8", "false": "application/json"} {
			req := s.request(t.Context(), s.plainURL, "/v1/completions", withField(`"max_tokens":2,"stream":`+stream))
			maps.Copy(req.Header, header)
			got := s.do(s.h1(), req)
			if got.status != http.StatusOK || got.header.Get("Content-Type") != contentType || got.header.Get("Content-Encoding") != "" || !strings.Contains(got.body, `"choices"`) {
				t.Errorf("%v: got %d %v %.100q", header, got.status, got.header, got.body)
			}
		}
	}
}

func TestRequestIDs(t *testing.T) {
	s := start(t, setup{})
	client := s.h2c()
	for _, tc := range []struct {
		name, sent string
		kept       bool
	}{
		{"a UUID", "0b5c2f1e-7d7c-4c0e-8f0a-9d2a6b1c3e4f", true},
		{"other words", "a/b:c+d=e_f.g", true},
		{"128 bytes", strings.Repeat("a", 128), true},
		{"129 bytes", strings.Repeat("a", 129), false},
		{"empty", "", false},
		{"a space", "a b", false},
		{"quotes", `a"b`, false},
		{"markup", "<script>", false},
		{"no ASCII", "é", false},
		{"a list", "a,b", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, body := range []string{goodBody, "{}"} {
				req := s.request(t.Context(), s.plainURL, "/v1/completions", body)
				req.Header.Set("X-Request-Id", tc.sent)
				got := s.do(client, req)
				id := got.header.Get("X-Request-Id")
				if (id == tc.sent) != tc.kept || id == "" || id != got.header.Get("X-GitHub-Request-Id") {
					t.Errorf("sent %q, got %q and %q", tc.sent, id, got.header.Get("X-GitHub-Request-Id"))
				}
				if got.status == http.StatusOK && s.arrived.last(t).header.Get("X-Request-Id") != id {
					t.Errorf("the unit got %q, the client %q", s.arrived.last(t).header.Get("X-Request-Id"), id)
				}
			}
		})
	}
}

// head is the head of a good completion request on HTTP/1.1 with more fields.
func (s *stack) head(fields ...string) string {
	return "POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + s.token() + "\r\n" + strings.Join(fields, "\r\n") + "\r\n\r\n"
}

// rawConn is an HTTP/1.1 connection on which a test sends what it likes.
type rawConn struct {
	net.Conn
	t      *testing.T
	reader *bufio.Reader
}

func (s *stack) dial(t *testing.T) *rawConn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.plainURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(hangs)); err != nil {
		t.Fatal(err)
	}
	return &rawConn{conn, t, bufio.NewReader(conn)}
}

func (c *rawConn) send(text string) *rawConn {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
	return c
}

func (c *rawConn) halfClose() *rawConn {
	c.t.Helper()
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// answer reads the next answer, whatever its status: a 100 is not skipped.
func (c *rawConn) answer() reply {
	c.t.Helper()
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body), err: err}
}

// wantEnd checks that the proxy closes the connection with nothing more on it.
func (c *rawConn) wantEnd() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.reader); err != nil || len(rest) > 0 {
		c.t.Errorf("after the last answer came %.200q, %v; want the connection's end", rest, err)
	}
}
