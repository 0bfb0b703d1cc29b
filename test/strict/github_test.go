package strict

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// gitHubServed is a GitHub behind a server, with its clock.
type gitHubServed struct {
	*GitHub
	url     string
	elapsed atomic.Int64 // of its clock
}

func (s *gitHubServed) now() time.Time { return time.Unix(1_800_000_000, s.elapsed.Load()) }

func (s *gitHubServed) pass(d time.Duration) { s.elapsed.Add(int64(d)) }

const (
	testApp    = "Iv1.0123456789abcdef"
	testSecret = "0123456789abcdef0123456789abcdef01234567"
	read       = "read:org"
)

// serveGitHub has mona, an active member of acme and of its team core, and an owner
// of corp, who is invited to later.
func serveGitHub(t *testing.T, o GitHubOptions) *gitHubServed {
	t.Helper()
	s := &gitHubServed{}
	o.ClientID, o.ClientSecret, o.Now = testApp, testSecret, s.now
	s.GitHub = NewGitHub(o)
	server := httptest.NewServer(s.GitHub)
	t.Cleanup(server.Close)
	s.url = server.URL
	s.AddUser(GitHubUser{Login: "mona", Name: "Mona Lisa"})
	s.AddUser(GitHubUser{Login: "hubot"})
	for _, org := range []string{"acme", "corp", "later"} {
		s.AddOrg(GitHubOrg{Login: org})
	}
	s.Join("mona", "acme", GitHubMember{})
	s.Join("mona", "corp", GitHubMember{Role: "admin"})
	s.Join("mona", "later", GitHubMember{State: "pending"})
	s.AddTeam(GitHubTeam{Org: "acme", Slug: "everyone"})
	s.AddTeam(GitHubTeam{Org: "acme", Slug: "core", Name: "The Core", Parent: "everyone"})
	s.JoinTeam("mona", "acme", "core", GitHubMember{})
	return s
}

// ask sends a request as a client that reads the documentation sends it,
// and what is different about one.
func (s *gitHubServed) ask(t *testing.T, token string, c call) (*http.Response, string) {
	t.Helper()
	if c.method == "" {
		c.method = http.MethodGet
	}
	usual := map[string]string{
		"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28", "User-Agent": "test",
		"Authorization": "Bearer " + token, "Content-Type": "",
	}
	if strings.HasSuffix(c.path, "/token") {
		usual["Content-Type"] = "application/json"
	}
	request := c.request(t, s.url, usual)
	if agent, said := c.headers["User-Agent"]; said && agent == "" {
		request.Header["User-Agent"] = nil // else Go sends its own
	}
	if _, said := c.headers["Authorization"]; !said && strings.HasSuffix(c.path, "/token") {
		request.SetBasicAuth(testApp, testSecret)
	}
	return send(t, request)
}

