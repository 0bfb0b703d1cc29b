package tokenissuer

import (
	"fmt"
)

// ProviderConfig is one identity provider. They are asked in order.
type ProviderConfig struct {
	Name string `json:"name"`
	// Type says which of the blocks below holds.
	Type   ProviderType  `json:"type"`
	Static *StaticConfig `json:"static"`
}

// ProviderType is a kind of identity provider.
type ProviderType string

// ProviderStatic is a list of credentials in a file.
const ProviderStatic ProviderType = "Static"

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
		case names[p.Name]:
			problems = append(problems, fmt.Errorf("%s.name: %q is taken", field, p.Name))
		}
		names[p.Name] = true
		switch {
		case p.Type != ProviderStatic:
			problems = append(problems, fmt.Errorf("%s.type: %q is not known; it must be %s", field, p.Type, ProviderStatic))
		case p.Static == nil || p.Static.File == "":
			problems = append(problems, fmt.Errorf("%s.static.file: it is missing; name the file with the credentials", field))
		}
	}
	return problems
}
