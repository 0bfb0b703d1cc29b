package proxy

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/prometheus/client_golang/prometheus"
)

// TestSpillReasons is why a unit was passed over for one that is further away.
func TestSpillReasons(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		want  spillReason
		spoil func(p *proxy, s *snapshot, x *exchange, first *unit)
	}{
		{"", func(*proxy, *snapshot, *exchange, *unit) {}},
		{spillFull, func(_ *proxy, _ *snapshot, _ *exchange, u *unit) {
			u.Capacity.InFlight = 1
			u.endpoint.inFlight.Store(1)
		}},
		{spillCooling, func(_ *proxy, _ *snapshot, _ *exchange, u *unit) { u.endpoint.health.Cool(now, now.Add(time.Minute)) }},
		{spillEjected, func(_ *proxy, _ *snapshot, _ *exchange, u *unit) {
			for range 5 {
				u.endpoint.health.Failed(now)
			}
		}},
		{spillSlow, func(_ *proxy, _ *snapshot, _ *exchange, u *unit) { u.endpoint.slow.Store(1) }},
		{spillRefused, func(p *proxy, _ *snapshot, x *exchange, _ *unit) { try(p, x, unitRefused(errors.New("full"))) }},
		{spillFailed, func(p *proxy, _ *snapshot, x *exchange, _ *unit) { try(p, x, upstreamFailed(errors.New("gone"))) }},
		{spillUnable, func(p *proxy, _ *snapshot, x *exchange, u *unit) {
			if p.pickUnit(x) == nil {
				x.unable = append(x.unable, u)
				x.leaveUnit()
			}
		}},
	} {
		s := testUnits(
			config.Unit{Name: "next", Region: "here", Serves: "m/next"},
			config.Unit{Name: "near", Region: "near", Serves: "m/next"},
		)
		p, x := &proxy{log: slog.New(slog.DiscardHandler)}, &exchange{wanted: s.variant("next"), snapshot: s}
		p.peers.set(1)
		tc.spoil(p, s, x, s.unit("next"))
		if err := p.pickUnit(x); err != nil {
			t.Fatalf("%s: %v", tc.want, err)
		}
		want := spill{}
		if tc.want != "" {
			want = spill{s.unit("next"), tc.want}
		}
		if x.spill != want {
			t.Errorf("spilled %+v, want %+v", x.spill, want)
		}
	}
}

// try has a request fail at the unit that it is given.
func try(p *proxy, x *exchange, err error) {
	if p.pickUnit(x) == nil {
		x.unit.metrics.attempts = map[string]prometheus.Counter{resultOf(err): prometheus.NewCounter(prometheus.CounterOpts{})}
		p.attempted(x, err)
		x.leaveUnit()
	}
}

// TestNoSpillWithoutUnits: a variant that has no unit of its own passes none over.
func TestNoSpillWithoutUnits(t *testing.T) {
	s := testUnits(config.Unit{Name: "a", Region: "here", Serves: "m/stable"})
	x := &exchange{wanted: s.variant("next"), snapshot: s}
	if err := new(proxy).pickUnit(x); err != nil || x.spill != (spill{}) {
		t.Errorf("spilled %+v, error %v", x.spill, err)
	}
}
