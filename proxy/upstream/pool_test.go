package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// multiplexed are the ways to speak HTTP/2 to a unit.
var multiplexed = []string{config.ProtocolH2C, config.ProtocolHTTP2, config.ProtocolAuto}

func TestTwoWarmConnections(t *testing.T) {
	for _, protocol := range multiplexed {
		t.Run(protocol, func(t *testing.T) {
			u := newUnit(t, protocol).serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					t.Errorf("the request came by %s", r.Proto)
				}
				echo(w, r)
			})
			p := u.pool(t)
			if s := p.Stats(); s != (Stats{}) {
				t.Errorf("before the first request the stats are %+v", s)
			}
			mustAsk(t, p, prompt)
			eventually(t, "the second connection is open", func() bool { return p.Stats().Open == 2 })
			stays(t, p, 2)
		})
	}
}

func TestStreamsAreSpread(t *testing.T) {
	g := newGate()
	u := newUnit(t, config.ProtocolH2C).serve(t, g.serve)
	p := u.pool(t)
	warm := g.hold(t, p, 1)
	eventually(t, "the second connection is open", func() bool { return p.Stats().Open == 2 })
	rest := g.hold(t, p, 9)
	if s := p.Stats(); s != (Stats{Open: 2, Opened: 2, InFlight: 10}) {
		t.Errorf("stats are %+v, want 10 requests on 2 connections", s)
	}
	p.mu.Lock()
	for i, c := range p.conns {
		if n := c.InFlight(); n != 5 {
			t.Errorf("connection %d has %d streams, want 5", i, n)
		}
	}
	p.mu.Unlock()
	close(g.open)
	warm()
	rest()
}

// TestSoftLimitOpensAnother has no budget for resets in the way: the third
// connection opens when what the first two may carry leaves less than one's worth.
func TestSoftLimitOpensAnother(t *testing.T) {
	g := newGate()
	u := newUnit(t, config.ProtocolH2C).serve(t, g.serve)
	opts := u.options()
	opts.ResetBudget = 1000
	p := newPool(t, opts)
	first := g.hold(t, p, 1)
	eventually(t, "the second connection is open", func() bool { return p.Stats().Open == 2 })
	upToIt := g.hold(t, p, softLimit-1)
	if s := p.Stats(); s.Opened != 2 {
		t.Errorf("with room for %d more the stats are %+v, want 2 connections", softLimit, s)
	}
	over := g.hold(t, p, 1)
	eventually(t, "the third connection is open", func() bool { return p.Stats().Open == 3 })
	close(g.open)
	for _, finish := range []func(){first, upToIt, over} {
		finish()
	}
}

// TestFewStreams asks for more at once than the unit's connections take, before
// the unit had a chance to say so in its SETTINGS. With ClientConn.Reserve the
// requests waited for each other for ever.
func TestFewStreams(t *testing.T) {
	for _, protocol := range multiplexed {
		t.Run(protocol, func(t *testing.T) {
			u := newUnit(t, protocol)
			u.streams = 1
			u.serve(t, echo)
			for range 10 {
				p := u.pool(t)
				errs := make(chan error)
				const burst = 30
				for range burst {
					go func() {
						got, err := ask(t.Context(), p)
						if err == nil && got != prompt {
							err = errors.New("wrong answer " + got)
						}
						errs <- err
					}()
				}
				for range burst {
					// A stream that overtook the SETTINGS is refused, and some
					// of those that are sent once more are refused again. All
					// that counts here is that each request ends.
					var refused http2.StreamError
					if err := receive(t, errs); err != nil && !NotProcessed(err) && !errors.As(err, &refused) {
						t.Error(err)
					}
				}
				eventually(t, "all places are free again", func() bool { return p.Stats().InFlight == 0 })
				p.Close()
			}
		})
	}
}

func TestFewStreamsOpenMoreConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		u := newBubbleUnit(t, config.ProtocolH2C, 2, g.serve)
		for range 9 { // one by one, so that the SETTINGS of each connection are known
			defer g.hold(t, u.Pool, 1)()
			synctest.Wait()
		}
		if s := u.Stats(); s.InFlight != 9 || s.Open < 5 || s.Open > 7 {
			t.Errorf("stats are %+v, want 9 requests on 5 to 7 connections of 2 streams", s)
		}
		close(g.open)
	})
}

func TestHTTP1(t *testing.T) {
	for _, tc := range []struct {
		name string
		unit func(*testing.T) *testUnit
	}{
		{"asked for", func(t *testing.T) *testUnit { return newUnit(t, config.ProtocolHTTP1) }},
		{"by ALPN", func(t *testing.T) *testUnit {
			u := newUnit(t, config.ProtocolAuto)
			u.onlyHTTP1 = true
			return u
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGate()
			p := tc.unit(t).serve(t, g.serve).pool(t)
			finish := g.hold(t, p, 5)
			if s := p.Stats(); s.Open < 5 || s.InFlight != 5 {
				t.Errorf("stats are %+v, want a connection for each of 5 requests", s)
			}
			close(g.open)
			finish()
			eventually(t, "all dials have ended", p.dialsEnded)
			stays(t, p, p.Stats().Opened)
		})
	}
}

