package feature

import (
	"net/http"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// rapid is a request to reset at once.
type rapid struct {
	name string
	end  bool // it has no body
	// fields are its headers.
	fields []string
}

func rapidRequests(authorization ...string) []rapid {
	to := func(name, method, path string, end bool) rapid {
		fields := []string{":method", method, ":scheme", "http", ":authority", "proxy.test", ":path", path}
		return rapid{name, end, append(fields, authorization...)}
	}
	return []rapid{
		to("a completion", "POST", "/v1/completions", false),
		to("the models", "GET", "/v1/models", true),
		to("readiness", "GET", "/readyz", true),
		to("the region's vote", "GET", "/regionz", true),
		to("an unknown path", "POST", "/v1/chat/completions", false),
	}
}

// strangers are requests whose token is none or not valid.
func strangers() []rapid {
	forged := rapidRequests("authorization", "Bearer forged")[0]
	forged.name += " with a forged token"
	return append(rapidRequests(), forged)
}

// resetMany sends a request and resets it at once, so many times.
func (c *framedClient) resetMany(n int, r rapid) {
	for range n {
		c.headers(c.fresh, r.end, r.fields...)
		c.reset(c.fresh, http2.ErrCodeCancel)
		c.fresh += 2
	}
}

// untilCut reads what comes; the result is closed once the connection is.
func (c *framedClient) untilCut() <-chan struct{} {
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		for {
			if _, err := c.next(); err != nil {
				return
			}
		}
	}()
	return cut
}

// TestRapidResetIsCutOff: a client without a valid token that only resets loses
// its connection, and nobody else does.
func TestRapidResetIsCutOff(t *testing.T) {
	for i, r := range strangers() {
		t.Run(r.name, func(t *testing.T) {
			s := start(t, setup{})
			other := s.visitor(leavers[1])
			other.again()
			connect := s.framed
			if i == 0 {
				connect = s.framedTLS
			}
			c := connect()
			cut := c.untilCut()
			s.eventually("the connection is cut", func() bool {
				c.resetMany(50, r)
				select {
				case <-cut:
					return true
				default:
					return false
				}
			})
			s.eventually("its end is noticed", func() bool { return s.metric("ghostline_client_connections") == 1 })
			s.settled()
			if got := s.metric("ghostline_client_connections_cut_total"); got != 1 {
				t.Errorf("%v connections were cut, want 1", got)
			}
			if n := s.logged(`"level":"WARN"`, "a client's connection is cut", `"client":"127.0.0.1"`); n != 1 {
				t.Errorf("the log says so %d times, want once", n)
			}
			other.again()
			if got := s.metric("ghostline_client_connections_opened_total"); got != 2 {
				t.Errorf("%v connections were opened, want 2: another client's was cut", got)
			}
		})
	}
}

// TestResetsOfUsersAreLetBe has a client with a valid token reset as fast, and
// one on a trusted edge's connection, which carries others too.
func TestResetsOfUsersAreLetBe(t *testing.T) {
	trusted := func(c *config.Config) { c.TrustedEdges = []string{"127.0.0.0/8"} }
	for _, tc := range []struct {
		name     string
		config   func(*config.Config)
		requests func(*stack) []rapid
	}{
		{"with a valid token", nil, func(s *stack) []rapid { return rapidRequests("authorization", "Bearer "+s.token())[:2] }},
		{"on an edge's connection", trusted, func(*stack) []rapid { return strangers() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, setup{config: tc.config})
			c := s.framed()
			c.write(func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1<<30) }) // it reads whatever comes
			for _, r := range tc.requests(s) {
				for range 40 {
					c.resetMany(50, r)
					// Also so that the proxy keeps up.
					if got := c.read(c.post(goodBody), nil); got.status != "200" {
						t.Fatalf("%s: the answer to another request of the connection is %+v", r.name, got)
					}
				}
			}
			s.settled()
			if got := s.metric("ghostline_client_connections_cut_total"); got != 0 {
				t.Errorf("%v connections were cut, want none", got)
			}
			if got := s.metric("ghostline_client_connections_opened_total"); got != 1 {
				t.Errorf("%v connections were opened, want 1", got)
			}
			s.quiet()
		})
	}
}

// TestAFewResetsOfStrangersAreLetBe: a client whose token has expired is no
// attacker for it.
func TestAFewResetsOfStrangersAreLetBe(t *testing.T) {
	s := start(t, setup{})
	c := s.framed()
	c.resetMany(90, strangers()[0])
	if got := c.read(c.post(goodBody), nil); got.status != "200" {
		t.Errorf("the next answer on the connection is %+v", got)
	}
	s.settled()
	s.quiet()
}

// strangerResetsBurst is how many a client without a token may have.
const strangerResetsBurst = 100

// TestResetsAtAFullProxy: a proxy that is full turns requests away before it
// checks their tokens. Users whose tokens it knows are no strangers for that.
func TestResetsAtAFullProxy(t *testing.T) {
	release := make(chan struct{})
	s := start(t, setup{unit: held(release), config: func(c *config.Config) { c.Limits.InFlight = 1 }})
	token := s.token()
	models := s.request(t.Context(), s.plainURL, "/v1/models", "")
	models.Method = http.MethodGet
	models.Header.Set("Authorization", "Bearer "+token)
	if got := s.do(s.h2c(), models); got.status != http.StatusOK {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	running := s.editor(overH2C).send(prompt)
	s.eventually("the proxy is full", func() bool { return s.metric("ghostline_inflight") == 1 && s.arrived.count() == 1 })
	c := s.framed()
	cut := c.untilCut()
	s.eventually("many resets are noticed", func() bool {
		c.resetMany(100, rapidRequests("authorization", "Bearer "+token)[0])
		select {
		case <-cut:
			t.Fatal("a user's connection is cut")
		default:
		}
		return s.metric("ghostline_requests_total", "outcome", "cancelled") > 5*strangerResetsBurst
	})
	if got := s.metric("ghostline_client_connections_cut_total"); got != 0 {
		t.Errorf("%v connections were cut, want none", got)
	}
	close(release)
	s.wantWhole(<-running.ended)
}