func send(t *testing.T, request *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func (s *gitHubServed) check(t *testing.T, token string) (*http.Response, string) {
	t.Helper()
	return s.ask(t, "", call{method: http.MethodPost, path: "/applications/" + testApp + "/token", body: `{"access_token":"` + token + `"}`})
}

func (s *gitHubServed) token(scopes ...string) string {
	return s.AddToken(GitHubToken{Login: "mona", Scopes: scopes})
}

func (s *gitHubServed) clean(t *testing.T) {
	t.Helper()
	for _, v := range s.Violations() {
		t.Errorf("a correct client's violation: %s", v)
	}
}

// The required fields of the OpenAPI description's schemas.
const (
	userFields = "login id node_id avatar_url gravatar_id url html_url followers_url following_url gists_url starred_url subscriptions_url " +
		"organizations_url repos_url events_url received_events_url type site_admin"
	profileFields = userFields + " name company blog location email hireable bio public_repos public_gists followers following created_at updated_at"
	privateFields = profileFields + " private_gists total_private_repos owned_private_repos disk_usage collaborators two_factor_authentication"
	orgFields     = "login id node_id url repos_url events_url hooks_url issues_url members_url public_members_url avatar_url description"
	teamFields    = "id node_id url html_url name slug description permission members_url repositories_url"
)

func within(parent, fields string) string {
	return parent + "." + strings.ReplaceAll(fields, " ", " "+parent+".")
}

// TestGitHubFields: every field that the documentation says is always there.
func TestGitHubFields(t *testing.T) {
	membership := "url state role organization_url organization user " + within("organization", orgFields) + " " + within("user", userFields)
	tests := []struct{ path, fields string }{
		{"/user", privateFields},
		{"/user/memberships/orgs", within("0", membership)},
		{"/user/memberships/orgs/ACME", membership},
		{"/user/orgs", within("0", orgFields)},
		{"/user/teams", within("0", teamFields+" parent members_count repos_count created_at updated_at organization "+within("parent", teamFields)+" "+
			within("organization", orgFields+" has_organization_projects has_repository_projects public_repos public_gists followers following html_url created_at type updated_at archived_at"))},
		{"/orgs/acme/teams/core/memberships/mona", "url role state"},
		{"/applications/" + testApp + "/token", "id url scopes token token_last_eight hashed_token app note note_url updated_at created_at fingerprint expires_at " +
			"user app.client_id app.name app.url " + within("user", userFields)},
	}
	for _, enterprise := range []bool{false, true} {
		for _, tc := range tests {
			t.Run(fmt.Sprint(tc.path, " enterprise ", enterprise), func(t *testing.T) {
				s := serveGitHub(t, GitHubOptions{EnterpriseServer: enterprise})
				token, c := s.token("user", read), call{path: tc.path}
				if strings.HasSuffix(tc.path, "/token") {
					c.method, c.body = http.MethodPost, `{"access_token":"`+token+`"}`
				}
				if enterprise {
					c.path = "/api/v3" + c.path
				}
				response, body := s.ask(t, token, c)
				if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "application/json; charset=utf-8" {
					t.Fatalf("got %s %s", response.Status, body)
				}
				for _, name := range strings.Fields(tc.fields) {
					if !gjson.Get(body, name).Exists() {
						t.Errorf("no field %s in %s", name, body)
					}
				}
				if limited := response.Header.Get("X-RateLimit-Remaining") != ""; limited == enterprise {
					t.Errorf("x-ratelimit-remaining is %q", response.Header.Get("X-RateLimit-Remaining"))
				}
				s.clean(t)
			})
		}
	}
}

// TestGitHubCheckToken: only a good token of this app.
func TestGitHubCheckToken(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{})
	s.AddApp("other", "other-secret")
	revoked, good := s.token(read), s.token(read)
	s.Revoke(revoked)
	tests := []struct {
		name, token string
		status      int
	}{
		{"good", good, 200},
		{"of another app", s.AddToken(GitHubToken{Login: "mona", ClientID: "other"}), 404},
		{"revoked", revoked, 404},
		{"expired", s.AddToken(GitHubToken{Login: "mona", ExpiresAt: s.now()}), 404},
		{"expires later", s.AddToken(GitHubToken{Login: "mona", ExpiresAt: s.now().Add(1)}), 200},
		{"never was", "gho_no", 404},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			response, body := s.check(t, tc.token)
			if response.StatusCode != tc.status {
				t.Errorf("got %s %s", response.Status, body)
			}
			if tc.status == 404 && gjson.Get(body, "message").Str != "Not Found" {
				t.Errorf("got %s", body)
			}
		})
	}
	s.clean(t)
	if response, body := s.check(t, good); response.Header.Get("X-RateLimit-Limit") != "5000" || gjson.Get(body, "user.login").Str != "mona" || gjson.Get(body, "scopes.0").Str != read {
		t.Errorf("got %s", body)
	}
	for credential, status := range map[string]int{"no": 401, "": 401} {
		headers := map[string]string{"Authorization": ""}
		if credential != "" {
			headers["Authorization"] = "Basic " + credential
		}
		response, body := s.ask(t, "", call{method: "POST", path: "/applications/" + testApp + "/token", headers: headers, body: `{"access_token":"x"}`})
		if response.StatusCode != status {
			t.Errorf("credential %q: got %s %s", credential, response.Status, body)
		}
	}
}

// names are what a list of objects has at a path.
func names(body, path string) string {
	var all []string
	for _, v := range gjson.Get(body, "#."+path).Array() {
		all = append(all, v.String())
	}
	return strings.Join(all, " ")
}

// TestGitHubMemberships: states, roles, and what is not the user's.
func TestGitHubMemberships(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{})
	token := s.token(read)
	for query, want := range map[string]string{"": "acme corp later", "?state=active": "acme corp", "?state=pending": "later"} {
		if _, body := s.ask(t, token, call{path: "/user/memberships/orgs" + query}); names(body, "organization.login") != want {
			t.Errorf("%s: got %s", query, body)
		}
	}
	for org, want := range map[string]string{"Corp": "active admin", "later": "pending member", "none": " "} {
		_, body := s.ask(t, token, call{path: "/user/memberships/orgs/" + org})
		if got := gjson.Get(body, "state").Str + " " + gjson.Get(body, "role").Str; got != want {
			t.Errorf("%s: got %q, %s", org, got, body)
		}
	}
	if _, body := s.ask(t, token, call{path: "/user/orgs"}); names(body, "login") != "acme corp" {
		t.Errorf("got %s", body)
	}
	s.Leave("mona", "acme")
	s.ChangeUser("mona", func(u *GitHubUser) { u.Login = "lisa" })
	if _, body := s.ask(t, token, call{path: "/user/memberships/orgs"}); names(body, "organization.login") != "corp later" || names(body, "user.login") != "lisa lisa" {
		t.Errorf("got %s", body)
	}
	s.Join("lisa", "acme", GitHubMember{})
	if response, body := s.ask(t, token, call{path: "/orgs/acme/teams/core/memberships/lisa"}); response.StatusCode != 404 {
		t.Errorf("who left is still in a team: %s", body)
	}
	s.clean(t)
}

