package feature

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/localca"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// reconfigure writes a changed config and waits until it is in use.
func (s *stack) reconfigure(change func(*config.Config)) {
	s.t.Helper()
	change(&s.config)
	s.writeConfig()
	s.eventually("the new config is in use", func() bool { return strings.Contains(s.admin("/statusz"), s.configHash()) })
}

func (s *stack) unitState(name string) (state, problem string) {
	for _, u := range s.status().Units {
		if u.Name == name {
			return u.State, u.Problem
		}
	}
	return "", ""
}

// TestUnitOfANewerProxy: a unit that this proxy cannot use is left out and
// named, and the rest is served.
func TestUnitOfANewerProxy(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		later := c.Units[0]
		later.Name, later.Provider = "later", "Tomorrow"
		c.Units = append(c.Units, later)
	}})
	s.wantWhole(s.post("/v1/completions", prompt))
	if state, problem := s.unitState("later"); state != "left_out" || !strings.Contains(problem, "units[1].provider") {
		t.Errorf("the unit is %s (%s), want left_out for its provider", state, problem)
	}
}

// TestConnectionsSurviveAReload: a config that reaches the same unit in the same
// way uses the connections that are there.
func TestConnectionsSurviveAReload(t *testing.T) {
	s := start(t, setup{})
	s.wantWhole(s.post("/v1/completions", prompt))
	s.eventually("two connections are open", func() bool { return s.metric("ghostline_upstream_connections_opened_total") == 2 })
	s.reconfigure(func(c *config.Config) { c.Timeouts.Connect = config.Duration(3 * time.Second) })
	s.wantWhole(s.post("/v1/completions", prompt))
	if opened := s.model.Stats().ConnectionsOpened; opened != 2 {
		t.Errorf("the unit has seen %d connections, want 2", opened)
	}
}

// TestSeriesOfUnitsThatAreGone: an operator that renames units does not fill the
// proxy's memory.
func TestSeriesOfUnitsThatAreGone(t *testing.T) {
	release := make(chan struct{})
	unit := newSwitched(held(release))
	s := start(t, setup{unit: unit})
	last := s.visitor(leavers[0]).start(prompt, false)
	s.eventually("the first unit is asked", func() bool { return s.arrived.count() == 1 })
	unit.is(says(whole("a")))
	for _, name := range []string{"unit-2", "unit-3"} {
		s.wantWhole(s.post("/v1/completions", prompt))
		s.reconfigure(func(c *config.Config) { c.Units[0].Name = name })
	}
	s.wantWhole(s.post("/v1/completions", prompt))
	close(release)
	if end := <-last.ended; end.err != nil {
		t.Errorf("the request that began first ended with %v", end.err)
	}
	s.settled()
	s.outcomes("ok", 1) // of the last unit
	page := s.admin("/metrics")
	if strings.Contains(page, `unit="unit-1"`) || strings.Contains(page, `unit="unit-2"`) || !strings.Contains(page, `unit="unit-3"`) {
		t.Errorf("the metrics name other units than the config:\n%s", page)
	}
}

// TestSeriesOfWhatAUnitServed: a unit that is given to another variant has no
// series under the one that it served before, and its counts go on.
func TestSeriesOfWhatAUnitServed(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		c.Models[0].Variants = []config.Variant{{Name: "stable", Weight: 1, Fallback: "next"}, {Name: "next"}}
	}})
	for i, variant := range []string{"stable", "next", "stable"} {
		s.reconfigure(func(c *config.Config) { c.Units[0].Serves = "ghost-code/" + variant })
		s.complete()
		s.settled()
		if got := s.metric("ghostline_requests_total", "unit", "unit-1", "variant", variant, "outcome", "ok"); got != 1 {
			t.Errorf("%v requests are counted for %s, want 1", got, variant)
		}
		if got := s.metric("ghostline_unit_attempts_total", "unit", "unit-1", "result", "ok"); got != float64(i+1) {
			t.Errorf("%v attempts are counted, want %d", got, i+1)
		}
		other := map[string]string{"stable": "next", "next": "stable"}[variant]
		for line := range strings.Lines(s.admin("/metrics")) {
			if strings.Contains(line, `unit="unit-1"`) && strings.Contains(line, `variant="`+other+`"`) {
				t.Errorf("the unit serves %s, and has %s", variant, line)
			}
		}
	}
}

// TestMisconfiguredUnitIsNamed: while others serve in its place, a unit that
// refuses our credential shows as such, and no longer once it answers.
func TestMisconfiguredUnitIsNamed(t *testing.T) {
	s, units := cast(t, setup{}, nil, says(whole("b")))
	for name, answer := range map[string]http.Handler{
		"a completion":                  says(whole("a")),
		"that the request is not valid": answers(http.StatusBadRequest, nil, ""),
	} {
		units[0].is(answers(http.StatusUnauthorized, nil, ""))
		s.complete()
		s.wantState("unit-0", "misconfigured")
		units[0].is(answer)
		s.post("/v1/completions", prompt)
		if state, _ := s.unitState("unit-0"); state != "active" {
			t.Errorf("after the answer %s the unit is %s, want active", name, state)
		}
	}
}

// TestMendedUnitIsAsked: a unit that was ejected because it refused our
// credential is asked as soon as there is another one, and one that failed for
// other reasons is not.
func TestMendedUnitIsAsked(t *testing.T) {
	const mended = "sesame-mended"
	for status, back := range map[int]bool{http.StatusUnauthorized: true, http.StatusInternalServerError: false} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			s, units := cast(t, setup{config: func(c *config.Config) { c.Units[0].Credential = "first" }},
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Authorization") == "Bearer "+mended {
						says(whole("a"))(w, r)
						return
					}
					w.WriteHeader(status)
				}), says(whole("b")))
			s.write("credentials/first", "sesame-wrong")
			s.eventually("it has a credential", func() bool { state, _ := s.unitState("unit-0"); return state == "active" })
			s.send(5, prompt)
			s.wantLog("a unit is ejected", `"unit":"unit-0"`)
			until := s.status().Units[0].Until
			s.complete()
			wantAsked(t, units, 5, 6)

			loaded := s.status().Loaded
			s.write("credentials/first", mended)
			s.eventually("the new credential is read", func() bool { return s.status().Loaded.After(loaded) })
			s.complete()
			// On a machine that is busy, its time may be over.
			if got := units[0].asked() == 6; got != back && (back || time.Now().Before(until)) {
				t.Errorf("asked again: %t, want %t", got, back)
			}
			s.settled()
		})
	}
}

// TestRotatedCAOfTheKeySet: a key set behind a certificate that is not trusted
// is waited for, while the last good config serves and is not called the newest;
// a CA that is put right is used at once.
func TestRotatedCAOfTheKeySet(t *testing.T) {
	s := start(t, setup{})
	right, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := right.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	keys := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, s.dir+"/jwks.json") })
	address := serveUnit(t, keys, func(server *httpserver.Server) { server.TLS = certificate })
	s.write("issuer-ca.pem", string(s.ca.PEM()))
	s.config.Tokens.KeySet = config.KeySet{URL: "https://" + address + "/", CAFile: "issuer-ca.pem"}
	s.writeConfig()
	s.reloaded(false)
	s.wantWhole(s.post("/v1/completions", prompt))
	s.write("issuer-ca.pem", string(right.PEM()))
	s.eventually("the new config is in use", func() bool { return strings.Contains(s.admin("/statusz"), s.configHash()) })
	s.reloaded(true)
	s.wantWhole(s.post("/v1/completions", prompt))
}
