package upstream

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// warmTo is how many connections Warm opens.
var warmTo = map[string]int{config.ProtocolH2C: minMultiplexed, config.ProtocolHTTP1: spares}

func TestWarm(t *testing.T) {
	for protocol, want := range warmTo {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newBubbleUnit(t, protocol, 0, echo)
				if n := u.dialled(); n != 0 {
					t.Errorf("%d dials before it was asked for anything", n)
				}
				u.Warm()
				u.Warm()
				synctest.Wait()
				if s := u.Stats(); s != (Stats{Open: want, Opened: want}) {
					t.Errorf("stats are %+v, want %d open", s, want)
				}
			})
		})
	}
}

// TestWarmByALPN does not know before the first dial which protocol it will be.
func TestWarmByALPN(t *testing.T) {
	for _, tc := range []struct {
		onlyHTTP1 bool
		want      int
	}{{false, minMultiplexed}, {true, spares}} {
		u := newUnit(t, config.ProtocolAuto)
		u.onlyHTTP1 = tc.onlyHTTP1
		p := u.serve(t, echo).pool(t)
		p.Warm()
		eventually(t, "the connections are open", func() bool { return p.Stats().Open == tc.want && p.dialsEnded() })
		mustAsk(t, p, prompt)
		if tc.onlyHTTP1 {
			eventually(t, "all are open again", p.dialsEnded)
			continue
		}
		stays(t, p, tc.want)
	}
}

// TestDownUnitIsCalledRarely is a unit that refuses, or hangs up at once, while
// nobody asks for anything: it is called when the backoff is over, and what it
// then keeps is kept.
func TestDownUnitIsCalledRarely(t *testing.T) {
	for protocol, want := range warmTo {
		for _, way := range []string{"refuses", "hangs up"} {
			t.Run(protocol+" "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					u := newBubbleUnit(t, protocol, 0, echo)
					var down atomic.Bool
					down.Store(true)
					if way == "refuses" {
						u.refuse = func(int) bool { return down.Load() }
					} else {
						u.accept = func(int) bool { return !down.Load() }
					}
					start := time.Now()
					u.Warm()
					before := u.dialled()
					if before < 1 || before > want || way == "refuses" && before > 1 {
						t.Errorf("%d dials at once, want 1, or at most %d of which the first seemed to succeed", before, want)
					}
					for _, want := range []struct {
						after time.Duration
						dials int
					}{
						{999 * time.Millisecond, 0}, {time.Second, 1}, {3 * time.Second, 2}, {6999 * time.Millisecond, 2},
						{7 * time.Second, 3}, {15 * time.Second, 4}, {31 * time.Second, 5}, {61 * time.Second, 6}, {90 * time.Second, 6}, {91 * time.Second, 7},
					} {
						time.Sleep(want.after - time.Since(start))
						if n := u.dialled() - before; n != want.dials {
							t.Errorf("after %s there were %d more dials, want %d", want.after, n, want.dials)
						}
					}
					if s := u.Stats(); s.Failures != u.dialled() || s.Problem == "" {
						t.Errorf("stats are %+v, want %d failures and the last one's error", s, u.dialled())
					}
					down.Store(false)
					time.Sleep(backoffMost + 10*pace)
					if protocol == config.ProtocolH2C { // nobody needs spares meanwhile
						if s := u.Stats(); s.Open != want {
							t.Errorf("stats are %+v, want %d open", s, want)
						}
					}
					mustAsk(t, u.Pool, prompt)
					synctest.Wait()
					if s := u.Stats(); s.Open < want || s.Open > want+1 || s.Problem != "" {
						t.Errorf("after an answer the stats are %+v, want %d open and no problem", s, want)
					}
				})
			})
		}
	}
}

