package token

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// DefaultLeeway is by how much the clocks of issuer and verifier may differ.
const DefaultLeeway = 30 * time.Second

// What Verify returns. Errors carry a cause for the log, in fixed words: never
// a part of the token.
var (
	// ErrExpired is a token that was good once: everything else about it is
	// right, the signature included.
	ErrExpired = errors.New("the token has expired")
	// ErrInvalid is every other token that is not accepted.
	ErrInvalid = errors.New("the token is not valid")
)

// Verifier checks tokens of one issuer for one audience.
type Verifier struct {
	// Issuer and Audience are what iss must be and aud must contain. Both are
	// required: without one of them no token is valid.
	Issuer, Audience string
	// Leeway is by how much exp, iat and nbf may be off; zero is DefaultLeeway.
	Leeway time.Duration
}

// Verify returns what a token says if every rule holds, otherwise an error that
// is ErrExpired or ErrInvalid.
//
// Cheap checks come first, and nothing of an unknown key costs a signature
// check. The gate is our own because golang-jwt does not look at typ, kid and
// crit, and decodes a token of any size.
func (v Verifier) Verify(raw string, keys KeySet, now time.Time) (Claims, error) {
	if v.Issuer == "" || v.Audience == "" {
		return Claims{}, invalid("the verifier has no issuer or no audience to require")
	}
	key, err := admit(raw, keys)
	if err != nil {
		return Claims{}, err
	}
	var claims wireClaims
	_, err = v.parser(now).ParseWithClaims(raw, &claims, func(*jwt.Token) (any, error) { return key, nil })
	if err != nil {
		return Claims{}, verdict(err)
	}
	return claims.claims(v.Audience), nil
}

func (v Verifier) parser(now time.Time) *jwt.Parser {
	leeway := v.Leeway
	if leeway == 0 {
		leeway = DefaultLeeway
	}
	return jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithStrictDecoding(),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithIssuer(v.Issuer),
		jwt.WithAudience(v.Audience),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(func() time.Time { return now }),
	)
}

// header is a token's header. The members from crit on are refused whatever
// they hold: they ask the verifier to follow the token's own idea of which key
// to trust, or to read it in another way. Other members are ignored, as RFC
// 7515 section 4 wants.
type header struct {
	Algorithm string `json:"alg"`
	Type      string `json:"typ"`
	KeyID     string `json:"kid"`

	Critical     json.RawMessage `json:"crit"`
	Base64       json.RawMessage `json:"b64"`
	KeySetURL    json.RawMessage `json:"jku"`
	Key          json.RawMessage `json:"jwk"`
	CertURL      json.RawMessage `json:"x5u"`
	Certificates json.RawMessage `json:"x5c"`
}

func (h *header) hasForbidden() bool {
	return h.Critical != nil || h.Base64 != nil || h.KeySetURL != nil ||
		h.Key != nil || h.CertURL != nil || h.Certificates != nil
}

// admit looks at everything that can be judged without trusting the token, and
// returns the key that must have signed it.
func admit(raw string, keys KeySet) (ed25519.PublicKey, error) {
	if len(raw) > MaxBytes {
		return nil, invalid("too long")
	}
	first, ok := shape(raw)
	if !ok {
		return nil, invalid("not three parts of base64url with an Ed25519 signature")
	}
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(first)
	if err != nil {
		return nil, invalid("the header is not strict base64url")
	}
	var h header
	if decodeStrict(decoded, &h) != nil {
		return nil, invalid("the header is not a JSON object of the right types with each name once")
	}
	switch {
	case h.Algorithm != jwt.SigningMethodEdDSA.Alg():
		return nil, invalid("alg is not EdDSA")
	case h.Type != tokenType:
		return nil, invalid("typ is not at+jwt")
	case h.hasForbidden():
		return nil, invalid("the header has one of crit, b64, jku, jwk, x5u, x5c")
	}
	key, ok := keys.keys[h.KeyID]
	if !ok {
		return nil, invalid("kid names no key of the key set")
	}
	return key, nil
}

// shape returns the header's part of a token that has three parts of the
// base64url alphabet, the last as long as a signature. Go's decoder skips line
// breaks, so the alphabet is checked here.
func shape(raw string) (first string, ok bool) {
	first, rest, _ := strings.Cut(raw, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	if len(signature) != base64.RawURLEncoding.EncodedLen(ed25519.SignatureSize) {
		return "", false
	}
	return first, isBase64URL(first) && isBase64URL(payload) && isBase64URL(signature)
}

func isBase64URL(part string) bool {
	for i := range len(part) {
		c := part[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return part != ""
}

// verdict turns golang-jwt's error, which may quote the token, into ours.
// Expired is said last, so that it is only said of a token that is otherwise good.
func verdict(err error) error {
	causes := []struct {
		is    error
		cause string
	}{
		{jwt.ErrTokenMalformed, "a part is not strict base64url or the claims are not JSON of the right types with each name once"},
		{jwt.ErrTokenUnverifiable, "it cannot be verified"},
		{jwt.ErrTokenSignatureInvalid, "the signature does not match"},
		{jwt.ErrTokenRequiredClaimMissing, "one of iss, aud, sub, iat, exp is missing"},
		{jwt.ErrTokenInvalidIssuer, "iss is another issuer"},
		{jwt.ErrTokenInvalidAudience, "aud does not contain our audience"},
		{jwt.ErrTokenUsedBeforeIssued, "iat lies in the future"},
		{jwt.ErrTokenNotValidYet, "nbf lies in the future"},
	}
	for _, c := range causes {
		if errors.Is(err, c.is) {
			return invalid(c.cause)
		}
	}
	if errors.Is(err, jwt.ErrTokenExpired) {
		return ErrExpired
	}
	return invalid("a claim is not as it must be")
}

func invalid(cause string) error { return fmt.Errorf("%w: %s", ErrInvalid, cause) }
