package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/client/login"
)

// idProvider is an identity provider and an issuer that believes it, at one address.
// All that it is asked for is one login.
type idProvider struct {
	*service
	mu      sync.Mutex
	logins  string // of the metadata; "" is one named hub
	code    string // answer to a request for a code; "" is a good one
	polls   []string
	asked   int
	kind    string
	token   string // the one that is good at the issuer
	refresh string // the one that is good here, once
	issuer  int    // status of the issuer's exchange; 0 does its work
	types   []string
}

func newIDProvider(t *testing.T, kind string) *idProvider {
	t.Helper()
	p := &idProvider{kind: kind, token: goodOAuth}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", p.metadata)
	mux.HandleFunc("POST /device", p.device)
	mux.HandleFunc("POST /token", p.grant)
	mux.HandleFunc("POST /oauth/token", p.exchange)
	p.service = startService(t, mux)
	return p
}

func (p *idProvider) entry(name string) string {
	return fmt.Sprintf(`{"name":%q,"client_id":"app","device_authorization_endpoint":"%s/device","token_endpoint":"%s/token",
		"subject_token_type":"urn:ietf:params:oauth:token-type:%s"}`, name, p.URL, p.URL, p.kind)
}

func (p *idProvider) metadata(w http.ResponseWriter, _ *http.Request) {
	logins := p.logins
	if logins == "" {
		logins = p.entry("hub")
	}
	fmt.Fprintf(w, `{"issuer":%q,"ghostline_logins":[%s]}`, p.URL, logins)
}

func (p *idProvider) device(w http.ResponseWriter, _ *http.Request) {
	code := p.code
	if code == "" {
		code = `{"device_code":"d","user_code":"WDJB-MJHT","verification_uri":"https://hub.example/device","expires_in":900,"interval":0.01,
			"verification_uri_complete":"https://hub.example/device?c=WDJB-MJHT"}`
	}
	io.WriteString(w, code)
}

