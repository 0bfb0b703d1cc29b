package feature

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/tokenissuer"
)

// cutOffWithin is when a proxy that goes on is taken for one that never refuses. What
// docs/configuration.md promises is less; how long it took is in the test's log.
const cutOffWithin = time.Minute

// withRules has the issuer decide by these entitlements.
func withRules(rules string) func(*tokenIssuer, *tokenissuer.Config) {
	return func(i *tokenIssuer, c *tokenissuer.Config) {
		i.write("entitlements.yaml", rules)
		c.Entitlements = &tokenissuer.EntitlementsConfig{File: filepath.Join(i.dir, "entitlements.yaml")}
	}
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
	issuer := startIssuer(t, withRules("rules: [{name: all, match: {everybody: true}, allow: {}}]"))
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
	_, token := issuer.exchange(oauthLogin)
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
				if time.Since(begin) > cutOffWithin {
					t.Errorf("%s goes on after %v", who, cutOffWithin)
					return
				}
				time.Sleep(2 * time.Millisecond)
			}
			t.Logf("%s refuses after %v", who, time.Since(begin).Round(time.Millisecond))
		})
	}
	measure("the issuer", func() bool { status, _ := issuer.exchange(oauthLogin); return status == http.StatusBadRequest })
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
	if audit := issuer.log.String(); !strings.Contains(audit, `"rule":"left"`) || strings.Contains(audit, oauthLogin) {
		t.Errorf("the issuer's log:\n%s", audit)
	}
}
