package strict

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestGitHubRefusals: what the documentation does not allow is a violation, and
// refused where the documentation says that it is.
func TestGitHubRefusals(t *testing.T) {
	check := "/applications/" + testApp + "/token"
	with := func(name, value string) map[string]string { return map[string]string{name: value} }
	tests := []struct {
		name      string
		call      call
		status    int
		body      string
		violation string
	}{
		{"no user agent", call{headers: with("User-Agent", "")}, 403, "Request forbidden by administrative rules", "User-Agent is missing"},
		{"Go's user agent", call{headers: with("User-Agent", "Go-http-client/1.1")}, 200, "", "User-Agent is Go's"},
		{"version", call{headers: with("X-GitHub-Api-Version", "2021-01-01")}, 400, "not a supported version", "X-GitHub-Api-Version is"},
		{"no version", call{headers: with("X-GitHub-Api-Version", "")}, 200, "", "X-GitHub-Api-Version is missing"},
		{"accept HTML", call{headers: with("Accept", "text/html")}, 415, "Must accept 'application/json'", "Accept is"},
		{"accept anything", call{headers: with("Accept", "*/*")}, 200, "", "Accept is"},
		{"no accept", call{headers: with("Accept", "")}, 200, "", "Accept is"},
		{"leaked header", call{headers: with("X-Request-Id", "1")}, 200, "", "header X-Request-Id"},
		{"leaked cookie", call{headers: with("Cookie", "a=b")}, 200, "", "header Cookie"},
		{"no credential", call{headers: with("Authorization", "")}, 401, "Requires authentication", "Authorization is missing"},
		{"basic credential", call{headers: with("Authorization", "Basic bW9uYTp4")}, 401, "Bad credentials", "not of the form Bearer"},
		{"method", call{method: "POST"}, 404, "Not Found", "method is POST"},
		{"path", call{path: "/users/mona"}, 404, "Not Found", "path /users/mona"},
		{"trailing slash", call{path: "/user/"}, 404, "Not Found", "path /user/"},
		{"slash in a name", call{path: "/orgs/acme/teams/co/re/memberships/mona"}, 404, "Not Found", "is not of the API"},
		{"enterprise path", call{path: "/api/v3/user"}, 404, "Not Found", "is of an Enterprise Server"},
		{"body of a GET", call{body: "{}"}, 200, "", "a GET has a body"},
		{"parameter", call{path: "/user?per_page=1"}, 200, "", "query parameter per_page"},
		{"state", call{path: "/user/memberships/orgs?state=all"}, 422, `"errors":[{"code":"invalid","field":"state"`, "state is"},
		{"page", call{path: "/user/teams?page=0"}, 200, "", "page is"},
		{"page size", call{path: "/user/teams?per_page=101"}, 200, "", "the most is 100"},
		{"token in the URL", call{path: "/user?access_token=x"}, 400, "Must specify access token via Authorization header", "a credential is in the URL"},
		{"secret in the path", call{path: "/applications/" + testSecret + "/token", method: "POST", body: `{"access_token":"x"}`}, 404, "", "a credential is in the URL's path"},

		{"client id", call{path: "/applications/other/token", method: "POST", body: `{"access_token":"x"}`}, 404, "", "the path has the client id other"},
		{"bearer for the app", call{path: check, method: "POST", headers: with("Authorization", "Bearer x"), body: `{"access_token":"x"}`}, 401, "Bad credentials", "not basic authentication"},
		{"GET check", call{path: check}, 404, "", "method is GET"},
		{"content type", call{path: check, method: "POST", headers: with("Content-Type", "application/x-www-form-urlencoded"), body: `{"access_token":"x"}`}, 404, "", "Content-Type is"},
		{"no JSON", call{path: check, method: "POST", body: "access_token=x"}, 400, "Problems parsing JSON", "not a JSON object"},
		{"no object", call{path: check, method: "POST", body: `"x"`}, 400, "Body should be a JSON object", "not a JSON object"},
		{"no token", call{path: check, method: "POST", body: `{}`}, 422, "Invalid request", "access_token is required"},
		{"token of another kind", call{path: check, method: "POST", body: `{"access_token":["x"]}`}, 422, "Invalid request", "access_token is of kind array"},
		{"empty token", call{path: check, method: "POST", body: `{"access_token":""}`}, 422, `"code":"missing_field"`, "access_token is empty"},
		{"more fields", call{path: check, method: "POST", body: `{"access_token":"x","client_id":"y"}`}, 404, "", "client_id is a field"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := serveGitHub(t, GitHubOptions{})
			if tc.call.path == "" {
				tc.call.path = "/user"
			}
			response, body := s.ask(t, s.token(read), tc.call)
			if response.StatusCode != tc.status || !strings.Contains(body, tc.body) {
				t.Errorf("got %s %s", response.Status, body)
			}
			if said := s.Violations(); len(said) == 0 || !strings.Contains(strings.Join(said, "\n"), tc.violation) {
				t.Errorf("the violations are %q", said)
			}
			if got := s.Requests(); len(got) != 1 || got[0].Status != tc.status {
				t.Errorf("it noted %+v", got)
			}
		})
	}
}

// TestGitHubTokenForms: both schemes, at both kinds of host.
func TestGitHubTokenForms(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{EnterpriseServer: true})
	for path, status := range map[string]int{"/api/v3/user": 200, "/user": 404} {
		response, body := s.ask(t, "", call{path: path, headers: map[string]string{"Authorization": "token " + s.token()}})
		if response.StatusCode != status {
			t.Errorf("%s: got %s %s", path, response.Status, body)
		}
	}
	if said := s.Violations(); len(said) != 1 || !strings.Contains(said[0], "not below /api/v3") {
		t.Errorf("the violations are %q", said)
	}
	if s.Count("/user") != 2 {
		t.Errorf("counted %d", s.Count("/user"))
	}
}

