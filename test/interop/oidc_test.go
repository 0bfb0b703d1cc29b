package interop

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/tokenissuer"
	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/tidwall/gjson"
)

const (
	accessTokenType = "urn:ietf:params:oauth:token-type:access_token"
	idTokenType     = "urn:ietf:params:oauth:token-type:id_token"
	jwtType         = "urn:ietf:params:oauth:token-type:jwt"
)

// withStack is a stack whose issuer takes what the provider gives: people's ID
// tokens, JWT access tokens, and opaque ones, which it asks about.
func (p *openIDProvider) withStack() *stack {
	secret := filepath.Join(p.t.TempDir(), "secret")
	check(p.t, os.WriteFile(secret, []byte(providerSecret+"\n"), 0o600))
	return start(p.t, setup{issuer: func(c *tokenissuer.Config) {
		c.IdentityProviders = append(c.IdentityProviders,
			tokenissuer.ProviderConfig{Name: "people", Type: tokenissuer.ProviderOIDC, OIDC: &tokenissuer.OIDCConfig{
				Issuer: p.issuer, ClientIDs: []string{"ghostline"}, Claims: tokenissuer.ClaimsConfig{Require: map[string][]string{"email_verified": {"true"}, "groups": {"/Acme/Core"}}},
				Login: &tokenissuer.OIDCLoginConfig{ClientID: "ghostline"},
			}},
			tokenissuer.ProviderConfig{Name: "jwt", Type: tokenissuer.ProviderOIDC, OIDC: &tokenissuer.OIDCConfig{
				Issuer: p.issuer, Audiences: []string{forJWT},
			}},
			tokenissuer.ProviderConfig{Name: "opaque", Type: tokenissuer.ProviderIntrospection, Introspection: &tokenissuer.IntrospectionConfig{
				URL: p.issuer + "/token/introspection", Issuer: p.issuer, Auth: identity.ClientSecretBasic, ClientID: "ghostline-issuer", SecretFile: secret,
				ClientIDs: []string{"ghostline", "machine"}, Audiences: []string{forOpaque},
			}})
	}})
}

// exchanged asks the issuer for a completion token.
func (s *stack) exchanged(credential, kind string) (status int, body gjson.Result) {
	s.t.Helper()
	form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {credential}, "subject_token_type": {kind}}
	resp, err := s.http().PostForm(s.files.IssuerURL()+"/oauth/token", form)
	check(s.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	check(s.t, err)
	return resp.StatusCode, gjson.ParseBytes(data)
}

