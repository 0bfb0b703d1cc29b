package token

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// tokenType is the header's typ. Exactly this is signed and accepted, so that
// no other JWT of the same issuer passes for a token (RFC 9068 section 4).
const tokenType = "at+jwt"

// Signer signs tokens with one key.
type Signer struct {
	// KeyID is the key's name in the published key set.
	KeyID string
	Key   ed25519.PrivateKey
}

// Sign returns the token that says c. All claims but Models and Tier are
// required (RFC 9068 section 2.2). It is an error if the token would be longer
// than MaxBytes.
func (s Signer) Sign(c Claims) (string, error) {
	if err := c.check(); err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	if len(s.Key) != ed25519.PrivateKeySize {
		return "", errors.New("sign token: there is no key to sign with")
	}
	unsigned := jwt.NewWithClaims(jwt.SigningMethodEdDSA, &wireClaims{
		Issuer: c.Issuer, Audience: audience{c.Audience}, Subject: c.Subject,
		IssuedAt: numericDate(c.IssuedAt), Expires: numericDate(c.Expires),
		ID: c.ID, ClientID: c.ClientID, Models: c.Models, Tier: c.Tier,
	})
	unsigned.Header["typ"] = tokenType
	unsigned.Header["kid"] = s.KeyID
	signed, err := unsigned.SignedString(s.Key)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	if len(signed) > MaxBytes {
		return "", fmt.Errorf("sign token: it has %d bytes, more than %d: shorten the list of models", len(signed), MaxBytes)
	}
	return signed, nil
}

func (c *Claims) check() error {
	required := []struct{ claim, value string }{
		{"issuer", c.Issuer}, {"audience", c.Audience}, {"subject", c.Subject},
		{"id", c.ID}, {"client id", c.ClientID},
	}
	for _, r := range required {
		if r.value == "" {
			return fmt.Errorf("the %s is missing", r.claim)
		}
	}
	if c.IssuedAt.Unix() < 0 || c.Expires.Unix() > maxNumericDate {
		return errNumericDate
	}
	if c.Expires.Sub(c.IssuedAt) < time.Second {
		return errors.New("it expires within a second of its issue")
	}
	return nil
}
