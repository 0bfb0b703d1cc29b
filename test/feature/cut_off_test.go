package feature

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/tokenissuer"
)

// cutOffBound is what docs/configuration.md states: from the change of the files to the
// refusal, wherever the files lie. It is the one time that this package asserts, because
// it is a promise to users.
const cutOffBound = 12 * time.Second

const cutOffLogin = "login-of-one-who-leaves"

// tokenIssuer is an issuer that runs beside proxies.
type tokenIssuer struct {
	t     *testing.T
	dir   string
	url   string
	audit *lockedBuffer
}

func startIssuer(t *testing.T, rules string) *tokenIssuer {
	t.Helper()
	i := &tokenIssuer{t: t, dir: t.TempDir(), audit: &lockedBuffer{}}
	listener := listen(t)
	i.url = "http://" + listener.Addr().String()
	i.write("identities.yaml", "tokens: [{token: "+cutOffLogin+", subject: subject-1, clientID: editor}, {token: other, subject: subject-2, clientID: editor}]")
	i.write("entitlements.yaml", rules)
	rate := tokenissuer.RateConfig{RequestsPerSecond: 1e6, Burst: 1e6}
	o := tokenissuer.Options{
		Config: tokenissuer.Config{
			Issuer: i.url, Audiences: []string{audience}, Keys: tokenissuer.KeysConfig{Directory: filepath.Join(i.dir, "keys")},
			IdentityProviders: []tokenissuer.ProviderConfig{{Name: "local", Type: tokenissuer.ProviderStatic,
				Static: &tokenissuer.StaticConfig{File: filepath.Join(i.dir, "identities.yaml")}}},
			Entitlements: &tokenissuer.EntitlementsConfig{File: filepath.Join(i.dir, "entitlements.yaml")},
			Limits:       tokenissuer.LimitsConfig{PerAddress: rate, PerCredential: rate},
		},
		Listeners: httpserver.Listeners{Cleartext: listener}, Log: slog.New(slog.NewJSONHandler(i.audit, nil)),
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tokenissuer.Run(ctx, o) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the issuer ended with: %v", err)
		}
	})
	return i
}

func (i *tokenIssuer) write(name, content string) {
	i.t.Helper()
	replaceFile(i.t, filepath.Join(i.dir, name), content)
}

// replaceFile writes a file as a mount does, at once.
func replaceFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// exchange is the answer to a login, and the token if there is one.
func (i *tokenIssuer) exchange(login string) (status int, token string) {
	resp, err := http.PostForm(i.url+"/oauth/token", url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {login},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
	})
	if err != nil {
		i.t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	var granted struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&granted); err != nil {
		i.t.Error(err)
	}
	return resp.StatusCode, granted.Token
}

// proxyOf is a proxy that takes the issuer's tokens, with a list of denied subjects.
func (i *tokenIssuer) proxyOf(list string) *stack {
	i.t.Helper()
	return start(i.t, setup{config: func(c *config.Config) {
		c.Tokens = config.Tokens{
			Issuer: i.url, Audience: audience, KeySet: config.KeySet{URL: i.url + "/.well-known/jwks.json"},
			DeniedSubjects: &config.DeniedSubjects{File: list},
		}
	}})
}

// askWith is the status of a completion with a token.
func (s *stack) askWith(client *http.Client, token string) int {
	req := s.request(s.t.Context(), s.plainURL, "/v1/completions", `{"prompt":"x","model":"ghost-code","max_tokens":1}`)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		s.t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestCutOff denies somebody, in the issuer's entitlements and in the proxies' lists, and
// measures how long each of them goes on. One proxy's list lies where nothing tells of
// changes, so that it is found by polling only.
func TestCutOff(t *testing.T) {
	issuer := startIssuer(t, "rules: [{name: all, match: {everybody: true}, allow: {}}]")
	var (
		lists   []string
		proxies []*stack
	)
	for range 3 {
		lists = append(lists, filepath.Join(t.TempDir(), "denied"))
	}
	for n, list := range lists {
		replaceFile(t, list, "# nobody\n")
		s := issuer.proxyOf(list)
		if n > 0 { // beside the config, which is watched
			lists[n] = filepath.Join(s.dir, "denied")
			replaceFile(t, lists[n], "# nobody\n")
			s.config.Tokens.DeniedSubjects.File = "denied"
			s.writeConfig()
			s.eventually("the list is in use", func() bool { return strings.Contains(s.admin("/statusz"), s.configHash()) })
		}
		proxies = append(proxies, s)
	}
	_, token := issuer.exchange(cutOffLogin)
	_, other := issuer.exchange("other")
	for range 2 { // the second time, it is remembered as verified
		for n, s := range proxies {
			if status := s.askWith(s.h2c(), token); status != http.StatusOK {
				t.Fatalf("proxy %d answers %d before anybody is denied", n, status)
			}
		}
	}

	begin := time.Now()
	issuer.write("entitlements.yaml", `rules: [{name: all, match: {everybody: true}, allow: {}}, {name: left, match: {subjects: [subject-1]}, deny: {message: You have left.}}]`)
	for _, list := range lists {
		replaceFile(t, list, "subject-1\n")
	}
	var measured sync.WaitGroup
	measure := func(who string, refuses func() bool) {
		measured.Go(func() {
			for !refuses() {
				if time.Since(begin) > cutOffBound {
					t.Errorf("%s goes on after %v", who, cutOffBound)
					return
				}
				time.Sleep(2 * time.Millisecond)
			}
			t.Logf("%s refuses after %v", who, time.Since(begin).Round(time.Millisecond))
		})
	}
	measure("the issuer", func() bool { status, _ := issuer.exchange(cutOffLogin); return status == http.StatusBadRequest })
	for n, s := range proxies {
		client := s.h2c()
		who := "the proxy whose list is watched"
		if n == 0 {
			who = "the proxy whose list is polled"
		}
		measure(who, func() bool { return s.askWith(client, token) == http.StatusForbidden })
	}
	measured.Wait()
	for n, s := range proxies {
		if status := s.askWith(s.h2c(), other); status != http.StatusOK {
			t.Errorf("proxy %d answers another subject with %d", n, status)
		}
	}
	if status, _ := issuer.exchange("other"); status != http.StatusOK {
		t.Errorf("the issuer answers another subject with %d", status)
	}
	if audit := issuer.audit.String(); !strings.Contains(audit, `"rule":"left"`) || strings.Contains(audit, cutOffLogin) {
		t.Errorf("the issuer's log:\n%s", audit)
	}
}
