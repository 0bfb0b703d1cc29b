package tokenissuer

import (
	"fmt"
	"log/slog"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

// newProvider makes an identity provider of its configuration.
func newProvider(c ProviderConfig, log *slog.Logger) (identity.Provider, error) {
	switch c.Type {
	case ProviderStatic:
		return identity.LoadStatic(c.Name, c.Static.File, log)
	default:
		return nil, fmt.Errorf("type %q is not known", c.Type) // Validate lets none through
	}
}