// TestDownUnitComesBack is a unit that was down for longer than its spares are
// kept, while nobody asked it, since others serve in the place of one that cannot
// be reached: that it is back is found out all the same, and believed although it
// closes what is idle.
func TestDownUnitComesBack(t *testing.T) {
	for protocol := range warmTo {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newBubbleUnit(t, protocol, 0, echo)
				var down atomic.Bool
				u.refuse = func(int) bool { return down.Load() }
				u.Warm()
				mustAsk(t, u.Pool, prompt)
				synctest.Wait()
				down.Store(true)
				u.drop()
				time.Sleep(time.Hour)
				if !u.Unreachable() {
					t.Error("a unit that refuses every connection is not unreachable")
				}
				down.Store(false)
				time.Sleep(backoffMost + pace)
				synctest.Wait()
				if u.Unreachable() {
					t.Error("the unit is back, and still unreachable")
				}
				u.drop()
				synctest.Wait()
				if u.Unreachable() {
					t.Error("unreachable because it closed idle connections")
				}
				mustAsk(t, u.Pool, prompt)
			})
		})
	}
}

// TestRestart is a unit that drops all connections while nobody uses them.
func TestRestart(t *testing.T) {
	for protocol, want := range warmTo {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newBubbleUnit(t, protocol, 0, echo)
				u.Warm()
				synctest.Wait()
				mustAsk(t, u.Pool, prompt)
				time.Sleep(time.Minute)
				u.drop()
				time.Sleep(time.Duration(want) * pace)
				synctest.Wait()
				if s := u.Stats(); s.Open != want || s.Failures != 0 {
					t.Errorf("stats are %+v, want %d open and no failure", s, want)
				}
				mustAsk(t, u.Pool, prompt)
			})
		})
	}
}

// TestGoAwayWhileIdle has the unit send idle connections away, and leave them open.
func TestGoAwayWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFramed(func(c *framedConn, stream uint32, _ int) { c.ok(stream) })
		u := newRawUnit(t, Options{Protocol: config.ProtocolH2C}, func(conn net.Conn, number int) {
			if number <= minMultiplexed {
				time.AfterFunc(time.Minute, func() { _ = http2.NewFramer(conn, nil).WriteGoAway(0, http2.ErrCodeNo, nil) })
			}
			f.serveConn(conn, number)
		})
		u.Warm()
		time.Sleep(time.Minute + tendEvery + minMultiplexed*pace)
		synctest.Wait()
		if s := u.Stats(); s.Open != minMultiplexed || s.Opened != 2*minMultiplexed || len(f.closed) != minMultiplexed {
			t.Errorf("stats are %+v, want others in place of the first %d", s, minMultiplexed)
		}
		mustAsk(t, u.Pool, "ok")
	})
}

// TestLostPing is a unit that has become silent: its connections are replaced.
func TestLostPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFramed(func(c *framedConn, stream uint32, _ int) { c.ok(stream) })
		silent := newFramed(nil)
		silent.noPong = true
		u := newRawUnit(t, Options{Protocol: config.ProtocolH2C}, func(conn net.Conn, number int) {
			if number <= minMultiplexed {
				silent.serveConn(conn, number)
				return
			}
			f.serveConn(conn, number)
		})
		u.Warm()
		time.Sleep(pingAfter + pingTimeout - time.Millisecond)
		if s := u.Stats(); s.Opened != minMultiplexed {
			t.Errorf("before the time is over the stats are %+v", s)
		}
		time.Sleep(time.Millisecond + minMultiplexed*pace)
		synctest.Wait()
		if s := u.Stats(); s.Open != minMultiplexed || s.Opened != 2*minMultiplexed {
			t.Errorf("stats are %+v, want others in place of the first %d", s, minMultiplexed)
		}
		mustAsk(t, u.Pool, "ok")
	})
}

// TestClosedPoolOpensNothing ends what the pool does by itself.
func TestClosedPoolOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newBubbleUnit(t, config.ProtocolH2C, 0, echo)
		u.refuse = func(int) bool { return true }
		u.Warm()
		time.Sleep(10 * time.Second)
		n := u.dialled()
		u.Pool.Close()
		u.Warm()
		time.Sleep(time.Hour)
		if more := u.dialled() - n; more != 0 {
			t.Errorf("%d dials after the pool was closed", more)
		}
	})
}

