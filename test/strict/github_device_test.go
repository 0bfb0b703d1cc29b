package strict

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

func serveGitHubHost(t *testing.T, s *gitHubServed, host http.Handler) *gitHubServed {
	t.Helper()
	server := httptest.NewServer(host)
	t.Cleanup(server.Close)
	return &gitHubServed{GitHub: s.GitHub, url: server.URL}
}

// device posts a form of names and values.
func (s *gitHubServed) device(t *testing.T, path, accept string, form ...string) (*http.Response, string) {
	t.Helper()
	values := url.Values{}
	for i := 0; i < len(form); i += 2 {
		values.Set(form[i], form[i+1])
	}
	return send(t, call{path: path, body: values.Encode()}.request(t, s.url, map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Accept": accept, "User-Agent": "test",
	}))
}

func (s *gitHubServed) begin(t *testing.T) (device, user string) {
	t.Helper()
	response, body := s.device(t, "/login/device/code", "application/json", "client_id", testApp, "scope", "user:email read:org user")
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Fatalf("got %s %s", response.Status, body)
	}
	return gjson.Get(body, "device_code").Str, gjson.Get(body, "user_code").Str
}

// mustPoll returns the answer, which has status 200 whatever it is.
func (s *gitHubServed) mustPoll(t *testing.T, device string) string {
	t.Helper()
	response, body := s.device(t, "/login/oauth/access_token", "application/json", "client_id", testApp, "device_code", device, "grant_type", deviceGrant)
	if response.StatusCode != 200 {
		t.Errorf("a poll got %s %s", response.Status, body)
	}
	return body
}

// TestGitHubDeviceFlow: a login as it should be.
func TestGitHubDeviceFlow(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{})
	device, user := s.begin(t)
	if len(device) != 40 || len(user) != 9 || user[4] != '-' {
		t.Errorf("the codes are %q and %q", device, user)
	}
	if got := gjson.Get(s.mustPoll(t, device), "error").Str; got != "authorization_pending" {
		t.Errorf("got %s", got)
	}
	if began := s.Devices(); len(began) != 1 || began[0].UserCode != user || began[0].Polls != 1 {
		t.Errorf("began %+v", began)
	}
	token := s.Approve(user, "mona", nil)
	s.pass(5 * time.Second)
	body := s.mustPoll(t, device)
	if gjson.Get(body, "access_token").Str != token || gjson.Get(body, "token_type").Str != "bearer" || gjson.Get(body, "scope").Str != "read:org,user" {
		t.Errorf("got %s", body)
	}
	if _, body := s.check(t, token); gjson.Get(body, "user.login").Str != "mona" {
		t.Errorf("the token is good for %s", body)
	}
	s.pass(5 * time.Second)
	if got := gjson.Get(s.mustPoll(t, device), "error").Str; got != "incorrect_device_code" {
		t.Errorf("the code was used twice: %s", got)
	}
	s.clean(t)
}

