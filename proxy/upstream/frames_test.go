package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framed is a unit whose answers are frames: what no HTTP server would send.
type framed struct {
	*testUnit
	settings []http2.Setting
	noPong   bool // it answers no PING
	// answer is told of each request, by stream and by the count of requests
	// that all connections have brought, from 1. What it leaves unanswered stays
	// so. reset, if set, is told of each RST_STREAM.
	answer   func(c *framedConn, stream uint32, count int)
	reset    func(c *framedConn, stream uint32)
	requests atomic.Int32
	closed   chan int // the number of each connection that the pool closed
}

// framedConn is locked while the unit is told of something.
type framedConn struct {
	sync.Mutex
	*http2.Framer
	number int // of the connection, from 1
}

func newFramed(answer func(c *framedConn, stream uint32, count int)) *framed {
	return &framed{answer: answer, closed: make(chan int, 10_000)}
}

func serveFrames(t *testing.T, answer func(c *framedConn, stream uint32, count int)) *framed {
	t.Helper()
	return newFramed(answer).serve(t)
}

func (f *framed) serve(t *testing.T) *framed {
	t.Helper()
	f.testUnit = newUnit(t, config.ProtocolH2C)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for number := 1; ; number++ {
			conn, err := f.listener.Accept()
			if err != nil {
				return
			}
			go f.serveConn(conn, number)
		}
	}()
	t.Cleanup(func() { f.listener.Close(); <-ended })
	return f
}

func (f *framed) serveConn(conn net.Conn, number int) {
	defer func() { conn.Close(); f.closed <- number }()
	if _, err := io.CopyN(io.Discard, conn, int64(len(http2.ClientPreface))); err != nil {
		return
	}
	c := &framedConn{Framer: http2.NewFramer(conn, conn), number: number}
	if c.WriteSettings(f.settings...) != nil {
		return
	}
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return
		}
		c.Lock()
		f.serveFrame(c, frame)
		c.Unlock()
	}
}

func (f *framed) serveFrame(c *framedConn, frame http2.Frame) {
	switch frame := frame.(type) {
	case *http2.HeadersFrame:
		f.answer(c, frame.StreamID, int(f.requests.Add(1)))
	case *http2.RSTStreamFrame:
		if f.reset != nil {
			f.reset(c, frame.StreamID)
		}
	case *http2.SettingsFrame:
		if !frame.IsAck() {
			_ = c.WriteSettingsAck() // a failure shows in the next read
		}
	case *http2.PingFrame:
		if !frame.IsAck() && !f.noPong {
			_ = c.WritePing(true, frame.Data)
		}
	}
}

// ok answers a request.
func (c *framedConn) ok(stream uint32) {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"}) // to memory
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
	_ = c.WriteData(stream, true, []byte("ok"))
}

func TestRefusedStream(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		u := serveFrames(t, func(c *framedConn, stream uint32, count int) {
			if count == 1 {
				_ = c.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
				return
			}
			c.ok(stream)
		})
		mustAsk(t, u.pool(t), "ok")
	})
	t.Run("and waits for a place again", func(t *testing.T) {
		u := serveFrames(t, func(c *framedConn, stream uint32, count int) {
			if count == 1 {
				_ = c.WriteGoAway(0, http2.ErrCodeNo, nil)
				return
			}
			c.ok(stream)
		})
		p := u.pool(t)
		var places []bool
		resp, err := p.RoundTrip(request(t.Context(), p), func(has bool) { places = append(places, has) })
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if want := []bool{true, false, true}; !slices.Equal(places, want) {
			t.Errorf("told of places %v, want %v", places, want)
		}
	})
	t.Run("always", func(t *testing.T) {
		u := serveFrames(t, func(c *framedConn, stream uint32, _ int) {
			_ = c.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		})
		if _, err := ask(t.Context(), u.pool(t)); !NotProcessed(err) {
			t.Errorf("error %v, want one that is not processed", err)
		}
		if n := u.requests.Load(); n != maxStale+1 {
			t.Errorf("the request was sent %d times, want %d", n, maxStale+1)
		}
	})
	t.Run("goes to another connection after a GOAWAY that is an error", func(t *testing.T) {
		u := serveFrames(t, func(c *framedConn, stream uint32, count int) {
			if count == 1 {
				_ = c.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil)
				return
			}
			c.ok(stream)
		})
		mustAsk(t, u.pool(t), "ok")
	})
	t.Run("by GOAWAY, always", func(t *testing.T) {
		u := serveFrames(t, func(c *framedConn, _ uint32, _ int) { _ = c.WriteGoAway(0, http2.ErrCodeNo, nil) })
		if _, err := ask(t.Context(), u.pool(t)); !NotProcessed(err) {
			t.Errorf("error %v, want one that is not processed", err)
		}
		if n := u.requests.Load(); n != 2 {
			t.Errorf("the request was sent %d times, want 2", n)
		}
	})
	t.Run("a body that cannot be had again", func(t *testing.T) {
		u := serveFrames(t, func(c *framedConn, stream uint32, _ int) {
			_ = c.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		})
		p := u.pool(t)
		req := request(t.Context(), p)
		req.GetBody = nil
		if _, err := p.RoundTrip(req, func(bool) {}); !NotProcessed(err) {
			t.Errorf("error %v, want one that is not processed", err)
		}
		if n := u.requests.Load(); n != 1 {
			t.Errorf("the request was sent %d times, want 1", n)
		}
	})
	t.Run("a body that fails", func(t *testing.T) {
		u := serveFrames(t, func(c *framedConn, stream uint32, _ int) {
			_ = c.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		})
		p := u.pool(t)
		req, bad := request(t.Context(), p), errors.New("bad")
		req.GetBody = func() (io.ReadCloser, error) { return nil, bad }
		if _, err := p.RoundTrip(req, func(bool) {}); !errors.Is(err, bad) {
			t.Errorf("error %v, want %v", err, bad)
		}
		if s := p.Stats(); s.InFlight != 0 {
			t.Errorf("a place was lost: %+v", s)
		}
	})
}