// TestSparesForCancels cancels one request after another: each finds an open
// connection, and none waits for a dial. That the unit closed connections which
// were idle before does not matter.
func TestSparesForCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		u := newBubbleUnit(t, config.ProtocolHTTP1, 0, g.serve)
		u.Warm()
		time.Sleep(time.Minute)
		u.drop()
		time.Sleep(spares * pace)
		for i := range 100 {
			synctest.Wait()
			if s := u.Stats(); s.Open != spares {
				t.Fatalf("after %d cancels the stats are %+v, want %d open", i, s, spares)
			}
			ctx, cancel := context.WithCancel(t.Context())
			errs := make(chan error, 1)
			go func() {
				_, err := ask(ctx, u.Pool)
				errs <- err
			}()
			<-g.arrived
			cancel()
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Fatalf("a cancelled request failed with %v", err)
			}
		}
		synctest.Wait()
		if s := u.Stats(); s.Opened != 100+2*spares || s.Failures != 0 {
			t.Errorf("stats are %+v, want %d opened", s, 100+2*spares)
		}
	})
}

// TestIdleConnectionsThatTheUnitCloses is a unit like uvicorn, which closes what
// was idle for 5 s: it is called at most once a second, and not for long.
func TestIdleConnectionsThatTheUnitCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newRawUnit(t, Options{Protocol: config.ProtocolHTTP1}, func(conn net.Conn, _ int) {
			idle := time.AfterFunc(5*time.Second, func() { conn.Close() })
			defer conn.Close()
			buf := make([]byte, 4096)
			for {
				if _, err := conn.Read(buf); err != nil {
					return
				}
				idle.Reset(5 * time.Second)
				_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
			}
		})
		mustAsk(t, u.Pool, "ok")
		last := u.dialled()
		for range int(spareFor / time.Second) {
			time.Sleep(time.Second)
			if n := u.dialled(); n > last+1 {
				t.Errorf("%d dials in a second", n-last)
			}
			last = u.dialled()
		}
		if last < 50 {
			t.Errorf("%d dials in all: the test did not test", last)
		}
		time.Sleep(20 * time.Second)
		last = u.dialled()
		time.Sleep(time.Hour)
		if s := u.Stats(); u.dialled() != last || s.Open != 0 || s.Failures != 0 {
			t.Errorf("%d dials although nobody uses the unit; stats %+v", u.dialled()-last, s)
		}
		mustAsk(t, u.Pool, "ok")
		synctest.Wait()
		if s := u.Stats(); s.Open != 1+spares {
			t.Errorf("stats are %+v, want %d open at once", s, 1+spares)
		}
	})
}

// TestIdleHTTP2ConnectionsClose leaves two connections of a burst.
func TestIdleHTTP2ConnectionsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		u := newBubbleUnit(t, config.ProtocolH2C, 0, g.serve)
		finish := g.hold(t, u.Pool, 200)
		synctest.Wait()
		burst := u.Stats()
		if burst.Open < 200/defaultResetBudget {
			t.Errorf("stats are %+v, want at least %d open", burst, 200/defaultResetBudget)
		}
		time.Sleep(2 * idleFor)
		if s := u.Stats(); s != burst {
			t.Errorf("stats are %+v while the connections are used, want %+v", s, burst)
		}
		close(g.open)
		finish()
		for range 4 { // that one at a time is used keeps no other
			time.Sleep(idleFor / 2)
			mustAsk(t, u.Pool, prompt)
		}
		synctest.Wait()
		if s := u.Stats(); s.Open != minMultiplexed || s.Opened != burst.Opened {
			t.Errorf("stats are %+v, want %d open", s, minMultiplexed)
		}
	})
}
