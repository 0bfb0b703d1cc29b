package tokenissuer

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const goodGitHub = `
issuer: https://tokens.example.com
audiences: [completions.example.com]
keys: {directory: keys}
identityProviders:
- name: github
  type: GitHub
  timeout: 3s
  inFlight: 8
  cache: {life: 30m, stale: 12h, negative: 10s, entries: 1000}
  github: {url: "https://github.example.com", clientID: Iv1.8a61f9b3a7aba766, clientSecretFile: secret, organizations: [Acme], teams: [acme/Platform], caFile: ca.crt}
`

func TestLoadGitHubConfig(t *testing.T) {
	file := writeConfig(t, goodGitHub)
	c, err := LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(file)
	want := ProviderConfig{
		Name: "github", Type: ProviderGitHub, Timeout: Duration(3 * time.Second), InFlight: 8,
		Cache: CacheConfig{Life: Duration(30 * time.Minute), Stale: Duration(12 * time.Hour), Negative: Duration(10 * time.Second), Entries: 1000},
		GitHub: &GitHubConfig{
			URL: "https://github.example.com", ClientID: "Iv1.8a61f9b3a7aba766", ClientSecretFile: filepath.Join(dir, "secret"),
			Organizations: []string{"Acme"}, Teams: Teams{"acme/Platform"}, CAFile: filepath.Join(dir, "ca.crt"),
		},
	}
	if diff := cmp.Diff(want, c.IdentityProviders[0]); diff != "" {
		t.Errorf("provider (-want +got):\n%s", diff)
	}
	for teams, want := range map[string]Teams{"true": {"*"}, "false": nil, "[]": {}} {
		c, err := LoadConfig(writeConfig(t, strings.Replace(strings.Replace(goodGitHub, "[acme/Platform]", teams, 1), ", caFile: ca.crt", "", 1)))
		if err != nil || !cmp.Equal(c.IdentityProviders[0].GitHub.Teams, want) || c.IdentityProviders[0].GitHub.CAFile != "" {
			t.Errorf("teams: %s is %+v, %v", teams, c.IdentityProviders, err)
		}
	}
}

func TestGitHubConfigMistakes(t *testing.T) {
	const field = "identityProviders[0]."
	for _, tc := range []struct{ old, new, want string }{
		{"  github: {", "  static: {file: x}\n  xgithub: {", `unknown field "identityProviders[0].xgithub"`},
		{"clientSecretFile", "clientSecret", `unknown field "identityProviders[0].github.clientSecret"`},
		{"clientSecretFile: secret, ", "", field + "github.clientSecretFile: it is missing"},
		{"Iv1.8a61f9b3a7aba766", "''", field + "github.clientID: it must be the client ID"},
		{"Iv1.8a61f9b3a7aba766", "a/b", field + "github.clientID: it must be the client ID"},
		{"https://github.example.com", "http://github.example.com", field + "github.url: it must be an https URL"},
		{"https://github.example.com", "https://github.example.com/api/v3", field + "github.url: it must end with the host"},
		{"https://github.example.com", "https://api.github.com", field + "github.url: it is the API's; it must be the one that people see"},
		{"[Acme]", "[acme/platform]", field + "github.organizations[0]: it must be a name"},
		{"[Acme]", "[" + strings.Repeat("a,", 65) + "]", field + "github.organizations: there are 65, more than 64"},
		{"[Acme]", "[]", field + "github.teams: organizations must list"},
		{"[acme/Platform]", "[platform]", field + "github.teams[0]: it must be ORGANIZATION/SLUG"},
		{"[acme/Platform]", "[acme/a, umbrella/b]", field + `github.teams[1]: organizations does not list "umbrella"`},
		{"[acme/Platform]", "[acme/a, '*']", field + "github.teams[1]: it must be"},
		{"[acme/Platform]", "['*', acme/a]", field + "github.teams[0]: it must be"},
		{"[acme/Platform]", "[" + strings.Repeat("acme/a,", 257) + "]", field + "github.teams: there are 257, more than 256"},
		{"[acme/Platform]", "all", "teams: is a value; it must be a list"},
		{"timeout: 3s", "timeout: 99ms", field + "timeout: 99ms is not between 100ms and 30s"},
		{"timeout: 3s", "timeout: 31s", field + "timeout: 31s is not between"},
		{"inFlight: 8", "inFlight: -1", field + "inFlight: -1 is not between 1 and 1000"},
		{"inFlight: 8", "inFlight: 1001", field + "inFlight: 1001 is not between"},
		{"life: 30m", "life: 59s", field + "cache.life: 59s is not between 1m0s and 24h0m0s"},
		{"life: 30m", "life: 25h", field + "cache.life: 25h0m0s is not between"},
		{"stale: 12h", "stale: 29m", field + "cache.stale: 29m0s is not between 30m0s and 168h0m0s"},
		{"life: 30m, stale: 12h", "stale: 59m", field + "cache.stale: 59m0s is not between 1h0m0s and"},
		{"stale: 12h", "stale: 169h", field + "cache.stale: 169h0m0s is not between"},
		{"negative: 10s", "negative: 999ms", field + "cache.negative: 999ms is not between 1s and 10m0s"},
		{"negative: 10s", "negative: -1s", field + "cache.negative: -1s is not between"},
		{"entries: 1000", "entries: 10000001", field + "cache.entries: 10000001 is not between 1 and 10000000"},
		{"name: github", "name: 'git:hub'", field + "name: it must be at most 63 letters"},
		{"type: GitHub", "type: github", field + `type: "github" is not known; it must be`},
		{"type: GitHub", "type: Static\n  static: {file: x}", field[:len(field)-1] + ": a provider of type Static is never waited for"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			if !strings.Contains(goodGitHub, tc.old) {
				t.Fatalf("the good configuration has no %q", tc.old)
			}
			_, err := LoadConfig(writeConfig(t, strings.Replace(goodGitHub, tc.old, tc.new, 1)))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestGitHubURLs(t *testing.T) {
	for url, want := range map[string]string{
		"": "https://api.github.com", "https://github.com": "https://api.github.com", "https://GitHub.com": "https://api.GitHub.com",
		"https://acme.ghe.com": "https://api.acme.ghe.com", "https://github.example.com": "https://github.example.com/api/v3",
		"https://github.com.example.com": "https://github.com.example.com/api/v3", "http://127.0.0.1:8080": "http://127.0.0.1:8080/api/v3",
		"https://evilghe.com": "https://evilghe.com/api/v3",
	} {
		if got := (&GitHubConfig{URL: url}).api(); got != want {
			t.Errorf("the API of %q is at %q, want %q", url, got, want)
		}
	}
}
