package feature

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// faulty is a stack whose first unit is behind a network; the model server
// stands in when the first one cannot be reached.
func faulty(t *testing.T, protocol string, unit http.Handler, limit func(*config.Timeouts)) (*stack, *network) {
	t.Helper()
	n := newNetwork(t, serveUnit(t, unit))
	return start(t, setup{config: func(c *config.Config) {
		c.Units[0].Protocol = protocol
		first := unitAt(c, "first", n.address)
		c.Units[0].Priority = 1
		c.Units = append(c.Units, first)
		limit(&c.Timeouts)
	}}), n
}

// alone is faulty without the unit that stands in.
func alone(t *testing.T, protocol string, unit http.Handler) (*stack, *network) {
	t.Helper()
	s, n := faulty(t, protocol, unit, noLimit)
	s.reconfigure(func(c *config.Config) { c.Units = c.Units[1:] })
	return s, n
}

func noLimit(*config.Timeouts) {}

// eachProtocol runs a test for the ways in which a unit is spoken to.
func eachProtocol(t *testing.T, test func(t *testing.T, protocol string)) {
	for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
		t.Run("unit "+protocol, func(t *testing.T) { test(t, protocol) })
	}
}

// TestUnitThatRefusesConnections has a unit that served go away, and come back.
func TestUnitThatRefusesConnections(t *testing.T) {
	eachProtocol(t, func(t *testing.T, protocol string) {
		unit := &counted{next: says(whole("first"))}
		s, n := faulty(t, protocol, unit, noLimit)
		s.wantWhole(s.post("/v1/completions", prompt))
		s.eventually("the first unit answered", unit.begunIs(1))

		n.refuse()
		n.cut()
		s.eventually("its connections are gone", func() bool { open, _ := n.connections(); return open == 0 })
		for i := range 3 {
			s.wantWhole(s.post("/v1/completions", prompt))
			if got := s.arrived.count(); got != i+1 {
				t.Errorf("the other unit was asked %d times, want %d", got, i+1)
			}
		}
		s.settled()

		n.heal()
		s.eventually("the first unit is asked again", func() bool {
			s.wantWhole(s.post("/v1/completions", prompt))
			begun, _, _ := unit.counts()
			return begun > 1
		})
		s.settled()
	})
}

// TestUnitThatCannotBeConnectedTo has a unit whose machine is gone from the
// start: nothing answers, not even with a refusal.
func TestUnitThatCannotBeConnectedTo(t *testing.T) {
	eachProtocol(t, func(t *testing.T, protocol string) {
		n := newNetwork(t, serveUnit(t, says(whole("first"))))
		n.blackhole()
		s := start(t, setup{config: func(c *config.Config) {
			c.Timeouts.Connect = shortly
			first := unitAt(c, "first", n.address)
			c.Units[0].Priority, first.Protocol = 1, protocol
			c.Units = append(c.Units, first)
		}})
		for _, body := range []string{prompt, unaryPrompt} {
			if got := s.post("/v1/completions", body); got.status != http.StatusOK || got.err != nil {
				t.Errorf("got %d %q, %v; want the other unit's answer", got.status, got.body, got.err)
			}
		}
		s.outcomes("ok", 2)
		s.eventually("the unit is known to be unreachable", func() bool { state, _ := s.unitState("first"); return state == "unreachable" })
		s.settled()
		if _, opened := n.connections(); opened != 0 {
			t.Errorf("%d connections passed the black hole", opened)
		}
		n.heal()
		s.eventually("the first unit is asked again", func() bool {
			s.wantWhole(s.post("/v1/completions", prompt))
			return s.metric("ghostline_unit_attempts_total", "unit", "first", "result", "ok") > 0
		})
	})
}

// TestUnitThatFallsSilent has the network lose a unit while it works, and one
// whose process hangs: connections open, and nothing comes. A request that has
// nothing yet is answered by the other unit while there is time, and once the
// network heals the unit is told that nobody waits any more.
func TestUnitThatFallsSilent(t *testing.T) {
	first := event(chunk(0, "a", "null"))
	for _, tc := range []struct {
		name  string
		limit func(*config.Timeouts)
		after string // what the client gets before the end; empty is the other unit's answer
		fault func(*network)
		fresh bool // no connection was there before
	}{
		{"hangs from the start", func(t *config.Timeouts) { t.FirstByte = 4 * shortly }, "", (*network).hold, true},
		{"hangs while asked", func(t *config.Timeouts) { t.FirstByte = 4 * shortly }, "", (*network).hold, false},
		{"lost while asked", func(t *config.Timeouts) { t.FirstByte = 4 * shortly }, "", (*network).blackhole, false},
		{"lost mid-stream", func(t *config.Timeouts) { t.Idle = 3 * shortly }, first, (*network).blackhole, false},
	} {
		eachProtocol(t, func(t *testing.T, protocol string) {
			t.Run(tc.name, func(t *testing.T) {
				answer := newSwitched(says(whole("first")))
				unit := &counted{next: answer}
				s, n := faulty(t, protocol, unit, tc.limit)
				if !tc.fresh {
					s.wantWhole(s.post("/v1/completions", prompt))
				}
				begun, _, _ := unit.counts()
				answer.is(every(first, first))
				if tc.after == "" {
					tc.fault(n)
					s.wantWhole(s.post("/v1/completions", prompt))
					if got := s.arrived.count(); got != 1 {
						t.Errorf("the other unit was asked %d times, want once", got)
					}
					if got := s.metric("ghostline_retries_total", "result", "allowed"); got != 1 {
						t.Errorf("%v retries were taken from the budget, want 1", got)
					}
				} else {
					visit := s.visitor(leavers[1]).start(prompt, false)
					<-visit.begun
					tc.fault(n)
					end := <-visit.ended
					for strings.HasPrefix(end.body, first+first) {
						end.body = strings.TrimPrefix(end.body, first)
					}
					s.wantBroken(reply{status: http.StatusOK, body: end.body, err: end.err}, tc.after)
				}
				s.eventually("the attempt is counted as too late", func() bool {
					return s.metric("ghostline_unit_attempts_total", "unit", "first", "result", "timeout") == 1
				})
				s.settled()
				n.heal()
				s.eventually("nobody works for nothing", func() bool {
					now, gone, running := unit.counts()
					return running == 0 && gone == now-begun
				})
			})
		})
	}
}

