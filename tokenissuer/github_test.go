package tokenissuer

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/test/strict"
	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// newGitHubIssuer is an issuer whose only provider is a GitHub, with octocat in it.
func newGitHubIssuer(t *testing.T) (*issuer, *strict.GitHub) {
	t.Helper()
	hub := strict.NewGitHub(strict.GitHubOptions{EnterpriseServer: true, Quota: 5000})
	hub.AddUser(strict.GitHubUser{Login: "octocat", ID: 583231})
	server := httptest.NewServer(hub)
	t.Cleanup(server.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("client-secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, violation := range hub.Violations() {
			t.Errorf("GitHub's documentation does not allow %s", violation)
		}
	})
	return newIssuer(t, func(c *Config) {
		c.IdentityProviders = []ProviderConfig{{Name: "github", Type: ProviderGitHub, GitHub: &GitHubConfig{
			URL: server.URL, ClientID: "Iv1.8a61f9b3a7aba766", ClientSecretFile: secret,
		}}}
	}), hub
}

func TestGitHubExchange(t *testing.T) {
	i, hub := newGitHubIssuer(t)
	token := hub.AddToken(strict.GitHubToken{Login: "octocat"})
	for range 2 {
		answer := i.do(askCopilot("token " + token))
		if answer.Code != http.StatusOK {
			t.Fatalf("status %d: %s", answer.Code, answer.Body)
		}
	}
	if got := strings.Count(i.log.String(), `"subject":"github:583231"`); got != 2 || strings.Contains(i.log.String(), token) {
		t.Errorf("audit lines: %s", i.log)
	}
	m := i.metrics.providers
	for name, tc := range map[string]struct{ got, want float64 }{
		"cache asked": {testutil.ToFloat64(m.cache.WithLabelValues("github", string(identity.CacheAsked))), 1},
		"cache hit":   {testutil.ToFloat64(m.cache.WithLabelValues("github", string(identity.CacheHit))), 1},
		"quota":       {testutil.ToFloat64(m.quota.WithLabelValues("github")), 4999},
		"up":          {testutil.ToFloat64(m.up.WithLabelValues("github")), 1},
		"lookups":     {float64(testutil.CollectAndCount(m.lookups)), 1},
	} {
		if tc.got != tc.want {
			t.Errorf("%s is %v, want %v", name, tc.got, tc.want)
		}
	}
}

// TestGitHubRefusals: a denial tells the operator why, an outage is none, and neither
// shows the token.
func TestGitHubRefusals(t *testing.T) {
	i, hub := newGitHubIssuer(t)
	hub.AddUser(strict.GitHubUser{Login: "banned", Suspended: true})
	token := hub.AddToken(strict.GitHubToken{Login: "banned"})
	if answer := i.do(askCopilot("token " + token)); answer.Code != http.StatusForbidden {
		t.Errorf("status %d: %s", answer.Code, answer.Body)
	}
	if !strings.Contains(i.log.String(), "the account is suspended") || strings.Contains(i.log.String(), token) {
		t.Errorf("audit line: %s", i.log)
	}
	hub.Fail(strict.GitHubFault{Status: 503})
	for range 4 {
		i.log.Reset()
		token := hub.AddToken(strict.GitHubToken{Login: "octocat"})
		answer := i.do(askCopilot("token " + token))
		if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
			t.Errorf("status %d: %s", answer.Code, answer.Body)
		}
		if !strings.Contains(i.log.String(), "status 503, is an outage") || strings.Contains(i.log.String(), token) {
			t.Errorf("audit line: %s", i.log)
		}
	}
	if up := testutil.ToFloat64(i.metrics.providers.up.WithLabelValues("github")); up != 0 {
		t.Errorf("the provider is up: %v", up)
	}
	if calls := hub.Count("/applications/Iv1.8a61f9b3a7aba766/token"); calls != 4 {
		t.Errorf("GitHub was asked %d times, want 1 and 3", calls)
	}
}
