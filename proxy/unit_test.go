package proxy

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// testUnits makes the snapshot of a model with variants stable and next, whose
// fallback is stable.
func testUnits(units ...config.Unit) *snapshot {
	s := &snapshot{config: &config.Config{
		Region: "here", Failover: []string{"near", "far"},
		Models: []config.Model{{Name: "m", Variants: []config.Variant{{Name: "stable", Weight: 1}, {Name: "next", Weight: 1, Fallback: "stable"}}}},
	}}
	for _, u := range units {
		s.units = append(s.units, &unit{Unit: u, endpoint: &endpoint{inFlight: new(atomic.Int64)}})
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
	x = &exchange{variant: s.variant(variant)}
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
	counts := map[string]int{}
	for range 9 {
		x := &exchange{variant: s.variant("stable")}
		if err := new(proxy).pickUnit(x); err != nil {
			t.Fatal(err)
		}
		counts[x.unit.Name]++
	}
	if counts["small"] != 2 || counts["large"] != 4 || counts["spare"] != 3 {
		t.Errorf("9 requests went to %v", counts)
	}
}

// TestTakeIsExact has many take the last places at once.
func TestTakeIsExact(t *testing.T) {
	s := testUnits(config.Unit{Name: "u", Region: "here", Serves: "m/stable", Capacity: config.Capacity{InFlight: 5}})
	var wg sync.WaitGroup
	taken := make(chan *exchange, 100)
	for range 100 {
		wg.Go(func() {
			x := &exchange{variant: s.variant("stable")}
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
