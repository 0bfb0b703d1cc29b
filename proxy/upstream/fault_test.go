package upstream

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// TestFaultyUnit is a unit that accepts connections and then does something of
// no use, for a while. Every request ends when the fault shows, or with its
// context; the unit is not called in a loop; and when it is well again, it serves.
func TestFaultyUnit(t *testing.T) {
	silent := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	says := func(what []byte) func(net.Conn) {
		return func(conn net.Conn) { _, _ = conn.Write(what); silent(conn) }
	}
	settings := func(s http2.Setting) func(net.Conn) {
		return func(conn net.Conn) { _ = http2.NewFramer(conn, nil).WriteSettings(s); silent(conn) }
	}
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(rand.N(256))
	}
	noise[0] = 0xff // a frame so large that nobody waits for its end
	for name, tc := range map[string]struct {
		fault func(net.Conn)
		hangs bool // until the context ends
	}{
		"says nothing":     {silent, true},
		"hangs up":         {func(net.Conn) {}, false},
		"speaks HTTP/1.1":  {says([]byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nContent-Length: 20\r\n\r\n<h1>Bad Request</h1>")), false},
		"speaks noise":     {says(noise), false},
		"frames of size 0": {settings(http2.Setting{ID: http2.SettingMaxFrameSize}), false}, // CVE-2026-33814
		// The first request is on its way before it is known.
		"takes no streams": {settings(http2.Setting{ID: http2.SettingMaxConcurrentStreams}), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var well atomic.Bool
				f := newFramed(func(c *framedConn, stream uint32, _ int) { c.ok(stream) })
				u := newRawUnit(t, Options{Protocol: config.ProtocolH2C}, func(conn net.Conn, number int) {
					if well.Load() {
						f.serveConn(conn, number)
						return
					}
					defer conn.Close()
					tc.fault(conn)
				})
				u.Warm()
				const requests, within = 10, 3 * time.Second
				for range requests {
					start := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), within)
					_, err := ask(ctx, u.Pool)
					cancel()
					took := time.Since(start)
					if err == nil || took > within || !tc.hangs && (took > time.Second || errors.Is(err, context.DeadlineExceeded)) {
						t.Errorf("a request took %s; error %v", took, err)
					}
				}
				time.Sleep(time.Minute)
				// Each request may be sent twice; by itself the pool calls when its
				// backoff is over, or two times in 15 s, when PINGs are lost.
				if n := u.dialled(); n > 3*requests {
					t.Errorf("the unit was called %d times for %d requests", n, requests)
				}
				well.Store(true)
				time.Sleep(pingAfter + pingTimeout + backoffMost)
				mustAsk(t, u.Pool, "ok")
				synctest.Wait()
				if s := u.Stats(); s.Open != minMultiplexed || s.InFlight != 0 {
					t.Errorf("stats are %+v, want %d open", s, minMultiplexed)
				}
			})
		})
	}
}

// TestOneStreamAConnection is a unit of which each connection takes one request.
func TestOneStreamAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		u := newBubbleUnit(t, config.ProtocolH2C, 1, g.serve)
		u.Warm()
		synctest.Wait()
		for range 3 { // the first are placed before the SETTINGS of new connections come
			for range 20 {
				finish := g.hold(t, u.Pool, 1)
				synctest.Wait()
				defer finish()
			}
			if s := u.Stats(); s.Open < s.InFlight || s.Open > s.InFlight+minMultiplexed {
				t.Errorf("stats are %+v, want one connection a request, and %d more", s, minMultiplexed)
			}
		}
		close(g.open)
	})
}

