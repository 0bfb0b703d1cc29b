package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	hubToken  = "gho_hunter2hunter2hunter2hunter2hunter2"
	hubSecret = "hunter3-secret"
	hubClient = "Iv1.8a61f9b3a7aba766"
	hubUser   = `{"id":583231,"login":"OctoCat"}`
)

// hub is a GitHub whose answers a test sets. test/strict has one that knows GitHub's
// rules; this one breaks them.
type hub struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	answers map[string]http.HandlerFunc // by path
	seen    []*http.Request
}

// reply is an answer with a body and headers, each "Name: value".
func reply(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		for _, line := range headers {
			name, value, _ := strings.Cut(line, ": ")
			w.Header().Add(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const (
	checkPath   = "/applications/" + hubClient + "/token"
	userPath    = "/user"
	membersPath = "/user/memberships/orgs"
	teamsPath   = "/user/teams"
)

// checked is GitHub's answer about a good token, with the user and what else there is.
func checked(user, more string) string {
	return `{"id":1,"token":"` + hubToken + `","app":{"client_id":"` + hubClient + `","name":"n","url":"u"},"user":` + user + more + `}`
}

func newHub(t *testing.T) *hub {
	h := &hub{t: t, answers: map[string]http.HandlerFunc{
		checkPath:   reply(200, checked(hubUser, `,"expires_at":null,"scopes":["read:org"]`), "X-RateLimit-Remaining: 4321"),
		userPath:    reply(200, `{"id":583231,"login":"OctoCat","suspended_at":null}`, "X-RateLimit-Remaining: 17"),
		membersPath: reply(200, `[{"state":"active","organization":{"login":"Acme"},"user":{"id":583231}}]`),
		teamsPath:   reply(200, `[{"slug":"Platform","organization":{"login":"Acme"}}]`),
	}}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.Close)
	return h
}

func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.seen = append(h.seen, r)
	answer := h.answers[r.URL.Path]
	h.mu.Unlock()
	if strings.Contains(r.RequestURI, "hunter") {
		h.t.Errorf("a URL has a secret: %s", r.RequestURI)
	}
	if answer == nil {
		answer = reply(404, `{"message":"Not Found"}`)
	}
	answer(w, r)
}

func (h *hub) set(path string, answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[path] = answer
}

// provider is a GitHub that asks h about everything, unless change says otherwise.
func (h *hub) provider(change func(*GitHubOptions)) *GitHub {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(hubSecret+"\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	o := GitHubOptions{
		Name: "github", API: h.URL, Web: "https://github.example.com", ClientID: hubClient, SecretFile: file,
		Organizations: []string{"ACME", "umbrella"}, Teams: []string{AllTeams},
	}
	if change != nil {
		change(&o)
	}
	g, err := NewGitHub(o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = g.Close() })
	return g
}

func (g *GitHub) identifyForTest(t *testing.T) (Identity, error) {
	t.Helper()
	who, err := g.Identify(t.Context(), Credential{Value: hubToken, Type: AccessToken})
	if err != nil && strings.Contains(err.Error(), "hunter") {
		t.Errorf("the error has a secret: %v", err)
	}
	return who, err
}

