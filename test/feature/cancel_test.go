package feature

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/localca"
	"github.com/ghostline-dev/ghostline/internal/modelserver"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

const unaryPrompt = `{"prompt":"func main() {\n\t","max_tokens":8,"model":"ghost-code"}`

// cancelCase is a moment at which a client leaves.
type cancelCase struct {
	name, body string
	unfinished bool
	fault      string // keeps the model server at this moment
	phase      string // as the proxy counts it
	// arrived says whether the model server gets the request, cancelled is the
	// counter of those that it saw cancelled at this moment.
	arrived   bool
	cancelled func(modelserver.Stats) int64
}

func atPrefill(s modelserver.Stats) int64 { return s.CancelledPrefill }
func atDecode(s modelserver.Stats) int64  { return s.CancelledDecode }

var cancelCases = []cancelCase{
	{name: "uploading, streamed", body: prompt, unfinished: true, phase: "receive"},
	{name: "uploading, unary", body: unaryPrompt, unfinished: true, phase: "receive"},
	{name: "waiting, streamed", body: prompt, fault: "hang=headers", phase: "wait", arrived: true, cancelled: atPrefill},
	{name: "waiting, unary", body: unaryPrompt, fault: "hang=headers", phase: "wait", arrived: true, cancelled: atPrefill},
	// A unary answer is under way at the model and nothing of it goes out.
	{name: "generating, unary", body: unaryPrompt, fault: "hang-after=2", phase: "wait", arrived: true, cancelled: atDecode},
	{name: "mid-stream", body: prompt, fault: "hang-after=2", phase: "stream", arrived: true, cancelled: atDecode},
}

// TestReport1CancelReachesTheModel has clients leave at each moment, in each way.
func TestReport1CancelReachesTheModel(t *testing.T) {
	for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
		t.Run("unit "+protocol, func(t *testing.T) {
			s := start(t, setup{config: func(c *config.Config) { c.Units[0].Protocol = protocol }})
			for _, how := range leavers {
				t.Run(how.name, func(t *testing.T) {
					s.in(t)
					v := s.visitor(how)
					for _, c := range cancelCases {
						t.Run(c.name, func(t *testing.T) {
							s.in(t)
							s.cancel(v, c, protocol == config.ProtocolH2C)
						})
					}
				})
			}
			s.in(t)
			s.quiet()
			s.settled()
		})
	}
}

// cancel has v leave at c's moment and checks what everybody saw of it.
func (s *stack) cancel(v *visitor, c cancelCase, multiplexed bool) {
	t := s.t
	t.Helper()
	s.setFault("")
	v.again() // so that connections are open
	s.settled()
	clients, lost := s.metric("ghostline_client_connections_opened_total"), s.unitConnectionsLost()
	counted, cancelled := s.metric("ghostline_cancelled_total", "phase", c.phase), s.metric("ghostline_requests_total", "outcome", "cancelled")
	arrived, stats := s.arrived.count(), s.model.Stats()

	s.setFault(c.fault)
	visit := v.start(c.body, c.unfinished)
	if c.arrived {
		s.eventually("the model works on it", func() bool { return s.model.Stats().Working == 1 })
	}
	if c.phase == "stream" {
		<-visit.begun
	}
	s.eventually("it is in the proxy", func() bool { return s.metric("ghostline_inflight") == 1 })
	visit.leave()

	s.settled()
	s.eventually("it is counted as cancelled", func() bool {
		return s.metric("ghostline_requests_total", "outcome", "cancelled") == cancelled+1
	})
	if got := s.metric("ghostline_cancelled_total", "phase", c.phase); got != counted+1 {
		t.Errorf("%v cancelled in phase %s, want 1", got-counted, c.phase)
	}
	if got := s.arrived.count() > arrived; got != c.arrived {
		t.Errorf("arrived at the model: %t, want %t", got, c.arrived)
	}
	if c.cancelled != nil && c.cancelled(s.model.Stats()) != c.cancelled(stats)+1 {
		t.Errorf("the model saw %+v, before it was %+v", s.model.Stats(), stats)
	}
	s.setFault("")
	v.again()
	if got := s.metric("ghostline_client_connections_opened_total"); v.how.keeps && got != clients {
		t.Errorf("the client had to open %v connections", got-clients)
	}
	if got := s.unitConnectionsLost(); multiplexed && got != lost {
		t.Errorf("%d connections to the unit were lost", got-lost)
	}
}

// unitConnectionsLost is how many connections to the model server are no longer there.
// One more that is opened is no loss: each bears only so many resets in a second.
func (s *stack) unitConnectionsLost() int64 {
	stats := s.model.Stats()
	return stats.ConnectionsOpened - stats.Connections
}

// in has the stack report to a subtest.
func (s *stack) in(t *testing.T) {
	outer := s.t
	s.t = t
	t.Cleanup(func() { s.t = outer })
}

func (s *stack) setFault(fault string) {
	s.t.Helper()
	if err := s.model.SetFault(fault); err != nil {
		s.t.Fatal(err)
	}
}