// TestGitHubDeviceErrors: each of the documented errors, and when it comes.
func TestGitHubDeviceErrors(t *testing.T) {
	s := serveGitHub(t, GitHubOptions{})
	device, user := s.begin(t)
	s.mustPoll(t, device)
	for _, want := range []int64{10, 15} { // 5 seconds more each time
		s.pass(time.Second)
		body := s.mustPoll(t, device)
		if gjson.Get(body, "error").Str != "slow_down" || gjson.Get(body, "interval").Int() != want {
			t.Errorf("got %s", body)
		}
	}
	if said := s.Violations(); len(said) != 2 || !strings.Contains(said[0], "polled 1s after the last poll; the interval is 5s") {
		t.Errorf("the violations are %q", said)
	}
	s.pass(15 * time.Second)
	if got := gjson.Get(s.mustPoll(t, device), "error").Str; got != "authorization_pending" {
		t.Errorf("got %s", got)
	}
	s.Deny(user)
	s.pass(15 * time.Second)
	if got := gjson.Get(s.mustPoll(t, device), "error").Str; got != "access_denied" {
		t.Errorf("got %s", got)
	}
	device, _ = s.begin(t)
	s.pass(900 * time.Second)
	if got := gjson.Get(s.mustPoll(t, device), "error").Str; got != "expired_token" {
		t.Errorf("got %s", got)
	}
	device, user = s.begin(t)
	s.Expire(user)
	if got := gjson.Get(s.mustPoll(t, device), "error").Str; got != "expired_token" {
		t.Errorf("got %s", got)
	}
	device, _ = s.begin(t)
	s.Fail(GitHubFault{OAuthError: "incorrect_device_code", Times: 1, Path: "/login/oauth/"})
	for _, want := range []string{"incorrect_device_code", "authorization_pending"} {
		if got := gjson.Get(s.mustPoll(t, device), "error").Str; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	s.AddApp("other", "secret")
	if _, body := s.device(t, "/login/oauth/access_token", "application/json", "client_id", "other", "device_code", device, "grant_type", deviceGrant); gjson.Get(body, "error").Str != "incorrect_device_code" {
		t.Errorf("another app got %s", body)
	}
	s.Approve(s.Devices()[3].UserCode, "mona", []string{"user"})
	s.pass(5 * time.Second)
	if body := s.mustPoll(t, device); gjson.Get(body, "scope").Str != "user" {
		t.Errorf("the user granted less than %s", body)
	}
	if said := s.Violations(); len(said) != 2 {
		t.Errorf("the violations are %q", said)
	}
}

// TestGitHubDeviceRefusals: wrong parameters.
func TestGitHubDeviceRefusals(t *testing.T) {
	tests := []struct {
		name, path, form string
		status           int
		err, violation   string // the latter "" if there is none
	}{
		{"client", "/login/device/code", "client_id=no", 404, "Not Found", ""},
		{"no client", "/login/device/code", "scope=user", 404, "Not Found", "client_id is required"},
		{"secret", "/login/device/code", "client_id=" + testApp + "&client_secret=x", 200, "", "client_secret is not of the endpoint"},
		{"commas", "/login/device/code", "client_id=" + testApp + "&scope=user,repo", 200, "", "delimited by spaces"},
		{"grant", "/login/oauth/access_token", "client_id=" + testApp + "&device_code=x&grant_type=device_code", 200, "unsupported_grant_type", "grant_type is not"},
		{"client of a poll", "/login/oauth/access_token", "client_id=no&device_code=x&grant_type=" + deviceGrant, 200, "incorrect_client_credentials", ""},
		{"code", "/login/oauth/access_token", "client_id=" + testApp + "&device_code=x&grant_type=" + deviceGrant, 200, "incorrect_device_code", ""},
		{"twice", "/login/oauth/access_token", "client_id=" + testApp + "&device_code=x&device_code=y&grant_type=" + deviceGrant, 200, "incorrect_device_code", "device_code is there 2 times"},
		{"other path", "/login/device", "client_id=" + testApp, 404, "Not Found", "is not of the device flow"},
		{"in the URL", "/login/device/code?client_id=" + testApp, "", 404, "Not Found", "parameters are in the URL"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := serveGitHub(t, GitHubOptions{})
			response, body := send(t, call{path: tc.path, body: tc.form}.request(t, s.url, map[string]string{
				"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", "User-Agent": "test",
			}))
			if response.StatusCode != tc.status || gjson.Get(body, "error").Str != tc.err {
				t.Errorf("got %s %s", response.Status, body)
			}
			said := strings.Join(s.Violations(), "\n")
			if !strings.Contains(said, tc.violation) || (said == "") != (tc.violation == "") {
				t.Errorf("the violations are %q", said)
			}
		})
	}
	s := serveGitHub(t, GitHubOptions{NoDeviceFlow: true})
	if response, body := s.device(t, "/login/device/code", "application/json", "client_id", testApp); response.StatusCode != 400 || gjson.Get(body, "error").Str != "device_flow_disabled" {
		t.Errorf("got %s %s", response.Status, body)
	}
	if got := gjson.Get(s.mustPoll(t, "x"), "error").Str; got != "device_flow_disabled" {
		t.Errorf("got %s", got)
	}
	s.clean(t)
	send(t, call{path: "/login/device/code", body: `{"client_id":"` + testApp + `"}`}.request(t, s.url, map[string]string{"User-Agent": "test", "Accept": "application/json", "Authorization": "Bearer x"}))
	if said := strings.Join(s.Violations(), "\n"); !strings.Contains(said, "Content-Type is") || !strings.Contains(said, "Authorization was sent") {
		t.Errorf("the violations are %q", said)
	}
}

// TestGitHubDeviceForms: an answer is a form, unless the client asks otherwise.
func TestGitHubDeviceForms(t *testing.T) {
	for accept, kind := range map[string]string{"": "application/x-www-form-urlencoded", "application/xml": "application/xml", "text/html": "application/x-www-form-urlencoded"} {
		s := serveGitHub(t, GitHubOptions{EnterpriseServer: true})
		response, body := s.device(t, "/login/device/code", accept, "client_id", testApp)
		if got := response.Header.Get("Content-Type"); got != kind+"; charset=utf-8" {
			t.Errorf("Accept %q: got %s", accept, got)
		}
		code := s.Devices()[0].UserCode
		want := "&user_code=" + code + "&verification_uri=" + url.QueryEscape(s.url+"/login/device") + "&expires_in=900&interval=5"
		if kind == "application/xml" {
			want = "<user_code>" + code + "</user_code>\n  <verification_uri>" + s.url + "/login/device</verification_uri>\n  <expires_in>900</expires_in>\n  <interval>5</interval>\n</OAuth>\n"
		}
		if !strings.Contains(body, want) {
			t.Errorf("Accept %q: got %s", accept, body)
		}
		if violated := len(s.Violations()) > 0; violated != (accept == "text/html") {
			t.Errorf("Accept %q: %q", accept, s.Violations())
		}
	}
}
