package token

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"
)

// testNow is the clock of every test here.
var testNow = time.Unix(1_800_000_000, 0)

// testKey makes the same key for the same number.
func testKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string('a'+rune(n)), ed25519.SeedSize)))
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

func testSigner() Signer {
	key := testKey(0)
	return Signer{KeyID: Thumbprint(public(key)), Key: key}
}

func testVerifier() Verifier {
	return Verifier{Issuer: "https://tokens.example.com", Audience: "completions.example.com"}
}

func testClaims() Claims {
	return Claims{
		Issuer: "https://tokens.example.com", Audience: "completions.example.com", Subject: "u-1",
		IssuedAt: testNow, Expires: testNow.Add(25 * time.Minute),
		ID: "id-1", ClientID: "editor", Models: []string{"ghost-code"}, Tier: "pro",
	}
}

// object is a JSON object as a test writes it: what is not a raw JSON text is
// marshalled.
type object map[string]any

func (o object) with(name string, value any) object {
	changed := maps.Clone(o)
	changed[name] = value
	return changed
}

func (o object) without(name string) object {
	changed := maps.Clone(o)
	delete(changed, name)
	return changed
}

func (o object) String() string {
	text, err := json.Marshal(map[string]any(o))
	if err != nil {
		panic(err)
	}
	return string(text)
}

func goodHeader() object {
	return object{"alg": "EdDSA", "typ": "at+jwt", "kid": testSigner().KeyID}
}

func goodPayload() object {
	return object{
		"iss": "https://tokens.example.com", "aud": "completions.example.com", "sub": "u-1",
		"iat": testNow.Unix(), "exp": testNow.Add(25 * time.Minute).Unix(), "jti": "id-1", "client_id": "editor",
	}
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// signed puts a token together without any of Sign's care, with a right signature.
func signed(header, payload fmt.Stringer) string {
	return signedText(header.String(), payload.String())
}

func signedText(header, payload string) string {
	input := encode(header) + "." + encode(payload)
	return input + "." + encode(string(ed25519.Sign(testKey(0), []byte(input))))
}

func otherSignature(input string) string {
	return input + "." + encode(string(ed25519.Sign(testKey(1), []byte(input))))
}

// hmacToken is the classic confusion: the public key as an HMAC secret.
func hmacToken() string {
	input := encode(goodHeader().with("alg", "HS256").String()) + "." + encode(goodPayload().String())
	mac := hmac.New(sha256.New, public(testKey(0)))
	mac.Write([]byte(input))
	// As long as an Ed25519 signature, so that it gets past the shape.
	return input + "." + encode(string(mac.Sum(mac.Sum(nil))))
}

// looseLast is another last character for the same 64 bytes: its low four bits
// are not part of them.
func looseLast(good string) byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return alphabet[strings.IndexByte(alphabet, good[len(good)-1])|1]
}

// malleable adds the group's order L to the signature's S: the same signature
// to a verifier that does not check its range.
func malleable(signature string) string {
	order := []byte{
		0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
	}
	raw, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		panic(err)
	}
	carry := 0
	for i, b := range order {
		sum := int(raw[32+i]) + int(b) + carry
		raw[32+i], carry = byte(sum), sum>>8
	}
	return encode(string(raw))
}
