package proxy

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

// testUnits makes the snapshot of a model with variants stable and next, whose
// fallback is stable.
func testUnits(units ...config.Unit) *snapshot {
	s := &snapshot{config: &config.Config{
		Region: "here", Failover: []string{"near", "far"},
		Models: []config.Model{{Name: "m", Variants: []config.Variant{{Name: "stable", Weight: 1}, {Name: "next", Weight: 1, Fallback: "stable"}}}},
	}}
	for _, u := range units {
		s.units = append(s.units, &unit{Unit: u, endpoint: &endpoint{pool: &upstream.Pool{}, inFlight: new(atomic.Int64), bucket: newBucket(u.Capacity)}})
	}
	s.link()
	return s
}

func (s *snapshot) variant(name string) *variant {
	for _, v := range s.models["m"].variants {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// picks are the units that one request is given, until none is left.
func picks(t *testing.T, s *snapshot, variant string) (names []string, x *exchange) {
	t.Helper()
	x = &exchange{wanted: s.variant(variant)}
	for {
		if err := new(proxy).pickUnit(x); err != nil {
			if e := asClientError(err); e.status != 503 || e.retryAfter != retryWhenFull {
				t.Errorf("when none is left: %+v", e)
			}
			return names, x
		}
		names = append(names, x.unit.Name)
		x.leaveUnit()
	}
}

func TestPickUnit(t *testing.T) {
	unit := func(name, region, serves string, priority int) config.Unit {
		return config.Unit{Name: name, Region: region, Serves: "m/" + serves, Priority: priority}
	}
	s := testUnits(
		unit("far-0", "far", "stable", 0), unit("near-1", "near", "stable", 1), unit("near-0", "near", "stable", 0),
		unit("here-7", "here", "stable", 7), unit("here-0", "here", "stable", 0), unit("next-0", "here", "next", 0),
	)
	for variant, want := range map[string][]string{
		"stable": {"here-0", "here-7", "near-0", "near-1", "far-0"},
		"next":   {"next-0", "here-0", "here-7", "near-0", "near-1", "far-0"},
	} {
		got, x := picks(t, s, variant)
		if len(got) != len(want) {
			t.Fatalf("%s: picked %v, want %v", variant, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: picked %v, want %v", variant, got, want)
			}
		}
		if x.variant.Name != "stable" {
			t.Errorf("%s: the variant that served last is %s", variant, x.variant.Name)
		}
	}
	for _, u := range s.units {
		if n := u.endpoint.inFlight.Load(); n != 0 {
			t.Errorf("unit %s has %d in flight", u.Name, n)
		}
	}
}

func TestPickUnitByLoad(t *testing.T) {
	s := testUnits(
		config.Unit{Name: "small", Region: "here", Serves: "m/stable", Capacity: config.Capacity{InFlight: 2}},
		config.Unit{Name: "large", Region: "here", Serves: "m/stable", Capacity: config.Capacity{InFlight: 4}},
		config.Unit{Name: "spare", Region: "here", Serves: "m/stable", Priority: 1},
	)
	var p proxy
	for i, want := range []map[string]int{
		// Of two, the less loaded against its capacity is always taken.
		2: {"small": 1, "large": 2}, 5: {"small": 2, "large": 4}, 8: {"small": 2, "large": 4, "spare": 3},
	} {
		if err := p.pickUnit(&exchange{wanted: s.variant("stable")}); err != nil {
			t.Fatal(err)
		}
		for name, n := range want {
			if got := s.unit(name).endpoint.inFlight.Load(); got != int64(n) {
				t.Errorf("%s has %d in flight after %d requests, want %d", name, got, i+1, n)
			}
		}
	}
}

func (s *snapshot) unit(name string) *unit {
	return s.units[slices.IndexFunc(s.units, func(u *unit) bool { return u.Name == name })]
}

// TestTwoChoices has units of which one is much more loaded: it is given a
// request only if it is drawn with none that is less so.
func TestTwoChoices(t *testing.T) {
	var units []config.Unit
	for i := range 5 {
		units = append(units, config.Unit{Name: fmt.Sprint(i), Region: "here", Serves: "m/stable"})
	}
	s := testUnits(units...)
	s.units[0].endpoint.inFlight.Store(1000)
	var p proxy
	counts := map[string]int{}
	const n = 10_000
	for range n {
		x := &exchange{wanted: s.variant("stable")}
		if err := p.pickUnit(x); err != nil {
			t.Fatal(err)
		}
		counts[x.unit.Name]++
		x.leaveUnit()
	}
	for i := 1; i < 5; i++ {
		// Each is one of four alike: the standard deviation of its count is 43.
		if got := counts[fmt.Sprint(i)]; got < n/4-260 || got > n/4+260 {
			t.Errorf("unit %d got %d of %d requests, want about a quarter", i, got, n)
		}
	}
	if counts["0"] > 0 {
		t.Errorf("the loaded unit got %d requests", counts["0"])
	}
}

// TestCapacityShares divides a region's capacity by its proxies.
func TestCapacityShares(t *testing.T) {
	for _, tc := range []struct{ region, proxies, places int }{
		{10, 1, 10}, {10, 3, 4}, {9, 3, 3}, {1, 5, 1}, {2, 100, 1},
	} {
		s := testUnits(config.Unit{Name: "u", Region: "here", Serves: "m/stable", Capacity: config.Capacity{InFlight: tc.region}})
		var p proxy
		p.peers.set(tc.proxies)
		taken := 0
		for p.pickUnit(&exchange{wanted: s.variant("stable")}) == nil {
			taken++
		}
		if taken != tc.places {
			t.Errorf("%d places for %d proxies: one took %d, want %d", tc.region, tc.proxies, taken, tc.places)
		}
	}
}

// TestRequestsPerSecond is a unit that takes 6 requests a second from 3 proxies.
func TestRequestsPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testUnits(config.Unit{Name: "u", Region: "here", Serves: "m/stable", Capacity: config.Capacity{RequestsPerSecond: 6}})
		var p proxy
		p.peers.set(3)
		asked := func() (n int) {
			for {
				x := &exchange{wanted: s.variant("stable")}
				if p.pickUnit(x) != nil {
					return n
				}
				x.leaveUnit()
				n++
			}
		}
		first := asked()
		time.Sleep(time.Second)
		second := asked()
		p.peers.set(1)
		asked() // which is when the bucket learns of it
		time.Sleep(time.Second)
		third := asked()
		if first != 2 || second != 2 || third != 6 {
			t.Errorf("took %d, %d and alone %d requests in a second; want 2, 2 and 6", first, second, third)
		}
	})
}