// TestGitHubLeaks: a revoked token is still none for a URL; headers come once.
func TestGitHubLeaks(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{})
	revoked := s.token()
	s.Revoke(revoked)
	s.ask(t, s.token(), call{path: "/users/" + revoked})
	request := call{method: "GET", path: "/user"}.request(t, s.url, nil)
	request.Header["Authorization"] = []string{"Bearer a", "Bearer b"}
	send(t, request)
	said := strings.Join(s.Violations(), "\n")
	if !strings.Contains(said, "a credential is in the URL's path") || !strings.Contains(said, "header Authorization is there 2 times") {
		t.Errorf("the violations are %q", said)
	}
}

// TestGitHubDenials: what a client cannot know is no violation.
func TestGitHubDenials(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{})
	revoked := s.token(read)
	s.Revoke(revoked)
	scopeless := s.token()
	tests := []struct {
		name, token, path string
		status            int
		message           string
	}{
		{"revoked", revoked, "/user", 401, "Bad credentials"},
		{"expired", s.AddToken(GitHubToken{Login: "mona", ExpiresAt: s.now()}), "/user", 401, "Bad credentials"},
		{"no scopes, user", scopeless, "/user", 200, ""},
		{"no scopes, memberships", scopeless, "/user/memberships/orgs", 403, "read:org"},
		{"no scopes, membership", scopeless, "/user/memberships/orgs/acme", 403, "read:org"},
		{"no scopes, organisations", scopeless, "/user/orgs", 403, "You need at least read:org scope or user scope to list your organizations."},
		{"no scopes, teams", scopeless, "/user/teams", 403, "read:org"},
		{"no scopes, team", scopeless, "/orgs/acme/teams/core/memberships/mona", 404, "Not Found"},
		{"user scope, organisations", s.token("user"), "/user/orgs", 200, ""},
		{"user scope, memberships", s.token("user"), "/user/memberships/orgs", 403, "read:org"},
		{"write:org, memberships", s.token("write:org"), "/user/memberships/orgs", 200, ""},
		{"stranger", s.AddToken(GitHubToken{Login: "hubot", Scopes: []string{read}}), "/user/memberships/orgs/acme", 404, "Not Found"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			response, body := s.ask(t, tc.token, call{path: tc.path})
			if response.StatusCode != tc.status || !strings.Contains(gjson.Get(body, "message").Str, tc.message) {
				t.Errorf("got %s %s", response.Status, body)
			}
			if tc.status != 401 && response.Header.Get("X-OAuth-Scopes") != strings.Join(s.state.tokens[tc.token].Scopes, ", ") {
				t.Errorf("the scopes are %q", response.Header.Get("X-OAuth-Scopes"))
			}
		})
	}
	s.ChangeUser("mona", func(u *GitHubUser) { u.Suspended = true })
	if response, body := s.ask(t, scopeless, call{path: "/user"}); response.StatusCode != http.StatusForbidden || !strings.Contains(body, "suspended") {
		t.Errorf("suspended: got %s %s", response.Status, body)
	}
	s.clean(t)
	if _, body := s.ask(t, s.AddToken(GitHubToken{Login: "hubot"}), call{path: "/user"}); gjson.Get(body, "plan").Exists() {
		t.Errorf("private information without the scope: %s", body)
	}
}

// TestGitHubOrgPolicies: organisations that a token does not see.
func TestGitHubOrgPolicies(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{})
	sso := s.AddOrg(GitHubOrg{Login: "sso", SSO: true})
	s.AddOrg(GitHubOrg{Login: "closed", Restricted: true})
	s.Join("mona", "sso", GitHubMember{})
	s.Join("mona", "closed", GitHubMember{})
	s.AddTeam(GitHubTeam{Org: "sso", Slug: "t"})
	s.JoinTeam("mona", "sso", "t", GitHubMember{})
	plain, authorised := s.token(read), s.AddToken(GitHubToken{Login: "mona", Scopes: []string{read}, SSO: []string{"SSO"}})
	response, body := s.ask(t, plain, call{path: "/user/orgs"})
	want := "partial-results; organizations=" + strconv.FormatInt(sso, 10)
	if names(body, "login") != "acme corp" || response.Header.Get("X-GitHub-SSO") != want {
		t.Errorf("got %s with %q", body, response.Header.Get("X-GitHub-SSO"))
	}
	if response, _ := s.ask(t, plain, call{path: "/user/memberships/orgs/sso"}); response.StatusCode != 403 || !strings.HasPrefix(response.Header.Get("X-GitHub-SSO"), "required; url=https://github.com/orgs/sso/sso?authorization_request=") {
		t.Errorf("got %s with %q", response.Status, response.Header.Get("X-GitHub-SSO"))
	}
	for path, status := range map[string]int{"/user/memberships/orgs/closed": 403, "/orgs/sso/teams/t/memberships/mona": 404} {
		if response, body := s.ask(t, plain, call{path: path}); response.StatusCode != status {
			t.Errorf("%s: got %s %s", path, response.Status, body)
		}
	}
	if response, body := s.ask(t, authorised, call{path: "/user/teams"}); names(body, "slug") != "core t" || response.Header.Get("X-GitHub-SSO") != "" {
		t.Errorf("got %s", body)
	}
	if response, body := s.ask(t, authorised, call{path: "/user/memberships/orgs/sso"}); response.StatusCode != 200 {
		t.Errorf("got %s %s", response.Status, body)
	}
	s.clean(t)
}
