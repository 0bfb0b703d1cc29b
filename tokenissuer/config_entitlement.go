package tokenissuer

import (
	"errors"
)

// EntitlementsConfig says where the rules are about who may have a token.
type EntitlementsConfig struct {
	// File is read again when it changes; see the package entitlement.
	File string `json:"file"`
}

func (c *Config) checkEntitlements() error {
	if c.Entitlements != nil && c.Entitlements.File == "" {
		return errors.New("entitlements.file: it is missing; name the file with the rules, or leave entitlements out")
	}
	return nil
}
