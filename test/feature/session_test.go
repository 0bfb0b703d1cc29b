package feature

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// narrow is a config whose users have so many places in each of so many sessions.
func narrow(inFlight, sessions int) func(*config.Config) {
	return func(c *config.Config) {
		c.Limits.PerSubject.InFlight, c.Limits.PerSubject.Sessions = inFlight, sessions
	}
}

// ways are how a client can be an editor session.
var ways = []struct {
	name   string
	client func(*stack) (*http.Client, string)
	header []string
}{
	{"h2 connection", overTLS, nil},
	{"h2c connection", overH2C, nil},
	{"h2, X-Session-Id", overTLS, []string{"X-Session-Id", "s-1"}},
	{"h2c, VScode-SessionId", overH2C, []string{"VScode-SessionId", "s-1"}},
	{"h1, X-Session-Id", overH1, []string{"X-Session-Id", "s-1"}},
	{"h1, VScode-SessionId", overH1, []string{"VScode-SessionId", "s-1"}},
}

// TestNewestWins has a user type on while the model works: the oldest requests
// end, at the unit too, and the newest are answered.
func TestNewestWins(t *testing.T) {
	for _, way := range ways {
		for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
			t.Run(way.name+", unit "+protocol, func(t *testing.T) {
				release := make(chan struct{})
				unit := &counted{next: held(release)}
				s := start(t, setup{unit: unit, config: func(c *config.Config) {
					narrow(2, 4)(c)
					c.Units[0].Protocol = protocol
				}})
				e := s.editor(way.client, way.header...)
				bodies := []string{unaryPrompt, prompt, prompt, prompt}
				var all []*sent
				for i, body := range bodies {
					all = append(all, e.send(body))
					s.eventually("it is at the unit", unit.begunIs(i+1))
				}
				for i, r := range all[:2] {
					wantSuperseded(t, r)
					s.eventually("the unit knows", func() bool { _, gone, running := unit.counts(); return gone == 2 && running == 2 })
					s.outcomes("superseded", 2)
					if t.Failed() {
						t.Fatalf("request %d was not superseded", i)
					}
				}
				close(release)
				for _, r := range all[2:] {
					s.wantWhole(<-r.ended)
				}
				s.wantSessionBooks(2, 2)
				if got := s.metric("ghostline_client_connections_opened_total"); e.base == s.tlsURL && got != 1 {
					t.Errorf("the client opened %v connections, want 1", got)
				}
			})
		}
	}
}

// wantSessionBooks checks that each request was counted once, and that nothing is
// held and nobody was alarmed.
func (s *stack) wantSessionBooks(ok, superseded float64) {
	s.t.Helper()
	s.outcomes("ok", ok)
	s.outcomes("superseded", superseded)
	s.settled()
	if all, cancelled := s.metric("ghostline_requests_total"), s.metric("ghostline_cancelled_total"); all != ok+superseded || cancelled != 0 {
		s.t.Errorf("%v requests counted, %v as cancelled; want %v and none", all, cancelled, ok+superseded)
	}
	s.quiet()
}

// TestSessions is which requests are of one session: of those that are, the
// second takes the first one's place.
func TestSessions(t *testing.T) {
	for _, tc := range []struct {
		name string
		// pair makes those who send the two requests.
		pair func(*stack) (first, second *editor)
		one  bool // session
	}{
		{"a session over two connections", func(s *stack) (*editor, *editor) {
			return s.editor(overTLS, "X-Session-Id", "s-1"), s.editor(overH1, "X-Session-Id", "s-1")
		}, true},
		{"the same name in either header", func(s *stack) (*editor, *editor) {
			return s.editor(overTLS, "X-Session-Id", "s-1"), s.editor(overTLS, "VScode-SessionId", "s-1")
		}, true},
		{"one connection", func(s *stack) (*editor, *editor) { e := s.editor(overTLS); return e, e }, true},
		{"names that are none", func(s *stack) (*editor, *editor) {
			e := s.editor(overTLS)
			return e.with("X-Session-Id", "a b"), e.with("VScode-SessionId", strings.Repeat("a", 129))
		}, true},
		{"two sessions on a connection", func(s *stack) (*editor, *editor) {
			e := s.editor(overTLS, "X-Session-Id", "s-1")
			return e, e.with("X-Session-Id", "s-2")
		}, false},
		{"two connections", func(s *stack) (*editor, *editor) { return s.editor(overTLS), s.editor(overTLS) }, false},
		{"a connection, and a session by name on it", func(s *stack) (*editor, *editor) {
			e := s.editor(overTLS)
			return e, e.with("X-Session-Id", "s-1")
		}, false},
		{"another subject on the connection", func(s *stack) (*editor, *editor) { e := s.editor(overTLS); return e, e.of("subject-2") }, false},
		{"another subject with the same session", func(s *stack) (*editor, *editor) {
			e := s.editor(overTLS, "X-Session-Id", "s-1")
			return e, e.of("subject-2")
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			release := make(chan struct{})
			unit := &counted{next: held(release)}
			s := start(t, setup{unit: unit, config: narrow(1, 4)})
			a, b := tc.pair(s)
			first := a.send(prompt)
			s.eventually("the first is at the unit", unit.begunIs(1))
			second := b.send(prompt)
			s.eventually("the second is at the unit", unit.begunIs(2))
			ok, superseded := 2.0, 0.0
			if tc.one {
				ok, superseded = 1, 1
				wantSuperseded(t, first)
			}
			close(release)
			for _, r := range []*sent{first, second}[int(superseded):] {
				s.wantWhole(<-r.ended)
			}
			s.wantSessionBooks(ok, superseded)
		})
	}
}

