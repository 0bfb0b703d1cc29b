package token

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	strictjson "sigs.k8s.io/json"
)

// Bounds of a JSON Web Key Set.
const (
	MaxKeySetBytes = 64 << 10
	maxKeys        = 64
	maxKeyIDBytes  = 256
)

// KeySet is the public keys that tokens may be signed with, by key id. It never
// changes once made; the zero KeySet has no keys.
type KeySet struct {
	keys map[string]ed25519.PublicKey
}

// NewKeySet makes a key set of the given keys, each with its Thumbprint as id.
func NewKeySet(keys ...ed25519.PublicKey) KeySet {
	set := KeySet{keys: make(map[string]ed25519.PublicKey, len(keys))}
	for _, key := range keys {
		set.keys[Thumbprint(key)] = slices.Clone(key)
	}
	return set
}

// Len is how many keys there are.
func (s KeySet) Len() int { return len(s.keys) }

// IDs are the key ids, sorted.
func (s KeySet) IDs() []string { return slices.Sorted(maps.Keys(s.keys)) }

// Key returns a copy of the key with that id.
func (s KeySet) Key(id string) (ed25519.PublicKey, bool) {
	key, ok := s.keys[id]
	return slices.Clone(key), ok
}

// Thumbprint is the key's RFC 7638 thumbprint (SHA-256, base64url), in the form
// that RFC 8037 section 2 gives it for Ed25519.
func Thumbprint(key ed25519.PublicKey) string {
	canonical := `{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(key) + `"}`
	sum := sha256.Sum256([]byte(canonical))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// webKey is a JSON Web Key (RFC 7517, and RFC 8037 for Ed25519). Only what
// decides whether and how a key is used is read.
type webKey struct {
	Type       string          `json:"kty"`
	Curve      string          `json:"crv"`
	ID         string          `json:"kid"`
	Use        string          `json:"use,omitempty"`
	Operations []string        `json:"key_ops,omitempty"`
	Algorithm  string          `json:"alg,omitempty"`
	X          string          `json:"x"`
	Private    json.RawMessage `json:"d,omitempty"`
}

// MarshalJSON is the key set as a JSON Web Key Set, sorted by key id.
func (s KeySet) MarshalJSON() ([]byte, error) {
	keys := make([]webKey, 0, len(s.keys))
	for _, id := range s.IDs() {
		keys = append(keys, webKey{
			Type: "OKP", Curve: "Ed25519", ID: id, Use: "sig", Algorithm: "EdDSA",
			X: base64.RawURLEncoding.EncodeToString(s.keys[id]),
		})
	}
	return json.Marshal(map[string][]webKey{"keys": keys})
}

// ParseKeySet reads a JSON Web Key Set of at most MaxKeySetBytes. Keys that are
// no Ed25519 signing keys are left out, as RFC 7517 section 5 wants. A set
// without any Ed25519 key, a repeated or missing key id, a malformed key and a
// private key are errors, where section 5 would have a malformed one left out: one
// issuer of ours writes the set, so a broken key is a broken set, and to use the rest
// would drop a key that is in use.
func ParseKeySet(data []byte) (KeySet, error) {
	if len(data) > MaxKeySetBytes {
		return KeySet{}, fmt.Errorf("key set: it has more than %d bytes", MaxKeySetBytes)
	}
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := decodeStrict(data, &document); err != nil {
		return KeySet{}, fmt.Errorf("key set: not a JSON Web Key Set: %w", err)
	}
	if len(document.Keys) > maxKeys {
		return KeySet{}, fmt.Errorf("key set: it has %d keys, more than %d", len(document.Keys), maxKeys)
	}
	set := KeySet{keys: make(map[string]ed25519.PublicKey, len(document.Keys))}
	for i, raw := range document.Keys {
		if err := set.add(raw); err != nil {
			return KeySet{}, fmt.Errorf("key set: keys[%d]: %w", i, err)
		}
	}
	if set.Len() == 0 {
		return KeySet{}, errors.New("key set: no Ed25519 key (kty OKP, crv Ed25519) in it")
	}
	return set, nil
}

// add puts one key into a set that is being made, if it is of our kind.
func (s KeySet) add(raw json.RawMessage) error {
	// A key of another type has members that mean something else, so the type
	// is read alone first.
	var kind struct {
		Type string `json:"kty"`
	}
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(raw, &kind); err != nil {
		return err
	}
	if kind.Type != "OKP" {
		return nil
	}
	var key webKey
	if err := decodeStrict(raw, &key); err != nil {
		return err
	}
	if !key.forOurSignatures() {
		return nil
	}
	public, err := key.public()
	if err != nil {
		return err
	}
	if _, taken := s.keys[key.ID]; taken {
		return errors.New("its kid is that of an earlier key")
	}
	s.keys[key.ID] = public
	return nil
}

// forOurSignatures knows both names of the algorithm: RFC 9864 renames EdDSA
// with this curve to Ed25519.
func (k *webKey) forOurSignatures() bool {
	return k.Curve == "Ed25519" &&
		(k.Use == "" || k.Use == "sig") &&
		(k.Operations == nil || slices.Contains(k.Operations, "verify")) &&
		(k.Algorithm == "" || k.Algorithm == "EdDSA" || k.Algorithm == "Ed25519")
}

func (k *webKey) public() (ed25519.PublicKey, error) {
	if k.Private != nil {
		return nil, errors.New("it is a private key (it has a member d); withdraw it, and publish only public keys")
	}
	if k.ID == "" || len(k.ID) > maxKeyIDBytes {
		return nil, fmt.Errorf("its kid must be 1 to %d bytes long", maxKeyIDBytes)
	}
	x, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
	if err != nil || len(x) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("its x is no %d bytes in unpadded base64url", ed25519.PublicKeySize)
	}
	return x, nil
}