// TestStandings is in which order units of different health are asked.
func TestStandings(t *testing.T) {
	named := func(name, region, serves string) config.Unit {
		return config.Unit{Name: name, Region: region, Serves: "m/" + serves}
	}
	now := time.Now()
	fail := func(u *unit) {
		for range 5 {
			u.endpoint.health.Failed(now)
		}
	}
	for name, tc := range map[string]struct {
		spoil func(s *snapshot)
		want  []string
	}{
		"all are well":                {func(*snapshot) {}, []string{"next", "here", "near"}},
		"a slow one is the last":      {func(s *snapshot) { s.unit("here").endpoint.slow.Store(1) }, []string{"next", "near", "here"}},
		"slow with others than these": {func(s *snapshot) { s.unit("here").endpoint.slow.Store(2) }, []string{"next", "here", "near"}},
		"one that cools is left":      {func(s *snapshot) { s.unit("here").endpoint.health.Cool(now, now.Add(time.Hour)) }, []string{"next", "near"}},
		"an ejected one is the last":  {func(s *snapshot) { fail(s.unit("next")) }, []string{"here", "near", "next"}},
		"all are ejected":             {func(s *snapshot) { fail(s.unit("next")); fail(s.unit("here")); fail(s.unit("near")) }, []string{"next", "here", "near"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := testUnits(named("next", "here", "next"), named("here", "here", "stable"), named("near", "near", "stable"))
			tc.spoil(s)
			if got, _ := picks(t, s, "next"); !slices.Equal(got, tc.want) {
				t.Errorf("picked %v, want %v", got, tc.want)
			}
		})
	}
}

