package feature

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/openai/openai-go/v3"
)

const tooOld = "This version of Ghostline is no longer served. Update it to 0.9.0 or later. „Bitte“ 更新"

// withClients is a stack with these rules.
func withClients(rules ...config.ClientRule) setup {
	return setup{config: func(c *config.Config) { c.Clients = rules }}
}

func upgrade(name, versions string) config.ClientRule {
	return config.ClientRule{Match: config.ClientMatch{Name: name, Versions: versions}, Action: config.ActionUpgrade, Message: tooOld}
}

func warn(name, versions, message string) config.ClientRule {
	return config.ClientRule{Match: config.ClientMatch{Name: name, Versions: versions}, Action: config.ActionWarn, Message: message}
}

func allow(name, versions string) config.ClientRule {
	return config.ClientRule{Match: config.ClientMatch{Name: name, Versions: versions}, Action: config.ActionAllow}
}

func dryRun(rule config.ClientRule) config.ClientRule {
	rule.DryRun = true
	return rule
}

// askAs asks for a completion, over h2, as a client that names itself in these
// headers: name, value, name, value.
func (s *stack) askAs(headers ...string) reply {
	s.t.Helper()
	req := s.request(s.t.Context(), s.tlsURL, "/v1/engines/copilot-codex/completions", prompt)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return s.do(s.h2(), req)
}

// asCopilot are the headers of Copilot in VS Code.
func asCopilot(plugin, editor string) []string {
	return []string{"Editor-Plugin-Version", "copilot/" + plugin, "Editor-Version", "vscode/" + editor,
		"Copilot-Language-Server-Version", "1.280.0", "User-Agent", "GithubCopilot/" + plugin}
}

// wantUpgrade checks what a client is told that is too old.
func (r reply) wantUpgrade(t *testing.T, message string) {
	t.Helper()
	if r.status != 466 || r.body != message || r.err != nil {
		t.Errorf("got %d %q, %v; want 466 and the message alone", r.status, r.body, r.err)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "X-Should-Retry": "false", "Content-Length": fmt.Sprint(len(message)),
		"Cache-Control": "no-store", "Retry-After": "", "X-Ghostline-Warning": "",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if id := r.header.Get("X-Request-Id"); id == "" || id != r.header.Get("X-GitHub-Request-Id") {
		t.Errorf("the request ids are %q and %q; want two alike", id, r.header.Get("X-GitHub-Request-Id"))
	}
}

// TestUpgrade is status 466 as each protocol's clients see it. No unit is asked.
func TestUpgrade(t *testing.T) {
	s, log := startLogged(t, withClients(upgrade("Copilot", "<1.300.0")))
	for name, how := range map[string]func() (*http.Client, string){
		"h2":  func() (*http.Client, string) { return s.h2(), s.tlsURL },
		"h2c": func() (*http.Client, string) { return s.h2c(), s.plainURL },
		"h1":  func() (*http.Client, string) { return s.h1(), s.plainURL },
	} {
		t.Run(name, func(t *testing.T) {
			client, base := how()
			for _, path := range []string{"/v1/engines/copilot-codex/completions", "/v1/completions", "/v1/fim/completions"} {
				req := s.request(t.Context(), base, path, prompt)
				req.Header.Set("Editor-Plugin-Version", "copilot/1.299.7")
				s.do(client, req).wantUpgrade(t, tooOld)
			}
			req := s.request(t.Context(), base, "/v1/completions", prompt)
			req.Header.Set("Editor-Plugin-Version", "copilot/1.300.0")
			s.wantWhole(s.do(client, req))
		})
	}
	s.wantArrivals(3)
	s.outcomes("upgrade", 9)
	s.outcomes("ok", 3)
	s.wantMetric(9, "ghostline_client_requests_total", "client", "copilot", "version_major", "1", "action", "upgrade")
	s.wantMetric(3, "ghostline_client_requests_total", "client", "copilot", "version_major", "1", "action", "allow")
	s.eventually("all lines are written", func() bool { return len(accessLines(t, log)) == 12 })
	for _, line := range accessLines(t, log) {
		refused := map[string]any{"status": 466.0, "code": "client_too_old", "client_action": "upgrade", "subject": "subject-1", "unit": nil}
		if line["outcome"] == "ok" {
			refused = map[string]any{"status": 200.0, "code": nil, "client_action": nil, "unit": "unit-1"}
		}
		for field, want := range refused {
			if line[field] != want {
				t.Errorf("%s is %v in %v, want %v", field, line[field], line, want)
			}
		}
	}
}

// TestUpgradeComesBeforeTheBody: the body of a request that is refused is not
// waited for.
func TestUpgradeComesBeforeTheBody(t *testing.T) {
	s := start(t, withClients(upgrade("copilot", "")))
	for name, how := range map[string]func() (*http.Client, string){
		"h2": func() (*http.Client, string) { return s.h2(), s.tlsURL },
		"h1": func() (*http.Client, string) { return s.h1(), s.plainURL },
	} {
		t.Run(name, func(t *testing.T) {
			client, base := how()
			req := s.request(t.Context(), base, "/v1/completions", "")
			body, upload := io.Pipe()
			defer upload.Close()
			req.Body, req.GetBody, req.ContentLength = body, nil, -1
			req.Header.Set("Editor-Plugin-Version", "copilot/1.0")
			s.do(client, req).wantUpgrade(t, tooOld)
		})
	}
	s.wantArrivals(0)
}

// TestStrangersMeetNoRules: who has no valid token learns nothing of the rules,
// and does not count.
func TestStrangersMeetNoRules(t *testing.T) {
	s := start(t, withClients(upgrade("copilot", "")))
	req := s.request(t.Context(), s.tlsURL, "/v1/completions", prompt)
	req.Header.Set("Authorization", "Bearer bad")
	req.Header.Set("Editor-Plugin-Version", "copilot/1.0")
	s.do(s.h2(), req).wantError(t, http.StatusUnauthorized, "invalid_token")
	s.outcomes("denied", 1)
	s.wantMetric(0, "ghostline_client_requests_total")
}

// TestRulesAreForCompletions: an old client still lists models and tells feedback.
func TestRulesAreForCompletions(t *testing.T) {
	s := start(t, withClients(upgrade("copilot", "")))
	for _, tc := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodGet, "/v1/models", "", http.StatusOK},
		{http.MethodPost, "/v1/feedback", `{"request_id":"r","event":"shown","model":"ghost-code","variant":"stable"}`, http.StatusNoContent},
	} {
		req := s.request(t.Context(), s.tlsURL, tc.path, tc.body)
		req.Method = tc.method
		req.Header.Set("Editor-Plugin-Version", "copilot/1.0")
		if got := s.do(s.h2(), req); got.status != tc.status {
			t.Errorf("%s: %d %.200q, want %d", tc.path, got.status, got.body, tc.status)
		}
	}
	s.wantMetric(0, "ghostline_client_requests_total")
}

