package feature

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// configWith is the config as it now stands, with another member.
func (s *stack) configWith(member string) string {
	s.t.Helper()
	data, err := json.Marshal(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data[:len(data)-1]) + "," + member + "}"
}

// countsSpills has the unit that is preferred not serve, for each reason. That
// units are slow is found out from many answers, see TestSpillReasons in proxy.
func countsSpills(t *testing.T) {
	full := answers(429, http.Header{"Retry-After": {"60"}}, "")
	serves := says(whole("a"))
	for _, tc := range []struct {
		name   string
		first  http.Handler
		config func(*config.Config)
		before int // requests that are served before, and spilled for another reason
		reason string
	}{
		{name: "refused", first: full, reason: "refused"},
		{name: "cooling", first: full, before: 1, reason: "cooling"},
		{name: "failed", first: answers(500, nil, ""), reason: "failed"},
		{name: "ejected", first: answers(500, nil, ""), before: 5, reason: "ejected"},
		{name: "another region", first: full, reason: "refused", config: func(c *config.Config) {
			c.Failover, c.Units[1].Region, c.Units[1].Priority = []string{"there"}, "there", 0
		}},
		{name: "a fallback", first: full, reason: "refused", config: func(c *config.Config) {
			c.Models[0].Variants = []config.Variant{{Name: "next", Weight: 1, Fallback: "stable"}, {Name: "stable"}}
			c.Units[0].Serves, c.Units[1].Priority = "ghost-code/next", 0
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, units := cast(t, setup{config: tc.config}, tc.first, serves)
			labels := []string{"from", units[0].name, "to", units[1].name, "reason", tc.reason}
			for range tc.before {
				s.complete()
			}
			if got := s.metric("ghostline_spill_total", labels...); got != 0 {
				t.Fatalf("%v spilled before anything was", got)
			}
			s.complete()
			s.wantMetric(1, "ghostline_spill_total", labels...)
			s.wantMetric(float64(tc.before+1), "ghostline_spill_total")
		})
	}
	t.Run("full", func(t *testing.T) {
		release := make(chan struct{})
		s, units := cast(t, setup{config: func(c *config.Config) { c.Units[0].Capacity.InFlight = 1 }}, held(release), serves)
		s.visitor(leavers[0]).start(prompt, false)
		s.eventually("the first is full", units[0].begunIs(1))
		s.complete()
		s.wantMetric(1, "ghostline_spill_total", "from", units[0].name, "to", units[1].name, "reason", "full")
		close(release)
	})
	t.Run("unreachable", func(t *testing.T) {
		s := start(t, setup{unit: serves, config: func(c *config.Config) {
			gone := unitAt(c, "gone", nobody(t))
			gone.Priority = -1
			c.Units = append(c.Units, gone)
		}})
		s.eventually("it is known to be unreachable", func() bool { return s.metric("ghostline_unit_state", "unit", "gone", "state", "unreachable") == 1 })
		s.complete()
		s.wantMetric(1, "ghostline_spill_total", "from", "gone", "to", "unit-1", "reason", "unreachable")
	})
	t.Run("nothing is spilled among equals", func(t *testing.T) {
		s, _ := cast(t, setup{config: func(c *config.Config) { c.Units[1].Priority = 0 }}, full, serves)
		for range 20 {
			s.complete()
		}
		s.wantMetric(20, "ghostline_requests_total", "outcome", "ok")
		s.wantMetric(0, "ghostline_spill_total")
	})
}

// countsUpstreamConnections has a unit keep its connections waiting, take
// requests, and send a connection away that still has one.
func countsUpstreamConnections(t *testing.T) {
	t.Run("dialing", func(t *testing.T) {
		s, open := startGated(t, says(whole("a")), config.ProtocolHTTP2)
		s.eventually("connections are being opened", func() bool {
			return s.metric("ghostline_upstream_connections", "unit", "unit-1", "state", "dialing") > 0
		})
		s.wantMetric(0, "ghostline_upstream_connections", "unit", "unit-1", "state", "open")
		open()
		s.wantMetric(0, "ghostline_upstream_connections", "unit", "unit-1", "state", "dialing")
		s.wantMetric(2, "ghostline_upstream_connections", "unit", "unit-1", "state", "open")
		s.wantMetric(2, "ghostline_upstream_connections_opened_total", "unit", "unit-1")
	})
	t.Run("draining", func(t *testing.T) {
		finish := make(chan func(), 1)
		unit := startFramedUnit(t, func(p *peer, stream uint32, n int) {
			if n == 1 { // before it, how much the connection takes is not known
				p.stream(stream, true, whole("a"))
				return
			}
			p.goAway(stream, http2.ErrCodeNo)
			finish <- func() { p.stream(stream, true, whole("a")) }
		})
		s := start(t, setup{config: func(c *config.Config) { c.Units[0] = unitAt(c, "leaves", unit.address) }})
		s.eventually("connections are open", func() bool {
			return s.metric("ghostline_upstream_connections", "unit", "leaves", "state", "open") >= 2
		})
		s.complete()
		visit := s.visitor(leavers[0]).start(prompt, false)
		end := <-finish
		s.wantMetric(1, "ghostline_upstream_connections", "unit", "leaves", "state", "draining")
		end()
		<-visit.ended
		s.wantMetric(0, "ghostline_upstream_connections", "unit", "leaves", "state", "draining")
	})
}

