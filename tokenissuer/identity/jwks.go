package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

const (
	maxWebKeys = 128
	// RSA keys below are broken or too weak (RFC 7518 section 3.3), those above make a
	// check slow.
	minRSABits, maxRSABits = 2048, 8192
	maxRSAExponent         = 1<<31 - 1
)

// verifyingKey is a provider's public key.
type verifyingKey struct {
	id     string
	public crypto.PublicKey
	// algorithms are those that fit the key and are allowed for it.
	algorithms []string
}

// webKeys are a provider's keys. Two keys may share an id if they are of different
// kinds (RFC 7517 section 4.5).
type webKeys []verifyingKey

// find is the key that must have signed a token with that header. A token may name no
// key only if there is just one that it can be (OpenID Connect Core section 10.1).
func (k webKeys) find(h *jwtHeader) (found verifyingKey, ok bool) {
	for _, key := range k {
		if (h.KeyID != "" && key.id != h.KeyID) || !slices.Contains(key.algorithms, h.Algorithm) {
			continue
		}
		if ok {
			return verifyingKey{}, false
		}
		found, ok = key, true
	}
	return found, ok
}

// webKey is a JSON Web Key (RFC 7517, 7518 and 8037); of its members only those that
// decide whether and how it is used.
type webKey struct {
	Type       string   `json:"kty"`
	ID         string   `json:"kid"`
	Use        string   `json:"use"`
	Operations []string `json:"key_ops"`
	Algorithm  string   `json:"alg"`

	Curve string `json:"crv"`
	N     string `json:"n"`
	E     string `json:"e"`
	X     string `json:"x"`
	Y     string `json:"y"`

	// A set with a key's private part has told it to everybody.
	Private json.RawMessage `json:"d"`
}

// parseWebKeys reads a JSON Web Key Set. Keys that cannot be used are left out, as RFC
// 7517 section 5 wants. A set in which none is left, or whose ids do not tell its keys
// apart, is an error.
func parseWebKeys(data []byte, allowed []string) (webKeys, error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := decodeStrict(data, &document); err != nil {
		return nil, errors.New("it is no JSON Web Key Set")
	}
	if len(document.Keys) > maxWebKeys {
		return nil, fmt.Errorf("it has %d keys, more than %d", len(document.Keys), maxWebKeys)
	}
	var keys webKeys
	for i, raw := range document.Keys {
		key, ok := parseWebKey(raw, allowed)
		if !ok {
			continue
		}
		for _, earlier := range keys {
			if earlier.id == key.id && meet(earlier.algorithms, key.algorithms) {
				return nil, fmt.Errorf("keys[%d]: its kid is that of an earlier key for the same algorithm", i)
			}
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("none of its %d keys can be used for signatures of an allowed algorithm", len(document.Keys))
	}
	return keys, nil
}

func parseWebKey(raw json.RawMessage, allowed []string) (key verifyingKey, ok bool) {
	var k webKey
	if decodeStrict(raw, &k) != nil || !k.verifies() {
		return key, false
	}
	key.id = k.ID
	var fitting []string
	switch k.Type {
	case "RSA":
		key.public, fitting = k.rsa(), []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	case "EC":
		key.public, fitting = k.ecdsa()
	case "OKP":
		key.public, fitting = k.ed25519(), []string{"EdDSA"}
	}
	for _, algorithm := range fitting {
		if slices.Contains(allowed, algorithm) && (k.algorithm() == "" || k.algorithm() == algorithm) {
			key.algorithms = append(key.algorithms, algorithm)
		}
	}
	return key, key.public != nil && len(key.algorithms) > 0
}

func (k *webKey) verifies() bool {
	return k.Private == nil && len(k.ID) <= maxKeyIDBytes && (k.Use == "" || k.Use == "sig") &&
		(k.Operations == nil || slices.Contains(k.Operations, "verify"))
}

// algorithm knows EdDSA's new name (RFC 9864) too.
func (k *webKey) algorithm() string {
	if k.Algorithm == "Ed25519" {
		return "EdDSA"
	}
	return k.Algorithm
}

// rsa, ecdsa and ed25519 are nil for what is no key of that kind. They return an
// interface so that nil is nil.
func (k *webKey) rsa() crypto.PublicKey {
	modulus, modulusOK := decodePart(k.N)
	exponent, exponentOK := decodePart(k.E)
	if !modulusOK || !exponentOK || len(modulus) > maxRSABits/8 {
		return nil
	}
	n, e := new(big.Int).SetBytes(modulus), new(big.Int).SetBytes(exponent)
	switch {
	case n.BitLen() < minRSABits || n.Bit(0) == 0:
		return nil
	case e.Cmp(big.NewInt(maxRSAExponent)) > 0 || e.Cmp(big.NewInt(3)) < 0 || e.Bit(0) == 0:
		return nil
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}
}

func (k *webKey) ecdsa() (crypto.PublicKey, []string) {
	curves := map[string]struct {
		curve     elliptic.Curve
		algorithm string
	}{"P-256": {elliptic.P256(), "ES256"}, "P-384": {elliptic.P384(), "ES384"}, "P-521": {elliptic.P521(), "ES512"}}
	known, ok := curves[k.Curve]
	x, xOK := decodePart(k.X)
	y, yOK := decodePart(k.Y)
	if !ok || !xOK || !yOK {
		return nil, nil
	}
	size := (known.curve.Params().BitSize + 7) / 8
	if len(x) != size || len(y) != size {
		return nil, nil
	}
	// This also holds that the point lies on the curve.
	public, err := ecdsa.ParseUncompressedPublicKey(known.curve, slices.Concat([]byte{4}, x, y))
	if err != nil {
		return nil, nil
	}
	return public, []string{known.algorithm}
}

func (k *webKey) ed25519() crypto.PublicKey {
	x, ok := decodePart(k.X)
	if k.Curve != "Ed25519" || !ok || len(x) != ed25519.PublicKeySize {
		return nil
	}
	return ed25519.PublicKey(x)
}
