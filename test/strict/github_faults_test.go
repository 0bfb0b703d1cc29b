package strict

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestGitHubQuota: the headers count down, an app has its own quota, a 304 is free,
// and nobody gets more.
func TestGitHubQuota(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{Quota: 3})
	token := s.token(read)
	var tag string
	for i, want := range []string{"2", "1"} {
		response, _ := s.ask(t, token, call{path: "/user"})
		if got := response.Header.Get("X-RateLimit-Remaining"); got != want || response.Header.Get("X-RateLimit-Used") != strconv.Itoa(i+1) || response.Header.Get("X-RateLimit-Limit") != "3" {
			t.Errorf("request %d: %v", i, response.Header)
		}
		tag = response.Header.Get("Etag")
	}
	if response, body := s.ask(t, token, call{path: "/user", headers: map[string]string{"If-None-Match": tag}}); response.StatusCode != 304 || body != "" || response.Header.Get("X-RateLimit-Remaining") != "1" {
		t.Errorf("got %s %q with %s left", response.Status, body, response.Header.Get("X-RateLimit-Remaining"))
	}
	if response, _ := s.check(t, token); response.Header.Get("X-RateLimit-Remaining") != "2" {
		t.Errorf("the app has %s left", response.Header.Get("X-RateLimit-Remaining"))
	}
	if response, _ := serveGitHub(t, GitHubOptions{}).ask(t, "gho_no", call{path: "/user"}); response.Header.Get("X-RateLimit-Limit") != "60" {
		t.Errorf("an address has %s requests", response.Header.Get("X-RateLimit-Limit"))
	}
	s.ask(t, token, call{path: "/user"})
	s.clean(t)
	response, body := s.ask(t, token, call{path: "/user"})
	reset, _ := strconv.ParseInt(response.Header.Get("X-RateLimit-Reset"), 10, 64)
	if response.StatusCode != 403 || !strings.Contains(body, "API rate limit exceeded for user ID") || response.Header.Get("X-RateLimit-Remaining") != "0" || reset != s.now().Add(time.Hour).Unix() {
		t.Errorf("got %s %s %v", response.Status, body, response.Header)
	}
	s.clean(t)
	s.pass(time.Hour)
	if response, _ := s.ask(t, token, call{path: "/user"}); response.StatusCode != 200 {
		t.Errorf("an hour later: %s", response.Status)
	}
	s.clean(t)
}

// TestGitHubLimits: both kinds, until their time is over; who does not wait for it
// violates.
func TestGitHubLimits(t *testing.T) {
	tests := []struct {
		name    string
		fault   GitHubFault
		status  int
		header  string // present
		says    string
		over    time.Duration // when
		forever bool          // it does not end by itself
	}{
		{"primary", GitHubFault{Primary: true, Reset: 10 * time.Minute}, 403, "X-Ratelimit-Reset", "API rate limit exceeded", 10 * time.Minute, false},
		{"primary 429", GitHubFault{Primary: true, Status: 429}, 429, "X-Ratelimit-Reset", "API rate limit exceeded", time.Hour, false},
		{"secondary", GitHubFault{Secondary: true, RetryAfter: 30 * time.Second}, 403, "Retry-After", "secondary rate limit", 30 * time.Second, false},
		{"secondary 429", GitHubFault{Secondary: true, Status: 429, RetryAfter: time.Second}, 429, "Retry-After", "secondary rate limit", time.Second, false},
		{"secondary, bare", GitHubFault{Secondary: true}, 403, "", "secondary rate limit", time.Minute, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := serveGitHub(t, GitHubOptions{})
			token := s.token(read)
			s.Fail(tc.fault)
			response, body := s.ask(t, token, call{path: "/user"})
			if response.StatusCode != tc.status || !strings.Contains(body, tc.says) {
				t.Errorf("got %s %s", response.Status, body)
			}
			if tc.header != "" && response.Header.Get(tc.header) == "" || tc.header != "Retry-After" && response.Header.Get("Retry-After") != "" {
				t.Errorf("got %v", response.Header)
			}
			if zero := response.Header.Get("X-RateLimit-Remaining") == "0"; zero != tc.fault.Primary {
				t.Errorf("there are %s requests left", response.Header.Get("X-RateLimit-Remaining"))
			}
			s.clean(t)
			s.pass(tc.over - 1)
			if response, _ := s.ask(t, token, call{path: "/user"}); response.StatusCode != tc.status {
				t.Errorf("too early, got %s", response.Status)
			}
			if said := s.Violations(); len(said) != 1 || !strings.Contains(said[0], "before the time") {
				t.Errorf("the violations are %q", said)
			}
			s.pass(time.Hour)
			if response, _ := s.ask(t, token, call{path: "/user"}); (response.StatusCode == 200) == tc.forever {
				t.Errorf("afterwards, got %s", response.Status)
			}
			s.Heal()
			if response, _ := s.ask(t, token, call{path: "/user"}); response.StatusCode != 200 {
				t.Errorf("healed, got %s", response.Status)
			}
			if said := s.Violations(); len(said) != 1 {
				t.Errorf("the violations are %q", said)
			}
		})
	}
}

