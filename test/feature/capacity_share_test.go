package feature

import (
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// oneOfThree is a proxy that shares its region's units with two others.
func oneOfThree(capacity config.Capacity) setup {
	return setup{
		options: func(o *proxy.Options) { o.Proxies = 3 },
		config:  func(c *config.Config) { c.Units[0].Capacity = capacity },
	}
}

// TestShareOfPlaces: of six requests that a unit takes at once, a proxy of three
// sends two.
func TestShareOfPlaces(t *testing.T) {
	release := make(chan struct{})
	s, units := cast(t, oneOfThree(config.Capacity{InFlight: 6}), held(release))
	if got := s.metric("ghostline_ready_proxies"); got != 3 {
		t.Errorf("ghostline_ready_proxies is %v, want 3", got)
	}
	if got := s.status().ReadyProxies; got != 3 {
		t.Errorf("readyProxies is %d, want 3", got)
	}
	v := s.visitor(leavers[1])
	one, two := v.start(prompt, false), v.start(prompt, false)
	s.eventually("both are at the unit", units[0].begunIs(2))
	for range 3 {
		s.post("/v1/completions", prompt).wantError(t, 503, "no_capacity")
	}
	wantAsked(t, units, 2)
	close(release)
	for _, visit := range []*visit{one, two} {
		if end := <-visit.ended; end.err != nil {
			t.Errorf("got %q, %v", end.body, end.err)
		}
	}
	s.complete()
	s.settled()
}

// TestShareOfRate: of six requests a second that a unit takes, a proxy of three
// sends two, and two at once.
func TestShareOfRate(t *testing.T) {
	s, units := cast(t, oneOfThree(config.Capacity{RequestsPerSecond: 6}), says(whole("a")))
	began, client := time.Now(), s.h2c()
	for range 30 {
		if got := s.do(client, s.request(t.Context(), s.plainURL, "/v1/completions", prompt)); got.status != 200 {
			got.wantError(t, 503, "no_capacity")
		}
	}
	// On a slow machine more than these two are right.
	most := 2 + int(2*time.Since(began).Seconds())
	if got := units[0].asked(); got < 2 || got > most {
		t.Errorf("the unit was asked %d times, want 2 to %d", got, most)
	}
	s.outcomes("ok", float64(units[0].asked()))
	s.outcomes("no_capacity", float64(30-units[0].asked()))
	s.settled()
}
