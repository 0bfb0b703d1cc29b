package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawServer speaks HTTP/2 frame by frame, to do what net/http's server never
// does. react is called with the number of the request, from 1 over all
// connections; returning false closes the connection.
type rawServer struct {
	mu    sync.Mutex
	ids   []string
	reset []http2.ErrCode // of the client's resets
	react func(n int, f *http2.Framer, stream uint32) (goOn bool)
}

func (s *rawServer) serve(conn net.Conn) error {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return err
	}
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := f.WriteSettings(); err != nil {
		return err
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			f.WritePing(true, frame.Data)
		case *http2.RSTStreamFrame:
			s.mu.Lock()
			s.reset = append(s.reset, frame.ErrCode)
			s.mu.Unlock()
		case *http2.MetaHeadersFrame:
			if !s.react(s.note(frame), f, frame.StreamID) {
				return nil
			}
		}
	}
}

func (s *rawServer) note(h *http2.MetaHeadersFrame) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, field := range h.RegularFields() {
		if field.Name == "x-request-id" {
			s.ids = append(s.ids, field.Value)
		}
	}
	return len(s.ids)
}

func answerRaw(f *http2.Framer, stream uint32) bool {
	var block bytes.Buffer
	h := hpack.NewEncoder(&block)
	h.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	h.WriteField(hpack.HeaderField{Name: "content-type", Value: "text/event-stream"})
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
	f.WriteData(stream, true, []byte("data: "+text("a")+"\n\ndata: "+stop+"\n\ndata: [DONE]\n\n"))
	return true
}

func TestRetry(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fail        func(f *http2.Framer, stream uint32) bool
		always      bool // not only the first request
		tries       int
		connections int
		ok          bool
	}{
		"stream refused":        {fail: reset(http2.ErrCodeRefusedStream), tries: 2, connections: 1, ok: true},
		"always refused":        {fail: reset(http2.ErrCodeRefusedStream), always: true, tries: 2, connections: 1},
		"stream failed":         {fail: reset(http2.ErrCodeInternal), tries: 1, connections: 1},
		"GOAWAY below it":       {fail: func(f *http2.Framer, _ uint32) bool { f.WriteGoAway(0, http2.ErrCodeNo, nil); return true }, tries: 2, connections: 2, ok: true},
		"connection closed":     {fail: func(*http2.Framer, uint32) bool { return false }, tries: 2, connections: 2, ok: true},
		"always closed":         {fail: func(*http2.Framer, uint32) bool { return false }, always: true, tries: 2, connections: 2},
		"failed, then no retry": {fail: reset(http2.ErrCodeEnhanceYourCalm), tries: 1, connections: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &rawServer{react: func(n int, f *http2.Framer, stream uint32) bool {
				if n == 1 || test.always {
					return test.fail(f, stream)
				}
				return answerRaw(f, stream)
			}}
			c := s.client(t)
			answer, err := collect(c, t.Context(), Request{Model: "m", Prompt: "p"})
			if (err == nil) != test.ok || test.ok && answer != "a" {
				t.Errorf("answer %q, %v; want success: %t", answer, err, test.ok)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.ids) != test.tries || c.Connections() != test.connections {
				t.Errorf("%d tries on %d connections, want %d on %d", len(s.ids), c.Connections(), test.tries, test.connections)
			}
			for _, id := range s.ids {
				if id != s.ids[0] || id == "" {
					t.Errorf("request ids %q, want one and the same", s.ids)
				}
			}
		})
	}
}

func reset(code http2.ErrCode) func(*http2.Framer, uint32) bool {
	return func(f *http2.Framer, stream uint32) bool {
		f.WriteRSTStream(stream, code)
		return true
	}
}

// client starts the server and returns a client of it.
func (s *rawServer) client(t *testing.T) *Client {
	t.Helper()
	c, stop := s.start(t)
	t.Cleanup(stop)
	return c
}

// start is client with a function that closes the client and waits until the
// server has read all that it sent.
func (s *rawServer) start(t *testing.T) (c *Client, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { _ = s.serve(conn) }) // ends when the client leaves
		}
	})
	c, err = New(Options{ProxyURL: "http://" + l.Addr().String(), Tokens: &fixedToken{token: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		c.Close()
		l.Close()
		serving.Wait()
	}
}

// TestCloseAfterCancel: a program that cancels and ends still sends the reset, so
// that the proxy counts a cancel.
func TestCloseAfterCancel(t *testing.T) {
	t.Parallel()
	for range 20 {
		asked := make(chan struct{})
		s := &rawServer{react: func(int, *http2.Framer, uint32) bool { close(asked); return true }}
		c, stop := s.start(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		if _, err := collect(c, ctx, Request{Model: "m"}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's", err)
		}
		stop()
		if len(s.reset) != 1 || s.reset[0] != http2.ErrCodeCancel {
			t.Errorf("resets %v, want one with CANCEL", s.reset)
		}
	}
}

// queuedConn is an end of a net.Pipe whose writes do not wait for the reader, as
// those of a socket: else two ends that both write wait for each other.
type queuedConn struct {
	net.Conn
	queue chan []byte
}

func newQueuedConn(conn net.Conn) *queuedConn {
	q := &queuedConn{conn, make(chan []byte, 100)}
	go func() {
		for p := range q.queue {
			conn.Write(p) // fails once the client has left
		}
	}()
	return q
}

func (q *queuedConn) Write(p []byte) (int, error) {
	q.queue <- bytes.Clone(p)
	return len(p), nil
}

func (q *queuedConn) Close() error {
	close(q.queue)
	return q.Conn.Close()
}

// TestSilentConnection: a connection that died without a word is noticed by PING,
// and its request moves to a new one.
func TestSilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Options{ProxyURL: "http://127.0.0.1:1", Tokens: &fixedToken{token: "t"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s := &rawServer{react: func(_ int, f *http2.Framer, stream uint32) bool { return answerRaw(f, stream) }}
		dials := 0
		c.conn.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			dials++
			ours, theirs := net.Pipe()
			if dials == 1 {
				go io.Copy(io.Discard, theirs)
			} else {
				go s.serve(newQueuedConn(theirs))
			}
			return ours, nil
		}
		answer, err := collect(c, t.Context(), Request{Model: "m"})
		if err != nil || answer != "a" || c.Connections() != 2 {
			t.Errorf("answer %q, %v on %d connections; want it on the second", answer, err, c.Connections())
		}
	})
}
