package tokenissuer

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// issuer is an issuer under test without its listeners.
type issuer struct {
	*server
	handler http.Handler
	log     *bytes.Buffer
}

func testConfig(t testing.TB) Config {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens.yaml")
	content := "tokens: [{token: " + testCredential + ", subject: u-1, clientID: editor, models: [ghost-code], tier: pro}]"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Config{
		Issuer: testIssuer, Audiences: []string{testAudience, "other.example.com"},
		Keys:              KeysConfig{Directory: filepath.Join(dir, "keys")},
		IdentityProviders: []ProviderConfig{{Name: "local", Type: ProviderStatic, Static: &StaticConfig{File: file}}},
		Endpoints:         EndpointsConfig{Proxy: "https://proxy.example.com", API: "https://api.example.com"},
		SKU:               "ghostline",
	}
}

func newIssuer(t testing.TB, change ...func(*Config)) *issuer {
	t.Helper()
	config := testConfig(t)
	for _, c := range change {
		c(&config)
	}
	log := new(bytes.Buffer)
	s, err := open(t.Context(), Options{Config: config, Log: slog.New(slog.NewJSONHandler(log, nil)), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	log.Reset()
	return &issuer{server: s, handler: s.handler(), log: log}
}

// unlimited is for tests that ask more often than a client may.
func unlimited(c *Config) {
	most := RateConfig{RequestsPerSecond: maxRate, Burst: maxRate}
	c.Limits = LimitsConfig{PerAddress: most, PerCredential: most}
}

func (i *issuer) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	i.handler.ServeHTTP(w, r)
	return w
}

// verify checks a token as a proxy would, with the keys that are published.
func (i *issuer) verify(t *testing.T, raw, audience string) token.Claims {
	t.Helper()
	answer := i.do(httptest.NewRequest(http.MethodGet, pathKeys, nil))
	keys, err := token.ParseKeySet(answer.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	claims, err := token.Verifier{Issuer: testIssuer, Audience: audience}.Verify(raw, keys, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// auditLine is the one line that an exchange logs.
func (i *issuer) auditLine(t *testing.T) map[string]any {
	t.Helper()
	if strings.Contains(i.log.String(), testCredential) {
		t.Errorf("the log has the credential: %s", i.log)
	}
	var line map[string]any
	if err := json.Unmarshal(i.log.Bytes(), &line); err != nil {
		t.Fatalf("not one line of JSON: %q: %v", i.log, err)
	}
	return line
}

func goodForm() url.Values {
	return url.Values{"grant_type": {grantTokenExchange}, "subject_token": {testCredential}, "subject_token_type": {typeAccessToken}}
}

func post(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, pathOAuth, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func askCopilot(authorization ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, pathCopilot, nil)
	r.Header["Authorization"] = authorization
	return r
}

// provider is an identity provider whose answer a test decides.
type provider struct {
	name     string
	identify func(ctx context.Context, credential identity.Credential) (identity.Identity, error)
}

func (p provider) Name() string { return p.name }
func (p provider) Identify(ctx context.Context, credential identity.Credential) (identity.Identity, error) {
	return p.identify(ctx, credential)
}

func answering(name string, who identity.Identity, err error) provider {
	return provider{name, func(context.Context, identity.Credential) (identity.Identity, error) { return who, err }}
}

func wantAnswer(t *testing.T, answer *httptest.ResponseRecorder, status int, cache, contentType string) {
	t.Helper()
	if answer.Code != status {
		t.Fatalf("status %d, want %d: %s", answer.Code, status, answer.Body)
	}
	for name, want := range map[string]string{"Cache-Control": cache, "Content-Type": contentType} {
		if got := answer.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if pragma := answer.Header().Get("Pragma"); (pragma == "no-cache") != (cache == "no-store") {
		t.Errorf("Pragma %q with Cache-Control %q", pragma, cache)
	}
	id := answer.Header().Get("X-Request-Id")
	if id == "" || answer.Header().Get("X-Github-Request-Id") != id {
		t.Errorf("X-Request-Id %q, and its twin %q", id, answer.Header().Get("X-Github-Request-Id"))
	}
}

// descriptionCharacters is the grammar of RFC 6749 section 5.2.
var descriptionCharacters = regexp.MustCompile(`^[ !#-\[\]-~]+$`)

func wantOAuthError(t *testing.T, answer *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	wantAnswer(t, answer, status, "no-store", "application/json")
	var got struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Error != code || !descriptionCharacters.MatchString(got.Description) {
		t.Errorf("error %q, description %q; want the error %q", got.Error, got.Description, code)
	}
	if strings.Contains(answer.Body.String(), "hunter") {
		t.Errorf("the answer repeats the credential: %s", answer.Body)
	}
}

func wantClaims(t *testing.T, got token.Claims, audience string) {
	t.Helper()
	want := token.Claims{
		Issuer: testIssuer, Audience: audience, Subject: "u-1", ClientID: "editor",
		Models: []string{"ghost-code"}, Tier: "pro", ID: got.ID, IssuedAt: got.IssuedAt, Expires: got.IssuedAt.Add(25 * time.Minute),
	}
	if diff := cmp.Diff(want, got); diff != "" || got.ID == "" {
		t.Errorf("id %q, claims (-want +got):\n%s", got.ID, diff)
	}
	if age := time.Since(got.IssuedAt); age < 0 || age > time.Minute {
		t.Errorf("issued %v ago", age)
	}
}

func wantRefresh(t *testing.T, refresh, life int64) {
	t.Helper()
	if refresh < life*72/100 || refresh > life*88/100 {
		t.Errorf("refresh in %d s of %d s, want 72 to 88 %%", refresh, life)
	}
}

func wantAudit(t *testing.T, i *issuer, want map[string]any) {
	t.Helper()
	line := i.auditLine(t)
	for _, name := range []string{"time", "level"} {
		delete(line, name)
	}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Errorf("audit line (-want +got):\n%s", diff)
	}
}

// wantCount holds that one exchange was counted so.
func wantCount(t *testing.T, i *issuer, endpoint, provider string, r result) {
	t.Helper()
	if got := testutil.ToFloat64(i.metrics.exchanges.WithLabelValues(endpoint, provider, string(r))); got != 1 {
		t.Errorf("exchanges{%s,%s,%s} is %v, want 1", endpoint, provider, r, got)
	}
}