func (p *Pool) dialsEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials == 0
}

func TestCancelIsAReset(t *testing.T) {
	for _, protocol := range multiplexed {
		t.Run(protocol, func(t *testing.T) {
			g := newGate()
			u := newUnit(t, protocol).serve(t, g.serve)
			opts := u.options()
			opts.ResetBudget = 1000 // so that there is no other reason for a connection
			p := newPool(t, opts)
			warm := g.hold(t, p, 1)
			eventually(t, "the second connection is open", func() bool { return p.Stats().Open == 2 })
			for range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				errs := make(chan error, 1)
				go func() {
					_, err := ask(ctx, p)
					errs <- err
				}()
				receive(t, g.arrived)
				cancel()
				receive(t, g.cancelled)
				if err := receive(t, errs); !errors.Is(err, context.Canceled) || NotProcessed(err) {
					t.Fatalf("a cancelled request failed with %v", err)
				}
			}
			close(g.open)
			warm()
			stays(t, p, 2)
		})
	}
}

func TestCancelCostsAnHTTP1Connection(t *testing.T) {
	g := newGate()
	u := newUnit(t, config.ProtocolHTTP1).serve(t, g.serve)
	p := u.pool(t)
	is := func(want Stats) func() bool { return func() bool { return p.Stats() == want } }
	other := g.hold(t, p, 1)
	eventually(t, "the spare connections are open", is(Stats{Open: 1 + spares, Opened: 1 + spares, InFlight: 1}))
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() {
		_, err := ask(ctx, p)
		errs <- err
	}()
	receive(t, g.arrived)
	eventually(t, "there is one more", is(Stats{Open: 2 + spares, Opened: 2 + spares, InFlight: 2}))
	cancel()
	receive(t, g.cancelled)
	if err := receive(t, errs); !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled request failed with %v", err)
	}
	eventually(t, "its connection alone is closed", is(Stats{Open: 1 + spares, Opened: 2 + spares, InFlight: 1}))
	close(g.open)
	other()
}

// TestCancelledBefore holds that what is cancelled already is not sent.
func TestCancelledBefore(t *testing.T) {
	for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
		t.Run(protocol, func(t *testing.T) {
			g := newGate()
			close(g.open)
			u := newUnit(t, protocol).serve(t, g.serve)
			p := u.pool(t)
			mustAsk(t, p, prompt)
			receive(t, g.arrived)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range 100 {
				_, err := p.RoundTrip(request(ctx, p), func(bool) { t.Error("it was given a place") })
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("error %v, want %v", err, context.Canceled)
				}
			}
			mustAsk(t, p, prompt)
			receive(t, g.arrived)
			if n := len(g.arrived); n != 0 {
				t.Errorf("%d of the cancelled requests arrived", n)
			}
		})
	}
}

func TestAnswerKeepsItsPlaceUntilClosed(t *testing.T) {
	u := newUnit(t, config.ProtocolH2C).serve(t, echo)
	p := u.pool(t)
	resp, err := send(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if n := p.Stats().InFlight; n != 1 {
		t.Errorf("%d in flight while the body is open, want 1", n)
	}
	for range 2 { // closing twice gives the place back once
		resp.Body.Close()
		if n := p.Stats().InFlight; n != 0 {
			t.Errorf("%d in flight after the body was closed", n)
		}
	}
}

func TestDialsAreBounded(t *testing.T) {
	p := newPool(t, newUnit(t, config.ProtocolHTTP1).options())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials, p.waiting = maxConns, maxConns
	p.dialMore(false)
	if p.dials != maxConns {
		t.Errorf("%d dials run, at most %d may", p.dials, maxConns)
	}
}

func TestAddressAndProtocols(t *testing.T) {
	for _, tc := range []struct {
		url, protocol, address string
		want                   string
	}{
		{"http://a/x", config.ProtocolAuto, "a:80", "{HTTP1}"},
		{"https://a/x", config.ProtocolAuto, "a:443", "{HTTP1,HTTP2}"},
		{"https://a:8443/x", config.ProtocolHTTP2, "a:8443", "{HTTP2}"},
		{"http://[::1]/x", config.ProtocolH2C, "[::1]:80", "{UnencryptedHTTP2}"},
		{"https://[::1]:1/x", config.ProtocolHTTP1, "[::1]:1", "{HTTP1}"},
	} {
		u, err := url.Parse(tc.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := hostPort(u); got != tc.address {
			t.Errorf("%s is reached at %s, want %s", tc.url, got, tc.address)
		}
		if got := protocols(Options{URL: u, Protocol: tc.protocol}).String(); got != tc.want {
			t.Errorf("%s %s speaks %s, want %s", tc.url, tc.protocol, got, tc.want)
		}
	}
}
