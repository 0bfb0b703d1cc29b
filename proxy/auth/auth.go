// Package auth turns a request's credentials into its subject.
package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// cacheSize bounds the verified tokens that are remembered: one per user of
	// a region. Each costs its claims and some 200 bytes.
	cacheSize = 65_536
	// cacheFor bounds how long a verification is believed.
	cacheFor = 60 * time.Second
)

// What Authenticate returns. Token errors carry a cause for the log, in fixed
// words, never a part of the token.
var (
	ErrNoToken = errors.New("no bearer token")
	ErrSeveral = errors.New("more than one Authorization header")
	ErrExpired = token.ErrExpired
	ErrInvalid = token.ErrInvalid
)

// Authenticator verifies tokens of one issuer for one audience against one set
// of keys, and remembers the good ones: verifying a signature costs as much as
// moving a whole completion. When the keys change, a new Authenticator takes
// over, and with the old one go the verifications that a withdrawn key made.
type Authenticator struct {
	verifier token.Verifier
	keys     token.KeySet
	cache    *lru.Cache[fingerprint, verified]
}

// fingerprint stands for a token in memory: nobody can make another token with
// the same one, and nobody who sees it has the token.
type fingerprint [sha256.Size]byte

// fingerprintOf is for tokens of at most token.MaxBytes.
func fingerprintOf(raw string) fingerprint {
	var b [1024]byte // enough for most; more would make the stack grow
	if len(raw) <= len(b) {
		return sha256.Sum256(b[:copy(b[:], raw)])
	}
	return longFingerprintOf(raw)
}

// longFingerprintOf hashes piece by piece, since a copy of the whole would be made
// on the heap.
func longFingerprintOf(raw string) (f fingerprint) {
	var b [1024]byte
	hash := sha256.New()
	for len(raw) > 0 {
		n := copy(b[:], raw)
		hash.Write(b[:n])
		raw = raw[n:]
	}
	hash.Sum(f[:0])
	return f
}

type verified struct {
	until  time.Time
	claims *token.Claims
}

// New makes an Authenticator with an empty cache.
func New(verifier token.Verifier, keys token.KeySet) *Authenticator {
	cache, err := lru.New[fingerprint, verified](cacheSize)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &Authenticator{verifier: verifier, keys: keys, cache: cache}
}

// Authenticate returns what the token in a request's Authorization headers
// claims, and whether it was remembered. The claims are shared: do not change
// them. The error is ErrNoToken, ErrSeveral, or one that is ErrExpired or
// ErrInvalid.
func (a *Authenticator) Authenticate(authorization []string, now time.Time) (claims *token.Claims, cached bool, err error) {
	raw, err := bearer(authorization)
	if err != nil {
		return nil, false, err
	}
	if len(raw) > token.MaxBytes {
		return nil, false, fmt.Errorf("%w: it has more than %d bytes", ErrInvalid, token.MaxBytes)
	}
	key := fingerprintOf(raw)
	if entry, ok := a.cache.Get(key); ok && now.Before(entry.until) {
		return entry.claims, true, nil
	}
	verifiedClaims, err := a.verifier.Verify(raw, a.keys, now)
	if err != nil {
		return nil, false, err
	}
	until := now.Add(cacheFor)
	if verifiedClaims.Expires.Before(until) {
		until = verifiedClaims.Expires
	}
	a.cache.Add(key, verified{until: until, claims: &verifiedClaims})
	return &verifiedClaims, false, nil
}

// Remembers says whether the token in a request's Authorization headers is one
// that was verified in the last minute. It verifies none, so it is cheap for any.
func (a *Authenticator) Remembers(authorization []string, now time.Time) bool {
	raw, err := bearer(authorization)
	if err != nil || len(raw) > token.MaxBytes {
		return false
	}
	entry, ok := a.cache.Get(fingerprintOf(raw))
	return ok && now.Before(entry.until)
}

// bearer takes the token out of an Authorization header (RFC 6750 section 2.1).
// Two such headers are an error, because parties that read different ones
// disagree on who is asking.
func bearer(authorization []string) (string, error) {
	switch len(authorization) {
	case 0:
		return "", ErrNoToken
	case 1:
	default:
		return "", ErrSeveral
	}
	scheme, raw, _ := strings.Cut(authorization[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", ErrNoToken
	}
	return strings.TrimSpace(raw), nil
}
