package feature

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

const twoAnswers = `{"model":"ghost-code","prompt":"a","n":2,"stream":true}`

// giveOne has units that can give only one answer to a request.
func giveOne(c *config.Config, units ...int) {
	for _, i := range units {
		u := &c.Units[i]
		u.Provider, u.URL = config.ProviderMistral, strings.Replace(u.URL, "/v1/", "/v1/fim/", 1)
	}
}

// TestUnitsThatCannotAreNoTries: however many units cannot do a request, the one that
// can is found, and they count for nothing.
func TestUnitsThatCannotAreNoTries(t *testing.T) {
	both := event(chunk(0, "a", `"stop"`)) + event(chunk(1, "b", `"stop"`)) + event("[DONE]")
	fails := answers(http.StatusServiceUnavailable, nil, "{}")
	s, units := cast(t, setup{config: func(c *config.Config) { giveOne(c, 0, 1, 2, 4) }}, says(), says(), says(), fails, says(), fails, says(both))
	s.wantWhole(s.post("/v1/completions", twoAnswers))
	for i, want := range []int{0, 0, 0, 1, 0, 1, 1} {
		if begun, _, _ := units[i].counts(); begun != want {
			t.Errorf("unit %d was asked %d times, want %d", i, begun, want)
		}
	}
	s.outcomes("ok", 1)
	s.wantMetric(1, "ghostline_spill_total", "from", "unit-0", "to", "unit-6", "reason", "unable")
}

// TestUnitThatCannotBehindOneThatIsBusy: that the client is at fault must be so.
func TestUnitThatCannotBehindOneThatIsBusy(t *testing.T) {
	full := answers(http.StatusTooManyRequests, http.Header{"Retry-After": {"60"}}, "{}")
	s, _ := cast(t, setup{config: func(c *config.Config) { giveOne(c, 1) }}, full, says())
	for _, when := range []string{"refuses", "is left alone"} {
		got := s.post("/v1/completions", twoAnswers)
		if got.status != http.StatusServiceUnavailable || got.header.Get("X-Should-Retry") == "false" {
			t.Errorf("while the unit that can %s: %d %s, %v", when, got.status, got.body, got.header)
		}
	}
	s.outcomes("no_capacity", 2)
}

// TestUnitThatCannotIsNotBlamed for what became of a request at another one.
func TestUnitThatCannotIsNotBlamed(t *testing.T) {
	s, _ := cast(t, setup{config: func(c *config.Config) { giveOne(c, 1) }}, answers(http.StatusInternalServerError, nil, "{}"), says())
	if got := s.post("/v1/completions", twoAnswers); got.status != http.StatusBadGateway {
		t.Errorf("got %d %s, want what the unit that can failed with", got.status, got.body)
	}
	s.wantMetric(1, "ghostline_requests_total", "unit", "unit-0", "outcome", "upstream_error")
}

// TestNoUnitCan: a request that no unit was asked for has none in the metrics.
func TestNoUnitCan(t *testing.T) {
	s, units := cast(t, setup{config: func(c *config.Config) { giveOne(c, 0, 1) }}, says(), says())
	if got := s.post("/v1/completions", twoAnswers); got.status != http.StatusBadRequest || !strings.Contains(got.body, `\"n\" must be 1`) {
		t.Errorf("got %d %s", got.status, got.body)
	}
	s.wantMetric(1, "ghostline_requests_total", "unit", "none", "outcome", "bad_request")
	s.wantMetric(0, "ghostline_spill_total")
	for _, u := range units {
		if begun, _, _ := u.counts(); begun != 0 {
			t.Errorf("%s was asked", u.name)
		}
	}
}
