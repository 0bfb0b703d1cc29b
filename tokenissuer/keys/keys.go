// Package keys keeps the issuer's signing keys.
package keys

import "github.com/ghostline-dev/ghostline/internal/token"

// Ring is the keys of an issuer at one moment: the one that signs, and all that
// are published, so that tokens of an earlier key stay good.
type Ring struct {
	Signer token.Signer
	Public token.KeySet
}