// TestRuleDoesNotBlockNewerPreReleases: a rule against old versions once shut out
// the testers of the next one, because semver puts 0.9.0-rc.1 before 0.9.0
// (sourcegraph/cody issue 7429).
func TestRuleDoesNotBlockNewerPreReleases(t *testing.T) {
	s := start(t, withClients(upgrade("copilot", "<0.9.0"), upgrade("ghostline", "<0.9.0-rc.2")))
	for _, tc := range []struct {
		client  string
		refused bool
	}{
		{"copilot/0.9.0-rc.1", false},
		{"copilot/0.9.0-nightly.20241130", false},
		{"copilot/0.9.0-243", false},
		{"copilot/0.10.0-alpha", false},
		{"copilot/1.300.0-insider", false},
		{"copilot/0.9.0.1", false},
		{"copilot/0.8.9-rc.1", true},
		{"copilot/0.8.99", true},
		{"ghostline/0.9.0-rc.1", true}, // the range says so
		{"ghostline/0.9.0-rc.2", false},
	} {
		got := s.askAs("Editor-Plugin-Version", tc.client)
		if tc.refused {
			got.wantUpgrade(t, tooOld)
		} else {
			s.wantWhole(got)
		}
	}
}

// TestUnknownVersionsPass: a rule once shut out clients whose user agent it could
// not read (codex-proxy-rs issue 129). They are served and counted.
func TestUnknownVersionsPass(t *testing.T) {
	s := start(t, withClients(upgrade("copilot", "<1.300.0"), upgrade("mine", ">=0")))
	for _, tc := range []struct{ header, value, client string }{
		{"Editor-Plugin-Version", "copilot/nightly", "copilot"},
		{"Editor-Plugin-Version", "copilot/0fc3a21", "copilot"},
		{"Editor-Plugin-Version", "copilot/", "copilot"},
		{"Editor-Plugin-Version", "copilot/99999999999999999999.1", "copilot"},
		{"Editor-Plugin-Version", "mine/unknown", "mine"},
		{"Editor-Plugin-Version", "copilot", "other"},
		{"Editor-Plugin-Version", "copilot 1.0", "other"},
		{"User-Agent", "", "other"},
		{"User-Agent", "Mozilla (copilot/1.0)", "other"},
		{"User-Agent", strings.Repeat("a/1", 100), "other"},
	} {
		before := s.metric("ghostline_client_requests_total", "client", tc.client, "version_major", "other", "action", "allow")
		s.wantWhole(s.askAs(tc.header, tc.value))
		if tc.header == "User-Agent" || tc.client != "other" { // else Go's own user agent is known
			s.wantMetric(before+1, "ghostline_client_requests_total", "client", tc.client, "version_major", "other", "action", "allow")
		}
	}
	s.wantMetric(10, "ghostline_client_requests_total")
	s.outcomes("ok", 10)
}

