package tokenissuer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const goodConfig = `
issuer: https://tokens.example.com
audiences: [completions.example.com, other.example.com]
tokenLife: 20m
keys: {directory: keys}
identityProviders:
- {name: local, type: Static, static: {file: /etc/tokens.yaml}}
endpoints: {proxy: "https://proxy.example.com", api: "https://api.example.com/v3"}
entitlements: {file: entitlements.yaml}
limits: {perAddress: {requestsPerSecond: 0.5}}
trustedEdges: [10.0.0.0/8]
sku: ghostline
`

func writeConfig(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "issuer.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoadConfig(t *testing.T) {
	file := writeConfig(t, goodConfig)
	got, err := LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Issuer:            "https://tokens.example.com",
		Audiences:         []string{"completions.example.com", "other.example.com"},
		TokenLife:         Duration(20 * time.Minute),
		Keys:              KeysConfig{Directory: filepath.Join(filepath.Dir(file), "keys")},
		IdentityProviders: []ProviderConfig{{Name: "local", Type: ProviderStatic, Static: &StaticConfig{File: "/etc/tokens.yaml"}}},
		Endpoints:         EndpointsConfig{Proxy: "https://proxy.example.com", API: "https://api.example.com/v3"},
		SKU:               "ghostline",
		Entitlements:      &EntitlementsConfig{File: filepath.Join(filepath.Dir(file), "entitlements.yaml")},
		Limits:            LimitsConfig{PerAddress: RateConfig{RequestsPerSecond: 0.5}},
		TrustedEdges:      []string{"10.0.0.0/8"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestConfigDefaults(t *testing.T) {
	c := Config{Issuer: "https://tokens.example.com"}
	if c.tokenLife() != 25*time.Minute || c.helpURL() != c.Issuer {
		t.Errorf("life %v, help %q", c.tokenLife(), c.helpURL())
	}
}

func TestConfigMistakes(t *testing.T) {
	for _, tc := range []struct{ old, new, want string }{
		{"issuer:", "isuer:", `unknown field "isuer"`},
		{"issuer:", "Issuer:", `unknown field "Issuer"`},
		{"sku: ghostline", "sku: a\nsku: b", "twice"},
		{"sku: ghostline", "sku: [a]", "sku: is a list; it must be a string"},
		{"sku: ghostline", "sku: 'a", "it is neither YAML nor JSON"},
		{"static: {file:", "static: {fiel:", `unknown field "identityProviders[0].static.fiel"`},
		{"https://tokens.example.com", "''", "issuer: it is missing"},
		{"https://tokens.example.com", "tokens.example.com", "issuer: it must be a URL with a scheme"},
		{"https://tokens.example.com", "http://tokens.example.com", "issuer: it must be an https URL"},
		{"https://tokens.example.com", "ftp://localhost", "issuer: it must be an https URL"},
		{"https://tokens.example.com", "https://tokens.example.com/", "issuer: it must end with the host"},
		{"https://tokens.example.com", "https://tokens.example.com/a", "issuer: it must end with the host"},
		{"https://tokens.example.com", "https://tokens.example.com?a", "issuer: it must have no query"},
		{"https://tokens.example.com", "'https://tokens.example.com#a'", "issuer: it must have no query"},
		{"https://tokens.example.com", "https://u:p@tokens.example.com", "issuer: it must be a URL with a scheme"},
		{"[completions.example.com, other.example.com]", "[]", "audiences: it is empty"},
		{"[completions.example.com, other.example.com]", "['']", "audiences: one of them is empty"},
		{"[completions.example.com, other.example.com]", "completions.example.com", "audiences: is a string; it must be a list"},
		{"[completions.example.com, other.example.com]", "[" + strings.Repeat("a,", 17) + "]", "audiences: there are 17"},
		{"20m", "20", "tokenLife: is a value; it must be a duration, such as"},
		{"20m", "soon", "tokenLife: is a value; it must be a duration, such as"},
		{"20m", "9s", "tokenLife: 9s is not between 10s and 24h0m0s"},
		{"20m", "25h", "tokenLife: 25h0m0s is not between"},
		{"20m", "-20m", "tokenLife: -20m0s is not between"},
		{"20m", "20500ms", "whole seconds"},
		{"{directory: keys}", "{}", "keys: directory is missing"},
		{"{directory: keys}", "{directory: keys, secret: keys}", "keys: there are both directory and secret"},
		{"{directory: keys}", "{secret: Keys/a}", "keys.secret: it must be the name of a Secret"},
		{"{directory: keys}", "{directory: keys, propagation: 1s}", "keys.propagation: 1s is not between 2s and 24h0m0s"},
		{"{directory: keys}", "{directory: keys, propagation: 25h}", "keys.propagation: 25h0m0s is not"},
		{"{directory: keys}", "{directory: keys, rotateEvery: 30m}", "keys.rotateEvery: 30m0s is not between 35m30s (3 times"},
		{"{directory: keys}", "{directory: keys, rotateEvery: 9000h}", "keys.rotateEvery: 9000h0m0s is not between"},
		{"{directory: keys}", "{directory: keys, rotateEvery: -1h}", "keys.rotateEvery: -1h0m0s is not between"},
		{"\n- {name: local, type: Static, static: {file: /etc/tokens.yaml}}", " []", "identityProviders: there are 0"},
		{"name: local, ", "", "identityProviders[0].name: it is missing"},
		{"name: local", "name: none", `identityProviders[0].name: "none" is taken`},
		{"endpoints:", "- {name: local, type: Static, static: {file: b}}\nendpoints:", `identityProviders[1].name: "local" is taken`},
		{"type: Static", "type: LDAP", `identityProviders[0].type: "LDAP" is not known; it must be one of ["Static" `},
		{", static: {file: /etc/tokens.yaml}", "", "identityProviders[0].static.file: it is missing"},
		{"https://proxy.example.com", "proxy.example.com", "endpoints.proxy: it must be a URL"},
		{"https://api.example.com/v3", "http://api.example.com", "endpoints.api: it must be an https URL"},
		{"sku: ghostline", "helpURL: help", "helpURL: it must be a URL"},
		{"{file: entitlements.yaml}", "{}", "entitlements.file: it is missing"},
		{"requestsPerSecond: 0.5", "burst: -1", "limits.perAddress.burst: -1 is not between 1 and"},
		{"perAddress: {requestsPerSecond: 0.5", "perCredential: {requestsPerSecond: -0.5", "limits.perCredential.requestsPerSecond: -0.5 is not above 0"},
		{"perAddress: {requestsPerSecond: 0.5", "perCredential: {requestsPerSecond: 1e7", "limits.perCredential.requestsPerSecond: 1e+07 is not above 0 and at most"},
		{"[10.0.0.0/8]", "[10.0.0.0]", `trustedEdges[0]: "10.0.0.0" is no network`},
		{"[10.0.0.0/8]", "[" + strings.Repeat("10.0.0.0/8,", 65) + "]", "trustedEdges: there are 65"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			if !strings.Contains(goodConfig, tc.old) {
				t.Fatalf("the good configuration has no %q", tc.old)
			}
			_, err := LoadConfig(writeConfig(t, strings.Replace(goodConfig, tc.old, tc.new, 1)))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestConfigNamesAllProblems(t *testing.T) {
	_, err := LoadConfig(writeConfig(t, "sku: x"))
	for _, want := range []string{"issuer:", "audiences:", "keys:", "identityProviders:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
	if _, err := LoadConfig(filepath.Join(t.TempDir(), "absent.yaml")); err == nil {
		t.Error("an absent file is no error")
	}
}

func TestLoopbackMayDoWithoutTLS(t *testing.T) {
	for _, url := range []string{"http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost"} {
		if err := checkURL("issuer", url, hostOnly); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
