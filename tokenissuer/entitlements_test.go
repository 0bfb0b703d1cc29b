package tokenissuer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

const (
	allowUser = "{name: users, match: {subjects: [u-1]}, allow: {models: [ghost-code, other], tier: gold, tokenLife: 10m}}"
	denyUser  = "{name: gone, match: {subjects: [u-1]}, deny: {message: You have left.}}"
)

// writeRules writes an entitlements file as a mount does, at once.
func writeRules(t testing.TB, file string, rules ...string) {
	t.Helper()
	content := "rules: [" + strings.Join(rules, ", ") + "]"
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// withRules is an issuer that has such rules, and their file.
func withRules(t testing.TB, rules ...string) (*issuer, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "entitlements.yaml")
	writeRules(t, file, rules...)
	return newIssuer(t, func(c *Config) { c.Entitlements = &EntitlementsConfig{File: file} }), file
}

func TestEntitled(t *testing.T) {
	i, _ := withRules(t, allowUser)
	answer := i.do(post(goodForm().Encode()))
	wantAnswer(t, answer, http.StatusOK, "no-store", "application/json")
	var got oauthGrant
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	claims := i.verify(t, got.AccessToken, testAudience)
	if claims.Tier != "gold" || !cmp.Equal(claims.Models, []string{"ghost-code"}) || got.ExpiresIn != 600 || claims.Expires.Sub(claims.IssuedAt) != 10*time.Minute {
		t.Errorf("good for %d s, claims %+v", got.ExpiresIn, claims)
	}
	wantRefresh(t, got.RefreshIn, 600)
	if line := i.auditLine(t); line["rule"] != "users" || line["result"] != "granted" {
		t.Errorf("audit line %v", line)
	}
	i.wantDecisions(t, "allowed", 1)
}

func (i *issuer) wantDecisions(t *testing.T, decision string, want float64) {
	t.Helper()
	if got := testutil.ToFloat64(i.entitlements.decisions.WithLabelValues("local", decision)); got != want {
		t.Errorf("%v decisions %s, want %v", got, decision, want)
	}
}

func TestNotEntitled(t *testing.T) {
	for _, tc := range []struct{ name, rules, rule, decision, message string }{
		{"denied", allowUser + ", " + denyUser, "gone", "denied", "You have left."},
		{"no rule", "{name: others, match: {subjects: [u-2]}, allow: {}}", "", "no_rule", "no rule of this service allows you to use it; ask whoever runs it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i, _ := withRules(t, tc.rules)
			answer := i.do(post(goodForm().Encode()))
			wantOAuthError(t, answer, http.StatusBadRequest, "invalid_request")
			if body := answer.Body.String(); !strings.Contains(body, tc.message) || !strings.Contains(body, `"reason":"denied"`) {
				t.Errorf("answer %s", body)
			}
			line := i.auditLine(t)
			for name, want := range map[string]string{"result": "denied", "provider": "local", "subject": "u-1", "client_id": "editor",
				"identity": "asked", "rule": tc.rule, "reason": tc.message, "address": "192.0.2.1"} {
				if line[name] != want {
					t.Errorf("%s is %q in the audit line, want %q", name, line[name], want)
				}
			}
			answer = i.do(askCopilot("token " + testCredential))
			wantAnswer(t, answer, http.StatusForbidden, "no-store", "application/json")
			var got copilotRefusal
			if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || got.Details.Message != tc.message || got.Details.URL != testIssuer {
				t.Errorf("answer %s: %v", answer.Body, err)
			}
			i.wantDecisions(t, tc.decision, 2)
		})
	}
}

// TestDenialOfACachedIdentity: that an identity is remembered does not keep a denial from
// holding at once, nor does an outage of the provider.
func TestDenialOfACachedIdentity(t *testing.T) {
	i, file := withRules(t, allowUser)
	var out atomic.Bool
	cached := identity.NewCached(provider{"local", func(context.Context, identity.Credential) (identity.Identity, error) {
		if out.Load() {
			return identity.Identity{}, errors.New("connection refused")
		}
		return identity.Identity{Subject: "u-1", ClientID: "editor"}, nil
	}}, identity.CacheOptions{Life: time.Nanosecond})
	defer func() { _ = cached.Close() }()
	i.providers = []identity.Provider{cached}
	i.wantSource(t, http.StatusOK, "asked")
	out.Store(true)
	i.wantSource(t, http.StatusOK, "stale")
	writeRules(t, file, allowUser, denyUser)
	i.entitlements.reload()
	i.wantSource(t, http.StatusForbidden, "stale")
}

func (i *issuer) wantSource(t *testing.T, status int, source string) {
	t.Helper()
	i.log.Reset()
	answer := i.do(askCopilot("token " + testCredential))
	if line := i.auditLine(t); answer.Code != status || line["identity"] != source {
		t.Errorf("status %d, audit line %v; want %d and an identity that is %s", answer.Code, line, status, source)
	}
}