// wantUser has a credential exchanged, and the proxy complete for it.
func (s *stack) wantUser(name, credential, kind, subject, client string) {
	s.t.Helper()
	status, got := s.exchanged(credential, kind)
	token := got.Get("access_token").Str
	if status != http.StatusOK || token == "" {
		s.t.Errorf("%s: status %d: %s", name, status, got)
		return
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	check(s.t, err)
	if sub, id := gjson.GetBytes(claims, "sub").Str, gjson.GetBytes(claims, "client_id").Str; sub != subject || id != client {
		s.t.Errorf("%s: the token is of %s by %s, want %s by %s", name, sub, id, subject, client)
	}
	if a := <-s.beginWith(s.t.Context(), token, completion(8)); a.status != http.StatusOK || a.text(0) == "" {
		s.t.Errorf("%s: the proxy says %s", name, a)
	}
}

// wantRefused has a credential refused with a status: 400 is a denial, 503 an outage.
func (s *stack) wantRefused(name, credential, kind string, status int) {
	s.t.Helper()
	code := map[int]string{http.StatusBadRequest: "invalid_request", http.StatusServiceUnavailable: "temporarily_unavailable"}[status]
	if got, body := s.exchanged(credential, kind); got != status || body.Get("error").Str != code {
		s.t.Errorf("%s: status %d, %s; want %d and %s", name, got, body, status, code)
	}
}

// TestOpenIDProvider has what a certified provider gives exchanged for completion
// tokens, whichever way it was come by.
func TestOpenIDProvider(t *testing.T) {
	p := startOpenIDProvider(t)
	s := p.withStack()
	byJWT, byOpaque := p.logIn("alice", forJWT), p.logIn("bob", forOpaque)
	jwtAccess, opaqueAccess := byJWT.Get("access_token").Str, byOpaque.Get("access_token").Str
	for _, tc := range []struct{ name, credential, kind, subject, client string }{
		{"a person's ID token", byJWT.Get("id_token").Str, idTokenType, "people:alice", "ghostline"},
		{"it as a jwt", byOpaque.Get("id_token").Str, jwtType, "people:bob", "ghostline"},
		{"a person's JWT", jwtAccess, accessTokenType, "jwt:alice", "ghostline"},
		{"a person's opaque token", opaqueAccess, accessTokenType, "opaque:bob", "ghostline"},
		{"a machine's JWT", p.machineToken(forJWT), accessTokenType, "jwt:machine", "machine"},
		{"it as a jwt", p.machineToken(forJWT), jwtType, "jwt:machine", "machine"},
		{"a machine's opaque token", p.machineToken(forOpaque), accessTokenType, "opaque:machine", "machine"},
	} {
		s.wantUser(tc.name, tc.credential, tc.kind, tc.subject, tc.client)
	}
	other := p.logIn("unverified", forOpaque)
	for _, tc := range []struct{ name, credential, kind string }{
		{"without the claim that is required", other.Get("id_token").Str, idTokenType},
		{"an ID token as an access token", byJWT.Get("id_token").Str, accessTokenType},
		{"a JWT as an ID token", jwtAccess, idTokenType},
		{"a refresh token", byOpaque.Get("refresh_token").Str, accessTokenType},
		{"a token that is none", "none", accessTokenType},
		{"a changed token", jwtAccess[:len(jwtAccess)-4] + "AAAA", accessTokenType},
	} {
		if tc.credential == "" {
			t.Fatalf("%s: the provider gave none", tc.name)
		}
		s.wantRefused(tc.name, tc.credential, tc.kind, http.StatusBadRequest)
	}
}

// TestOpenIDProviderRevokes, rotates its keys, and goes down: only what it still
// vouches for is exchanged, and an outage is no denial.
func TestOpenIDProviderRevokes(t *testing.T) {
	p := startOpenIDProvider(t)
	s := p.withStack()
	revoked := p.machineToken(forOpaque)
	if got := p.post(p.issuer+"/token/revocation", "machine", url.Values{"token": {revoked}}); got.Get("error").Exists() {
		t.Fatalf("revocation: %s", got)
	}
	s.wantRefused("a revoked token", revoked, accessTokenType, http.StatusBadRequest)

	old := p.machineToken(forJWT)
	s.wantUser("the first key", old, accessTokenType, "jwt:machine", "machine")
	p.tell("rotate")
	fresh := p.machineToken(forJWT)
	looking(t, quiet, "a new key is taken", func() bool {
		status, _ := s.exchanged(fresh, accessTokenType)
		return status == http.StatusOK
	})
	s.wantUser("the new key", fresh, accessTokenType, "jwt:machine", "machine")
	s.wantRefused("the withdrawn key", old, accessTokenType, http.StatusBadRequest)

	known, unknown := p.machineToken(forOpaque), p.machineToken(forOpaque)
	s.wantUser("an opaque token", known, accessTokenType, "opaque:machine", "machine")
	p.tell("down")
	s.wantUser("a JWT in an outage", fresh, accessTokenType, "jwt:machine", "machine")
	s.wantUser("an opaque token that is known", known, accessTokenType, "opaque:machine", "machine")
	s.wantRefused("one that is not", unknown, accessTokenType, http.StatusServiceUnavailable)
	s.wantRefused("what cannot be of the provider", p.unsignedToken(), idTokenType, http.StatusBadRequest)
	p.tell("up")
	looking(t, quiet, "an opaque token is asked about again", func() bool {
		status, _ := s.exchanged(unknown, accessTokenType)
		return status == http.StatusOK
	})
}

// unsignedToken is the classic one, and no stranger to the provider's JWTs.
func (p *openIDProvider) unsignedToken() string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(`{"iss":"`+p.issuer+`","sub":"alice"}`)) + ".AA"
}

// TestOpenIDProviderIsDownAtStart keeps the issuer from nothing: others log in
// meanwhile.
func TestOpenIDProviderIsDownAtStart(t *testing.T) {
	p := startOpenIDProvider(t)
	token := p.machineToken(forJWT)
	p.tell("down")
	s := p.withStack()
	s.wantRefused("a JWT", token, accessTokenType, http.StatusServiceUnavailable)
	if a := s.complete(t.Context(), completion(8)); a.status != http.StatusOK {
		t.Errorf("a static login: %s", a)
	}
	p.tell("up")
	looking(t, quiet, "the provider is known", func() bool {
		status, _ := s.exchanged(token, accessTokenType)
		return status == http.StatusOK
	})
}
