package feature

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/modelserver"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

const (
	fleetSize = 5
	typists   = 10
	// mostDown is how many units are down at a time. While another one is out of
	// the config and a third loses its connections, there must be a fourth: a
	// request that has nobody left to ask is not lost by the proxy.
	mostDown = 1
)

// fleet is several units that are not left in peace, each with a book.
type fleet struct {
	s       *stack
	members []*member
	acts    map[string]int // what was done to them
}

type member struct {
	unit    config.Unit
	network *network
	model   *modelserver.Server
	book    *ledger
	back    time.Time // when a unit that is down comes back; zero if it is up
}

// startFleet runs a stack in front of a fleet, of which each unit serves one of
// two variants that stand in for each other.
func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{acts: map[string]int{}}
	for range fleetSize {
		m := &member{book: newLedger(0)}
		var err error
		m.model, err = modelserver.New(modelserver.Options{FirstToken: 40 * time.Millisecond, TokensPerSecond: 100})
		if err != nil {
			t.Fatal(err)
		}
		m.network = newNetwork(t, serveUnit(t, m.book.keep(m.model.Handler()), func(s *httpserver.Server) { s.ConnState = m.model.ConnState }))
		f.members = append(f.members, m)
	}
	f.s = start(t, setup{config: func(c *config.Config) {
		c.Models[0].Variants = []config.Variant{{Name: "stable", Weight: 80}, {Name: "next", Weight: 20, Fallback: "stable"}}
		for i, m := range f.members {
			m.unit = unitAt(c, fmt.Sprintf("unit-%d", i), m.network.address)
			if i == fleetSize-1 {
				m.unit.Serves = "ghost-code/next"
			}
		}
		c.Units = f.units()
		c.Timeouts.FirstByte, c.Timeouts.Idle = config.Duration(time.Minute), config.Duration(time.Minute)
	}})
	return f
}

func (f *fleet) units() (units []config.Unit) {
	for _, m := range f.members {
		units = append(units, m.unit)
	}
	return units
}

func (f *fleet) down() (n int) {
	for _, m := range f.members {
		if !m.back.IsZero() {
			n++
		}
	}
	return n
}

// disturb does one thing to the fleet.
func (f *fleet) disturb(now time.Time) {
	m := f.members[rand.IntN(fleetSize)]
	switch act := rand.IntN(4); {
	case act < 2 && m.back.IsZero() && f.down() < mostDown:
		f.acts["killed"]++
		m.network.refuse()
		m.network.cut()
		m.back = now.Add(time.Duration(200+rand.IntN(2000)) * time.Millisecond)
	case act == 2 && m.back.IsZero():
		f.acts["lost its connections"]++
		m.network.cut()
	default:
		f.acts["reconfigured"]++
		f.reconfigure(m)
	}
	for _, m := range f.members {
		if !m.back.IsZero() && now.After(m.back) {
			f.acts["restarted"]++
			m.network.heal()
			m.back = time.Time{}
		}
	}
}

// reconfigure writes another config: of other weights, priorities and capacities,
// and perhaps without a unit.
func (f *fleet) reconfigure(m *member) {
	m.unit.Priority = rand.IntN(2)
	m.unit.Capacity.InFlight = 100 * rand.IntN(3)
	f.s.config.Models[0].Variants[1].Weight = rand.IntN(80)
	f.s.config.Units = f.units()
	if rand.IntN(3) == 0 {
		i := rand.IntN(fleetSize - 1)
		f.s.config.Units = append(f.s.config.Units[:i], f.s.config.Units[i+1:]...)
	}
	f.s.writeConfig()
}

// results are what became of the typists' requests, by id.
type results struct {
	mu     sync.Mutex
	fates  map[string]fate // finished or cancelled
	broken map[string]bool // off in the middle of the answer, and said so
	lost   []string        // anything else
}

// typist sends requests until ctx is done, one after the other, and cancels
// every second one at a random moment.
func (r *results) typist(ctx context.Context, s *stack, name string) {
	client := s.h2()
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("%s-%d", name, i)
		asked, cancel := context.WithCancel(context.Background())
		if i%2 == 1 {
			time.AfterFunc(time.Duration(rand.IntN(200))*time.Millisecond, cancel)
		}
		req := s.request(asked, s.tlsURL, "/v1/completions", booksPrompt)
		req.Header.Set("X-Request-Id", id)
		body, err := fetch(client, req)
		r.book(id, body, err)
		cancel()
	}
}