func countsClientConnections(t *testing.T) {
	s := start(t, setup{})
	client := s.h2c()
	s.do(client, s.request(t.Context(), s.plainURL, "/v1/completions", prompt))
	s.wantMetric(1, "ghostline_client_connections")
	s.complete() // on a connection of its own
	s.wantMetric(2, "ghostline_client_connections_opened_total")
	client.CloseIdleConnections()
	s.wantMetric(1, "ghostline_client_connections")
	s.wantMetric(2, "ghostline_client_connections_opened_total")
}

func countsCutConnections(t *testing.T) {
	s := start(t, setup{})
	c := s.framed()
	cut := c.untilCut()
	s.eventually("the connection is cut", func() bool {
		c.resetMany(50, strangers()[0])
		select {
		case <-cut:
			return true
		default:
			return false
		}
	})
	s.wantMetric(1, "ghostline_client_connections_cut_total")
}

// TestSeriesAreBounded: whatever clients make up, it makes no new series.
func TestSeriesAreBounded(t *testing.T) {
	s := start(t, withClients(dryRun(upgrade("copilot", "")), upgrade("copilot", "<50"), warn("plugin-7", "", "old")))
	client := s.h2c()
	odd := func(i int) {
		body := fmt.Sprintf(`{"prompt":"a","stream":true,"max_tokens":1,"model":"model-%d"}`, i)
		path := "/v1/completions"
		switch i % 4 {
		case 0:
			path = fmt.Sprintf("/v1/engines/engine-%d/completions", i)
		case 1:
			path = fmt.Sprintf("/v1/nowhere/%d", i)
		case 2:
			body = unaryPrompt
		}
		req := s.request(t.Context(), s.plainURL, path, body)
		req.Header.Set("Editor-Plugin-Version", fmt.Sprintf("plugin-%d/%d.%d", i, i, i))
		req.Header.Set("Editor-Version", fmt.Sprintf("editor-%d/1", i))
		req.Header.Set("X-Request-Id", fmt.Sprintf("odd-%d", i))
		s.do(client, req)
	}
	known := func(i int) {
		req := s.request(t.Context(), s.plainURL, "/v1/completions", unaryPrompt)
		req.Header.Set("Editor-Plugin-Version", fmt.Sprintf("copilot/%d.0.0", i))
		s.do(client, req)
	}
	for i := range 200 {
		odd(i)
		known(i)
	}
	s.eventually("all are recorded", func() bool { return s.metric("ghostline_inflight") == 0 })
	settled := s.countSeries()
	for i := 200; i < 1200; i++ {
		odd(i)
	}
	for i := 200; i < 400; i++ {
		known(i)
	}
	s.eventually("all are recorded", func() bool { return s.metric("ghostline_inflight") == 0 })
	if got := s.countSeries(); got != settled {
		t.Errorf("%d series after a thousand more odd requests, %d before", got, settled)
	}
}

func (s *stack) countSeries() (n int) {
	s.t.Helper()
	families, err := s.metrics.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, family := range families {
		n += len(family.GetMetric())
	}
	return n
}

// TestGoneSeriesAreForgotten: what a config no longer has leaves no series, not
// even if a request that is under way ends after it.
func TestGoneSeriesAreForgotten(t *testing.T) {
	release := make(chan struct{})
	full := answers(429, http.Header{"Retry-After": {"60"}}, "")
	s, _ := cast(t, setup{config: func(c *config.Config) {
		c.Models[0].Variants = []config.Variant{{Name: "next", Weight: 1, Fallback: "stable"}, {Name: "stable"}}
		for i := range c.Units {
			c.Units[i].Serves = "ghost-code/next"
		}
		c.Timeouts.FirstByte = config.Duration(time.Minute)
	}}, full, held(release))
	visit := s.visitor(leavers[0]).start(prompt, false)
	s.eventually("the second unit is asked", func() bool { return s.metric("ghostline_unit_attempts_total", "result", "refused") == 1 })
	s.reconfigure(func(c *config.Config) {
		c.Models[0].Variants = c.Models[0].Variants[1:]
		c.Models[0].Variants[0].Weight = 1
		c.Units = c.Units[:1]
		c.Units[0].Name, c.Units[0].Serves = "new", "ghost-code/stable"
	})
	close(release)
	<-visit.ended
	s.eventually("it is recorded", func() bool { return s.metric("ghostline_inflight") == 0 })
	families, err := s.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				switch l.GetValue() {
				case "next", "unit-0", "unit-1":
					t.Errorf("%s still has %s=%q", family.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
}