// TestGitHubHeal: nothing is left of a limit, on an Enterprise Server either, which
// has no headers of limits but those of one that it ran into.
func TestGitHubHeal(t *testing.T) {
	for prefix, left := range map[string]string{"": "4999", "/api/v3": ""} {
		s := serveGitHub(t, GitHubOptions{EnterpriseServer: prefix != ""})
		token := s.token(read)
		s.Fail(GitHubFault{Primary: true})
		if response, _ := s.ask(t, token, call{path: prefix + "/user"}); response.StatusCode != 403 || response.Header.Get("X-RateLimit-Remaining") != "0" {
			t.Errorf("got %s %v", response.Status, response.Header)
		}
		s.Heal()
		if response, _ := s.ask(t, token, call{path: prefix + "/user"}); response.StatusCode != 200 || response.Header.Get("X-RateLimit-Remaining") != left {
			t.Errorf("healed, got %s %v", response.Status, response.Header)
		}
		s.clean(t)
	}
}

// TestGitHubFaults: whom they befall, how often, and what then comes.
func TestGitHubFaults(t *testing.T) {
	tests := []struct {
		name   string
		fault  GitHubFault
		status int
		kind   string
		body   string
	}{
		{"outage", GitHubFault{Status: 503}, 503, "application/json; charset=utf-8", `"message":"Service Unavailable"`},
		{"message", GitHubFault{Status: 403, Message: "Maximum number of login attempts exceeded."}, 403, "application/json; charset=utf-8", "Maximum number"},
		{"validation", GitHubFault{Status: 422}, 422, "application/json; charset=utf-8", "Validation Failed"},
		{"page", HTMLFault(502), 502, "text/html; charset=utf-8", "Unicorn"},
		{"page as a success", HTMLFault(200), 200, "text/html; charset=utf-8", "Unicorn"},
		{"cut JSON", GitHubFault{Body: `{"login":"mo`}, 200, "application/json; charset=utf-8", `{"login":"mo`},
		{"header", GitHubFault{Header: http.Header{"content-type": {"application/x"}}}, 200, "application/x", `"login":"mona"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := serveGitHub(t, GitHubOptions{})
			token, other := s.token(read), s.AddToken(GitHubToken{Login: "hubot"})
			tc.fault.Times, tc.fault.Path, tc.fault.User = 1, "/user", "mona"
			s.Fail(tc.fault)
			if response, body := s.ask(t, other, call{path: "/user"}); response.StatusCode != 200 || strings.Contains(body, "Unicorn") {
				t.Errorf("it befell another: %s %s", response.Status, body)
			}
			if response, _ := s.check(t, token); response.StatusCode != 200 {
				t.Errorf("it befell another path: %s", response.Status)
			}
			response, body := s.ask(t, token, call{path: "/user"})
			if response.StatusCode != tc.status || response.Header.Get("Content-Type") != tc.kind || !strings.Contains(body, tc.body) {
				t.Errorf("got %s %s", response.Status, body)
			}
			if response, body := s.ask(t, token, call{path: "/user"}); response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/json; charset=utf-8" || !strings.HasSuffix(body, "}") {
				t.Errorf("it befell twice: %s %s", response.Status, body)
			}
			s.clean(t)
		})
	}
}

// TestGitHubHangs: an answer that comes late, or never.
func TestGitHubHangs(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{})
	token, release := s.token(read), make(chan struct{})
	s.Fail(GitHubFault{Hang: release})
	done := make(chan int, 1)
	go func() {
		response, _ := s.ask(t, token, call{path: "/user"})
		done <- response.StatusCode
	}()
	eventually(t, "one request hangs", func() bool { return s.Hanging() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/user", nil)
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
		}
		left <- err
	}()
	eventually(t, "two requests hang", func() bool { return s.Hanging() == 2 })
	cancel()
	if err := <-left; err == nil {
		t.Error("the client that left has an answer")
	}
	eventually(t, "the server sees that one left", func() bool { return s.Hanging() == 1 })
	close(release)
	if status := <-done; status != 200 {
		t.Errorf("got %d", status)
	}
	s.Heal()
	s.Fail(GitHubFault{Cut: true, Times: 1, Path: "/user/orgs"})
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/user/orgs", nil)
	if response, err := http.DefaultClient.Do(request); err == nil {
		response.Body.Close()
		t.Error("a cut connection gave an answer")
	}
}

// TestGitHubHosts: github.com has two, and neither serves what is the other's.
func TestGitHubHosts(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{})
	token := s.token(read)
	for name, host := range map[string]http.Handler{"API": s.API(), "Web": s.Web()} {
		at := serveGitHubHost(t, s, host)
		response, _ := at.ask(t, token, call{path: "/user"})
		if served := response.StatusCode == 200; served != (name == "API") {
			t.Errorf("%s: /user got %s", name, response.Status)
		}
		response, _ = at.device(t, "/login/device/code", "application/json", "client_id", testApp)
		if served := response.StatusCode == 200; served != (name == "Web") {
			t.Errorf("%s: /login/device/code got %s", name, response.Status)
		}
	}
}