// TestGoAwayAboveLastStream is a request that crossed the GOAWAY: the unit says
// that it did not look at it.
func TestGoAwayAboveLastStream(t *testing.T) {
	u := serveFrames(t, func(c *framedConn, stream uint32, count int) {
		if count == 1 {
			_ = c.WriteGoAway(0, http2.ErrCodeNo, nil)
			return
		}
		c.ok(stream)
	})
	p := u.pool(t)
	mustAsk(t, p, "ok")
	if n := u.requests.Load(); n != 2 {
		t.Errorf("the request was sent %d times, want 2", n)
	}
}

// TestGoneAwayAndLeftOpen is a unit that sends GOAWAY and keeps the connection:
// it must not be kept, or such connections would fill the pool.
func TestGoneAwayAndLeftOpen(t *testing.T) {
	u := serveFrames(t, func(c *framedConn, stream uint32, _ int) {
		c.ok(stream)
		_ = c.WriteGoAway(stream, http2.ErrCodeNo, nil)
	})
	p := u.pool(t)
	for range 10 {
		mustAsk(t, p, "ok")
		eventually(t, "GOAWAY has come", func() bool { return p.dialsEnded() && !p.canReuse() })
	}
	for range 9 {
		receive(t, u.closed)
	}
	if s := p.Stats(); s.Open > 3 {
		t.Errorf("stats are %+v after 10 connections went away", s)
	}
}

// canReuse is whether a connection that has served can serve again.
func (p *Pool) canReuse() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.conns, func(c *conn) bool {
		room, _ := c.room()
		return c.given.Load() > 0 && room > 0
	})
}

// TestProcessed are failures after which a unit may have worked.
func TestProcessed(t *testing.T) {
	for name, answer := range map[string]func(c *framedConn, stream uint32, count int){
		"internal error": func(c *framedConn, stream uint32, _ int) { _ = c.WriteRSTStream(stream, http2.ErrCodeInternal) },
		"cancelled":      func(c *framedConn, stream uint32, _ int) { _ = c.WriteRSTStream(stream, http2.ErrCodeCancel) },
		"connection error": func(c *framedConn, stream uint32, _ int) {
			_ = c.WriteData(stream, true, nil) // before the headers
		},
		"too large a frame": func(c *framedConn, _ uint32, _ int) { _ = c.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 1<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			u := serveFrames(t, answer)
			p := u.pool(t)
			_, err := ask(t.Context(), p)
			if err == nil || NotProcessed(err) {
				t.Errorf("error %v, want one of a request that may have been processed", err)
			}
			if n := u.requests.Load(); n != 1 {
				t.Errorf("the request was sent %d times, want 1", n)
			}
			if s := p.Stats(); s.InFlight != 0 {
				t.Errorf("a place was lost: %+v", s)
			}
		})
	}
}
