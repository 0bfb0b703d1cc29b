package feature

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// TestCancelledBeforeItsEndIsNeverForwarded resets requests that lack nothing
// but the mark of their end.
func TestCancelledBeforeItsEndIsNeverForwarded(t *testing.T) {
	s := start(t, setup{})
	c := s.framed()
	const n = 100
	for i := range n {
		stream := c.open()
		if i%2 == 0 { // the other half is reset before any of its body
			c.data(stream, false, prompt)
		}
		c.reset(stream, http2.ErrCodeCancel)
	}
	s.outcomes("cancelled", n)
	if got := s.metric("ghostline_cancelled_total", "phase", "receive"); got != n {
		t.Errorf("%v cancelled in phase receive, want %d", got, n)
	}
	s.neverForwarded(c)
}

// neverForwarded checks that nothing came to the unit, that all is well for c's
// next request, and that nobody was alarmed.
func (s *stack) neverForwarded(c *framedClient) {
	s.t.Helper()
	s.settled()
	if got := s.metric("ghostline_unit_attempts_total"); got != 0 || s.arrived.count() != 0 {
		s.t.Errorf("%v attempts, %d arrived at the model; want none", got, s.arrived.count())
	}
	if got := c.read(c.post(prompt), nil); got.reset != nil || !strings.HasSuffix(got.body(), event("[DONE]")) {
		s.t.Errorf("the next answer on the connection is %+v", got)
	}
	if got := s.metric("ghostline_client_connections_opened_total"); got != 1 {
		s.t.Errorf("%v connections were opened, want 1", got)
	}
	s.quiet()
}

// TestCancelledAtOnce resets each request in the segment that brings it: the
// proxy may be as fast as that, and then the model is told.
func TestCancelledAtOnce(t *testing.T) {
	s := start(t, setup{})
	s.setFault("hang=headers")
	c := s.framed()
	const n = 200
	for range n {
		c.reset(c.post(prompt), http2.ErrCodeCancel)
	}
	s.outcomes("cancelled", n)
	s.settled()
	// The recorder in front of the model server passes on what it could not
	// read to its end, which the model server then counts as an error.
	if got := s.model.Stats(); got.OK != 0 || got.Fault != 0 || got.Cancelled()+got.Error > n {
		t.Errorf("the model saw %+v; want at most %d requests, and each cancelled", got, n)
	}
	s.setFault("")
	if got := c.read(c.post(prompt), nil); !strings.HasSuffix(got.body(), event("[DONE]")) {
		t.Errorf("the next answer on the connection is %+v", got)
	}
	s.quiet()
}

// TestHungUpBeforeItsEnd closes HTTP/1.1 connections on which a request lacks
// its end.
func TestHungUpBeforeItsEnd(t *testing.T) {
	s := start(t, setup{})
	head := "POST /v1/completions HTTP/1.1\r\nHost: proxy.test\r\nContent-Type: application/json\r\nAuthorization: Bearer " + s.token() + "\r\n"
	n := 0.0
	for name, request := range map[string]string{
		"sized":             head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(prompt)+1, prompt),
		"chunked":           head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(prompt), prompt),
		"in a chunk":        head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", len(prompt)+5, prompt),
		"before its body":   head + "Content-Length: 10\r\n\r\n",
		"in a chunk's size": head + "Transfer-Encoding: chunked\r\n\r\n1",
	} {
		for way, cut := range map[string]func(net.Conn){"hang up": hangUp, "abort": abort} {
			t.Run(name+", "+way, func(t *testing.T) {
				s.in(t)
				conn, err := net.Dial("tcp", strings.TrimPrefix(s.plainURL, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(conn, request); err != nil {
					t.Fatal(err)
				}
				s.eventually("the proxy reads it", func() bool { return s.metric("ghostline_auth_total", "result", "ok") == n+1 })
				cut(conn)
				n++
				s.outcomes("cancelled", n)
			})
		}
	}
	if got := s.metric("ghostline_cancelled_total", "phase", "receive"); got != n {
		t.Errorf("%v cancelled in phase receive, want %v", got, n)
	}
	s.settled()
	if s.arrived.count() != 0 {
		t.Errorf("%d requests arrived at the model, want none", s.arrived.count())
	}
	s.quiet()
}