// grant answers polls as prepared, and refreshes; a refresh token that comes twice
// ends the login.
func (p *idProvider) grant(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.PostFormValue("grant_type") == "refresh_token" {
		p.asked++
		if p.refresh == "" || r.PostFormValue("refresh_token") != p.refresh {
			p.refresh = ""
			io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		p.token = testIDToken(fmt.Sprint("renewed-", p.asked))
		p.refresh = fmt.Sprint("gho_refresh_", p.asked)
	} else if len(p.polls) > 0 {
		fmt.Fprintf(w, `{"error":%q}`, p.polls[0])
		p.polls = p.polls[1:]
		return
	}
	fmt.Fprintf(w, `{"access_token":%q,"id_token":%q,"token_type":"Bearer","refresh_token":%q}`, p.token, p.token, p.refresh)
}

func (p *idProvider) exchange(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.types = append(p.types, r.PostFormValue("subject_token_type"))
	switch {
	case p.issuer != 0:
		w.WriteHeader(p.issuer)
		io.WriteString(w, `{"error":"temporarily_unavailable"}`)
	case r.PostFormValue("subject_token") != p.token || p.token == badOAuth:
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":"invalid_request","error_description":"unknown token"}`)
	default:
		io.WriteString(w, `{"access_token":"completion-token","token_type":"Bearer","expires_in":1500}`)
	}
}

// testIDToken lives for ten minutes.
func testIDToken(subject string) string {
	payload := fmt.Sprintf(`{"sub":"gho_%s","iat":1000,"exp":1600}`, subject)
	return "gho_e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}

// visitor is a shell that has no OAuth token in its environment.
func (p *idProvider) visitor(t *testing.T) *shell {
	sh := p.shell(t)
	delete(sh.env, envOAuth)
	return sh
}

func TestLoginAtProvider(t *testing.T) {
	t.Parallel()
	p := newIDProvider(t, "access_token")
	p.polls = []string{"authorization_pending", "authorization_pending"}
	sh := p.visitor(t)
	status, stdout, stderr := sh.run(t.Context(), "", "login")
	if status != exitOK || stdout != "" {
		t.Fatalf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	for _, line := range []string{"    https://hub.example/device\n", "    WDJB-MJHT\n", "    https://hub.example/device?c=WDJB-MJHT\n", "by hub", "good for 15m0s", "Logged in to " + p.URL} {
		if !strings.Contains(stderr, line) {
			t.Errorf("it does not say %q: %q", line, stderr)
		}
	}
	if len(p.polls) > 0 {
		t.Errorf("logged in with %d polls left", len(p.polls))
	}
	path := filepath.Join(sh.dir, "config", "ghostline", "credentials.json")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info, err)
	}
	if got := sh.expect(exitOK, "", "token"); got != "completion-token\n" {
		t.Errorf("token printed %q", got)
	}
	sh.expect(exitOK, "Logged out of "+p.URL, "logout")
	if content, err := os.ReadFile(path); err != nil || strings.Contains(string(content), "gho_") {
		t.Errorf("after logout the file holds %s, %v", content, err)
	}
	sh.expect(exitFailure, "not logged in to "+p.URL+": run `ghostline login", "token")
	sh.env[envOAuth] = goodOAuth
	sh.expect(exitOK, envOAuth+" is set, and goes on being used", "logout")
	sh.expect(exitOK, envOAuth+" is set and comes before a stored login: unset it", "login")
}

// TestLoginOpensABrowserOnlyIfAsked: and goes on without one.
func TestLoginOpensABrowserOnlyIfAsked(t *testing.T) {
	t.Parallel()
	p := newIDProvider(t, "access_token")
	sh := p.visitor(t)
	sh.expect(exitOK, "", "login")
	if len(sh.browsed) > 0 {
		t.Errorf("opened %q unasked", sh.browsed)
	}
	sh.expect(exitOK, "", "login", "--browser")
	if want := "https://hub.example/device?c=WDJB-MJHT"; len(sh.browsed) != 1 || sh.browsed[0] != want {
		t.Errorf("opened %q, want %q", sh.browsed, want)
	}
	sh.browseErr = errors.New("no xdg-open")
	sh.expect(exitOK, "No browser could be opened (no xdg-open): open the page yourself", "login", "--browser")
}

func TestLoginChoosesProvider(t *testing.T) {
	t.Parallel()
	p := newIDProvider(t, "access_token")
	p.logins = p.entry("hub") + "," + p.entry("corp")
	sh := p.visitor(t)
	sh.expect(exitUsage, "choose where to log in by --provider: hub, corp", "login")
	sh.expect(exitUsage, `the issuer has no "x", but hub, corp`, "login", "--provider", "x")
	sh.expect(exitOK, "by corp", "login", "--provider", "corp")
	p.logins = "{}"
	sh.expect(exitFailure, "use `ghostline login --with-token`", "login")
}

func TestLoginFailures(t *testing.T) {
	t.Parallel()
	const goodCode = `{"device_code":"d","user_code":"WDJB","verification_uri":"https://hub.example/device","expires_in":900,"interval":0.01}`
	for name, tc := range map[string]struct {
		prepare func(*idProvider)
		says    string
	}{
		"denied":          {func(p *idProvider) { p.polls = []string{"access_denied"} }, "the login was refused at the provider: hub answered access_denied: nothing was stored"},
		"expired":         {func(p *idProvider) { p.polls = []string{"expired_token"} }, "the code has expired before the login was done: run `ghostline login` again"},
		"misconfigured":   {func(p *idProvider) { p.polls = []string{"device_flow_disabled"} }, "tell whoever runs the issuer"},
		"issuer says no":  {func(p *idProvider) { p.token = badOAuth }, "hub let you in, but the issuer refuses you (400 invalid_request unknown token), so nothing was stored"},
		"hostile code":    {func(p *idProvider) { p.code = strings.Replace(goodCode, "WDJB", `\u001b[2J`, 1) }, "user_code is missing, too long or not printable ASCII"},
		"hostile page":    {func(p *idProvider) { p.code = strings.Replace(goodCode, "https://hub.example", "javascript:", 1) }, "verification_uri"},
		"hostile words":   {func(p *idProvider) { p.code = `{"error":"x\u001b[2J","error_description":"\u009b31m"}` }, "hub answered x[2J (31m)"},
		"hostile address": {func(p *idProvider) { p.logins = strings.ReplaceAll(p.entry("hub"), "https://", "http://u.") }, "in clear text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newIDProvider(t, "access_token")
			tc.prepare(p)
			sh := p.visitor(t)
			status, _, stderr := sh.run(t.Context(), "", "login")
			if status != exitFailure || !strings.Contains(stderr, tc.says) || strings.ContainsAny(stderr, "\x1b\u009b") {
				t.Errorf("status %d, stderr %q; want %q", status, stderr, tc.says)
			}
			sh.expect(exitFailure, "not logged in", "token")
		})
	}
}