func (r *results) book(id, body string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := strings.HasSuffix(body, event("[DONE]"))
	switch {
	case err == nil && done:
		r.fates[id] = finished
	case errors.Is(err, context.Canceled):
		r.fates[id] = cancelled
	case err != nil && !done && strings.HasPrefix(body, "data: "):
		r.broken[id] = true
	default:
		r.lost = append(r.lost, fmt.Sprintf("%s: %v after %.300q", id, err, body))
	}
}

// TestChaos kills, restarts and reconfigures units at random under load. An
// answer that had begun at a unit that is killed breaks off, and says so. Nothing
// else is lost, and the books balance.
func TestChaos(t *testing.T) {
	lasts := time.Minute
	if testing.Short() {
		lasts = 5 * time.Second
	}
	f := startFleet(t)
	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	r := &results{fates: map[string]fate{}, broken: map[string]bool{}}
	var load sync.WaitGroup
	for i := range typists {
		load.Go(func() { r.typist(ctx, f.s, fmt.Sprintf("typist-%d", i)) })
	}
	for ctx.Err() == nil {
		select {
		case now := <-time.After(time.Duration(200+rand.IntN(300)) * time.Millisecond):
			f.disturb(now)
		case <-ctx.Done():
		}
	}
	load.Wait()
	for _, m := range f.members {
		m.network.heal()
	}
	f.s.settled()
	for _, m := range f.members {
		f.s.eventually("a unit works for nobody", func() bool { return m.model.Stats().Inflight == 0 })
	}
	t.Logf("the units were %v", f.acts)
	f.balance(r)
}

// balance holds what the clients saw against the books of the units and the
// counts of the proxy.
func (f *fleet) balance(r *results) {
	t, s := f.s.t, f.s
	t.Helper()
	whole, left := 0, 0
	for id, saw := range r.fates {
		switch there := f.fatesOf(id); {
		case saw == finished && there[finished] == 0:
			t.Errorf("%s: the client had the whole answer, which no unit finished", id)
		case there[unfinished] > 0:
			t.Errorf("%s is still at a unit", id)
		}
		if saw == finished {
			whole++
		} else {
			left++
		}
	}
	for id := range r.broken {
		// What a unit had finished may have been lost on its way.
		if there := f.fatesOf(id); there[cancelled]+there[finished] == 0 || there[unfinished] > 0 {
			t.Errorf("%s broke off, and yet no unit was taken away from it: %v", id, there)
		}
	}
	if len(r.lost) > 0 {
		t.Errorf("%d requests were lost, such as %s", len(r.lost), r.lost[0])
	}
	// The counts by unit go with the unit; these do not.
	ended, gone := int(s.metric("ghostline_request_duration_seconds")), int(s.metric("ghostline_cancelled_total"))
	t.Logf("%d whole, %d broken off, %d cancelled; the proxy counted %d ended, %d cancelled; retries: %v allowed, %v denied", whole, len(r.broken), left,
		ended, gone, s.metric("ghostline_retries_total", "result", "allowed"), s.metric("ghostline_retries_total", "result", "denied"))
	// A reset may cross the end of its answer, or come before its request.
	if all := ended + gone; ended < whole+len(r.broken) || all < whole+len(r.broken) || all > whole+len(r.broken)+left {
		t.Error("the proxy and the clients do not agree")
	}
	for _, outcome := range []string{"no_capacity", "timeout", "internal", "limited", "denied", "bad_request"} {
		if n := s.metric("ghostline_requests_total", "outcome", outcome); n > 0 {
			t.Errorf("%v requests ended as %s", n, outcome)
		}
	}
	if f.acts["killed"] == 0 || f.acts["restarted"] == 0 || f.acts["reconfigured"] == 0 || whole == 0 || left == 0 {
		t.Error("this was no chaos")
	}
}

// fatesOf counts what became of a request at the units.
func (f *fleet) fatesOf(id string) map[fate]int {
	fates := map[fate]int{}
	for _, m := range f.members {
		fates[m.book.of(id)]++
	}
	return fates
}