func TestGitHubIdentifies(t *testing.T) {
	h := newHub(t)
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	h.set(checkPath, func(w http.ResponseWriter, r *http.Request) {
		var asked map[string]string
		name, secret, _ := r.BasicAuth()
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked["access_token"] != hubToken || len(asked) != 1 || r.Method != http.MethodPost {
			t.Errorf("%s with %v, %v", r.Method, asked, err)
		}
		if name != hubClient || secret != hubSecret || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("the app is %q with %q, the type %q", name, secret, r.Header.Get("Content-Type"))
		}
		reply(200, checked(hubUser, `,"expires_at":"`+ends.Format(time.RFC3339)+`"`), "X-RateLimit-Remaining: 4321")(w, r)
	})
	quota := 0
	who, err := h.provider(func(o *GitHubOptions) { o.Quota = func(n int) { quota = n } }).identifyForTest(t)
	want := Identity{
		Subject: "github:583231", ClientID: hubClient, Expires: ends, Claims: map[string][]string{"login": {"OctoCat"}},
		Organizations: []string{"acme"}, Teams: []string{"acme/platform"},
	}
	if diff := cmp.Diff(want, who); diff != "" || err != nil {
		t.Errorf("error %v, identity (-want +got):\n%s", err, diff)
	}
	if quota != 4321 {
		t.Errorf("the quota is %d, want the app's", quota)
	}
	for i, r := range h.seen {
		got := r.Method + " " + r.URL.Path + " " + r.Header.Get("Accept") + " " + r.Header.Get("X-Github-Api-Version") + " " + r.Header.Get("User-Agent")
		if !strings.HasSuffix(got, " application/vnd.github+json 2022-11-28 ghostline-tokenissuer") {
			t.Errorf("a call is %s", got)
		}
		if i > 0 && (r.Header.Get("Authorization") != "Bearer "+hubToken || r.Method != http.MethodGet) {
			t.Errorf("%s is not asked with the user's token", r.URL.Path)
		}
	}
	if len(h.seen) != 4 || h.seen[2].URL.RawQuery != "state=active&per_page=100" || h.seen[3].URL.RawQuery != "per_page=100" {
		t.Errorf("the calls are %v", h.seen)
	}
}

// TestGitHubAsksNoMoreThanNeeded: who needs no organizations needs no scope for them.
func TestGitHubAsksNoMoreThanNeeded(t *testing.T) {
	h := newHub(t)
	g := h.provider(func(o *GitHubOptions) { o.Organizations, o.Teams = nil, nil })
	who, err := g.identifyForTest(t)
	if err != nil || who.Organizations != nil || who.Teams != nil || len(h.seen) != 2 {
		t.Errorf("%+v, %v after %d calls", who, err, len(h.seen))
	}
	login, ok := g.Login()
	want := Login{ClientID: hubClient, Type: AccessToken,
		DeviceEndpoint: "https://github.example.com/login/device/code", TokenEndpoint: "https://github.example.com/login/oauth/access_token"}
	if !ok || login != want {
		t.Errorf("login %+v, want %+v", login, want)
	}
	if login, _ := h.provider(nil).Login(); login.Scope != "read:org" {
		t.Errorf("the scope is %q", login.Scope)
	}
}

// TestGitHubPages: lists are read to their end; invitations, and what is not listed in
// the configuration, do not count; the token goes nowhere that a link says.
func TestGitHubPages(t *testing.T) {
	h := newHub(t)
	h.set(membersPath, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("page") {
		case "":
			entries := strings.Repeat(`{"state":"active","organization":{"login":"other"}},`, 99)
			reply(200, "["+entries+`{"state":"active","organization":{"login":"elsewhere"}}]`,
				`Link: <https://evil.example/user/memberships/orgs?page=9>; rel="prev", <https://evil.example/x?state=active&page=2>; rel="next", <https://e/?page=3>; rel="last"`)(w, r)
		case "2":
			reply(200, `[{"state":"pending","organization":{"login":"acme"}}]`, `Link: <?page=3>; rel="next"`)(w, r)
		case "3":
			reply(200, `[{"state":"active","organization":{"login":"UMBRELLA"}}]`, `Link: <?page=1>; rel="first"`)(w, r)
		}
	})
	h.set(teamsPath, reply(200, `[{"slug":"a","organization":{"login":"acme"}},{"slug":"B","organization":{"login":"Umbrella"}},{"slug":"a","organization":{"login":"other"}}]`))
	for _, tc := range []struct{ teams, want []string }{
		{[]string{AllTeams}, []string{"acme/a", "umbrella/b"}},
		{[]string{"Umbrella/B", "acme/c"}, []string{"umbrella/b"}},
	} {
		who, err := h.provider(func(o *GitHubOptions) { o.Teams = tc.teams }).identifyForTest(t)
		if err != nil || !cmp.Equal(who.Organizations, []string{"umbrella"}) || !cmp.Equal(who.Teams, tc.want) {
			t.Errorf("%+v, %v; want the teams %q", who, err, tc.want)
		}
	}
}

