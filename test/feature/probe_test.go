package feature

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// probing is a config whose units are probed as often as is allowed.
func probing(c *config.Config) {
	c.HealthProbe = &config.HealthProbe{Interval: config.Duration(time.Second), Prompt: "// a probe\n", MaxTokens: 3}
}

// probed waits for so many probes of a unit with a result.
func (s *stack) probed(unit, result string, n float64) {
	s.t.Helper()
	s.eventually("the unit is probed", func() bool {
		return s.metric("ghostline_unit_probes_total", "unit", unit, "result", result) >= n
	})
}

// TestProbe is what arrives at a unit of this region, and at none of another.
func TestProbe(t *testing.T) {
	far := &counted{next: says(whole("far"))}
	s := start(t, setup{config: func(c *config.Config) {
		probing(c)
		c.Failover = []string{"near"}
		other := unitAt(c, "far", serveUnit(t, far))
		other.Region = "near"
		c.Units = append(c.Units, other)
	}})
	s.probed("unit-1", "ok", 3)
	got := s.arrived.last(t)
	var body map[string]any
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"prompt": "// a probe\n", "max_tokens": 3.0, "stream": true, "temperature": 0.0, "model": "upstream-model",
	} {
		if body[name] != want {
			t.Errorf("the probe's %s is %v, want %v", name, body[name], want)
		}
	}
	if got := got.header.Get("Authorization"); got != "Bearer "+unitKey {
		t.Errorf("the probe's Authorization is %q", got)
	}
	if begun, _, _ := far.counts(); begun != 0 {
		t.Errorf("the unit of the other region was probed %d times", begun)
	}
	s.wantNoLeak(nil, "a probe")
}

// TestProbesAreNotRequests: what the proxy asks by itself is in no count of what
// clients asked, and takes nobody's place.
func TestProbesAreNotRequests(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	s, units := cast(t, setup{config: func(c *config.Config) {
		probing(c)
		c.Units[0].Capacity.InFlight = 1
	}}, says(whole("a")))
	s.probed("unit-0", "ok", 1)
	for _, name := range []string{"ghostline_requests_total", "ghostline_unit_attempts_total", "ghostline_tokens_total", "ghostline_inflight",
		"ghostline_first_byte_seconds", "ghostline_retries_total", "ghostline_auth_total"} {
		if got := s.metric(name); got != 0 {
			t.Errorf("%s is %v, want 0", name, got)
		}
	}

	units[0].is(forBad(held(release))) // which answers probes
	visit := s.visitor(leavers[1]).start(badPrompt, false)
	s.eventually("the unit is full", func() bool { return s.status().Units[0].InFlight == 1 })
	asked := units[0].asked()
	s.eventually("it is probed all the same", func() bool { return units[0].asked() >= asked+3 })
	if got := s.status().Units[0].InFlight; got != 1 {
		t.Errorf("%d requests are in flight, want 1", got)
	}
	visit.leave()
	s.settled()
}

// TestProbesEject: a unit that nobody asks is found out by its probes.
func TestProbesEject(t *testing.T) {
	s, units := cast(t, setup{config: probing}, answers(500, nil, ""), says(whole("b")))
	s.eventually("it is ejected", func() bool { state, _ := s.unitState("unit-0"); return state == "ejected" })
	s.wantLog("a unit is ejected", `"unit":"unit-0"`)
	until := s.status().Units[0].Until
	asked := units[0].asked()
	if asked < 5 {
		t.Errorf("it was ejected after %d probes", asked)
	}
	s.complete()
	if s.metric("ghostline_unit_attempts_total", "unit", "unit-0") != 0 {
		t.Error("a request was sent to a unit whose probes fail")
	}
	// What makes requests fail may spare a probe: an answer to one ends nothing
	// before the ejection's time.
	units[0].is(says(whole("a")))
	s.probed("unit-0", "ok", 2)
	s.wantStateBefore(until, "unit-0", "ejected")
	s.wantState("unit-1", "active")
}

// TestProbesKeepConnections: a probe hears its answer to the end, so that it
// costs a unit of HTTP/1.1 no connection.
func TestProbesKeepConnections(t *testing.T) {
	s, _ := cast(t, setup{config: func(c *config.Config) {
		probing(c)
		c.Units[0].Protocol = config.ProtocolHTTP1
	}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		says(whole("a"))(w, r)
		select { // a stream may end a moment after its last event
		case <-time.After(soon):
		case <-r.Context().Done():
		}
	}))
	s.probed("unit-0", "ok", 2)
	opened := func() float64 { return s.metric("ghostline_upstream_connections_opened_total", "unit", "unit-0") }
	s.eventually("the spare connections are open", func() bool { return opened() >= 4 })
	before := opened()
	s.probed("unit-0", "ok", 6)
	if got := opened(); got > before+1 { // a spare may have been on its way
		t.Errorf("the probes had %v connections opened", got-before)
	}
}

// TestCoolingUnitIsNotProbed asks for as long as it takes to probe another one
// several times.
func TestCoolingUnitIsNotProbed(t *testing.T) {
	s, units := cast(t, setup{config: probing}, answers(429, http.Header{"Retry-After": {"60"}}, ""), says(whole("b")))
	s.probed("unit-1", "ok", 3)
	wantAsked(t, units, 1, units[1].asked())
	s.wantState("unit-0", "cooling")
	if got := s.metric("ghostline_unit_probes_total", "unit", "unit-0"); got != 1 {
		t.Errorf("%v probes of it are counted, want 1", got)
	}
}
