package token

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestThumbprint is the example of RFC 8037, appendix A.3.
func TestThumbprint(t *testing.T) {
	x, err := base64.RawURLEncoding.DecodeString("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Thumbprint(x), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"; got != want {
		t.Errorf("thumbprint %s, want %s", got, want)
	}
}

func TestKeySetRoundTrip(t *testing.T) {
	first, second := public(testKey(0)), public(testKey(1))
	set := NewKeySet(first, second)
	document, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(document), `"d"`) {
		t.Errorf("the published set has a private member: %s", document)
	}
	parsed, err := ParseKeySet(document)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{Thumbprint(first), Thumbprint(second)}
	slices.Sort(want)
	if diff := cmp.Diff(want, parsed.IDs()); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	key, ok := parsed.Key(Thumbprint(second))
	if !ok || !key.Equal(second) {
		t.Errorf("key %v, %v", key, ok)
	}
	key[0]++ // a copy: the set does not change
	if again, _ := parsed.Key(Thumbprint(second)); !again.Equal(second) {
		t.Error("a caller changed the set's key")
	}
	if _, ok := parsed.Key("unknown"); ok {
		t.Error("there is a key by an unknown id")
	}
}

func TestEmptyKeySetIsAnEmptyList(t *testing.T) {
	document, err := json.Marshal(KeySet{})
	if err != nil || string(document) != `{"keys":[]}` {
		t.Errorf("document %s, error %v", document, err)
	}
}

// jwk is a good key, with members added or replaced.
func jwk(kid string, members object) object {
	key := object{"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": base64.RawURLEncoding.EncodeToString(public(testKey(0)))}
	maps.Copy(key, members)
	return key
}

func jwks(keys ...object) string {
	return object{"keys": keys}.String()
}

func TestParseKeySetIgnores(t *testing.T) {
	for name, other := range map[string]object{
		"an RSA key":           {"kty": "RSA", "kid": "ours", "n": "AQAB", "e": "AQAB", "x": 7},
		"an EC key":            {"kty": "EC", "crv": "P-256", "kid": "ours", "x": "AA", "y": "AA"},
		"a symmetric key":      {"kty": "oct", "k": "AAAA"},
		"an X25519 key":        {"kty": "OKP", "crv": "X25519", "kid": "x", "x": "AA"},
		"an encryption key":    jwk("enc", object{"use": "enc"}),
		"one for other use":    jwk("ops", object{"key_ops": []string{"deriveKey"}}),
		"one of another alg":   jwk("alg", object{"alg": "ES256"}),
		"a key without a type": {"kid": "x"},
	} {
		set, err := ParseKeySet([]byte(jwks(other, jwk("ours", object{"unknown": 1}))))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]string{"ours"}, set.IDs()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseKeySetRefuses(t *testing.T) {
	many := make([]object, maxKeys+1)
	for i := range many {
		many[i] = jwk(fmt.Sprint(i), nil)
	}
	for name, tc := range map[string]struct{ document, want string }{
		"nothing":           {"", "not a JSON Web Key Set"},
		"no JSON":           {"<html>", "not a JSON Web Key Set"},
		"a list":            {"[]", "not a JSON Web Key Set"},
		"null":              {"null", "no Ed25519 key"},
		"no keys":           {"{}", "no Ed25519 key"},
		"empty":             {jwks(), "no Ed25519 key"},
		"keys a string":     {`{"keys":"x"}`, "not a JSON Web Key Set"},
		"keys of a case":    {`{"Keys":[]}`, "no Ed25519 key"},
		"keys twice":        {`{"keys":[],"keys":[]}`, "duplicate"},
		"only other types":  {jwks(object{"kty": "RSA", "kid": "a"}), "no Ed25519 key"},
		"a key that is 1":   {`{"keys":[1]}`, "keys[0]"},
		"kid repeated":      {jwks(jwk("a", nil), jwk("a", nil)), "keys[1]: its kid is that of an earlier key"},
		"kid missing":       {jwks(jwk("", nil)), "keys[0]: its kid"},
		"kid long":          {jwks(jwk(strings.Repeat("k", maxKeyIDBytes+1), nil)), "keys[0]: its kid"},
		"kid a number":      {jwks(jwk("", object{"kid": 1})), "keys[0]"},
		"x missing":         {jwks(jwk("a", object{"x": ""})), "keys[0]: its x"},
		"x short":           {jwks(jwk("a", object{"x": "AAAA"})), "keys[0]: its x"},
		"x padded":          {jwks(jwk("a", object{"x": base64.URLEncoding.EncodeToString(public(testKey(0)))})), "keys[0]: its x"},
		"x twice":           {`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AA","x":"BB"}]}`, "duplicate"},
		"a private key":     {jwks(jwk("a", object{"d": "AAAA"})), "keys[0]: it is a private key"},
		"too many":          {jwks(many...), "65 keys"},
		"too large":         {jwks(jwk("a", object{"note": strings.Repeat("x", MaxKeySetBytes)})), "more than 65536 bytes"},
		"nested too deeply": {`{"keys":` + strings.Repeat("[", 60_000), "not a JSON Web Key Set"},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := ParseKeySet([]byte(tc.document))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
			if set.Len() != 0 {
				t.Errorf("a set of %d keys with the error", set.Len())
			}
		})
	}
}

// FuzzParseKeySet holds that a set that is accepted is usable and survives
// being published again.
func FuzzParseKeySet(f *testing.F) {
	f.Add([]byte(jwks(jwk("a", nil))))
	f.Add([]byte(jwks(object{"kty": "RSA", "kid": "a"}, jwk("b", object{"use": "sig", "alg": "EdDSA"}))))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AA","d":null}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		set, err := ParseKeySet(document)
		if err != nil {
			return
		}
		if set.Len() == 0 || set.Len() > maxKeys {
			t.Fatalf("a set of %d keys", set.Len())
		}
		for _, id := range set.IDs() {
			if key, ok := set.Key(id); !ok || len(key) != ed25519.PublicKeySize {
				t.Fatalf("key %q is %v, %v", id, key, ok)
			}
		}
		published, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		if len(published) > MaxKeySetBytes {
			return // ids that JSON escapes can make it grow
		}
		again, err := ParseKeySet(published)
		if err != nil || !slices.Equal(again.IDs(), set.IDs()) {
			t.Fatalf("published as %s: %v, %v", published, again.IDs(), err)
		}
	})
}
