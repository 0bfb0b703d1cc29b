package tokenissuer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/google/go-cmp/cmp"
)

const goodOIDC = `
issuer: https://tokens.example.com
audiences: [completions.example.com]
keys: {directory: keys}
identityProviders:
- name: corp
  type: OIDC
  oidc:
    issuer: https://login.example.com/realms/acme
    clientIDs: [ghostline]
    audiences: [https://tokens.example.com]
    plainAccessTokens: true
    algorithms: [RS256]
    caFile: ca.pem
    claims: {subject: oid, organizations: org, teams: /realm/groups, keep: [department], require: {hd: [acme.example]}}
    login: {clientID: ghostline, scope: openid groups, credential: IDToken}
- name: opaque
  type: Introspection
  introspection:
    url: https://login.example.com/introspect
    issuer: https://login.example.com
    auth: client_secret_post
    clientID: issuer
    secretFile: secret
    pattern: corp_.*
    clientIDs: [ghostline]
    audiences: [https://api.example.com]
    untyped: true
    caFile: ca.pem
    claims: {subject: sub}
  timeout: 2s
`

func TestLoadOIDCConfig(t *testing.T) {
	file := writeConfig(t, goodOIDC)
	got, err := LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(filepath.Dir(file), name) }
	wantOIDC := &OIDCConfig{
		Issuer: "https://login.example.com/realms/acme", ClientIDs: []string{"ghostline"}, Audiences: []string{"https://tokens.example.com"},
		PlainAccessTokens: true, Algorithms: []string{"RS256"}, CAFile: in("ca.pem"),
		Claims: ClaimsConfig{Subject: "oid", Organizations: "org", Teams: "/realm/groups", Keep: []string{"department"}, Require: map[string][]string{"hd": {"acme.example"}}},
		Login:  &OIDCLoginConfig{ClientID: "ghostline", Scope: "openid groups", Credential: LoginIDToken},
	}
	wantIntrospection := &IntrospectionConfig{
		URL: "https://login.example.com/introspect", Issuer: "https://login.example.com", Auth: identity.ClientSecretPost, ClientID: "issuer",
		SecretFile: in("secret"), Pattern: "corp_.*", ClientIDs: []string{"ghostline"}, Audiences: []string{"https://api.example.com"},
		Untyped: true, CAFile: in("ca.pem"), Claims: ClaimsConfig{Subject: "sub"},
	}
	if diff := cmp.Diff(wantOIDC, got.IdentityProviders[0].OIDC); diff != "" {
		t.Errorf("OIDC (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantIntrospection, got.IdentityProviders[1].Introspection); diff != "" {
		t.Errorf("introspection (-want +got):\n%s", diff)
	}
}

