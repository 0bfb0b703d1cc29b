package feature

import (
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/modelserver"
	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/prometheus/client_golang/prometheus"
)

// metricTests do, for every metric of the proxy, what it counts or measures and
// read the number.
var metricTests = []struct {
	test    func(*testing.T)
	metrics []string
}{
	{countsRequests, []string{"ghostline_requests_total"}},
	{timesRequests, []string{"ghostline_request_duration_seconds"}},
	{timesFirstBytes, []string{"ghostline_first_byte_seconds", "ghostline_upstream_first_byte_seconds"}},
	{measuresFirstBytes, []string{"ghostline_first_byte_objective_total"}},
	{comparesWithProvider, []string{"ghostline_provider_gap_seconds"}},
	{timesItself, []string{"ghostline_proxy_overhead_seconds"}},
	{countsCancels, []string{"ghostline_cancelled_total", "ghostline_cancelled_after_seconds", "ghostline_cancel_propagation_seconds"}},
	{countsTokens, []string{"ghostline_tokens_total"}},
	{countsInFlight, []string{"ghostline_inflight"}},
	{tellsUnitStates, []string{"ghostline_unit_state"}},
	{countsAttempts, []string{"ghostline_unit_attempts_total"}},
	{countsProbes, []string{"ghostline_unit_probes_total"}},
	{countsRetries, []string{"ghostline_retries_total"}},
	{countsSpills, []string{"ghostline_spill_total"}},
	{countsMutations, []string{"ghostline_mutations_total"}},
	{countsClients, []string{"ghostline_client_requests_total"}},
	{countsTokenChecks, []string{"ghostline_auth_total", "ghostline_token_cache_total"}},
	{tellsOfFetchedKeys, []string{"ghostline_keys_last_fetch_timestamp_seconds"}},
	{countsUpstreamConnections, []string{"ghostline_upstream_connections", "ghostline_upstream_connections_opened_total"}},
	{countsClientConnections, []string{"ghostline_client_connections", "ghostline_client_connections_opened_total"}},
	{countsCutConnections, []string{"ghostline_client_connections_cut_total"}},
	{countsDroppedLines, []string{"ghostline_access_log_dropped_total"}},
	{tellsOfConfig, []string{"ghostline_config_last_reload_successful", "ghostline_config_unknown_fields", "ghostline_config_info"}},
	{tellsObjectives, []string{"ghostline_objective"}},
	{tellsOfRegion, []string{"ghostline_ready_proxies", "ghostline_region_up"}},
}

// TestEveryMetric runs them, and fails for a metric that has none.
func TestEveryMetric(t *testing.T) {
	tested := map[string]bool{}
	for _, tc := range metricTests {
		for _, name := range tc.metrics {
			tested[name] = true
		}
		t.Run(strings.Join(tc.metrics, ","), tc.test)
	}
	for _, name := range start(t, setup{}).described() {
		elsewhere := strings.HasPrefix(name, "ghostline_mirror_") || name == "ghostline_feedback_total"
		if strings.HasPrefix(name, "ghostline_") && !elsewhere && !tested[name] {
			t.Errorf("no test makes %s move", name)
		}
	}
}

