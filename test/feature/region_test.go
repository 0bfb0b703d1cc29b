package feature

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// get is a page of one of the proxy's ports.
func (s *stack) get(client *http.Client, url string) (status int, body string) {
	s.t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// wantVote checks what /regionz says on every port, and what else shows the vote.
func (s *stack) wantVote(vote string, parts ...string) {
	s.t.Helper()
	up, status := 0.0, http.StatusServiceUnavailable
	if vote == "up" {
		up, status = 1, http.StatusOK
	}
	for name, port := range map[string]struct {
		client *http.Client
		url    string
	}{
		"TLS": {s.h2(), s.tlsURL}, "cleartext": {s.h2c(), s.plainURL}, "cleartext, HTTP/1.1": {s.h1(), s.plainURL}, "admin": {s.h1(), s.adminURL},
	} {
		got, body := s.get(port.client, port.url+"/regionz")
		if got != status || !strings.HasPrefix(body, vote) {
			s.t.Errorf("/regionz on the port %s: %d %q, want %d and %s", name, got, body, status, vote)
		}
		for _, part := range parts {
			if !strings.Contains(body, part) {
				s.t.Errorf("/regionz on the port %s says %q, want %q in it", name, body, part)
			}
		}
	}
	if got := s.status().RegionVote; got.Vote != vote || got.Since.IsZero() != (vote == "unknown") {
		s.t.Errorf("the status has %+v, want %s", got, vote)
	}
	if got := s.metric("ghostline_region_up"); got != up {
		s.t.Errorf("ghostline_region_up is %v, want %v", got, up)
	}
}

func (s *stack) voted(vote string) {
	s.t.Helper()
	s.eventually("the vote is "+vote, func() bool { return s.status().RegionVote.Vote == vote })
}

// TestRegionUp: without probes, a unit that nothing is known against will do.
func TestRegionUp(t *testing.T) {
	s := start(t, setup{})
	s.voted("up")
	s.wantVote("up")
	s.wantLog("this region is voted in")
}

// TestRegionDown has the region's only unit fail, while one of another region
// serves: clients are served, and sent there for the next time.
func TestRegionDown(t *testing.T) {
	s, units := cast(t, setup{config: func(c *config.Config) {
		probing(c)
		c.Failover, c.Units[1].Region = []string{"near"}, "near"
	}}, says(whole("a")), says(whole("b")))
	s.voted("up")
	asked := units[0].asked()
	units[0].is(answers(500, nil, ""))
	s.voted("down")
	if got := units[0].asked() - asked; got < 3 {
		t.Errorf("the region is voted out after %d failures, want at least 3", got)
	}
	s.wantVote("down", "none of the region's 1 units answers")
	s.wantLog(`"level":"ERROR"`, "this region is voted out")
	s.complete()
	if status, _ := s.get(s.h1(), s.plainURL+"/readyz"); status != http.StatusOK {
		t.Errorf("/readyz is %d, want 200: this proxy still serves", status)
	}
	units[0].is(says(whole("a")))
	s.eventually("the unit is well", func() bool { return s.status().RegionVote.Problem == "" })
	s.wantVote("down", "well again")
}

// TestSaturatedRegionIsUp: a unit that is full answers.
func TestSaturatedRegionIsUp(t *testing.T) {
	for name, header := range map[string]http.Header{"for long": {"Retry-After": {"60"}}, "for a moment": {"Retry-After-Ms": {"1"}}} {
		t.Run(name, func(t *testing.T) {
			// The second unit's failures tell how often the region was looked at. They
			// take longer than the first one's moment.
			s, _ := cast(t, setup{config: probing}, answers(429, header, ""), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				<-time.After(50 * time.Millisecond)
				w.WriteHeader(http.StatusInternalServerError)
			}))
			s.probed("unit-1", "error", 5)
			s.wantVote("up")
			if s.logged("voted out") > 0 {
				t.Error("the region was voted out meanwhile")
			}
		})
	}
}

// TestRegionWithoutKeys: a proxy that cannot check a token is not up, and says why.
func TestRegionWithoutKeys(t *testing.T) {
	s := start(t, setup{unready: true, config: func(c *config.Config) {
		probing(c)
		c.Tokens.KeySet = config.KeySet{URL: "http://" + nobody(t) + "/jwks.json"}
	}})
	s.voted("down")
	s.wantVote("down", "keys")
	if s.arrived.count() == 0 {
		t.Error("the unit was not probed: it is not what is missing")
	}
}

// TestDrainKeepsTheVote: the region's other proxies go on.
func TestDrainKeepsTheVote(t *testing.T) {
	release := make(chan struct{})
	s, units := cast(t, setup{}, held(release))
	s.voted("up")
	visit := s.visitor(leavers[1]).start(prompt, false)
	s.eventually("it is at the unit", units[0].begunIs(1))
	s.stop()
	s.eventually("the proxy drains", func() bool { status, _ := s.get(s.h1(), s.adminURL+"/readyz"); return status == http.StatusNotFound })
	if status, body := s.get(s.h1(), s.adminURL+"/regionz"); status != http.StatusOK || body != "up\n" {
		t.Errorf("/regionz is %d %q, want 200 and up", status, body)
	}
	close(release)
	if end := <-visit.ended; end.err != nil || end.body != whole("held") {
		t.Errorf("the request that ran: %q, %v", end.body, end.err)
	}
}