// TestRuleForAnyVersion is for a client whose version cannot be read too.
func TestRuleForAnyVersion(t *testing.T) {
	s := start(t, withClients(upgrade("copilot", "")))
	s.askAs("Editor-Plugin-Version", "copilot/nightly").wantUpgrade(t, tooOld)
}

// TestFirstRuleCounts: rules are asked in their order, each for all that a request
// names; what counts shows the client that the rule is for.
func TestFirstRuleCounts(t *testing.T) {
	s := start(t, withClients(
		allow("vscode", "1.97.0"),
		upgrade("VSCode", "<1.98"),
		warn("copilot", "<1.290", "first"),
		warn("copilot", "<1.300", "second"),
		upgrade("copilot-language-server", "<1.280.0"),
	))
	for _, tc := range []struct {
		plugin, editor string
		warning        string // "466" is none
		client, action string
	}{
		{"1.280.0", "1.96.0", "466", "vscode", "upgrade"},
		{"1.280.0", "1.97.0", "", "vscode", "allow"},
		{"1.280.0", "1.98.0", "first", "copilot", "warn"},
		{"1.295.0", "1.98.0", "second", "copilot", "warn"},
		{"1.300.0", "1.98.0", "", "copilot", "allow"},
	} {
		before := s.metric("ghostline_client_requests_total", "client", tc.client, "action", tc.action)
		got := s.askAs(asCopilot(tc.plugin, tc.editor)...)
		if tc.warning == "466" {
			got.wantUpgrade(t, tooOld)
		} else if s.wantWhole(got); got.header.Get("X-Ghostline-Warning") != tc.warning {
			t.Errorf("copilot %s in vscode %s: warned %q, want %q", tc.plugin, tc.editor, got.header.Get("X-Ghostline-Warning"), tc.warning)
		}
		s.wantMetric(before+1, "ghostline_client_requests_total", "client", tc.client, "action", tc.action)
	}
	s.askAs("Copilot-Language-Server-Version", "1.279.9").wantUpgrade(t, tooOld)
	s.askAs("Copilot-Language-Server-Version", "1.279.9", "Editor-Plugin-Version", "copilot/nightly").wantUpgrade(t, tooOld)
	s.wantMetric(2, "ghostline_client_requests_total", "client", "copilot-language-server", "version_major", "1", "action", "upgrade")
	s.wantMetric(7, "ghostline_client_requests_total")
}

// TestDryRunDoesNothing but count what it would do; what follows it still holds.
func TestDryRunDoesNothing(t *testing.T) {
	s, log := startLogged(t, withClients(
		dryRun(upgrade("copilot", "<1.290")),
		dryRun(warn("copilot", "<1.300", "not shown")),
		warn("vscode", "<1.98", "shown"),
	))
	for i, tc := range []struct{ plugin, editor, warning, dryRun, action string }{
		{"1.280.0", "1.99.0", "", "upgrade_dry_run", ""},
		{"1.295.0", "1.99.0", "", "warn_dry_run", ""},
		{"1.280.0", "1.97.0", "shown", "upgrade_dry_run", "warn"},
		{"1.300.0", "1.99.0", "", "", ""},
	} {
		got := s.askAs(asCopilot(tc.plugin, tc.editor)...)
		if s.wantWhole(got); got.header.Get("X-Ghostline-Warning") != tc.warning {
			t.Errorf("copilot %s in vscode %s: warned %q, want %q", tc.plugin, tc.editor, got.header.Get("X-Ghostline-Warning"), tc.warning)
		}
		s.eventually("the line is written", func() bool { return len(accessLines(t, log)) == i+1 })
		line := accessLines(t, log)[i]
		said := func(field string) string { text, _ := line[field].(string); return text }
		if said("client_dry_run") != tc.dryRun || said("client_action") != tc.action || said("client") != "copilot" {
			t.Errorf("the access log has %v; want the dry run %q and the action %q", line, tc.dryRun, tc.action)
		}
	}
	s.outcomes("ok", 4)
	for action, want := range map[string]float64{"upgrade_dry_run": 2, "warn_dry_run": 1, "warn": 1, "allow": 3, "upgrade": 0} {
		s.wantMetric(want, "ghostline_client_requests_total", "version_major", "1", "action", action)
	}
}