// described are the names of all metrics that are registered.
func (s *stack) described() []string {
	name := regexp.MustCompile(`fqName: "([^"]*)"`)
	descriptions := make(chan *prometheus.Desc)
	go func() { defer close(descriptions); s.metrics.Describe(descriptions) }()
	names := map[string]bool{}
	for d := range descriptions {
		names[name.FindStringSubmatch(d.String())[1]] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// wantMetric waits until a metric has a value: what a request ends with is
// counted a moment after its client has the answer.
func (s *stack) wantMetric(want float64, name string, labels ...string) {
	s.t.Helper()
	s.eventually(name+" "+strings.Join(labels, " "), func() bool { return s.metric(name, labels...) == want })
}

// sum is what a histogram's samples that have the labels add up to.
func (s *stack) sum(name string, labels ...string) (seconds float64) {
	s.t.Helper()
	for _, m := range s.series(name) {
		if hasLabels(m, labels) {
			seconds += m.GetHistogram().GetSampleSum()
		}
	}
	return seconds
}

func countsRequests(t *testing.T) {
	s := start(t, setup{})
	s.complete()
	s.wantMetric(1, "ghostline_requests_total", "model", "ghost-code", "variant", "stable", "region", "here", "unit", "unit-1", "outcome", "ok")
	s.post("/v1/completions", `{"model":"ghost-code"}`)
	s.wantMetric(1, "ghostline_requests_total", "model", "none", "variant", "none", "region", "here", "unit", "none", "outcome", "bad_request")
	s.wantMetric(2, "ghostline_requests_total")
}

func timesRequests(t *testing.T) {
	release := make(chan struct{})
	s := start(t, setup{unit: held(release)})
	v := s.visitor(leavers[0])
	v.start(prompt, false).leaveAt("wait")
	close(release)
	s.complete()
	s.wantMetric(1, "ghostline_request_duration_seconds", "model", "ghost-code", "variant", "stable")
	if took, first := s.sum("ghostline_request_duration_seconds"), s.sum("ghostline_first_byte_seconds"); took < first {
		t.Errorf("the request took %gs, its first byte %gs", took, first)
	}
}

// leaveAt leaves once the proxy has the request in that phase, and waits until
// it has recorded it.
func (v *visit) leaveAt(phase string) {
	s := v.v.s
	s.t.Helper()
	before := s.metric("ghostline_cancelled_total", "phase", phase)
	switch phase {
	case "wait":
		s.eventually("it waits for the unit", func() bool { return s.arrived.count() > 0 })
	case "stream":
		<-v.begun
	}
	s.eventually("it is in the proxy", func() bool { return s.metric("ghostline_inflight") >= 1 })
	v.leave()
	s.wantMetric(before+1, "ghostline_cancelled_total", "phase", phase)
}

func timesFirstBytes(t *testing.T) {
	const first = 20 * time.Millisecond
	s := start(t, setup{model: modelserver.Options{FirstToken: first}})
	s.complete()
	labels := []string{"model", "ghost-code", "variant", "stable", "unit", "unit-1"}
	s.wantMetric(1, "ghostline_first_byte_seconds", labels...)
	s.wantMetric(1, "ghostline_upstream_first_byte_seconds", labels...)
	felt, unit := s.sum("ghostline_first_byte_seconds"), s.sum("ghostline_upstream_first_byte_seconds")
	if felt < unit || unit < first.Seconds() {
		t.Errorf("first byte after %gs, %gs of it at the unit, which takes %s", felt, unit, first)
	}
}

// measuresFirstBytes has an objective that no answer can miss, then one that none
// can meet, then none.
func measuresFirstBytes(t *testing.T) {
	under := func(limit time.Duration) func(*config.Config) {
		return func(c *config.Config) {
			c.Objectives.FirstByte = &config.FirstByteObjective{Percent: 99, Under: config.Duration(limit)}
		}
	}
	s := start(t, setup{config: under(10 * time.Minute), model: modelserver.Options{FirstToken: 20 * time.Millisecond}})
	labels := []string{"model", "ghost-code", "variant", "stable", "unit", "unit-1"}
	s.complete()
	s.wantMetric(1, "ghostline_first_byte_objective_total", append(labels, "result", "met")...)
	s.reconfigure(under(time.Millisecond))
	s.complete()
	s.wantMetric(1, "ghostline_first_byte_objective_total", append(labels, "result", "missed")...)
	s.reconfigure(func(c *config.Config) { c.Objectives.FirstByte = nil })
	s.complete()
	s.wantMetric(3, "ghostline_first_byte_seconds", labels...)
	s.wantMetric(2, "ghostline_first_byte_objective_total", labels...)
}

// comparesWithProvider has units report how long they worked.
func comparesWithProvider(t *testing.T) {
	reporting := func(ms ...string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Openai-Processing-Ms"] = ms
			says(whole("a"))(w, r)
		})
	}
	for name, tc := range map[string]struct {
		unit     http.Handler
		reported float64 // seconds; below 0 is nothing that counts
	}{
		"nothing":          {reporting(), -1},
		"no time at all":   {reporting("0"), 0},
		"a part of a ms":   {reporting("0.25"), 0.00025},
		"more than we saw": {reporting("590000"), 590},
		"below 0":          {reporting("-5"), -1},
		"no number":        {reporting("soon"), -1},
		"NaN":              {reporting("NaN"), -1},
		"more than a time": {reporting("1e300"), -1},
		"two times":        {reporting("1", "2"), -1},
		"a long number":    {reporting("1.00000000000000000000000000000000"), -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, setup{unit: tc.unit})
			s.complete()
			s.wantMetric(1, "ghostline_upstream_first_byte_seconds")
			count, want := 0.0, 0.0
			if tc.reported >= 0 {
				count, want = 1, max(0, s.sum("ghostline_upstream_first_byte_seconds")-tc.reported)
			}
			got := s.sum("ghostline_provider_gap_seconds", "model", "ghost-code", "variant", "stable", "unit", "unit-1")
			if n := s.metric("ghostline_provider_gap_seconds"); n != count || math.Abs(got-want) > 1e-6 {
				t.Errorf("%v gaps of %gs, want %v of %gs", n, got, count, want)
			}
		})
	}
	t.Run("the model server", func(t *testing.T) {
		const first = 20 * time.Millisecond
		s := start(t, setup{model: modelserver.Options{FirstToken: first}})
		s.complete()
		s.post("/v1/completions", unaryPrompt)
		s.wantMetric(2, "ghostline_provider_gap_seconds")
		gap, seen := s.sum("ghostline_provider_gap_seconds"), s.sum("ghostline_upstream_first_byte_seconds")
		if gap < 0 || gap > seen-2*first.Seconds()+1e-6 {
			t.Errorf("a gap of %gs of %gs, although the model worked for %s twice", gap, seen, first)
		}
	})
}

