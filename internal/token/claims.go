// Package token holds the completion token: what it claims, how the issuer
// signs it, and how everybody else checks it. It does no I/O.
//
// A token is a JWT access token (RFC 9068), signed with Ed25519 and nothing
// else, so that there is no algorithm to choose and none to be confused about.
package token

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
	strictjson "sigs.k8s.io/json"
)

// MaxBytes is the longest token that is signed or looked at.
const MaxBytes = 4 << 10

// Claims is what a token says. Times have a resolution of one second.
type Claims struct {
	// Issuer is the issuer's URL (iss).
	Issuer string
	// Audience is who the token is for (aud). A token may name several
	// audiences; Verify returns the one that it was asked to require.
	Audience string
	// Subject is the user, an opaque id (sub).
	Subject  string
	IssuedAt time.Time
	Expires  time.Time
	// ID is unique to this token (jti).
	ID string
	// ClientID is the editor's OAuth application (client_id).
	ClientID string
	// Models are the logical models that the subject may use. Nil is all of
	// them, and empty but not nil is none; see AllowsModel.
	Models []string
	// Tier is the subject's plan, a word of the operator's choosing; may be "".
	Tier string
}

// AllowsModel says whether the token is good for a logical model.
func (c *Claims) AllowsModel(name string) bool {
	return c.Models == nil || slices.Contains(c.Models, name)
}

// wireClaims is the payload as it is on the wire. It is also what golang-jwt
// validates, by the Get methods.
type wireClaims struct {
	Issuer    string      `json:"iss"`
	Audience  audience    `json:"aud"`
	Subject   string      `json:"sub"`
	IssuedAt  numericDate `json:"iat"`
	Expires   numericDate `json:"exp"`
	NotBefore numericDate `json:"nbf,omitzero"`
	ID        string      `json:"jti"`
	ClientID  string      `json:"client_id"`
	Models    modelNames  `json:"models,omitzero"`
	Tier      string      `json:"tier,omitempty"`
}

// UnmarshalJSON decodes strictly where encoding/json does not: names match by
// case, a repeated name is an error, and text must be UTF-8. Otherwise two
// readers of one token could see two subjects. Unknown claims are ignored, as
// RFC 7519 section 4 wants.
func (w *wireClaims) UnmarshalJSON(data []byte) error {
	type plain wireClaims
	return decodeStrict(data, (*plain)(w))
}

func (w *wireClaims) claims(audience string) Claims {
	return Claims{
		Issuer: w.Issuer, Audience: audience, Subject: w.Subject,
		IssuedAt: time.Time(w.IssuedAt), Expires: time.Time(w.Expires),
		ID: w.ID, ClientID: w.ClientID, Models: w.Models, Tier: w.Tier,
	}
}

func (w *wireClaims) GetExpirationTime() (*jwt.NumericDate, error) { return w.Expires.jwt(), nil }
func (w *wireClaims) GetIssuedAt() (*jwt.NumericDate, error)       { return w.IssuedAt.jwt(), nil }
func (w *wireClaims) GetNotBefore() (*jwt.NumericDate, error)      { return w.NotBefore.jwt(), nil }
func (w *wireClaims) GetIssuer() (string, error)                   { return w.Issuer, nil }
func (w *wireClaims) GetSubject() (string, error)                  { return w.Subject, nil }
func (w *wireClaims) GetAudience() (jwt.ClaimStrings, error) {
	return jwt.ClaimStrings(w.Audience), nil
}

// Validate is golang-jwt's hook for what it does not check itself: it takes a
// missing sub and a missing iat for valid.
func (w *wireClaims) Validate() error {
	if w.Subject == "" || w.IssuedAt.IsZero() {
		return jwt.ErrTokenRequiredClaimMissing
	}
	return nil
}

// maxNumericDate is the last second of the year 9999. Later times overflow
// somewhere or other, and no honest token has one.
const maxNumericDate = 253402300799

// numericDate is RFC 7519's NumericDate: a JSON number of seconds, which may
// have a fraction. golang-jwt's own type also takes a number in quotes.
type numericDate time.Time

var errNumericDate = errors.New("a time is no number between 0 and the year 9999")

func (d *numericDate) UnmarshalJSON(data []byte) error {
	seconds, err := strconv.ParseFloat(string(data), 64)
	if err != nil || seconds < 0 || seconds > maxNumericDate {
		return errNumericDate
	}
	whole, fraction := math.Modf(seconds)
	*d = numericDate(time.Unix(int64(whole), int64(fraction*1e9)))
	return nil
}

func (d numericDate) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Time(d).Unix(), 10), nil
}

// IsZero is true for a claim that is not there.
func (d numericDate) IsZero() bool { return time.Time(d).IsZero() }

func (d numericDate) jwt() *jwt.NumericDate {
	if d.IsZero() {
		return nil
	}
	return &jwt.NumericDate{Time: time.Time(d)}
}

// audience is one string or a list of strings (RFC 7519 section 4.1.3).
type audience []string

var errAudience = errors.New("aud is no string and no list of strings")

func (a *audience) UnmarshalJSON(data []byte) error {
	var one *string
	if json.Unmarshal(data, &one) == nil && one != nil {
		*a = audience{*one}
		return nil
	}
	many, ok := stringList(data)
	if !ok {
		return errAudience
	}
	*a = many
	return nil
}

func (a audience) MarshalJSON() ([]byte, error) {
	if len(a) == 1 {
		return json.Marshal(a[0])
	}
	return json.Marshal([]string(a))
}

// modelNames keeps "no claim" (nil) apart from "an empty list".
type modelNames []string

var errModels = errors.New("models is no list of strings")

// UnmarshalJSON refuses null: read as "no claim" it would allow every model.
func (m *modelNames) UnmarshalJSON(data []byte) error {
	names, ok := stringList(data)
	if !ok {
		return errModels
	}
	*m = names
	return nil
}

// stringList decodes a list that holds strings only; encoding/json would take
// null, as a list and as a string.
func stringList(data []byte) ([]string, bool) {
	var items []*string
	if json.Unmarshal(data, &items) != nil || items == nil || slices.Contains(items, nil) {
		return nil, false
	}
	list := make([]string, len(items))
	for i, item := range items {
		list[i] = *item
	}
	return list, true
}

var errNotUTF8 = errors.New("text is not UTF-8")

func decodeStrict(data []byte, into any) error {
	if !utf8.Valid(data) {
		return errNotUTF8
	}
	strict, err := strictjson.UnmarshalStrict(data, into, strictjson.DisallowDuplicateFields)
	if err != nil {
		return err
	}
	return errors.Join(strict...)
}