// TestGoAwayEveryHundred has the unit send each connection away after 100
// requests, while others are on it: no request fails.
func TestGoAwayEveryHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var served sync.Map // *framedConn to *int
		f := newFramed(func(c *framedConn, stream uint32, _ int) {
			n, _ := served.LoadOrStore(c, new(int))
			*n.(*int)++
			if *n.(*int) == 100 {
				_ = c.WriteGoAway(stream, http2.ErrCodeNo, nil)
			}
			if *n.(*int) > 100 {
				return // beyond the last stream: not looked at
			}
			time.AfterFunc(rand.N(50*time.Millisecond), func() {
				c.Lock()
				defer c.Unlock()
				c.ok(stream)
			})
		})
		u := newRawUnit(t, Options{Protocol: config.ProtocolH2C}, f.serveConn)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for range 200 {
					if got, err := ask(t.Context(), u.Pool); got != "ok" || err != nil {
						t.Errorf("answer %q, error %v", got, err)
					}
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if s := u.Stats(); s.Opened < 4000/100 || s.Open > 5 || s.Failures != 0 {
			t.Errorf("stats are %+v, want %d opened and few open", s, 4000/100)
		}
	})
}

// TestLostPingWithRequests: requests on a connection of which the unit is gone
// end when its PING is lost, and the next ones find another.
func TestLostPingWithRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFramed(func(c *framedConn, stream uint32, count int) {
			if c.number > minMultiplexed || count <= minMultiplexed {
				c.ok(stream)
			}
		})
		silent := newFramed(f.answer)
		silent.noPong = true
		u := newRawUnit(t, Options{Protocol: config.ProtocolH2C}, func(conn net.Conn, number int) {
			if number <= minMultiplexed {
				silent.serveConn(conn, number)
				return
			}
			f.serveConn(conn, number)
		})
		for range minMultiplexed {
			mustAsk(t, u.Pool, "ok")
		}
		start := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := ask(t.Context(), u.Pool); err == nil || NotProcessed(err) {
					t.Errorf("error %v, want one of a request that may have been processed", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took != pingAfter+pingTimeout {
			t.Errorf("they ended after %s, want %s", took, pingAfter+pingTimeout)
		}
		mustAsk(t, u.Pool, "ok")
		synctest.Wait()
		if s := u.Stats(); s.Open != minMultiplexed || s.Opened != 2*minMultiplexed {
			t.Errorf("stats are %+v, want others in place of the first %d", s, minMultiplexed)
		}
	})
}

// TestWarmConnectionThatEnded: of connections that were open for long and that no
// request had yet, the unit may close or send away all just before the first.
func TestWarmConnectionThatEnded(t *testing.T) {
	for name, end := range map[string]func(*framedConn){
		"GOAWAY":           func(c *framedConn) { _ = c.WriteGoAway(0, http2.ErrCodeNo, nil) },
		"GOAWAY, an error": func(c *framedConn) { _ = c.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFramed(func(c *framedConn, stream uint32, _ int) {
					if c.number <= minMultiplexed {
						end(c)
						return
					}
					c.ok(stream)
				})
				u := newRawUnit(t, Options{Protocol: config.ProtocolH2C}, f.serveConn)
				u.Warm()
				time.Sleep(time.Minute)
				mustAsk(t, u.Pool, "ok")
				if s := u.Stats(); s.Failures != 0 {
					t.Errorf("stats are %+v, want no failure", s)
				}
			})
		})
	}
}

// TestWarmConnectionsThatClose has each warm connection end when the first
// request has been given it.
func TestWarmConnectionsThatClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newBubbleUnit(t, config.ProtocolH2C, 0, echo)
		u.Warm()
		time.Sleep(time.Minute)
		u.mu.Lock()
		warm := u.open
		u.mu.Unlock()
		resp, err := u.RoundTrip(request(t.Context(), u.Pool), func(has bool) {
			if has && len(warm) > 0 {
				warm[0].Close()
				warm = warm[1:]
				synctest.Wait()
			}
		})
		if err != nil || len(warm) > 0 {
			t.Fatalf("error %v, %d connections left", err, len(warm))
		}
		resp.Body.Close()
	})
}
