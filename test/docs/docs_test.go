// Package docs_test holds the documentation to the code.
package docs_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/strictyaml"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/tokenissuer"
	"github.com/ghostline-dev/ghostline/tokenissuer/entitlement"
	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

const page = "../../docs/configuration.md"

func TestProxyConfig(t *testing.T) {
	example := block(t, "proxy.yaml")
	if _, err := config.Decode([]byte(example)); err != nil {
		t.Errorf("%s, proxy.yaml:\n%v", page, err)
	}
	hasFields(t, example, reflect.TypeFor[config.Config]())
}

// The page says what each default is; the example has the default wherever there
// is one, so that taking those away must change nothing.
func TestProxyDefaults(t *testing.T) {
	written := decodeProxy(t, block(t, "proxy.yaml"))
	bare := *written
	bare.Limits, bare.Timeouts = config.Limits{}, config.Timeouts{}
	bare.SetDefaults()
	if bare.Limits != written.Limits {
		t.Errorf("limits: the page has %+v, the defaults are %+v", written.Limits, bare.Limits)
	}
	if bare.Timeouts != written.Timeouts {
		t.Errorf("timeouts: the page has %+v, the defaults are %+v", written.Timeouts, bare.Timeouts)
	}
}

func TestIssuerConfig(t *testing.T) {
	example := block(t, "issuer.yaml")
	var c tokenissuer.Config
	if err := strictyaml.Decode([]byte(example), &c); err != nil {
		t.Fatalf("%s, issuer.yaml:\n%v", page, err)
	}
	if err := c.Validate(); err != nil {
		t.Errorf("%s, issuer.yaml:\n%v", page, err)
	}
	if c.TokenLife != tokenissuer.Duration(tokenissuer.DefaultTokenLife) {
		t.Errorf("tokenLife: the page does not have the default, %v", tokenissuer.DefaultTokenLife)
	}
	for _, p := range c.IdentityProviders {
		defaults := tokenissuer.CacheConfig{
			Life: tokenissuer.Duration(identity.DefaultCacheLife), Stale: tokenissuer.Duration(identity.DefaultCacheStale),
			Negative: tokenissuer.Duration(identity.DefaultCacheNegative), Entries: identity.DefaultCacheEntries,
		}
		written := p.Timeout != 0 || p.InFlight != 0 || p.Cache != tokenissuer.CacheConfig{}
		if written && (p.Cache != defaults || p.Timeout != tokenissuer.Duration(identity.DefaultTimeout) || p.InFlight != identity.DefaultInFlight) {
			t.Errorf("identity provider %s: the page does not have the defaults, %+v", p.Name, defaults)
		}
	}
	if defaults := (tokenissuer.LimitsConfig{}).WithDefaults(); c.Limits != defaults {
		t.Errorf("limits: the page has %+v, the defaults are %+v", c.Limits, defaults)
	}
	hasFields(t, example, reflect.TypeFor[tokenissuer.Config]())
}

func TestEntitlements(t *testing.T) {
	example := block(t, "entitlements.yaml")
	policy, err := entitlement.Parse([]byte(example))
	if err != nil {
		t.Fatalf("%s, entitlements.yaml:\n%v", page, err)
	}
	if policy.Rules() != 3 {
		t.Errorf("%s, entitlements.yaml has %d rules", page, policy.Rules())
	}
	closed := regexp.MustCompile(`(?m)^  # `).ReplaceAllString(example, "  ")
	if policy, err := entitlement.Parse([]byte(closed)); err != nil || policy.Rules() != 4 {
		t.Errorf("%s, entitlements.yaml with what is a comment: %v", page, err)
	}
}

func TestIdentities(t *testing.T) {
	file := t.TempDir() + "/identities.yaml"
	if err := os.WriteFile(file, []byte(block(t, "identities.yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.LoadStatic("local", file, nil); err != nil {
		t.Error(err)
	}
}

// hasFields is an error for each field of a struct, at any depth, that the
// example does not have, even as a comment.
func hasFields(t *testing.T, example string, in reflect.Type) {
	t.Helper()
	switch in.Kind() {
	case reflect.Pointer, reflect.Slice:
		hasFields(t, example, in.Elem())
	case reflect.Struct:
		for field := range in.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !regexp.MustCompile(`(?m)^[ #-]*` + regexp.QuoteMeta(name) + `:`).MatchString(example) {
				t.Errorf("%s has no example of %q, a field of %s", page, name, in)
			}
			hasFields(t, example, field.Type)
		}
	}
}

func decodeProxy(t *testing.T, example string) *config.Config {
	t.Helper()
	c, err := config.Decode([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// block is the page's YAML block that begins with a comment of that name.
func block(t *testing.T, name string) string {
	t.Helper()
	fenced := regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```\n")
	for _, match := range fenced.FindAllStringSubmatch(read(t, page), -1) {
		if strings.HasPrefix(match[1], "# "+name+"\n") {
			return match[1]
		}
	}
	t.Fatalf("%s has no YAML block that begins with # %s", page, name)
	return ""
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