// timesItself has the model work and a client's body come late: neither is the
// proxy's doing.
func timesItself(t *testing.T) {
	const first = 20 * time.Millisecond
	s := start(t, setup{model: modelserver.Options{FirstToken: first}})
	v := s.visitor(leavers[0])
	slow := v.start(prompt, true)
	s.eventually("it is in the proxy", func() bool { return s.metric("ghostline_inflight") == 1 })
	s.complete()
	slow.upload.Close()
	<-slow.begun
	s.wantMetric(2, "ghostline_requests_total", "outcome", "ok")
	s.wantMetric(2, "ghostline_proxy_overhead_seconds")
	felt, unit := s.sum("ghostline_first_byte_seconds"), s.sum("ghostline_upstream_first_byte_seconds")
	got := s.sum("ghostline_proxy_overhead_seconds")
	// The late body waited for the whole of the other request, whose model worked.
	if duration := s.sum("ghostline_request_duration_seconds"); got <= 0 || got > duration-unit-first.Seconds() {
		t.Errorf("an overhead of %gs of %gs in all, %gs to the first bytes, %gs at the model and %s of waiting for a body", got, duration, felt, unit, first)
	}
}

func countsCancels(t *testing.T) {
	unit := newSwitched(http.HandlerFunc(never))
	s := start(t, setup{unit: unit})
	for _, phase := range []string{"receive", "wait", "stream"} {
		if phase == "stream" {
			unit.is(every(event(chunk(0, "a", "null")), ": wait\n\n"))
		}
		s.visitor(leavers[0]).start(prompt, phase == "receive").leaveAt(phase)
		s.wantMetric(1, "ghostline_cancelled_after_seconds", "phase", phase)
		told := 1.0
		if phase == "receive" {
			told = 0 // there is no unit to tell
		}
		lived, took := s.sum("ghostline_cancelled_after_seconds", "phase", phase), s.sum("ghostline_cancel_propagation_seconds", "phase", phase)
		if n := s.metric("ghostline_cancel_propagation_seconds", "phase", phase); n != told || took < 0 || took > lived || lived <= 0 {
			t.Errorf("%s: lived for %gs, %v were passed on, which took %gs", phase, lived, n, took)
		}
	}
	s.wantMetric(3, "ghostline_cancelled_total")
}

func countsTokens(t *testing.T) {
	s := start(t, setup{})
	s.complete()
	s.wantMetric(float64(s.model.Stats().Tokens), "ghostline_tokens_total", "kind", "completion")
	if got := s.metric("ghostline_tokens_total", "kind", "prompt"); got < 1 {
		t.Errorf("%v tokens of prompts", got)
	}
	silent := start(t, setup{unit: says(whole("a", "b", "c"))})
	silent.complete()
	silent.wantMetric(3, "ghostline_tokens_total", "kind", "unmetered")
	silent.wantMetric(3, "ghostline_tokens_total")
}

func countsInFlight(t *testing.T) {
	release := make(chan struct{})
	s := start(t, setup{unit: held(release)})
	s.visitor(leavers[0]).start(prompt, false)
	s.wantMetric(1, "ghostline_inflight")
	close(release)
	s.wantMetric(0, "ghostline_inflight")
}

func tellsUnitStates(t *testing.T) {
	full := answers(429, http.Header{"Retry-After": {"60"}}, "")
	s, units := cast(t, setup{}, full, says(whole("a")))
	s.wantState(units[0].name, "active")
	s.complete()
	s.wantState(units[0].name, "cooling")
	s.wantState(units[1].name, "active")
}

func countsAttempts(t *testing.T) {
	s, units := cast(t, setup{}, answers(429, http.Header{"Retry-After": {"60"}}, ""), says(whole("a")))
	s.complete()
	s.wantMetric(1, "ghostline_unit_attempts_total", "unit", units[0].name, "result", "refused")
	s.wantMetric(1, "ghostline_unit_attempts_total", "unit", units[1].name, "result", "ok")
	s.wantMetric(2, "ghostline_unit_attempts_total")
}

func countsProbes(t *testing.T) {
	s := start(t, setup{config: probing})
	s.probed("unit-1", "ok", 1)
}

func countsRetries(t *testing.T) {
	s, _ := cast(t, setup{}, answers(500, nil, ""), says(whole("a")))
	s.complete()
	s.wantMetric(1, "ghostline_retries_total", "result", "allowed")
	s.wantMetric(1, "ghostline_retries_total")
}