// TestCancelIsAStreamReset looks at the frames: RST_STREAM with CANCEL, and the
// connection stays.
func TestCancelIsAStreamReset(t *testing.T) {
	for _, how := range leavers {
		for _, tc := range []struct {
			name, body string
			begins     bool
		}{
			{"waiting, streamed", prompt, false},
			{"waiting, unary", unaryPrompt, false},
			{"mid-stream", prompt, true},
		} {
			t.Run(how.name+", "+tc.name, func(t *testing.T) {
				unit := startFramedUnit(t, func(p *peer, stream uint32, n int) {
					switch {
					case n%2 == 1: // answered
						p.stream(stream, true, whole("x"))
					case tc.begins:
						p.stream(stream, false, event(chunk(0, "x", "null")))
					}
				})
				s := start(t, setup{config: func(c *config.Config) { c.Units[0] = unitAt(c, "framed", unit.address) }})
				v := s.visitor(how)
				v.again()
				s.eventually("the pool is warm", func() bool { return unit.seen().opened == 2 })
				visit := v.start(tc.body, false)
				if tc.begins {
					<-visit.begun
				}
				s.eventually("it is at the unit", func() bool { return unit.seen().requests == 2 })
				visit.leave()
				unit.wantResets(t, s, http2.ErrCodeCancel)
				s.settled()
				v.again()
				if got := unit.seen(); got.opened != 2 {
					t.Errorf("the proxy opened %d connections to the unit, want 2", got.opened)
				}
				unit.wantResets(t, s, http2.ErrCodeCancel)
				s.quiet()
			})
		}
	}
}

// gate is a listener that accepts nothing until it is opened.
type gate struct {
	net.Listener
	opened, closed chan struct{}
}

func (g *gate) Accept() (net.Conn, error) {
	select {
	case <-g.opened:
	case <-g.closed:
		return nil, net.ErrClosed
	}
	return g.Listener.Accept()
}

func (g *gate) Close() error {
	close(g.closed)
	return g.Listener.Close()
}

// TestCancelWhileQueued has clients leave while their requests wait for a
// connection to a unit that does not accept any. The dial goes on, and serves
// who comes next.
func TestCancelWhileQueued(t *testing.T) {
	for _, protocol := range []string{config.ProtocolHTTP2, config.ProtocolHTTP1} {
		t.Run("unit "+protocol, func(t *testing.T) {
			unit := &counted{next: says(whole("x"))}
			s, open := startGated(t, unit, protocol)
			want := 0.0
			for _, how := range leavers {
				for _, body := range []string{prompt, unaryPrompt} {
					v := s.visitor(how)
					visit := v.start(body, false)
					s.eventually("it waits for the unit", func() bool { return s.status().Units[0].InFlight == 1 })
					visit.leave()
					s.settled()
					want++
				}
			}
			s.outcomes("cancelled", want)
			if got := s.metric("ghostline_cancelled_total", "phase", "queue"); got != want {
				t.Errorf("%v cancelled in phase queue, want %v", got, want)
			}
			open()
			s.visitor(leavers[0]).again()
			if begun, _, _ := unit.counts(); begun != 1 {
				t.Errorf("the unit was sent %d requests, want only the one that was not cancelled", begun)
			}
			s.quiet()
		})
	}
}

// startGated runs a stack whose only unit is behind TLS and a gate.
func startGated(t *testing.T, unit http.Handler, protocol string) (s *stack, open func()) {
	t.Helper()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := ca.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	roots := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(roots, ca.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gate{opened: make(chan struct{}), closed: make(chan struct{})}
	address := serveUnit(t, unit, func(s *httpserver.Server) {
		g.Listener, s.Listener, s.TLS = s.Listener, g, certificate
	})
	s = start(t, setup{config: func(c *config.Config) {
		c.Units[0].URL, c.Units[0].Protocol = "https://"+address+"/v1/completions", protocol
		c.Units[0].TLS = &config.UnitTLS{CAFile: roots}
		c.Timeouts.Connect = config.Duration(time.Minute)
		c.Timeouts.FirstByte = config.Duration(time.Minute)
	}})
	return s, func() { close(g.opened) }
}

// TestCancelBesideOthers cancels one of two requests at a unit that takes one
// stream a connection: the other one is left alone.
func TestCancelBesideOthers(t *testing.T) {
	release := make(chan struct{})
	unit := &counted{next: held(release)}
	address := serveUnit(t, unit, func(s *httpserver.Server) { s.MaxConcurrentStreams = 1 })
	s := start(t, setup{config: func(c *config.Config) { c.Units[0] = unitAt(c, "narrow", address) }})
	v := s.visitor(leavers[0])
	stays := v.start(prompt, false)
	s.eventually("one is at the unit", unit.begunIs(1))
	for n := range 5 {
		leaves := v.start(prompt, false)
		s.eventually("the other one is at the unit", unit.begunIs(n+2))
		leaves.leave()
		s.eventually("the unit knows", func() bool { _, gone, running := unit.counts(); return gone == n+1 && running == 1 })
	}
	close(release)
	if end := <-stays.ended; end.err != nil || end.body != whole("held") {
		t.Errorf("the other answer is %q, %v", end.body, end.err)
	}
	v.again()
	s.outcomes("cancelled", 5)
	s.outcomes("ok", 2)
	if got := s.metric("ghostline_client_connections_opened_total"); got != 1 {
		t.Errorf("the client opened %v connections, want 1", got)
	}
	s.settled()
	s.quiet()
}