// TestWarnComesWithEveryAnswer, errors too: whatever is wrong, an update may mend it.
func TestWarnComesWithEveryAnswer(t *testing.T) {
	const message = "Copilot 1.299 will not be served from January on."
	unit := newSwitched(says(whole("a")))
	s := start(t, setup{unit: unit, config: func(c *config.Config) { c.Clients = []config.ClientRule{warn("copilot", "", message)} }})
	for name, tc := range map[string]struct {
		unit   http.Handler
		body   string
		status int
	}{
		"a stream":               {says(whole("a")), prompt, http.StatusOK},
		"a refusal by the proxy": {says(whole("a")), `{"model":"ghost-code"}`, http.StatusBadRequest},
		"a refusal by the unit":  {answers(400, jsonHeader(), providerError("max_tokens", "")), prompt, http.StatusBadRequest},
		"a unit that fails":      {answers(500, nil, ""), prompt, http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			unit.is(tc.unit)
			req := s.request(t.Context(), s.tlsURL, "/v1/completions", tc.body)
			req.Header.Set("Editor-Plugin-Version", "copilot/1.299.0")
			got := s.do(s.h2(), req)
			if got.status != tc.status || got.header.Get("X-Ghostline-Warning") != message {
				t.Errorf("got %d, warned %q; want %d and the message", got.status, got.header.Get("X-Ghostline-Warning"), tc.status)
			}
		})
	}
	if got := s.askAs("Editor-Plugin-Version", "copilot.vim/1.0"); got.header.Get("X-Ghostline-Warning") != "" {
		t.Error("another client is warned too")
	}
}

// TestRulesAreReloaded: the next request follows the new ones, on the connection
// that the client has; the series of a client that no rule names any more go away.
func TestRulesAreReloaded(t *testing.T) {
	s := start(t, setup{})
	client := s.h2()
	ask := func(name string) reply {
		t.Helper()
		req := s.request(t.Context(), s.tlsURL, "/v1/completions", prompt)
		req.Header.Set("Editor-Plugin-Version", name+"/0.8.0")
		return s.do(client, req)
	}
	series := func(labels ...string) (n int) {
		for _, m := range s.series("ghostline_client_requests_total") {
			if hasLabels(m, labels) {
				n++
			}
		}
		return n
	}
	s.wantWhole(ask("Mine"))
	s.wantMetric(1, "ghostline_client_requests_total", "client", "other", "version_major", "0")
	for i := range 5 {
		name := fmt.Sprintf("mine-%d", i)
		s.reconfigure(func(c *config.Config) { c.Clients = []config.ClientRule{upgrade(name, "<0.9.0")} })
		ask(name).wantUpgrade(t, tooOld)
		s.wantMetric(1, "ghostline_client_requests_total", "client", name, "version_major", "0", "action", "upgrade")
		s.wantWhole(ask("Mine"))
	}
	s.reconfigure(func(c *config.Config) { c.Clients[0].DryRun = true })
	s.wantWhole(ask("mine-4"))
	s.wantMetric(1, "ghostline_client_requests_total", "client", "mine-4", "action", "upgrade") // it has stayed
	s.reconfigure(func(c *config.Config) { c.Clients = nil })
	s.wantWhole(ask("mine-4"))
	for i := range 5 {
		name := fmt.Sprintf("mine-%d", i)
		s.eventually("no series of "+name+" is left", func() bool { return series("client", name) == 0 })
	}
	good := s.configHash()
	s.reconfigureWrongly(func(c *config.Config) { c.Clients = []config.ClientRule{upgrade("mine", "old")} })
	s.wantLog(`clients[0].match.versions: \"old\" is no range of versions`)
	s.wantWhole(ask("mine"))
	if !strings.Contains(s.admin("/statusz"), good) {
		t.Error("the last good config is not in use any more")
	}
}

// reconfigureWrongly writes a config and waits until it is refused.
func (s *stack) reconfigureWrongly(change func(*config.Config)) {
	s.t.Helper()
	change(&s.config)
	s.writeConfig()
	s.reloaded(false)
}

// TestOpenAISDKIsToldToUpdate: an SDK, which expects errors in JSON, has the status
// and does not try again.
func TestOpenAISDKIsToldToUpdate(t *testing.T) {
	s := start(t, withClients(upgrade("OpenAI/Go", "")))
	c := newSDK(s, s.token())
	var told []string
	c.answer = func(resp *http.Response) { told = append(told, resp.Status, resp.Header.Get("X-Should-Retry")) }
	_, err := c.Completions.New(t.Context(), sdkRequest(8))
	t.Logf("the SDK says: %v", err)
	var refusal *openai.Error
	if !errors.As(err, &refusal) || refusal.StatusCode != 466 || c.sent.Load() != 1 {
		t.Errorf("got %v after %d requests, told %q; want status 466 after one", err, c.sent.Load(), told)
	}
	s.outcomes("upgrade", 1)
}