// TestLoginWhileIssuerIsOut: the person's work is not lost.
func TestLoginWhileIssuerIsOut(t *testing.T) {
	t.Parallel()
	p := newIDProvider(t, "access_token")
	p.issuer = http.StatusServiceUnavailable
	sh := p.visitor(t)
	sh.expect(exitFailure, "the login is stored, but could not be tried: the issuer answered 503", "login")
	p.issuer = 0
	sh.expect(exitOK, "completion-token", "token")
}

func TestLoginInterrupted(t *testing.T) {
	t.Parallel()
	p := newIDProvider(t, "access_token")
	p.code = `{"device_code":"d","user_code":"WDJB","verification_uri":"https://hub.example/device","expires_in":900,"interval":600}`
	sh := p.visitor(t)
	ctx, interrupt := context.WithCancel(t.Context())
	sh.browse = interrupt
	if status, _, stderr := sh.run(ctx, "", "login", "--browser"); status != exitFailure || !strings.HasSuffix(stderr, "ghostline: interrupted\n") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

// TestLoginIsRenewed: an ID token lives for minutes, a login for days.
func TestLoginIsRenewed(t *testing.T) {
	t.Parallel()
	p := newIDProvider(t, "id_token")
	p.token, p.refresh = testIDToken("first"), "gho_refresh"
	sh := p.visitor(t)
	sh.expect(exitOK, "Logged in", "login")
	sh.expect(exitOK, "completion-token", "token")
	if p.asked != 0 {
		t.Errorf("renewed %d times while the token was good", p.asked)
	}
	for _, kind := range p.types {
		if kind != string(client.TypeIDToken) {
			t.Errorf("subject_token_type %q", kind)
		}
	}
	// Two commands at once use the refresh token once.
	sh.age(time.Hour)
	var both sync.WaitGroup
	for range 4 {
		both.Go(func() { sh.expect(exitOK, "completion-token", "token") })
	}
	both.Wait()
	if p.asked != 1 {
		t.Errorf("renewed %d times, want once", p.asked)
	}
	// The issuer may know better than our clock that a token has ended.
	sh.age(7 * time.Minute)
	p.token = testIDToken("other")
	sh.expect(exitOK, "completion-token", "token")
	if p.asked != 2 {
		t.Errorf("renewed %d times, want twice", p.asked)
	}
	p.refresh = ""
	sh.age(time.Hour)
	sh.expect(exitFailure, "the login has ended: hub answered invalid_grant: run `ghostline login`", "token")
}

// age makes the stored login older.
func (s *shell) age(by time.Duration) {
	s.t.Helper()
	store := &credentials{path: filepath.Join(s.dir, "config", "ghostline", "credentials.json")}
	err := store.update(s.t.Context(), func(issuers map[string]login.Login) error {
		for issuer, l := range issuers {
			l.Obtained, l.Expires = l.Obtained.Add(-by), l.Expires.Add(-by)
			issuers[issuer] = l
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestOldCredentials: a file of before there were logins at providers is good.
func TestOldCredentials(t *testing.T) {
	t.Parallel()
	p := newIDProvider(t, "access_token")
	sh := p.visitor(t)
	if err := os.MkdirAll(filepath.Join(sh.dir, "config", "ghostline"), 0o700); err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(map[string]any{"issuers": map[string]any{p.URL: map[string]string{"oauth_token": goodOAuth}}})
	if err != nil {
		t.Fatal(err)
	}
	sh.file("config/ghostline/credentials.json", string(content))
	sh.expect(exitOK, "completion-token", "token")
	if p.types[0] != string(client.TypeAccessToken) {
		t.Errorf("subject_token_type %q", p.types[0])
	}
}

func TestTokenType(t *testing.T) {
	t.Parallel()
	p := newIDProvider(t, "access_token")
	sh := p.visitor(t)
	if status, _, stderr := sh.run(t.Context(), goodOAuth, "login", "--with-token", "--token-type", "jwt"); status != exitOK {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	sh.expect(exitOK, "completion-token", "token")
	sh.env[envOAuth], sh.env[envType] = goodOAuth, "id_token"
	sh.expect(exitOK, "completion-token", "token")
	sh.env[envType] = "saml"
	sh.expect(exitUsage, envType+` is "saml"`, "token")
	want := []string{string(client.TypeJWT), string(client.TypeJWT), string(client.TypeIDToken)}
	if fmt.Sprint(p.types) != fmt.Sprint(want) {
		t.Errorf("subject_token_types %q, want %q", p.types, want)
	}
}