func TestOIDCConfigMistakes(t *testing.T) {
	const zero, one = "identityProviders[0].oidc", "identityProviders[1].introspection"
	for _, tc := range []struct{ old, new, want string }{
		{"type: OIDC", "type: oidc", `identityProviders[0].type: "oidc" is not known`},
		{"type: OIDC", "type: Introspection", "identityProviders[0].introspection: it is missing"},
		{"type: Introspection", "type: OIDC", "identityProviders[1].oidc: it is missing"},
		{"https://login.example.com/realms/acme", "http://login.example.com", zero + ".issuer: it must be an https URL"},
		{"https://login.example.com/realms/acme", "https://login.example.com?x", zero + ".issuer: it must have no query"},
		{"clientIDs: [ghostline]\n    audiences: [https://tokens.example.com]\n    plainAccessTokens: true", "", zero + ".clientIDs: neither it nor audiences"},
		{"    audiences: [https://tokens.example.com]\n", "", zero + ".plainAccessTokens: audiences must"},
		{"audiences: [https://tokens.example.com]", "audiences: [ghostline]", zero + ".audiences[0]: with plainAccessTokens"},
		{"clientIDs: [ghostline]", "clientIDs: [a b]", zero + ".clientIDs[0]: it must be"},
		{"clientIDs: [ghostline]", "clientIDs: [" + strings.Repeat("a,", 65) + "]", zero + ".clientIDs: there are 65"},
		{"algorithms: [RS256]", "algorithms: [HS256]", zero + ".algorithms[0]: it must be one of RS256,"},
		{"algorithms: [RS256]", "algorithms: [none]", zero + ".algorithms[0]"},
		{"subject: oid", "subject: email", zero + ".claims.subject: it must be an opaque id"},
		{"keep: [department]", "keep: ['']", zero + ".claims.keep[0]: it must be the name"},
		{"keep: [department]", "keep: [" + strings.Repeat("a,", 17) + "]", zero + ".claims: keep and require"},
		{"teams: /realm/groups", "teams: /", zero + ".claims.teams: it must be the name"},
		{"hd: [acme.example]", "hd: []", zero + `.claims.require: "hd" must have 1 to 64 values`},
		{"login: {clientID: ghostline,", "login: {", zero + ".login.clientID: it is missing"},
		{"login: {clientID: ghostline,", "login: {clientID: cli,", zero + ".login.clientID: clientIDs must have it too"},
		{"credential: IDToken", "credential: Refresh", zero + ".login.credential: it must be IDToken or AccessToken"},
		{"scope: openid groups", "scope: groups", zero + ".login.scope: it must have openid"},
		{"url: https://login.example.com/introspect", "url: http://login.example.com", one + ".url: it must be an https URL"},
		{"issuer: https://login.example.com\n    auth", "issuer: x\n    auth", one + ".issuer: it must be a URL"},
		{"auth: client_secret_post", "auth: private_key_jwt", one + ".auth: it must be one of"},
		{"clientID: issuer", "clientID: ''", one + ".clientID: it must be this issuer's own"},
		{"auth: client_secret_post", "auth: bearer", one + ".clientID: it must be this issuer's own, and be left out"},
		{"secretFile: secret", "", one + ".secretFile: it is missing"},
		{"pattern: corp_.*", "pattern: '('", one + ".pattern: it is no regular expression"},
		{"clientIDs: [ghostline]\n    audiences: [https://api.example.com]", "", one + ".clientIDs: neither it nor audiences"},
		{"timeout: 2s", "timeout: 2h", "identityProviders[1].timeout: 2h0m0s is not between"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			if !strings.Contains(goodOIDC, tc.old) {
				t.Fatalf("the good configuration has no %q", tc.old)
			}
			_, err := LoadConfig(writeConfig(t, strings.Replace(goodOIDC, tc.old, tc.new, 1)))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
	access := strings.Replace(goodOIDC, "credential: IDToken", "credential: AccessToken", 1)
	if _, err := LoadConfig(writeConfig(t, strings.Replace(access, "login: {clientID: ghostline,", "login: {clientID: cli,", 1))); err != nil {
		t.Errorf("a login for access tokens by another client: %v", err)
	}
}

func TestIntrospectionPatternIsOfTheWhole(t *testing.T) {
	pattern, err := (&IntrospectionConfig{Pattern: "a|b"}).pattern()
	if err != nil || !pattern.MatchString("a") || pattern.MatchString("ab") || pattern.MatchString("xb") {
		t.Errorf("%v, %v", pattern, err)
	}
}

func TestProvidersNeedTheirFiles(t *testing.T) {
	dir := t.TempDir()
	c, err := LoadConfig(writeConfig(t, goodOIDC))
	if err != nil {
		t.Fatal(err)
	}
	oidc, introspection := c.IdentityProviders[0], c.IdentityProviders[1]
	metrics := newProviderMetrics()
	if _, err := newProvider(oidc, nil, metrics); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without its CA file: %v", err)
	}
	oidc.OIDC.CAFile = filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(oidc.OIDC.CAFile, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newProvider(oidc, nil, metrics); err == nil || !strings.Contains(err.Error(), "holds no PEM certificate") {
		t.Errorf("with a CA file that is none: %v", err)
	}
	introspection.Introspection.CAFile = ""
	if _, err := newProvider(introspection, nil, metrics); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without its secret: %v", err)
	}
}
