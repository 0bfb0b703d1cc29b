package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/test/strict"
	"github.com/google/go-cmp/cmp"
)

const strictClient, strictSecret = "Iv1.8a61f9b3a7aba766", "client-secret"

// strictHub is a GitHub with octocat in it, and a provider that asks it. What of the
// requests the documentation does not allow is an error at the test's end.
type strictHub struct {
	fake     *strict.GitHub
	provider *GitHub
	url      string
	token    string // octocat's, with the scope that our login asks for
}

func newStrictHub(t *testing.T, o strict.GitHubOptions, change func(*GitHubOptions)) *strictHub {
	t.Helper()
	fake := strict.NewGitHub(o)
	fake.AddUser(strict.GitHubUser{Login: "octocat", ID: 583231})
	for _, org := range []string{"Acme", "Umbrella", "initech"} {
		fake.AddOrg(strict.GitHubOrg{Login: org})
	}
	fake.Join("octocat", "acme", strict.GitHubMember{})
	fake.Join("octocat", "umbrella", strict.GitHubMember{State: "pending"})
	fake.AddTeam(strict.GitHubTeam{Org: "acme", Slug: "platform"})
	fake.AddTeam(strict.GitHubTeam{Org: "acme", Slug: "board", Secret: true})
	fake.JoinTeam("octocat", "acme", "board", strict.GitHubMember{})
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	t.Cleanup(func() {
		for _, violation := range fake.Violations() {
			t.Errorf("GitHub's documentation does not allow %s", violation)
		}
	})
	h := &strictHub{fake: fake, url: server.URL, token: fake.AddToken(strict.GitHubToken{Login: "octocat", Scopes: []string{"read:org"}})}
	h.provider = h.newProvider(t, o, change)
	return h
}

