package feature

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/tokenissuer"
	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
	"github.com/prometheus/client_golang/prometheus"
)

// oauthLogin is the one credential that the issuer of these tests knows.
const oauthLogin = "login-5c1d"

// tokenIssuer is a real issuer, on loopback.
type tokenIssuer struct {
	t        *testing.T
	dir      string
	url      string
	adminURL string
	keys     string // the directory
	metrics  *prometheus.Registry
	log      *lockedBuffer
}

// startIssuer runs an issuer for the length of the test, with its config changed as the
// test wants. Its keys wait for 8 s before they sign, and proxies ask for them every
// second. It may be asked as often as one likes.
func startIssuer(t *testing.T, change ...func(*tokenIssuer, *tokenissuer.Config)) *tokenIssuer {
	t.Helper()
	traffic, admin, dir := listen(t), listen(t), t.TempDir()
	i := &tokenIssuer{
		t: t, dir: dir, url: "http://" + traffic.Addr().String(), adminURL: "http://" + admin.Addr().String(),
		keys: filepath.Join(dir, "keys"), metrics: prometheus.NewRegistry(), log: &lockedBuffer{},
	}
	i.write("identities.yaml", "tokens: [{token: "+oauthLogin+", subject: subject-1, clientID: editor}, {token: other, subject: subject-2, clientID: editor}]")
	rate := tokenissuer.RateConfig{RequestsPerSecond: 1e6, Burst: 1e6}
	c := tokenissuer.Config{
		Issuer: i.url, Audiences: []string{audience}, TokenLife: tokenissuer.Duration(time.Minute),
		Keys: tokenissuer.KeysConfig{Directory: i.keys, Propagation: tokenissuer.Duration(4 * time.Second)},
		IdentityProviders: []tokenissuer.ProviderConfig{
			{Name: "local", Type: tokenissuer.ProviderStatic, Static: &tokenissuer.StaticConfig{File: filepath.Join(dir, "identities.yaml")}},
		},
		Limits: tokenissuer.LimitsConfig{PerAddress: rate, PerCredential: rate},
	}
	for _, set := range change {
		set(i, &c)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- tokenissuer.Run(ctx, tokenissuer.Options{
			Config: c, Listeners: httpserver.Listeners{Cleartext: traffic, Admin: admin},
			Log: slog.New(slog.NewJSONHandler(i.log, nil)), Metrics: i.metrics,
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the issuer ended with: %v", err)
		}
		if t.Failed() {
			t.Logf("the issuer's log:\n%s", i.log)
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

// trusted has a stack take this issuer's tokens. Give it as setup.before.
func (i *tokenIssuer) trusted(s *stack) {
	s.config.Tokens.Issuer = i.url
	s.config.Tokens.KeySet = config.KeySet{URL: i.url + "/.well-known/jwks.json"}
	s.writeConfig()
}

// token has the issuer make one.
func (i *tokenIssuer) token() string {
	i.t.Helper()
	status, token := i.exchange(oauthLogin)
	if token == "" {
		i.t.Errorf("no token, but status %d", status)
	}
	return token
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

// client is the Go client of a stack, with tokens of this issuer.
func (i *tokenIssuer) client(s *stack) *client.Client {
	i.t.Helper()
	source, err := client.NewTokenSource(client.TokenOptions{IssuerURL: i.url, OAuthToken: oauthLogin})
	if err != nil {
		i.t.Fatal(err)
	}
	c, err := client.New(client.Options{ProxyURL: s.plainURL, Tokens: source})
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { _ = c.Close() })
	return c
}

// stored are the keys in the directory, those that signed first.
func (i *tokenIssuer) stored() []keys.Key {
	i.t.Helper()
	state, err := keys.ReadDirectory(i.keys)
	if err != nil {
		i.t.Fatal(err)
	}
	return state.Keys
}

// signs is the id of the key that signs.
func (i *tokenIssuer) signs() string {
	id := ""
	for _, key := range i.stored() {
		if !key.Signs.IsZero() {
			id = key.KeyID
		}
	}
	return id
}

// withdraw takes all keys away.
func (i *tokenIssuer) withdraw(which ...keys.Key) {
	i.t.Helper()
	for _, key := range which {
		if err := keys.Withdraw(i.keys, key); err != nil {
			i.t.Fatal(err)
		}
	}
}
