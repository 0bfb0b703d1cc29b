package feature

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// drip does something at each beat, until ctx is done or it fails.
func drip(ctx context.Context, do func() error) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for ctx.Err() == nil && do() == nil {
		<-tick.C
	}
}

// slowly is a config that gives a body little time.
func slowly(c *config.Config) { c.Timeouts.ReadBody = 3 * shortly }

// TestBodiesByTheByteOverHTTP1 has clients send their bodies so slowly that
// they would never be whole, although something comes all the while.
func TestBodiesByTheByteOverHTTP1(t *testing.T) {
	const each = 10
	s := start(t, setup{config: slowly})
	s.besides(t, s.bystander(), func(ctx context.Context, did func()) {
		var all sync.WaitGroup
		for range each {
			conn := s.dial(t).send(s.head("Content-Length: 100000"))
			did()
			all.Go(func() {
				ctx, stop := context.WithCancel(ctx)
				all.Go(func() { drip(ctx, func() error { _, err := conn.Write([]byte(" ")); return err }) })
				defer conn.Close()
				defer stop()
				s.wantBodyTimeout(conn)
			})
		}
		all.Wait()
	})
	s.wantNoneForwarded()
}

// wantBodyTimeout reads an answer. That the rest of the body cannot be read any
// more may reset the connection before all of the answer was.
func (s *stack) wantBodyTimeout(conn *rawConn) {
	resp, err := http.ReadResponse(conn.reader, nil)
	if err != nil {
		s.t.Errorf("no answer to a slow body: %v", err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout {
		s.t.Errorf("a slow body got %d, want 408", resp.StatusCode)
	}
}

// TestBodiesByTheByteOverHTTP2 does the same with many streams of a connection,
// which stays.
func TestBodiesByTheByteOverHTTP2(t *testing.T) {
	const each = 30
	s := start(t, setup{config: slowly})
	s.besides(t, s.bystander(), func(ctx context.Context, did func()) {
		c := s.framed()
		defer c.conn.Close()
		open := map[uint32]bool{}
		for range each {
			open[c.open()] = true
			did()
		}
		ctx, stop := context.WithCancel(ctx)
		var dripping sync.WaitGroup
		defer dripping.Wait()
		defer stop()
		streams := c.fresh
		dripping.Go(func() {
			drip(ctx, func() error {
				for id := uint32(1); id < streams; id += 2 {
					c.data(id, false, " ")
				}
				return nil
			})
		})
		s.wantBodyTimeouts(c, open)
	})
	s.wantNoneForwarded()
}

func (s *stack) wantBodyTimeouts(c *framedClient, open map[uint32]bool) {
	for len(open) > 0 {
		frame, err := c.next()
		if err != nil {
			s.t.Errorf("%d slow bodies had no answer: %v", len(open), err)
			return
		}
		switch f := frame.(type) {
		case *http2.GoAwayFrame:
			s.t.Errorf("the connection was ended: %v", f)
		case *http2.MetaHeadersFrame:
			if status := f.PseudoValue("status"); status != "408" {
				s.t.Errorf("a slow body got %s, want 408", status)
			}
			delete(open, f.StreamID)
		}
	}
}

// wantNoneForwarded checks that only bystanders' requests came to the unit, and
// that each of the others is counted as too slow.
func (s *stack) wantNoneForwarded() {
	s.t.Helper()
	all, ok, late := s.metric("ghostline_requests_total"), s.metric("ghostline_requests_total", "outcome", "ok"), s.metric("ghostline_requests_total", "outcome", "timeout")
	if late == 0 || all != ok+late || s.arrived.count() != int(ok) {
		s.t.Errorf("of %v requests %v are ok and %v timed out, and the unit had %d", all, ok, late, s.arrived.count())
	}
}

// TestHeadsByTheByte has clients open connections for heads that never end. They
// hold a connection each and no more, for as long as heads may take.
func TestHeadsByTheByte(t *testing.T) {
	const each = 100
	s := start(t, setup{})
	s.besides(t, s.bystander(), func(ctx context.Context, did func()) {
		var conns []net.Conn
		for range each {
			conn := s.dial(t).send("POST /v1/completions HTTP/1.1\r\nX-Slow: ")
			defer conn.Close()
			conns = append(conns, conn)
			did()
		}
		drip(ctx, func() error {
			for _, conn := range conns {
				if _, err := conn.Write([]byte("x")); err != nil {
					return err // its time is up
				}
			}
			return nil
		})
	})
	if all, ok := s.metric("ghostline_requests_total"), s.metric("ghostline_requests_total", "outcome", "ok"); all != ok {
		t.Errorf("%v requests are counted, %v of them ok; a head that never ended is none", all, ok)
	}
}