func countsClients(t *testing.T) {
	s := start(t, setup{})
	for _, tc := range []struct{ header, value, client, major string }{
		{"Editor-Plugin-Version", "copilot/1.300.0", "copilot", "1"},
		{"Editor-Plugin-Version", "ghostline/0.9.0-rc.1", "ghostline", "0"},
		{"Editor-Version", "JetBrains-IU/252.23892.409", "JetBrains", "other"},
		{"Editor-Plugin-Version", "ghostline-cli/0.3.1", "ghostline-cli", "0"},
		{"User-Agent", "OpenAI/Python 1.99.9", "OpenAI/Python", "1"},
		{"User-Agent", "mine/2.0", "other", "2"},
		{"User-Agent", "nonsense", "other", "other"},
	} {
		before := s.metric("ghostline_client_requests_total", "client", tc.client, "version_major", tc.major, "action", "allow")
		req := s.request(t.Context(), s.plainURL, "/v1/completions", prompt)
		req.Header.Set(tc.header, tc.value)
		s.do(s.h2c(), req)
		s.wantMetric(before+1, "ghostline_client_requests_total", "client", tc.client, "version_major", tc.major, "action", "allow")
	}
	s.wantMetric(7, "ghostline_client_requests_total")
}

func countsTokenChecks(t *testing.T) {
	s := start(t, setup{})
	good := s.token()
	expired := s.token(func(c *token.Claims) {
		c.IssuedAt, c.Expires = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	})
	for _, tc := range []struct{ authorization, result string }{
		{"Bearer " + good, "ok"}, {"Bearer " + good, "ok"}, {"", "missing"}, {"Bearer x", "invalid"}, {"Bearer " + expired, "expired"},
	} {
		before := s.metric("ghostline_auth_total", "result", tc.result)
		req := s.request(t.Context(), s.plainURL, "/v1/completions", prompt)
		req.Header.Del("Authorization")
		if tc.authorization != "" {
			req.Header.Set("Authorization", tc.authorization)
		}
		s.do(s.h2c(), req)
		s.wantMetric(before+1, "ghostline_auth_total", "result", tc.result)
	}
	s.wantMetric(1, "ghostline_token_cache_total", "result", "miss")
	s.wantMetric(1, "ghostline_token_cache_total", "result", "hit")
}

func tellsOfConfig(t *testing.T) {
	s := start(t, setup{})
	s.wantMetric(1, "ghostline_config_last_reload_successful")
	s.wantMetric(1, "ghostline_config_info", "hash", s.configHash())
	s.write("config.json", "{")
	s.wantMetric(0, "ghostline_config_last_reload_successful")
	s.writeConfig()
	s.wantMetric(1, "ghostline_config_last_reload_successful")
	first := s.configHash()
	s.reconfigure(func(c *config.Config) { c.Limits.InFlight = 77 })
	s.wantMetric(1, "ghostline_config_info", "hash", s.configHash())
	s.wantMetric(0, "ghostline_config_info", "hash", first)
	s.wantMetric(0, "ghostline_config_unknown_fields")
	s.write("config.json", s.configWith(`"novel":1`))
	s.wantMetric(1, "ghostline_config_unknown_fields")
}

func tellsObjectives(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		c.Objectives = config.Objectives{SuccessPercent: 99.9, FirstByte: &config.FirstByteObjective{Percent: 99, Under: config.Duration(300 * time.Millisecond)}}
	}})
	s.wantMetric(99.9, "ghostline_objective", "name", "success_percent")
	s.wantMetric(99, "ghostline_objective", "name", "first_byte_percent")
	s.wantMetric(0.3, "ghostline_objective", "name", "first_byte_seconds")
	s.reconfigure(func(c *config.Config) { c.Objectives.FirstByte = nil })
	if got := s.series("ghostline_objective"); len(got) != 1 {
		t.Errorf("%d objectives are told of, want the one that is left", len(got))
	}
}

func tellsOfRegion(t *testing.T) {
	s := start(t, setup{options: func(o *proxy.Options) { o.Proxies = 3 }})
	s.wantMetric(3, "ghostline_ready_proxies")
	s.wantMetric(1, "ghostline_region_up")
}

func tellsOfFetchedKeys(t *testing.T) {
	s := start(t, setup{})
	s.wantMetric(0, "ghostline_keys_last_fetch_timestamp_seconds")
	before := float64(time.Now().Unix())
	s = start(t, setup{before: startIssuer(t).trusted})
	first := s.metric("ghostline_keys_last_fetch_timestamp_seconds")
	if first < before {
		t.Errorf("fetched at %v, want %v or later", first, before)
	}
	// The issuer sends nothing anew, and that counts too.
	s.eventually("fetched again", func() bool { return s.metric("ghostline_keys_last_fetch_timestamp_seconds") > first })
}