func (h *strictHub) newProvider(t *testing.T, o strict.GitHubOptions, change func(*GitHubOptions)) *GitHub {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(strictSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	options := GitHubOptions{
		Name: "github", API: h.url, Web: h.url, ClientID: strictClient, SecretFile: file,
		Organizations: []string{"acme", "umbrella"}, Teams: []string{AllTeams},
	}
	if o.EnterpriseServer {
		options.API += "/api/v3"
	}
	if change != nil {
		change(&options)
	}
	g, err := NewGitHub(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func (h *strictHub) identify(ctx context.Context, p Provider, token string) (Identity, error) {
	return p.Identify(ctx, Credential{Value: token, Type: AccessToken})
}

func TestGitHubByItsDocumentation(t *testing.T) {
	for name, o := range map[string]strict.GitHubOptions{"github.com": {}, "Enterprise Server": {EnterpriseServer: true}} {
		t.Run(name, func(t *testing.T) {
			h := newStrictHub(t, o, nil)
			ends := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
			token := h.fake.AddToken(strict.GitHubToken{Login: "octocat", Scopes: []string{"read:org"}, ExpiresAt: ends})
			who, err := h.identify(t.Context(), h.provider, token)
			want := Identity{
				Subject: "github:583231", ClientID: strictClient, Claims: map[string][]string{"login": {"octocat"}}, Expires: ends,
				Organizations: []string{"acme"}, Teams: []string{"acme/board"},
			}
			if diff := cmp.Diff(want, who); diff != "" || err != nil {
				t.Errorf("error %v, identity (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestGitHubDenialsByItsDocumentation(t *testing.T) {
	h := newStrictHub(t, strict.GitHubOptions{}, nil)
	h.fake.AddApp("other-app", "other-secret")
	h.fake.AddUser(strict.GitHubUser{Login: "banned", Suspended: true})
	revoked := h.fake.AddToken(strict.GitHubToken{Login: "octocat", Scopes: []string{"read:org"}})
	h.fake.Revoke(revoked)
	for name, token := range map[string]string{
		"made up":         "gho_" + strings.Repeat("0", 36),
		"of another app":  h.fake.AddToken(strict.GitHubToken{Login: "octocat", Scopes: []string{"read:org"}, ClientID: "other-app"}),
		"revoked":         revoked,
		"expired":         h.fake.AddToken(strict.GitHubToken{Login: "octocat", Scopes: []string{"read:org"}, ExpiresAt: time.Now().Add(-time.Second)}),
		"suspended":       h.fake.AddToken(strict.GitHubToken{Login: "banned", Scopes: []string{"read:org"}}),
		"without a scope": h.fake.AddToken(strict.GitHubToken{Login: "octocat"}),
		"without ours":    h.fake.AddToken(strict.GitHubToken{Login: "octocat", Scopes: []string{"repo", "gist"}}),
	} {
		if who, err := h.identify(t.Context(), h.provider, token); !errors.Is(err, ErrUnknownCredential) {
			t.Errorf("%s: %+v, %v; want it unknown", name, who, err)
		}
	}
	wide := h.fake.AddToken(strict.GitHubToken{Login: "octocat", Scopes: []string{"admin:org", "repo"}})
	if _, err := h.identify(t.Context(), h.provider, wide); err != nil {
		t.Errorf("a token with more scopes than needed: %v", err)
	}
}

// TestGitHubOrganizationsByItsDocumentation: pages, single sign-on, apps that an
// organization does not let in, and changes.
func TestGitHubOrganizationsByItsDocumentation(t *testing.T) {
	h := newStrictHub(t, strict.GitHubOptions{}, func(o *GitHubOptions) {
		o.Organizations = []string{"org-249", "sso", "closed", "acme"}
		o.Teams = []string{"org-249/Team-120", "acme/platform"}
	})
	for i := range 250 {
		h.fake.AddOrg(strict.GitHubOrg{Login: fmt.Sprint("Org-", i)})
		h.fake.Join("octocat", fmt.Sprint("org-", i), strict.GitHubMember{})
	}
	for i := range 121 {
		h.fake.AddTeam(strict.GitHubTeam{Org: "org-249", Slug: fmt.Sprint("team-", i)})
		h.fake.JoinTeam("octocat", "org-249", fmt.Sprint("team-", i), strict.GitHubMember{})
	}
	h.fake.AddOrg(strict.GitHubOrg{Login: "sso", SSO: true})
	h.fake.AddOrg(strict.GitHubOrg{Login: "closed", Restricted: true})
	h.fake.Join("octocat", "sso", strict.GitHubMember{})
	h.fake.Join("octocat", "closed", strict.GitHubMember{})
	want := func(token string, organizations, teams []string) {
		t.Helper()
		who, err := h.identify(t.Context(), h.provider, token)
		if err != nil || !cmp.Equal(who.Organizations, organizations) || !cmp.Equal(who.Teams, teams) {
			t.Errorf("%q %q, %v; want %q %q", who.Organizations, who.Teams, err, organizations, teams)
		}
	}
	want(h.token, []string{"acme", "org-249"}, []string{"org-249/team-120"})
	want(h.fake.AddToken(strict.GitHubToken{Login: "octocat", Scopes: []string{"read:org"}, SSO: []string{"sso"}}),
		[]string{"acme", "org-249", "sso"}, []string{"org-249/team-120"})
	h.fake.Leave("octocat", "org-249")
	h.fake.JoinTeam("octocat", "acme", "platform", strict.GitHubMember{})
	want(h.token, []string{"acme"}, []string{"acme/platform"})
}

// TestGitHubOutagesByItsDocumentation: whatever is wrong, wherever, nobody is denied, who
// is known stays known, GitHub is left alone as it wants, and all is well afterwards.
func TestGitHubOutagesByItsDocumentation(t *testing.T) {
	never := make(chan struct{})
	for name, fault := range map[string]strict.GitHubFault{
		"no quota":             {Primary: true},
		"no quota, 429":        {Primary: true, Status: 429, Reset: time.Minute},
		"too fast":             {Secondary: true, RetryAfter: 90 * time.Second},
		"too fast, 429":        {Secondary: true, Status: 429},
		"down":                 {Status: 500},
		"unicorn":              strict.HTMLFault(503),
		"a page":               strict.HTMLFault(200),
		"a page, not found":    strict.HTMLFault(404),
		"a page, unauthorised": strict.HTMLFault(401),
		"broken off":           {Cut: true},
		"no answer":            {Hang: never},
		"too many bad logins":  {Status: 403, Message: "Maximum number of login attempts exceeded. Please try again later."},
		"a list of nothing":    {Body: "null"},
		"moved":                {Status: 301, Header: http.Header{"Location": {"/elsewhere"}}},
	} {
		for _, path := range []string{"/applications/", "/user", "/user/memberships", "/user/teams"} {
			t.Run(name+" at "+path, func(t *testing.T) {
				t.Parallel()
				h := newStrictHub(t, strict.GitHubOptions{}, nil)
				c := NewCached(h.provider, CacheOptions{Life: time.Nanosecond, Stale: time.Hour, Timeout: time.Second})
				defer c.Close()
				if _, err := h.identify(t.Context(), c, h.token); err != nil {
					t.Fatal(err)
				}
				befalls := fault
				befalls.Path = path
				h.fake.Fail(befalls)
				stranger := h.fake.AddToken(strict.GitHubToken{Login: "octocat", Scopes: []string{"read:org"}})
				for range 3 {
					if who, err := h.identify(t.Context(), c, h.token); err != nil || !who.Stale {
						t.Fatalf("who was known is %+v, %v", who, err)
					}
					if who, err := h.identify(t.Context(), c, stranger); err == nil || errors.Is(err, ErrUnknownCredential) {
						t.Fatalf("a stranger is %+v, %v", who, err)
					}
				}
				if calls := h.fake.Count("/applications/" + strictClient + "/token"); calls > 4 {
					t.Errorf("GitHub was asked %d times", calls)
				}
			})
		}
	}
}

// TestGitHubComesBack: the first lookups that are tried end the outage.
func TestGitHubComesBack(t *testing.T) {
	h := newStrictHub(t, strict.GitHubOptions{}, nil)
	c := NewCached(h.provider, CacheOptions{})
	defer c.Close()
	h.fake.Fail(strict.GitHubFault{Status: 503})
	for range tolerated {
		token := h.fake.AddToken(strict.GitHubToken{Login: "octocat", Scopes: []string{"read:org"}})
		if _, err := h.identify(t.Context(), c, token); err == nil {
			t.Fatal("there is an answer")
		}
	}
	if c.Outage() == nil {
		t.Fatal("GitHub is not held to be out")
	}
	h.fake.Heal()
	for deadline := time.Now().Add(20 * time.Second); c.Outage() != nil; time.Sleep(10 * time.Millisecond) {
		if _, err := h.identify(t.Context(), c, h.token); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestArrivalsAtGitHub: hundreds who come at once never are more at GitHub than they
// may, and all are let in.
func TestArrivalsAtGitHub(t *testing.T) {
	const users = 300
	h := newStrictHub(t, strict.GitHubOptions{Quota: 10 * users}, nil)
	c := NewCached(h.provider, CacheOptions{Timeout: 30 * time.Second})
	defer c.Close()
	gate := make(chan struct{})
	h.fake.Fail(strict.GitHubFault{Path: "/applications/", Hang: gate})
	var wait sync.WaitGroup
	for i := range users {
		login := fmt.Sprint("user-", i)
		h.fake.AddUser(strict.GitHubUser{Login: login})
		token := h.fake.AddToken(strict.GitHubToken{Login: login, Scopes: []string{"read:org"}})
		for range 2 {
			wait.Go(func() {
				if who, err := h.identify(t.Context(), c, token); err != nil || who.Claims["login"][0] != login {
					t.Errorf("%s is %+v, %v", login, who, err)
				}
			})
		}
	}
	const most = DefaultInFlight - DefaultInFlight/4
	for deadline := time.Now().Add(20 * time.Second); h.fake.Hanging() < most; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("only %d lookups are at GitHub, want %d", h.fake.Hanging(), most)
		}
	}
	if got := h.fake.Hanging(); got != most {
		t.Errorf("%d lookups are at GitHub at a time, want %d", got, most)
	}
	close(gate)
	wait.Wait()
	if calls := h.fake.Count("/applications/" + strictClient + "/token"); calls != users {
		t.Errorf("GitHub was asked %d times for %d users", calls, users)
	}
}

// TestGitHubLogin: what is told of the device flow begins one.
func TestGitHubLogin(t *testing.T) {
	h := newStrictHub(t, strict.GitHubOptions{}, nil)
	login, ok := h.provider.Login()
	if !ok {
		t.Fatal("there is no login")
	}
	form := url.Values{"client_id": {login.ClientID}, "scope": {login.Scope}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, login.DeviceEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}, "User-Agent": {"test"}}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("status %d", response.StatusCode)
	}
}
