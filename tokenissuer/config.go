// Package tokenissuer is the service that turns a login into a short-lived
// completion token: RFC 8693 token exchange, the form that Copilot clients
// speak, and the keys that tokens are checked with.
package tokenissuer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/ghostline-dev/ghostline/internal/loopback"
	"github.com/ghostline-dev/ghostline/internal/strictyaml"
)

// DefaultTokenLife is how long a token is good for. Clients get a new one after
// about 80 % of it.
const DefaultTokenLife = 25 * time.Minute

const (
	minTokenLife = 10 * time.Second
	maxTokenLife = 24 * time.Hour
	maxAudiences = 16
	maxProviders = 16
)

// Config is the issuer's configuration file.
type Config struct {
	// Issuer is this issuer's URL as its users reach it: the token's iss, and
	// the base of the endpoints in the metadata. Scheme and host only.
	Issuer string `json:"issuer"`
	// Audiences are those that tokens may be asked for; the first is the default.
	Audiences []string `json:"audiences"`
	// TokenLife is how long a token is good for; zero is DefaultTokenLife.
	TokenLife         Duration         `json:"tokenLife"`
	Keys              KeysConfig       `json:"keys"`
	IdentityProviders []ProviderConfig `json:"identityProviders"`
	// Endpoints and SKU are announced in the answer to Copilot clients.
	Endpoints EndpointsConfig `json:"endpoints"`
	SKU       string          `json:"sku"`
	// HelpURL is where a user who is refused is sent; empty is Issuer.
	HelpURL string `json:"helpURL"`
	// Entitlements are rules about who may have a token; without them, everybody whom a
	// provider knows.
	Entitlements *EntitlementsConfig `json:"entitlements"`
	Limits       LimitsConfig        `json:"limits"`
	// TrustedEdges are the networks (CIDR) of edges, whose word on a client's address
	// (X-Forwarded-For or Forwarded) is believed.
	TrustedEdges []string `json:"trustedEdges"`
}

// EndpointsConfig is where an editor finds the rest of the service; each may be "".
type EndpointsConfig struct {
	Proxy string `json:"proxy"`
	API   string `json:"api"`
}

// Duration is a time.Duration that stands as text such as 25m in a file.
type Duration time.Duration

// UnmarshalJSON reads what time.ParseDuration reads. Its error is of a type to
// which the decoder adds the field's name.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err == nil {
		if parsed, err := time.ParseDuration(text); err == nil {
			*d = Duration(parsed)
			return nil
		}
	}
	return &json.UnmarshalTypeError{Value: "value", Type: reflect.TypeFor[Duration]()}
}

// LoadConfig reads and validates a configuration file. Paths in it are relative
// to the file's own directory. The error holds every problem.
func LoadConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	var c Config
	if err := strictyaml.Decode(data, &c); err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	c.resolvePaths(filepath.Dir(path))
	return c, nil
}

func (c *Config) resolvePaths(dir string) {
	resolve := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	if c.Keys.Directory != "" {
		resolve(&c.Keys.Directory)
	}
	if c.Entitlements != nil {
		resolve(&c.Entitlements.File)
	}
	for i := range c.IdentityProviders {
		switch p := &c.IdentityProviders[i]; p.Type {
		case ProviderStatic:
			resolve(&p.Static.File)
		case ProviderGitHub:
			resolve(&p.GitHub.ClientSecretFile)
			resolve(&p.GitHub.CAFile)
		case ProviderOIDC:
			resolve(&p.OIDC.CAFile)
		case ProviderIntrospection:
			resolve(&p.Introspection.SecretFile)
			resolve(&p.Introspection.CAFile)
		}
	}
}

// Validate returns everything that is wrong with the configuration, joined. It
// changes nothing.
func (c *Config) Validate() error {
	problems := []error{
		checkURL("issuer", c.Issuer, hostOnly),
		c.checkAudiences(),
		c.checkTokenLife(),
	}
	problems = append(problems, c.checkKeys()...)
	problems = append(problems, c.checkProviders()...)
	problems = append(problems, c.checkEntitlements(), c.Limits.check())
	problems = append(problems, c.checkTrustedEdges()...)
	optional := []struct{ field, value string }{
		{"endpoints.proxy", c.Endpoints.Proxy}, {"endpoints.api", c.Endpoints.API}, {"helpURL", c.HelpURL},
	}
	for _, o := range optional {
		if o.value != "" {
			problems = append(problems, checkURL(o.field, o.value, anyPath))
		}
	}
	return errors.Join(problems...)
}

func (c *Config) checkAudiences() error {
	switch {
	case len(c.Audiences) == 0:
		return errors.New("audiences: it is empty; name what the proxies require in aud, as in completions.example.com")
	case len(c.Audiences) > maxAudiences:
		return fmt.Errorf("audiences: there are %d, more than %d", len(c.Audiences), maxAudiences)
	case slices.Contains(c.Audiences, ""):
		return errors.New("audiences: one of them is empty")
	}
	return nil
}

func (c *Config) checkTokenLife() error {
	if life := c.tokenLife(); life < minTokenLife || life > maxTokenLife || life%time.Second != 0 {
		return fmt.Errorf("tokenLife: %v is not between %v and %v in whole seconds", life, minTokenLife, maxTokenLife)
	}
	return nil
}

func (c *Config) tokenLife() time.Duration {
	if c.TokenLife == 0 {
		return DefaultTokenLife
	}
	return time.Duration(c.TokenLife)
}

func (c *Config) helpURL() string {
	if c.HelpURL == "" {
		return c.Issuer
	}
	return c.HelpURL
}

type urlRule bool

const (
	hostOnly urlRule = false
	anyPath  urlRule = true
)

// checkURL holds that tokens travel over TLS, but for what never leaves the
// machine.
func checkURL(field, value string, rule urlRule) error {
	const example = "as in https://tokens.example.com"
	u, err := url.Parse(value)
	switch {
	case value == "":
		return fmt.Errorf("%s: it is missing; it must be a URL, %s", field, example)
	case err != nil || u.Host == "" || u.User != nil || u.Opaque != "":
		return fmt.Errorf("%s: it must be a URL with a scheme and a host and no user, %s", field, example)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback.Is(u.Hostname())):
		return fmt.Errorf("%s: it must be an https URL (http only on loopback), %s", field, example)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fmt.Errorf("%s: it must have no query and no fragment", field)
	case rule == hostOnly && u.Path != "":
		return fmt.Errorf("%s: it must end with the host, without even a slash, %s", field, example)
	}
	return nil
}
