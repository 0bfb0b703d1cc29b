package upstream

import (
	"context"
	"errors"
	"fmt"
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

// tolerated is how many resets a second a calmUnit lets pass, as nghttp2 does.
const tolerated = 33

// calmUnit answers after a while what is not reset before, and sends a
// connection away that has brought too many resets within a second.
type calmUnit struct {
	*framed
	work time.Duration

	mu     sync.Mutex
	resets map[*framedConn][]time.Time // of the last second
	most   int                         // of all connections and seconds
	all    int
	gone   int // connections sent away
}

func newCalmUnit(work time.Duration) *calmUnit {
	u := &calmUnit{work: work, resets: map[*framedConn][]time.Time{}}
	u.framed = newFramed(func(c *framedConn, stream uint32, _ int) {
		time.AfterFunc(u.work, func() {
			c.Lock()
			defer c.Unlock()
			c.ok(stream) // or not, if it was reset: then nobody listens
		})
	})
	u.reset = u.count
	return u
}

func (u *calmUnit) count(c *framedConn, _ uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	recent := append(u.resets[c], now)
	for now.Sub(recent[0]) > time.Second {
		recent = recent[1:]
	}
	u.resets[c] = recent
	u.all++
	u.most = max(u.most, len(recent))
	if len(recent) == tolerated+1 {
		u.gone++
		_ = c.WriteGoAway(1<<31-1, http2.ErrCodeEnhanceYourCalm, nil) // as nghttp2 does, and then closes
	}
}

// cancelMany has clients ask until there were n requests, and cancel most of
// them, each at its own time. No request may fail but by that.
func cancelMany(t *testing.T, p *Pool, work time.Duration, clients, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range n / clients {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(work*3/2))
				got, err := ask(ctx, p)
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) || err == nil && got != "ok" {
					t.Errorf("answer %q, error %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestResetsAreSpread cancels hundreds of requests a second: no connection ever
// sees more resets in a second than the budget.
func TestResetsAreSpread(t *testing.T) {
	for _, budget := range []int{0, 5} {
		t.Run(fmt.Sprint(budget), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const work = 150 * time.Millisecond
				calm := newCalmUnit(work)
				u := newRawUnit(t, Options{Protocol: config.ProtocolH2C, ResetBudget: budget}, calm.serveConn)
				u.Warm()
				start := time.Now()
				cancelMany(t, u.Pool, work, 50, 5000)
				calm.mu.Lock()
				defer calm.mu.Unlock()
				rate := float64(calm.all) / time.Since(start).Seconds()
				if rate < 200 {
					t.Errorf("%.0f resets a second: the test did not test", rate)
				}
				if want := u.opts.ResetBudget; calm.most > want || calm.most < want-1 {
					t.Errorf("a connection had %d resets in a second, want %d", calm.most, want)
				}
				if calm.gone != 0 || u.Stats().Failures != 0 {
					t.Errorf("%d connections were lost", calm.gone)
				}
				t.Logf("%.0f resets a second, %+v", rate, u.Stats())
			})
		})
	}
}

// TestResetsWithoutBudget is what the test above is worth.
func TestResetsWithoutBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = 150 * time.Millisecond
		calm := newCalmUnit(work)
		u := newRawUnit(t, Options{Protocol: config.ProtocolH2C, ResetBudget: 1000}, calm.serveConn)
		cancelMany(t, u.Pool, work, 50, 1000)
		calm.mu.Lock()
		defer calm.mu.Unlock()
		if calm.gone == 0 {
			t.Errorf("no connection was lost, with %d resets in a second", calm.most)
		}
	})
}

// TestResetsOverSockets is the same in real time. The budget is low, so that only
// a halt of seconds could bring more resets together than the unit tolerates.
func TestResetsOverSockets(t *testing.T) {
	const work = 30 * time.Millisecond
	calm := newCalmUnit(work)
	opts := calm.serve(t).options()
	opts.ResetBudget = 8
	p := newPool(t, opts)
	p.Warm()
	cancelMany(t, p, work, 16, 800)
	calm.mu.Lock()
	defer calm.mu.Unlock()
	if calm.gone != 0 || calm.all < 100 {
		t.Errorf("%d connections were lost by %d resets", calm.gone, calm.all)
	}
	if s := p.Stats(); s.InFlight != 0 || s.Failures != 0 {
		t.Errorf("stats are %+v, want none in flight", s)
	}
}