// TestSupersededWhileItsBodyComes: the answer does not wait for a body that never
// ends, and an HTTP/2 connection works on.
func TestSupersededWhileItsBodyComes(t *testing.T) {
	for _, how := range leavers[:3] {
		t.Run(how.name, func(t *testing.T) {
			s := start(t, setup{config: func(c *config.Config) {
				narrow(1, 4)(c)
				c.Timeouts.ReadBody = config.Duration(60e9) // not what ends it
			}})
			e := s.editor(how.client, "X-Session-Id", "s-1")
			first := e.begin(`{"prompt":`)
			s.eventually("its body is read", running(readsBody))
			s.wantWhole(e.ask(prompt))
			wantSuperseded(t, first)
			first.upload.Close()
			s.wantWhole(e.ask(prompt))
			s.wantArrivals(2)
			s.wantSessionBooks(2, 1)
			if got := s.metric("ghostline_client_connections_opened_total"); how.keeps && got != 1 {
				t.Errorf("the client opened %v connections, want 1", got)
			}
		})
	}
}

// TestSupersededWhileQueued: a request that waits for a connection to its unit is
// never sent.
func TestSupersededWhileQueued(t *testing.T) {
	for _, protocol := range []string{config.ProtocolHTTP2, config.ProtocolHTTP1} {
		t.Run("unit "+protocol, func(t *testing.T) {
			unit := &counted{next: says(whole("x"))}
			s, open := startGated(t, unit, protocol)
			s.reconfigure(narrow(1, 4))
			e := s.editor(overTLS)
			var last *sent
			for i := range 4 {
				body := []string{prompt, unaryPrompt}[(i+1)%2]
				next := e.send(body)
				if last != nil {
					wantSuperseded(t, last)
				}
				s.eventually("it waits for the unit", func() bool { return s.status().Units[0].InFlight == 1 && s.metric("ghostline_inflight") == 1 })
				last = next
			}
			open()
			s.wantWhole(<-last.ended)
			if begun, _, _ := unit.counts(); begun != 1 {
				t.Errorf("the unit was sent %d requests, want only the newest", begun)
			}
			s.wantSessionBooks(1, 3)
		})
	}
}

// beginsAndHolds sends the first byte of an answer at once, and the rest when it
// is released.
func beginsAndHolds(release <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begin(w)
		send(w, event(chunk(0, "a", "null")))
		select {
		case <-release:
			send(w, whole("b"))
		case <-r.Context().Done():
		}
	})
}

// TestNeverMidStream: an answer that has begun is not taken away. The newest of
// those that wait is, where only it can be, and the next one is refused if all
// have begun.
func TestNeverMidStream(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			release := make(chan struct{})
			s, units := cast(t, setup{config: narrow(2, 4)}, beginsAndHolds(release))
			e := s.editor(way.client, way.header...)
			first := e.send(prompt)
			<-first.begun
			units[0].is(held(release))
			waiting := e.send(prompt)
			s.eventually("one waits", units[0].begunIs(2))
			units[0].is(beginsAndHolds(release))
			second := e.send(prompt)
			wantSuperseded(t, waiting)
			<-second.begun
			for range 3 {
				got := e.ask(prompt)
				got.wantRefusal(t, refusal{status: 429, code: "too_many_requests_in_flight", message: "2 answers running already in this editor session", retry: true})
				if got.header.Get("Retry-After") == "" {
					t.Error("the 429 has no Retry-After")
				}
			}
			close(release)
			for _, r := range []*sent{first, second} {
				s.wantWhole(<-r.ended)
			}
			s.wantWhole(e.ask(prompt))
			s.outcomes("limited", 3)
			s.outcomes("superseded", 1)
			s.outcomes("ok", 3)
			s.settled()
			s.quiet()
		})
	}
}

// TestSessionsTogether: made-up sessions do not give a user more places than
// there are for all of them.
func TestSessionsTogether(t *testing.T) {
	release := make(chan struct{})
	unit := &counted{next: held(release)}
	s := start(t, setup{unit: unit, config: narrow(2, 2)})
	e := s.editor(overTLS)
	var all []*sent
	for i := range 20 {
		all = append(all, e.with("X-Session-Id", "s-"+strconv.Itoa(i)).send(prompt))
		s.eventually("it is at the unit", unit.begunIs(i+1))
	}
	for _, r := range all[:16] {
		wantSuperseded(t, r)
	}
	s.eventually("four are at the unit", func() bool { _, gone, running := unit.counts(); return gone == 16 && running == 4 })
	other := e.of("subject-2").send(prompt)
	s.eventually("another user's is there too", unit.begunIs(21))
	close(release)
	for _, r := range append(all[16:], other) {
		s.wantWhole(<-r.ended)
	}
	s.wantSessionBooks(5, 16)
}

// TestSupersededIsAStreamReset looks at the frames at the unit.
func TestSupersededIsAStreamReset(t *testing.T) {
	unit := startFramedUnit(t, func(p *peer, stream uint32, n int) {
		if n == 4 {
			p.stream(stream, true, whole("x"))
		}
	})
	s := start(t, setup{config: func(c *config.Config) {
		c.Units[0] = unitAt(c, "framed", unit.address)
		narrow(1, 4)(c)
	}})
	e := s.editor(overTLS)
	for n := range 3 {
		e.send([]string{prompt, unaryPrompt}[n%2])
		s.eventually("it is at the unit", func() bool { return unit.seen().requests == n+1 })
	}
	s.wantWhole(e.ask(prompt))
	unit.wantResets(t, s, http2.ErrCodeCancel, http2.ErrCodeCancel, http2.ErrCodeCancel)
	s.wantSessionBooks(1, 3)
}