// TestGitHubTeams: parents, owners, invitations, secret teams, and strangers.
func TestGitHubTeams(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{})
	s.AddTeam(GitHubTeam{Org: "acme", Slug: "secret", Secret: true})
	s.AddTeam(GitHubTeam{Org: "corp", Slug: "own"})
	s.Join("hubot", "acme", GitHubMember{})
	s.JoinTeam("hubot", "acme", "secret", GitHubMember{Role: "maintainer"})
	s.JoinTeam("hubot", "acme", "core", GitHubMember{State: "pending"})
	s.JoinTeam("mona", "corp", "own", GitHubMember{})
	mona, hubot := s.token(read), s.AddToken(GitHubToken{Login: "hubot", Scopes: []string{"admin:org"}})
	tests := []struct{ token, path, want string }{
		{mona, "/orgs/acme/teams/core/memberships/MONA", "active member"},
		{mona, "/orgs/acme/teams/everyone/memberships/mona", "active member"}, // by way of core
		{mona, "/orgs/corp/teams/own/memberships/mona", "active maintainer"},  // an owner
		{mona, "/orgs/acme/teams/core/memberships/hubot", "pending member"},
		{mona, "/orgs/acme/teams/secret/memberships/hubot", " "},
		{hubot, "/orgs/acme/teams/secret/memberships/hubot", "active maintainer"},
		{hubot, "/orgs/corp/teams/own/memberships/mona", " "}, // no member
		{mona, "/orgs/acme/teams/none/memberships/mona", " "},
		{mona, "/orgs/acme/teams/secret/memberships/mona", " "},
		{mona, "/orgs/later/teams/none/memberships/mona", " "},
	}
	for _, tc := range tests {
		response, body := s.ask(t, tc.token, call{path: tc.path})
		if got := gjson.Get(body, "state").Str + " " + gjson.Get(body, "role").Str; got != tc.want {
			t.Errorf("%s: got %q", tc.path, got)
		}
		if tc.want == " " && response.StatusCode != 404 {
			t.Errorf("%s: got %s", tc.path, response.Status)
		}
	}
	if _, body := s.ask(t, hubot, call{path: "/user/teams"}); names(body, "slug") != "secret" {
		t.Errorf("got %s", body)
	}
	if _, body := s.ask(t, mona, call{path: "/user/teams"}); names(body, "slug") != "core own" || names(body, "organization.login") != "acme corp" {
		t.Errorf("got %s", body)
	}
	s.LeaveTeam("mona", "acme", "core")
	if _, body := s.ask(t, mona, call{path: "/user/teams"}); names(body, "slug") != "own" {
		t.Errorf("got %s", body)
	}
	s.clean(t)
}

// TestGitHubTLS: links are to where the client came from.
func TestGitHubTLS(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{})
	server := httptest.NewTLSServer(s.GitHub)
	t.Cleanup(server.Close)
	request := call{method: "GET", path: "/user/orgs?per_page=1"}.request(t, server.URL, map[string]string{"Authorization": "Bearer " + s.token(read)})
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if link := response.Header.Get("Link"); !strings.HasPrefix(link, "<"+server.URL+"/user/orgs?page=2&per_page=1>; rel=\"next\"") {
		t.Errorf("the link is %s", link)
	}
}

// TestGitHubPages: a client that follows the links sees everything once.
func TestGitHubPages(t *testing.T) {
	for _, enterprise := range []bool{false, true} {
		s := serveGitHub(t, GitHubOptions{EnterpriseServer: enterprise})
		token := s.token(read)
		for i := range 100 {
			s.AddTeam(GitHubTeam{Org: "acme", Slug: fmt.Sprint("t", i)})
			s.JoinTeam("mona", "acme", fmt.Sprint("t", i), GitHubMember{})
		}
		prefix := ""
		if enterprise {
			prefix = "/api/v3"
		}
		next, pages := prefix+"/user/teams", 0
		var all []string
		for next != "" && pages < 9 {
			response, body := s.ask(t, token, call{path: next})
			all = append(all, strings.Fields(names(body, "slug"))...)
			pages++
			links := map[string]string{}
			for _, link := range strings.Split(response.Header.Get("Link"), ", ") {
				target, rel, _ := strings.Cut(link, "; rel=")
				links[strings.Trim(rel, `"`)] = strings.TrimPrefix(strings.Trim(target, "<>"), s.url)
			}
			if links["next"] == next || (links["prev"] == "") != (pages == 1) || (links["first"] == "") != (pages == 1) {
				t.Errorf("page %d has the links %v", pages, links)
			}
			next = links["next"]
		}
		if slices.Sort(all); pages != 4 || len(slices.Compact(all)) != 101 {
			t.Errorf("got %d teams on %d pages", len(all), pages)
		}
		s.LeaveTeam("mona", "acme", "t0")
		if response, body := s.ask(t, token, call{path: prefix + "/user/teams?per_page=100"}); response.Header["Link"] != nil || len(gjson.Parse(body).Array()) != 100 {
			t.Errorf("one page has the links %s", response.Header.Get("Link"))
		}
		s.clean(t)
		s.JoinTeam("mona", "acme", "t0", GitHubMember{})
		if _, body := s.ask(t, token, call{path: prefix + "/user/teams?per_page=101"}); len(gjson.Parse(body).Array()) != 100 {
			t.Errorf("a page has %d teams", len(gjson.Parse(body).Array()))
		}
	}
}
