package token

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// FuzzVerify holds that nothing crashes and that what is accepted is what was
// signed: every accepted token has the payload of the one good token here.
func FuzzVerify(f *testing.F) {
	good := signed(goodHeader(), goodPayload())
	f.Add(good)
	f.Add(signed(goodHeader().with("crit", []string{"exp"}), goodPayload()))
	f.Add(hmacToken())
	f.Add("..")
	keys, verifier := NewKeySet(public(testKey(0))), testVerifier()
	f.Fuzz(func(t *testing.T, raw string) {
		claims, err := verifier.Verify(raw, keys, testNow)
		if (err == nil) != (raw == good) {
			t.Fatalf("Verify(%q) = %+v, %v", raw, claims, err)
		}
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatalf("error %v is not ErrInvalid", err)
		}
	})
}

// FuzzVerifySigned signs whatever comes, to get past the signature.
func FuzzVerifySigned(f *testing.F) {
	f.Add(goodHeader().String(), goodPayload().String())
	f.Add(goodHeader().String(), goodPayload().with("exp", json.RawMessage("1e308")).String())
	f.Add(goodHeader().String(), strings.TrimSuffix(goodPayload().String(), "}")+`,"SUB":"admin","aud":["x"]}`)
	keys, verifier := NewKeySet(public(testKey(0))), testVerifier()
	f.Fuzz(func(t *testing.T, header, payload string) {
		claims, err := verifier.Verify(signedText(header, payload), keys, testNow)
		if err != nil {
			if errors.Is(err, ErrInvalid) == errors.Is(err, ErrExpired) {
				t.Fatalf("error %v is not exactly one of ours", err)
			}
			return
		}
		if claims.Issuer != verifier.Issuer || claims.Audience != verifier.Audience || claims.Subject == "" ||
			claims.IssuedAt.After(testNow.Add(DefaultLeeway)) || !claims.Expires.Add(DefaultLeeway).After(testNow) {
			t.Fatalf("accepted %q with the claims %+v", payload, claims)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	raw, err := testSigner().Sign(testClaims())
	if err != nil {
		b.Fatal(err)
	}
	keys, verifier := NewKeySet(public(testKey(0))), testVerifier()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := verifier.Verify(raw, keys, testNow); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerifyUnknownKey is what a flood of made-up tokens costs each.
func BenchmarkVerifyUnknownKey(b *testing.B) {
	raw := signed(goodHeader().with("kid", "unknown"), goodPayload())
	keys, verifier := NewKeySet(public(testKey(0))), testVerifier()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := verifier.Verify(raw, keys, testNow); err == nil {
			b.Fatal("accepted")
		}
	}
}
