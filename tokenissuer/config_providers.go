package tokenissuer

import (
	"fmt"
	"regexp"
)

// ProviderConfig is one identity provider. They are asked in order.
type ProviderConfig struct {
	Name string `json:"name"`
	// Type says which of the blocks below holds.
	Type   ProviderType  `json:"type"`
	Static *StaticConfig `json:"static"`
	GitHub *GitHubConfig `json:"github"`
	OIDC   *OIDCConfig   `json:"oidc"`
	// Introspection is of type Introspection.
	Introspection *IntrospectionConfig `json:"introspection"`
	// Timeout bounds a lookup, InFlight how many there are at a time. Neither they nor
	// Cache are of types Static and OIDC.
	Timeout  Duration    `json:"timeout"`
	InFlight int         `json:"inFlight"`
	Cache    CacheConfig `json:"cache"`
}

// ProviderType is a kind of identity provider.
type ProviderType string

// The kinds of identity providers.
const (
	ProviderStatic ProviderType = "Static" // a list of credentials in a file
	ProviderGitHub ProviderType = "GitHub" // github.com, GHE.com or an Enterprise Server
	ProviderOIDC   ProviderType = "OIDC"   // ID tokens and JWT access tokens of an OpenID provider
	// ProviderIntrospection is an authorization server that is asked about each token.
	ProviderIntrospection ProviderType = "Introspection"
)

// providerNamePattern is of names that stand before a colon in subjects.
var providerNamePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// StaticConfig is a provider of type Static.
type StaticConfig struct {
	// File lists the credentials; see identity.LoadStatic.
	File string `json:"file"`
}

func (c *Config) checkProviders() []error {
	if len(c.IdentityProviders) == 0 || len(c.IdentityProviders) > maxProviders {
		return []error{fmt.Errorf("identityProviders: there are %d; there must be 1 to %d, or nobody could log in",
			len(c.IdentityProviders), maxProviders)}
	}
	var problems []error
	names := map[string]bool{noProvider: true}
	for i, p := range c.IdentityProviders {
		field := fmt.Sprintf("identityProviders[%d]", i)
		switch {
		case p.Name == "":
			problems = append(problems, fmt.Errorf("%s.name: it is missing", field))
		case !providerNamePattern.MatchString(p.Name):
			problems = append(problems, fmt.Errorf("%s.name: it must be at most 63 letters, digits, dots, dashes and underscores", field))
		case names[p.Name]:
			problems = append(problems, fmt.Errorf("%s.name: %q is taken", field, p.Name))
		}
		names[p.Name] = true
		problems = append(problems, p.check(field)...)
	}
	return problems
}

// check is of what the type needs.
func (p *ProviderConfig) check(field string) []error {
	switch p.Type {
	case ProviderStatic:
		return []error{p.Static.check(field), p.checkNoCache(field)}
	case ProviderGitHub:
		return []error{p.GitHub.check(field), p.checkCache(field)}
	case ProviderOIDC:
		return []error{p.OIDC.check(field), p.checkNoCache(field)}
	case ProviderIntrospection:
		return []error{p.Introspection.check(field), p.checkCache(field)}
	}
	return []error{fmt.Errorf("%s.type: %q is not known; it must be one of %q", field, p.Type,
		[]ProviderType{ProviderStatic, ProviderGitHub, ProviderOIDC, ProviderIntrospection})}
}

func (s *StaticConfig) check(field string) error {
	if s == nil || s.File == "" {
		return fmt.Errorf("%s.static.file: it is missing; name the file with the credentials", field)
	}
	return nil
}