// TestComeAgain is what a client is told when there is no unit to ask.
func TestComeAgain(t *testing.T) {
	s := testUnits(config.Unit{Name: "a", Region: "here", Serves: "m/stable"}, config.Unit{Name: "b", Region: "near", Serves: "m/stable"})
	now := time.Now()
	s.unit("a").endpoint.health.Cool(now, now.Add(7*time.Second))
	s.unit("b").endpoint.health.Cool(now, now.Add(30*time.Second))
	x := &exchange{wanted: s.variant("stable")}
	if got := comeAgain(x.mayServe(), now); got != 7*time.Second {
		t.Errorf("come again in %s, want when the first has cooled", got)
	}
	if got := comeAgain(x.mayServe(), now.Add(10*time.Second)); got != retryWhenFull {
		t.Errorf("come again in %s, want %s: one is only full", got, retryWhenFull)
	}
}

// TestTrial: of many requests that would ask a unit whose ejection is over, one
// does, and the others after it has.
func TestTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testUnits(config.Unit{Name: "back", Region: "here", Serves: "m/stable"}, config.Unit{Name: "other", Region: "near", Serves: "m/stable"})
		health := &s.unit("back").endpoint.health
		for range 5 {
			health.Failed(time.Now())
		}
		time.Sleep(10 * time.Second)
		var p proxy
		pick := func() *exchange {
			x := &exchange{wanted: s.variant("stable")}
			if err := p.pickUnit(x); err != nil {
				t.Fatal(err)
			}
			return x
		}
		trial := pick()
		if trial.unit.Name != "back" {
			t.Errorf("the first request went to %s, want the unit on trial", trial.unit.Name)
		}
		if second := pick(); second.unit.Name != "other" {
			t.Errorf("a request beside the trial went to %s", second.unit.Name)
		}
		trial.leaveUnit() // it was cancelled: it says nothing
		trial = pick()
		if trial.unit.Name != "back" {
			t.Errorf("after a trial without result the next request went to %s", trial.unit.Name)
		}
		health.Answered(time.Now(), time.Now())
		trial.leaveUnit()
		if a, b := pick(), pick(); a.unit.Name != "back" || b.unit.Name != "back" {
			t.Errorf("after a good trial requests went to %s and %s", a.unit.Name, b.unit.Name)
		}
		s.unit("back").probed = true
		for range 5 {
			health.Failed(time.Now())
		}
		time.Sleep(20 * time.Second)
		if x := pick(); x.unit.Name != "other" {
			t.Errorf("a unit that is probed was tried by a request, at %s", x.unit.Name)
		}
	})
}

// TestTakeIsExact has many take the last places at once.
func TestTakeIsExact(t *testing.T) {
	s := testUnits(config.Unit{Name: "u", Region: "here", Serves: "m/stable", Capacity: config.Capacity{InFlight: 5}})
	var wg sync.WaitGroup
	taken := make(chan *exchange, 100)
	for range 100 {
		wg.Go(func() {
			x := &exchange{wanted: s.variant("stable")}
			if new(proxy).pickUnit(x) == nil {
				taken <- x
			}
		})
	}
	wg.Wait()
	if n := len(taken); n != 5 {
		t.Errorf("%d took one of 5 places", n)
	}
	for range len(taken) {
		x := <-taken
		x.leaveUnit()
		x.leaveUnit() // gives back once
	}
	if n := s.units[0].endpoint.inFlight.Load(); n != 0 {
		t.Errorf("%d in flight at the end", n)
	}
}

func TestLeftOutUnitsAreNotPicked(t *testing.T) {
	s := testUnits(config.Unit{Name: "bad", Region: "here", Serves: "m/stable"}, config.Unit{Name: "good", Region: "here", Serves: "m/stable"})
	s.units[0].problem = "no credential"
	s.link()
	if got, _ := picks(t, s, "stable"); len(got) != 1 || got[0] != "good" {
		t.Errorf("picked %v", got)
	}
}
