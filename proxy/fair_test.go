package proxy

import (
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestFairShare is who may take a place on units that are partly taken.
func TestFairShare(t *testing.T) {
	unit := func(name string, places int) config.Unit {
		return config.Unit{Name: name, Region: "here", Serves: "m/stable", Capacity: config.Capacity{InFlight: places}}
	}
	for _, tc := range []struct {
		name   string
		units  []config.Unit
		taken  int64 // on the first
		others int
		fair   bool
	}{
		{"nothing else running", []config.Unit{unit("a", 1)}, 0, 0, true},
		{"little running, nothing free", []config.Unit{unit("a", 1)}, 1, 2, true}, // it is refused as anybody is
		{"much running, all free", []config.Unit{unit("a", 16)}, 0, 32, true},
		{"more than that", []config.Unit{unit("a", 16)}, 0, 33, false},
		{"just enough free", []config.Unit{unit("a", 16)}, 11, 10, true},
		{"not enough free", []config.Unit{unit("a", 16)}, 12, 10, false},
		{"enough on two units", []config.Unit{unit("a", 2), unit("b", 5)}, 2, 10, true},
		{"no limit on one", []config.Unit{unit("a", 2), unit("b", 0)}, 2, 1000, true},
	} {
		s := testUnits(tc.units...)
		s.unit("a").endpoint.inFlight.Store(tc.taken)
		x := &exchange{snapshot: s, wanted: s.variant("stable"), place: &place{others: tc.others}}
		if got := new(proxy).isFair(x, time.Now()); got != tc.fair {
			t.Errorf("%s: fair %v, want %v", tc.name, got, tc.fair)
		}
	}
}