// TestBurstIsWithinBudget sends many requests at once and cancels all of them at
// once: each connection sees its budget of resets.
func TestBurstIsWithinBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calm := newCalmUnit(time.Hour)
		u := newRawUnit(t, Options{Protocol: config.ProtocolH2C}, calm.serveConn)
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for range 300 {
				wg.Go(func() { _, _ = ask(ctx, u.Pool) })
			}
			synctest.Wait()
			if s := u.Stats(); s.InFlight != 300 {
				t.Errorf("stats are %+v, want 300 in flight", s)
			}
			cancel()
			wg.Wait()
			time.Sleep(resetWindow / 2)
		}
		calm.mu.Lock()
		defer calm.mu.Unlock()
		if calm.all != 900 || calm.most != defaultResetBudget || calm.gone != 0 {
			t.Errorf("%d resets, at most %d in a second, %d connections lost", calm.all, calm.most, calm.gone)
		}
	})
}

// TestBeyondTheBudget has no other connection to give: requests are sent
// anyhow, at once if none can be opened, and soon if one does not open in time.
func TestBeyondTheBudget(t *testing.T) {
	for name, tc := range map[string]struct {
		dial func(context.Context) (net.Conn, error) // from the third on
		wait time.Duration
	}{
		"refused": {func(context.Context) (net.Conn, error) { return nil, errors.New("refused") }, 0},
		"silent": {func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, resetPatience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				u := newBubbleUnit(t, config.ProtocolH2C, 0, g.serve)
				dial, dials := u.transport.DialContext, atomic.Int32{}
				u.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					if dials.Add(1) <= minMultiplexed {
						return dial(ctx, network, address)
					}
					return tc.dial(ctx)
				}
				u.Warm()
				synctest.Wait()
				within := g.hold(t, u.Pool, minMultiplexed*defaultResetBudget)
				start := time.Now()
				over := g.hold(t, u.Pool, 100)
				if waited := time.Since(start); waited != tc.wait {
					t.Errorf("they waited %s, want %s", waited, tc.wait)
				}
				if s := u.Stats(); s.InFlight != minMultiplexed*defaultResetBudget+100 || s.Open != minMultiplexed {
					t.Errorf("stats are %+v", s)
				}
				close(g.open)
				within()
				over()
			})
		})
	}
}

// TestOpenedAhead lets the load grow by less than a connection's budget at a time:
// nobody waits for a dial, although dials take a while.
func TestOpenedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		u := newBubbleUnit(t, config.ProtocolH2C, 0, g.serve)
		dial := u.transport.DialContext
		u.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(10 * time.Millisecond)
			return dial(ctx, network, address)
		}
		u.Warm()
		time.Sleep(time.Second)
		var finish []func()
		for range 20 {
			start := time.Now()
			finish = append(finish, g.hold(t, u.Pool, defaultResetBudget-1))
			if waited := time.Since(start); waited != 0 {
				t.Errorf("a request waited %s", waited)
			}
			time.Sleep(20 * time.Millisecond)
		}
		close(g.open)
		for _, f := range finish {
			f()
		}
	})
}

// TestWhatIsAReset: an answer that was read to its end is none.
func TestWhatIsAReset(t *testing.T) {
	u := newUnit(t, config.ProtocolH2C).serve(t, echo)
	p := u.pool(t)
	counted := func() (n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.conns {
			n += c.resets.n
		}
		return n
	}
	for range 10 {
		mustAsk(t, p, prompt)
	}
	if n := counted(); n != 0 {
		t.Errorf("%d resets although all answers were read", n)
	}
	for range 3 {
		resp, err := send(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if n := counted(); n != 3 {
		t.Errorf("%d resets, want one for each answer that was not read", n)
	}
}

// TestRecentResets compares the ring with a list of all.
func TestRecentResets(t *testing.T) {
	const budget = 7
	r := newResets(budget)
	var all []time.Time
	now := time.Now()
	for range 10_000 {
		now = now.Add(rand.N(400 * time.Millisecond))
		if rand.N(2) == 0 {
			r.add(now)
			all = append(all, now)
		}
		want := 0
		for i := len(all) - 1; i >= 0 && now.Sub(all[i]) <= resetWindow; i-- {
			want++
		}
		if got := r.recent(now); got != min(want, budget) {
			t.Fatalf("%d recent resets, want %d, at most %d", got, want, budget)
		}
	}
}
