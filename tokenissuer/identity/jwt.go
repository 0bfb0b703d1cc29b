package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
	strictjson "sigs.k8s.io/json"
)

const (
	// maxJWTBytes is well above the tokens of providers that list groups in them.
	maxJWTBytes = 16 << 10
	// jwtLeeway is by how much the clocks of provider and issuer may differ.
	jwtLeeway     = 30 * time.Second
	maxKeyIDBytes = 256
)

// Algorithms are all that a provider may sign with. Those with a shared secret, and
// none, are not among them and never can be.
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// jwtHeader is a token's header, as far as it is read. jku, jwk, x5u and x5c, which
// offer a key of the token's own choosing, are ignored as RFC 7515 section 4 wants:
// nobody here reads them, and some providers send them.
type jwtHeader struct {
	Algorithm string `json:"alg"`
	Type      string `json:"typ"`
	KeyID     string `json:"kid"`

	// Each is refused, whatever it holds: it asks to read the token in another way.
	Critical json.RawMessage `json:"crit"`
	Base64   json.RawMessage `json:"b64"`
}

// kind is typ in lower case without the prefix that RFC 7515 section 4.1.9 lets one
// leave out.
func (h *jwtHeader) kind() string {
	return strings.TrimPrefix(strings.ToLower(h.Type), "application/")
}

// unverified is a JWT of which nothing has been checked but its form.
type unverified struct {
	raw    string
	header jwtHeader
	claims claimSet
	issuer string
}

// parseJWT reads what is a JWT by its form, or says no. It trusts nothing of it.
func parseJWT(raw string) (t unverified, ok bool) {
	if len(raw) > maxJWTBytes || strings.Count(raw, ".") != 2 {
		return t, false
	}
	parts := strings.Split(raw, ".")
	header, headerOK := decodePart(parts[0])
	payload, payloadOK := decodePart(parts[1])
	if _, signatureOK := decodePart(parts[2]); !headerOK || !payloadOK || !signatureOK {
		return t, false
	}
	t.raw = raw
	var err error
	if decodeStrict(header, &t.header) != nil {
		return t, false
	}
	if t.claims, err = parseClaims(payload); err != nil {
		return t, false
	}
	t.issuer, err = t.claims.text("iss")
	return t, err == nil && t.issuer != ""
}

// decodePart decodes strictly; Go's decoder skips line breaks.
func decodePart(part string) ([]byte, bool) {
	if part == "" || strings.ContainsAny(part, "\r\n") {
		return nil, false
	}
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(part)
	return decoded, err == nil
}

var errNotUTF8 = errors.New("text is not UTF-8")

// decodeStrict decodes JSON whose names match by case and stand there once.
func decodeStrict(data []byte, into any) error {
	if !utf8.Valid(data) {
		return errNotUTF8
	}
	strict, err := strictjson.UnmarshalStrict(data, into, strictjson.DisallowDuplicateFields)
	return errors.Join(err, errors.Join(strict...))
}

// signature checks the signature with a key, whose kind the algorithm has been
// found to fit.
func (t *unverified) signature(key verifyingKey) error {
	method := jwt.GetSigningMethod(t.header.Algorithm)
	signed, signature := t.raw[:strings.LastIndexByte(t.raw, '.')], t.raw[strings.LastIndexByte(t.raw, '.')+1:]
	decoded, ok := decodePart(signature)
	if method == nil || !ok || method.Verify(signed, decoded, key.public) != nil {
		return errors.New("the signature does not match")
	}
	return nil
}

// times checks exp, which must be there, nbf and iat, and returns exp.
func (s claimSet) times(now time.Time) (time.Time, error) {
	expires, err := s.time("exp")
	if err != nil {
		return time.Time{}, err
	}
	notBefore, err := s.time("nbf")
	if err != nil {
		return time.Time{}, err
	}
	issued, err := s.time("iat")
	if err != nil {
		return time.Time{}, err
	}
	switch {
	case !expires.IsZero() && !now.Before(expires.Add(jwtLeeway)):
		return time.Time{}, errors.New("it has expired")
	case notBefore.After(now.Add(jwtLeeway)):
		return time.Time{}, errors.New("nbf lies in the future")
	case issued.After(now.Add(jwtLeeway)):
		return time.Time{}, errors.New("iat lies in the future")
	}
	return expires, nil
}

// maxNumericDate is the last second of the year 9999: later times overflow somewhere.
const maxNumericDate = 253402300799

// time is a NumericDate (RFC 7519 section 2), zero if there is none.
func (s claimSet) time(name string) (time.Time, error) {
	raw, err := s.raw(name)
	if raw == nil || err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(seconds > 0 && seconds <= maxNumericDate) {
		return time.Time{}, errors.New(name + " is no number of seconds up to the year 9999")
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)), nil
}

// audiences are aud's.
func (s claimSet) audiences() ([]string, error) {
	raw, err := s.raw("aud")
	if err != nil {
		return nil, err
	}
	if raw != nil && raw[0] != '"' && raw[0] != '[' {
		return nil, errors.New("aud is no string and no list")
	}
	return s.values("aud")
}

func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(value string) bool { return slices.Contains(b, value) })
}