func TestCachedIdentityIsSaidToBe(t *testing.T) {
	i := newIssuer(t)
	cached := identity.NewCached(answering("local", identity.Identity{Subject: "u-1", ClientID: "c"}, nil), identity.CacheOptions{})
	defer func() { _ = cached.Close() }()
	i.providers = []identity.Provider{cached}
	i.wantSource(t, http.StatusOK, "asked")
	i.wantSource(t, http.StatusOK, "cached")
}

func TestRefusedRulesLeaveTheLastGood(t *testing.T) {
	i, file := withRules(t, allowUser)
	ask := func(want int) {
		t.Helper()
		if got := i.do(askCopilot("token " + testCredential)).Code; got != want {
			t.Errorf("status %d, want %d", got, want)
		}
	}
	reload := func(successful float64, lines int, says string) {
		t.Helper()
		i.log.Reset()
		i.entitlements.reload()
		i.entitlements.reload() // what is known is not said again
		if got := testutil.ToFloat64(i.entitlements.successful); got != successful {
			t.Errorf("the reload is said to be %v, want %v", got, successful)
		}
		if got := i.log.String(); strings.Count(got, "\n") != lines || !strings.Contains(got, says) {
			t.Errorf("log %q, want %d lines with %q", got, lines, says)
		}
	}
	reload(1, 0, "")
	for text, says := range map[string]string{
		"{name: users}":                        "rules[0].match: it has no condition",
		"{name: all, match: {everyone: true}}": "rules[0].match.everyone",
		"{name: x, match: {providers: [locale]}, deny: {message: m}}": `\"locale\" is no identity provider of this issuer; there are: local`,
	} {
		writeRules(t, file, text)
		reload(0, 1, says)
		ask(http.StatusOK)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	reload(0, 1, "no such file")
	ask(http.StatusOK)
	writeRules(t, file, allowUser)
	reload(1, 1, "entitlements are in use")
	writeRules(t, file, denyUser)
	reload(1, 1, "entitlements are in use")
	ask(http.StatusForbidden)
}

func TestIssuerDoesNotStartWithBadRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "entitlements.yaml")
	for _, rules := range []string{"{}", "{name: x, match: {providers: [locale]}, allow: {}}", ""} {
		if rules != "" {
			writeRules(t, file, rules)
		} else if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		config := testConfig(t)
		config.Entitlements = &EntitlementsConfig{File: file}
		if _, err := open(t.Context(), Options{Config: config, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}); err == nil || !strings.Contains(err.Error(), "entitlements") {
			t.Errorf("rules %q: error %v", rules, err)
		}
	}
}

// TestEntitlementsAreWatched is a running issuer whose file changes.
func TestEntitlementsAreWatched(t *testing.T) {
	config := testConfig(t)
	config.Entitlements = &EntitlementsConfig{File: filepath.Join(t.TempDir(), "entitlements.yaml")}
	unlimited(&config)
	writeRules(t, config.Entitlements.File, allowUser)
	r := start(t, config)
	status := func() int {
		response, err := r.client.PostForm(r.tls+pathOAuth, goodForm())
		if err != nil {
			t.Fatal(err)
		}
		body(t, response)
		return response.StatusCode
	}
	if got := status(); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	writeRules(t, config.Entitlements.File, denyUser)
	for deadline := time.Now().Add(20 * time.Second); status() != http.StatusBadRequest; {
		if time.Now().After(deadline) {
			t.Fatal("the denial does not come into force")
		}
	}
}

func TestReadyTellsOfOutages(t *testing.T) {
	i := newIssuer(t)
	var out atomic.Bool
	cached := identity.NewCached(provider{"hub", func(context.Context, identity.Credential) (identity.Identity, error) {
		if out.Load() {
			return identity.Identity{}, &identity.OutageError{Cause: errors.New("connection refused"), RetryAfter: time.Minute}
		}
		return identity.Identity{Subject: "hub:1", ClientID: "c"}, nil
	}}, identity.CacheOptions{})
	defer func() { _ = cached.Close() }()
	i.providers = append(i.providers, cached)
	want := func(text string) {
		t.Helper()
		answer := httptest.NewRecorder()
		i.adminHandler(prometheus.NewRegistry()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if answer.Code != http.StatusOK || answer.Body.String() != text {
			t.Errorf("ready: %d %q, want %q", answer.Code, answer.Body, text)
		}
	}
	i.do(askCopilot("token known"))
	want("ok\nprovider local: ok\nprovider hub: ok\n")
	out.Store(true)
	if got := i.do(askCopilot("token new")).Code; got != http.StatusServiceUnavailable {
		t.Errorf("status %d of a new credential", got)
	}
	want("ok\nprovider local: ok\nprovider hub: out; only identities that are remembered get tokens\n")
	if got := i.do(askCopilot("token known")).Code; got != http.StatusOK {
		t.Errorf("status %d of a known credential", got)
	}
}
