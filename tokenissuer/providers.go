package tokenissuer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

// newProvider makes an identity provider of its configuration.
func newProvider(c ProviderConfig, log *slog.Logger, m *providerMetrics) (identity.Provider, error) {
	switch c.Type {
	case ProviderStatic:
		return identity.LoadStatic(c.Name, c.Static.File, log)
	case ProviderGitHub:
		provider, err := newGitHub(c, log, m)
		if err != nil {
			return nil, err
		}
		return cached(c, provider, log, m), nil
	case ProviderOIDC:
		// It asks nobody about a credential, so there is nothing to spare it.
		return newOIDC(c.Name, c.OIDC, log, m)
	case ProviderIntrospection:
		provider, err := newIntrospection(c.Name, c.Introspection, log)
		if err != nil {
			return nil, err
		}
		return cached(c, provider, log, m), nil
	default:
		return nil, fmt.Errorf("type %q is not known", c.Type) // Validate lets none through
	}
}

// closeProviders ends what providers do on their own.
func closeProviders(providers []identity.Provider) error {
	var problems []error
	for _, provider := range providers {
		if closer, ok := provider.(io.Closer); ok {
			problems = append(problems, closer.Close())
		}
	}
	return errors.Join(problems...)
}