// TestNetworkThatRecovers holds a stream up for less than its limits.
func TestNetworkThatRecovers(t *testing.T) {
	eachProtocol(t, func(t *testing.T, protocol string) {
		release := make(chan struct{})
		s, n := faulty(t, protocol, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			says(event(chunk(0, "a", "null")))(w, r)
			<-release
			send(w, whole("b"))
		}), noLimit)
		visit := s.visitor(leavers[1]).start(prompt, false)
		<-visit.begun
		n.blackhole()
		close(release)
		n.heal()
		if end := <-visit.ended; end.err != nil || end.body != event(chunk(0, "a", "null"))+whole("b") {
			t.Errorf("got %q, %v; want the whole stream", end.body, end.err)
		}
		s.outcomes("ok", 1)
		s.settled()
		s.quiet()
	})
}

// TestConnectionResetMidStream resets the connections that many streams share.
// Each is broken off for its client; none of it is done again elsewhere.
func TestConnectionResetMidStream(t *testing.T) {
	const streams = 5
	first := event(chunk(0, "a", "null"))
	eachProtocol(t, func(t *testing.T, protocol string) {
		answer := newSwitched(says(whole("before")))
		unit := &counted{next: answer}
		s, n := faulty(t, protocol, unit, noLimit)
		v := s.visitor(leavers[0])
		v.again() // so that all streams share the client's connection
		answer.is(every(first, ""))
		var visits []*visit
		for range streams {
			visits = append(visits, v.start(prompt, false))
		}
		for _, visit := range visits {
			<-visit.begun
		}
		n.cut()
		for _, visit := range visits {
			end := <-visit.ended
			s.wantBroken(reply{status: http.StatusOK, body: end.body, err: end.err}, first)
		}
		s.outcomes("upstream_error", streams)
		s.eventually("the unit is told", func() bool { _, gone, running := unit.counts(); return gone == streams && running == 0 })
		if got := s.arrived.count(); got != 0 {
			t.Errorf("the other unit was asked %d times, want never", got)
		}
		answer.is(says(whole("again")))
		v.again()
		s.settled()
		if got := s.metric("ghostline_client_connections_opened_total"); got != 1 {
			t.Errorf("the client had to open %v connections, want 1", got)
		}
	})
}

// TestConnectionCutAnywhere resets the connection to a unit after any number of
// bytes: a client gets the whole answer, or is told that it has not.
func TestConnectionCutAnywhere(t *testing.T) {
	unary := strings.Replace(chunk(0, "abc", `"stop"`), `"created":1`, `"created":1,"usage":{"completion_tokens":3}`, 1)
	handlers := map[string]http.Handler{
		prompt:      says(strings.SplitAfter(whole("a", "b", "c"), "\n\n")...),
		unaryPrompt: answers(200, jsonHeader(), unary),
	}
	eachProtocol(t, func(t *testing.T, protocol string) {
		unit := newSwitched(nil)
		s, n := alone(t, protocol, unit)
		client := s.h2c()
		results := map[string]int{}
		for size := 1; size < 1300; size += 29 {
			for body, handler := range handlers {
				unit.is(handler)
				n.cutAfter(size)
				got := s.do(client, s.request(t.Context(), s.plainURL, "/v1/completions", body))
				results[s.honest(got, body == prompt)]++
				n.heal()
			}
		}
		if results["whole"] == 0 || results["refused"] == 0 || results["broken"] == 0 {
			t.Errorf("the cuts led to %v; want some of each", results)
		}
		s.settled()
	})
}

// honest checks that an answer does not look like more than it is.
func (s *stack) honest(got reply, streamed bool) string {
	s.t.Helper()
	switch {
	case got.status == http.StatusServiceUnavailable: // cut before the unit can have looked at it
		got.wantError(s.t, http.StatusServiceUnavailable, "no_capacity")
		return "not sent"
	case got.status != http.StatusOK:
		got.wantError(s.t, http.StatusBadGateway, "upstream_error")
		return "refused"
	case got.err != nil:
		if strings.Contains(got.body, "[DONE]") {
			s.t.Errorf("a broken stream has the mark of its end: %q", got.body)
		}
		return "broken"
	case streamed:
		s.wantWhole(got)
	case !json.Valid([]byte(got.body)):
		s.t.Errorf("got %q; want a whole answer", got.body)
	}
	return "whole"
}

// TestSlowNetwork has every byte take its time: nothing is lost.
func TestSlowNetwork(t *testing.T) {
	eachProtocol(t, func(t *testing.T, protocol string) {
		s, n := faulty(t, protocol, says(whole("a", "b")), noLimit)
		n.slow(20 * time.Millisecond)
		for range 3 {
			if got := s.post("/v1/completions", prompt); got.body != whole("a", "b") {
				t.Errorf("got %d %q, %v; want the whole stream", got.status, got.body, got.err)
			}
		}
		s.outcomes("ok", 3)
		s.settled()
		s.quiet()
	})
}