func TestGitHubPlausible(t *testing.T) {
	h := newHub(t)
	g := h.provider(nil)
	for value, want := range map[string]bool{
		hubToken: true, "ghu_" + strings.Repeat("x", 36): true, strings.Repeat("0a", 20): true,
		"ghp_" + strings.Repeat("x", 36): false, "github_pat_" + strings.Repeat("x", 36): false, "ghs_" + strings.Repeat("x", 36): false,
		"ghr_" + strings.Repeat("x", 36): false, "eyJhbGciOiJSUzI1NiJ9.e30.c2ln": false, "": false, "gho_": false,
		"gho_" + strings.Repeat("x", 2000): false, hubToken + "\n": false, hubToken + "/../user": false, strings.Repeat("0A", 20): false,
	} {
		credential := Credential{Value: value, Type: AccessToken}
		if got := g.Plausible(credential); got != want {
			t.Errorf("%q is plausible %v, want %v", value, got, want)
		}
		if _, err := g.Identify(t.Context(), credential); !want && !errors.Is(err, ErrUnknownCredential) {
			t.Errorf("%q: error %v", value, err)
		}
	}
	if g.Plausible(Credential{Value: hubToken, Type: JWT}) || g.Plausible(Credential{Value: hubToken, Type: IDToken}) {
		t.Error("a token of another type is plausible")
	}
	if len(h.seen) > 3*4 {
		t.Errorf("what is not plausible was asked about: %d calls", len(h.seen))
	}
}

// TestGitHubSecretChanges: the next check has the new one, and a bad file leaves the last.
func TestGitHubSecretChanges(t *testing.T) {
	h := newHub(t)
	var got string
	good := h.answers[checkPath]
	h.set(checkPath, func(w http.ResponseWriter, r *http.Request) {
		_, got, _ = r.BasicAuth()
		good(w, r)
	})
	var log bytes.Buffer
	var file string
	g := h.provider(func(o *GitHubOptions) { file, o.Log = o.SecretFile, slog.New(slog.NewTextHandler(&log, nil)) })
	for _, tc := range []struct {
		content, want string
		lines         int
	}{
		{"hunter4\r\n", "hunter4", 0}, {"", "hunter4", 1}, {"hunter5 hunter5", "hunter4", 1}, {strings.Repeat("x", maxSecret+1), "hunter4", 1},
		{"hunter6", "hunter6", 1}, {"-", "hunter6", 2}, {"hunter7", "hunter7", 2},
	} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if tc.content != "-" {
			if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := g.identifyForTest(t); err != nil || got != tc.want {
			t.Errorf("with %.20q the secret is %.20q, %v; want %q", tc.content, got, err, tc.want)
		}
		if lines := strings.Count(log.String(), "\n"); lines != tc.lines || strings.Contains(log.String(), "hunter") {
			t.Errorf("with %.20q the log has %d lines, want %d: %s", tc.content, lines, tc.lines, log.String())
		}
	}
	if _, err := NewGitHub(GitHubOptions{SecretFile: filepath.Join(t.TempDir(), "absent")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: error %v", err)
	}
	if _, err := NewGitHub(GitHubOptions{SecretFile: t.TempDir()}); err == nil {
		t.Error("a directory is a secret")
	}
}

// TestGitHubBehindTheCache: what GitHub wants is kept to.
func TestGitHubBehindTheCache(t *testing.T) {
	h := newHub(t)
	c := NewCached(h.provider(nil), CacheOptions{})
	defer c.Close()
	h.set(checkPath, reply(403, `{"message":"API rate limit exceeded"}`, "X-RateLimit-Remaining: 0",
		fmt.Sprintf("X-RateLimit-Reset: %d", time.Now().Add(time.Hour).Unix())))
	for range 3 {
		for _, token := range []string{hubToken, hubToken + "x", "not-of-github"} {
			_, err := c.Identify(t.Context(), Credential{Value: token, Type: AccessToken})
			if unknown := errors.Is(err, ErrUnknownCredential); err == nil || unknown != (token == "not-of-github") {
				t.Errorf("error %v", err)
			}
		}
	}
	if len(h.seen) != 1 || c.Outage() == nil {
		t.Errorf("GitHub was asked %d times, the outage is %v", len(h.seen), c.Outage())
	}
	if login, ok := c.Login(); !ok || login.ClientID != hubClient {
		t.Errorf("login %+v, %v", login, ok)
	}
}
