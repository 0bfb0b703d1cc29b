package identity

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOIDCAccepts(t *testing.T) {
	f := newFakeProvider(t)
	u := startOIDC(t, f, func(o *OIDCOptions) {
		o.Claims = ClaimRules{Organizations: "org", Teams: "/realm/groups", Keep: []string{"department", "level", "absent"}, Require: map[string][]string{"email_verified": {"true"}}}
	})
	id := f.idToken().with(object{
		"email_verified": true, "org": "ACME", "realm": object{"groups": []string{"/Acme/Core", "ops"}},
		"department": "R&D", "level": []any{3, true, "x"}, "absent": json.RawMessage("null"),
	})
	expires := time.Unix(id["exp"].(int64), 0)
	want := Identity{
		Subject: "corp:u-1", ClientID: "app", Organizations: []string{"acme"}, Teams: []string{"acme/core", "ops"},
		Claims: map[string][]string{"department": {"R&D"}, "level": {"3", "true", "x"}}, Expires: expires,
	}
	bare := want
	bare.Organizations, bare.Teams, bare.Claims = nil, nil, nil
	verified := object{"email_verified": true}
	machine, authorized := bare, bare
	machine.ClientID, authorized.ClientID = "machine", "cli"
	access := f.accessToken().with(verified)
	for name, tc := range map[string]struct {
		token string
		kind  CredentialType
		want  Identity
	}{
		"an ID token":               {token(nil, id), IDToken, want},
		"sent as a jwt":             {token(nil, id), JWT, want},
		"without typ":               {token(object{"typ": nil}, id), IDToken, want},
		"typ in another case":       {token(object{"typ": "jwt"}, id), IDToken, want},
		"azp":                       {token(nil, f.idToken().with(verified).with(object{"azp": "cli"})), IDToken, authorized},
		"aud as a list":             {token(nil, f.idToken().with(verified).with(object{"aud": []string{"app"}})), IDToken, bare},
		"two clients and azp":       {token(nil, f.idToken().with(verified).with(object{"aud": []string{"app", "cli"}, "azp": "cli"})), IDToken, authorized},
		"an access token":           {token(atJWT, access), AccessToken, machine},
		"one sent as a jwt":         {token(atJWT, access), JWT, machine},
		"one with the whole type":   {token(object{"typ": "Application/AT+JWT"}, access), AccessToken, machine},
		"azp for client_id":         {token(atJWT, access.with(object{"client_id": nil, "azp": "cli"})), AccessToken, authorized},
		"just not expired":          {token(nil, f.idToken().with(verified).with(object{"exp": time.Now().Unix() - 20})), IDToken, withExpiry(bare, time.Unix(time.Now().Unix()-20, 0))},
		"issued by a fast clock":    {token(nil, f.idToken().with(verified).with(object{"iat": time.Now().Unix() + 20, "nbf": time.Now().Unix() + 20})), IDToken, bare},
		"other header members":      {token(object{"jku": "https://evil.example/", "x5c": []string{"AA"}, "x5t": "AA", "cty": 1}, f.idToken().with(verified)), IDToken, bare},
		"unknown claims of a shape": {token(nil, f.idToken().with(verified).with(object{"org": json.RawMessage("null"), "address": object{"a": 1}, "nonce": "n"})), IDToken, bare},
	} {
		got, err := u.Identify(t.Context(), Credential{Value: tc.token, Type: tc.kind})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func withExpiry(who Identity, expires time.Time) Identity {
	who.Expires = expires
	return who
}

func TestOIDCAlgorithms(t *testing.T) {
	f := newFakeProvider(t)
	u := startOIDC(t, f, nil)
	for _, algorithm := range Algorithms() {
		kid := map[string]string{"R": "rsa", "P": "rsa", "ES256": "p256", "ES384": "p384", "ES512": "p521", "EdDSA": "ed"}
		name, ok := kid[algorithm]
		if !ok {
			name = kid[algorithm[:1]]
		}
		raw := signText(name, algorithm, object{"alg": algorithm, "kid": name}.String(), f.idToken().String())
		if _, err := u.Identify(t.Context(), Credential{Value: raw, Type: IDToken}); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		if _, err := u.Identify(t.Context(), Credential{Value: flip(raw, 1), Type: IDToken}); !errors.Is(err, ErrUnknownCredential) {
			t.Errorf("%s with another payload: %v", algorithm, err)
		}
	}
	narrow := startOIDC(t, f, func(o *OIDCOptions) { o.Algorithms = []string{"ES256"} })
	if _, err := narrow.Identify(t.Context(), Credential{Value: token(nil, f.idToken()), Type: IDToken}); !errors.Is(err, ErrUnknownCredential) {
		t.Errorf("RS256 where only ES256 is allowed: %v", err)
	}
}

// hostileJWTs are tokens that are nobody's. A reason is what the operator reads; "" is
// that of a token which cannot be this provider's at all.
func hostileJWTs(f *fakeProvider) map[string]struct {
	token  string
	kind   CredentialType
	reason string
} {
	id, access := f.idToken(), f.accessToken()
	good := token(nil, id)
	parts := strings.Split(good, ".")
	mac := hmac.New(sha256.New, []byte(testKeys()["rsa"].public["n"].(string)))
	hs := encode([]byte(`{"alg":"HS256","kid":"rsa"}`)) + "." + parts[1]
	mac.Write([]byte(hs))
	unsigned := func(header string) string { return encode([]byte(header)) + "." + parts[1] + "." + parts[2] }
	now := time.Now().Unix()
	type row = struct {
		token  string
		kind   CredentialType
		reason string
	}
	return map[string]row{
		"nothing":               {"", IDToken, ""},
		"no JWT":                {"gho_16C7e42F292c6912E7710c838347Ae178B4a", IDToken, ""},
		"dots":                  {strings.Repeat(".", 1_000_000), IDToken, ""},
		"two parts":             {parts[0] + "." + parts[1], IDToken, ""},
		"four parts":            {good + ".AA", IDToken, ""},
		"1 MB":                  {good + strings.Repeat("A", 1<<20), IDToken, ""},
		"padded":                {parts[0] + "=." + parts[1] + "." + parts[2], IDToken, ""},
		"a line break":          {parts[0] + "\n." + parts[1] + "." + parts[2], IDToken, ""},
		"loose last bits":       {parts[0] + "." + parts[1] + "." + loose(parts[2]), IDToken, ""},
		"another issuer":        {token(nil, id.with(object{"iss": "https://evil.example"})), IDToken, ""},
		"the issuer and a /":    {token(nil, id.with(object{"iss": f.URL + "/"})), IDToken, ""},
		"no issuer":             {token(nil, id.with(object{"iss": nil})), IDToken, ""},
		"an issuer in a list":   {token(nil, id.with(object{"iss": []string{f.URL}})), IDToken, ""},
		"iss twice":             {signText("rsa", "RS256", `{"alg":"RS256","kid":"rsa"}`, strings.Replace(id.String(), "{", `{"iss":"x",`, 1)), IDToken, ""},
		"sub twice":             {signText("rsa", "RS256", `{"alg":"RS256","kid":"rsa"}`, strings.Replace(id.String(), "{", `{"sub":"x",`, 1)), IDToken, ""},
		"alg twice":             {signText("rsa", "RS256", `{"alg":"none","alg":"RS256","kid":"rsa"}`, id.String()), IDToken, ""},
		"no UTF-8":              {signText("rsa", "RS256", `{"alg":"RS256","kid":"rsa"}`, strings.Replace(id.String(), "u-1", "\xff", 1)), IDToken, ""},
		"null claims":           {signText("rsa", "RS256", `{"alg":"RS256","kid":"rsa"}`, "null"), IDToken, ""},
		"nested":                {signText("rsa", "RS256", `{"alg":"RS256","kid":"rsa"}`, strings.Repeat("[", 8000)), IDToken, ""},
		"alg none":              {encode([]byte(`{"alg":"none","kid":"rsa"}`)) + "." + parts[1] + ".", IDToken, ""},
		"alg none, a signature": {unsigned(`{"alg":"none","kid":"rsa"}`), IDToken, "alg is not"},
		"alg NONE":              {unsigned(`{"alg":"NONE","kid":"rsa"}`), IDToken, "alg is not"},
		"alg of another case":   {unsigned(`{"alg":"rs256","kid":"rsa"}`), IDToken, "alg is not"},
		"no alg":                {unsigned(`{"kid":"rsa"}`), IDToken, "alg is not"},
		"HS256 by public key":   {hs + "." + encode(mac.Sum(nil)), IDToken, "alg is not"},
		"PS256 that is RS256":   {unsigned(`{"alg":"PS256","kid":"rsa"}`), IDToken, "signature"},
		"ES256 by an RSA kid":   {signText("p256", "ES256", `{"alg":"ES256","kid":"rsa"}`, id.String()), IDToken, "kid names no key"},
		"ES256 by a P-384 kid":  {signText("p256", "ES256", `{"alg":"ES256","kid":"p384"}`, id.String()), IDToken, "kid names no key"},
		"another's key":         {signText("other-rsa", "RS256", `{"alg":"RS256","kid":"rsa"}`, id.String()), IDToken, "signature"},
		"its own key":           {signText("other-rsa", "RS256", object{"alg": "RS256", "kid": "rsa", "jwk": testKeys()["other-rsa"].public, "jku": f.URL}.String(), id.String()), IDToken, "signature"},
		"kid unknown":           {token(object{"kid": "x"}, id), IDToken, "kid names no key"},
		"kid a path":            {token(object{"kid": "../../dev/null"}, id), IDToken, "kid names no key"},
		"kid NUL":               {token(object{"kid": "rsa\x00"}, id), IDToken, "kid names no key"},
		"kid long":              {token(object{"kid": strings.Repeat("k", 10_000)}, id), IDToken, "kid is too long"},
		"kid a number":          {token(object{"kid": 1}, id), IDToken, ""},
		"crit":                  {token(object{"crit": []string{"exp"}}, id), IDToken, "crit"},
		"b64":                   {token(object{"b64": true}, id), IDToken, "crit or b64"},
		"typ of a logout":       {token(object{"typ": "logout+jwt"}, id), IDToken, "typ"},
		"typ of DPoP":           {token(object{"typ": "dpop+jwt"}, id), IDToken, "typ"},
		"a logout event":        {token(nil, id.with(object{"events": object{"http://schemas.openid.net/event/backchannel-logout": object{}}})), IDToken, "event"},
		"a changed header":      {flip(good, 0), IDToken, ""},
		"a changed signature":   {flip(good, 2), IDToken, "signature"},
		"access as ID":          {token(atJWT, access), IDToken, "typ says"},
		"ID as access":          {token(nil, id), AccessToken, "typ says"},
		"access, plain typ":     {token(nil, access), AccessToken, "typ says"},
		"ID with at+jwt":        {token(atJWT, id), AccessToken, "aud is no configured audience"},
		"aud missing":           {token(nil, id.with(object{"aud": nil})), IDToken, "aud is no configured client"},
		"aud another":           {token(nil, id.with(object{"aud": "other"})), IDToken, "aud has one"},
		"aud another's too":     {token(nil, id.with(object{"aud": []string{"app", "other"}, "azp": "app"})), IDToken, "aud has one"},
		"aud of another case":   {token(nil, id.with(object{"aud": "App"})), IDToken, "aud has one"},
		"aud a number":          {token(nil, id.with(object{"aud": 1})), IDToken, "aud is no string"},
		"aud with a list":       {token(nil, id.with(object{"aud": []any{"app", []string{"app"}}})), IDToken, "aud has a value"},
		"two and no azp":        {token(nil, id.with(object{"aud": []string{"app", "cli"}})), IDToken, "azp does not say"},
		"azp another":           {token(nil, id.with(object{"azp": "other"})), IDToken, "azp is no configured client"},
		"azp a number":          {token(nil, id.with(object{"azp": 1})), IDToken, "azp is no string"},
		"access, aud another":   {token(atJWT, access.with(object{"aud": "https://tokens.example.com/"})), AccessToken, "aud is no configured audience"},
		"access, no client":     {token(atJWT, access.with(object{"client_id": nil})), AccessToken, "neither client_id nor azp"},
		"access, client spaced": {token(atJWT, access.with(object{"client_id": "a b"})), AccessToken, "client_id is not"},
		"access, bound":         {token(atJWT, access.with(object{"cnf": object{"jkt": "x"}})), AccessToken, "bound to a key"},
		"sub missing":           {token(nil, id.with(object{"sub": nil})), IDToken, "sub is not"},
		"sub empty":             {token(nil, id.with(object{"sub": ""})), IDToken, "sub is not"},
		"sub long":              {token(nil, id.with(object{"sub": strings.Repeat("s", 256)})), IDToken, "sub is not"},
		"sub a list":            {token(nil, id.with(object{"sub": []string{"a", "b"}})), IDToken, "sub is not"},
		"sub an object":         {token(nil, id.with(object{"sub": object{}})), IDToken, "sub has a value"},
		"sub an e-mail":         {token(nil, id.with(object{"sub": "hunter@example.com"})), IDToken, "e-mail"},
		"sub of another case":   {token(nil, id.with(object{"sub": nil, "Sub": "x"})), IDToken, "sub is not"},
		"exp missing":           {token(nil, id.with(object{"exp": nil})), IDToken, "exp or iat is missing"},
		"exp null":              {token(nil, id.with(object{"exp": json.RawMessage("null")})), IDToken, "exp or iat is missing"},
		"exp text":              {token(nil, id.with(object{"exp": fmt.Sprint(now + 600)})), IDToken, "exp is no number"},
		"exp huge":              {token(nil, id.with(object{"exp": json.RawMessage("1e300")})), IDToken, "exp is no number"},
		"exp out of range":      {token(nil, id.with(object{"exp": json.RawMessage("1e999")})), IDToken, "exp is no number"},
		"exp negative":          {token(nil, id.with(object{"exp": -1})), IDToken, "exp is no number"},
		"exp 0":                 {token(nil, id.with(object{"exp": 0})), IDToken, "exp is no number"},
		"exp true":              {token(nil, id.with(object{"exp": true})), IDToken, "exp is no number"},
		"expired":               {token(nil, id.with(object{"exp": now - 90})), IDToken, "expired"},
		"nbf ahead":             {token(nil, id.with(object{"nbf": now + 60})), IDToken, "nbf lies"},
		"iat ahead":             {token(nil, id.with(object{"iat": now + 60})), IDToken, "iat lies"},
		"iat missing":           {token(nil, id.with(object{"iat": nil})), IDToken, "exp or iat is missing"},
		"nbf text":              {token(nil, id.with(object{"nbf": "x"})), IDToken, "nbf is no number"},
	}
}

// loose is another last character for the same bytes. RSA's 256 leave 4 loose bits.
func loose(part string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return part[:len(part)-1] + string(alphabet[strings.IndexByte(alphabet, part[len(part)-1])|1])
}

func TestOIDCRefuses(t *testing.T) {
	f := newFakeProvider(t)
	u := startOIDC(t, f, nil)
	u.tried(t, 1)
	for name, tc := range hostileJWTs(f) {
		credential := Credential{Value: tc.token, Type: tc.kind}
		who, err := u.Identify(t.Context(), credential)
		if !errors.Is(err, ErrUnknownCredential) || who.Subject != "" {
			t.Errorf("%s: %+v, %v; want it unknown", name, who, err)
			continue
		}
		if (tc.reason == "") != (err == ErrUnknownCredential) || !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%s: error %v, want the reason %q", name, err, tc.reason)
		}
		if u.Plausible(credential) != (tc.reason != "") {
			t.Errorf("%s: plausible is %v", name, tc.reason == "")
		}
		if strings.Contains(err.Error(), "hunter") || len(err.Error()) > 300 {
			t.Errorf("%s: error %q quotes the token", name, err)
		}
	}
	if n := f.fetches.Load(); n != 1 {
		t.Errorf("%d fetches of the keys, want the one at the start", n)
	}
}

// TestOIDCLeeway is to the second.
func TestOIDCLeeway(t *testing.T) {
	f := newFakeProvider(t)
	u := startOIDC(t, f, nil)
	u.tried(t, 1)
	at := func(off int64) int64 { return u.base.Unix() + off }
	for _, tc := range []struct {
		claims object
		good   bool
	}{
		{object{"exp": at(-29)}, true}, {object{"exp": at(-30)}, false}, {object{"exp": at(-31)}, false},
		{object{"iat": at(30)}, true}, {object{"iat": at(31)}, false},
		{object{"nbf": at(30)}, true}, {object{"nbf": at(31)}, false},
		{object{"exp": json.RawMessage(fmt.Sprintf("%d.5", at(-30)))}, true},
	} {
		_, err := u.Identify(t.Context(), Credential{Value: token(nil, f.idToken().with(tc.claims)), Type: IDToken})
		if (err == nil) != tc.good || err != nil && !errors.Is(err, ErrUnknownCredential) {
			t.Errorf("%v: %v", tc.claims, err)
		}
	}
}

// TestPlainAccessTokens: only aud tells what a token of typ JWT is.
func TestPlainAccessTokens(t *testing.T) {
	f := newFakeProvider(t)
	u := startOIDC(t, f, func(o *OIDCOptions) { o.PlainAccessTokens = true })
	for name, tc := range map[string]struct {
		token  string
		kind   CredentialType
		client string // "" is unknown
	}{
		"access":          {token(nil, f.accessToken()), AccessToken, "machine"},
		"access as jwt":   {token(nil, f.accessToken()), JWT, "machine"},
		"access as ID":    {token(nil, f.accessToken()), IDToken, ""},
		"at+jwt":          {token(atJWT, f.accessToken()), AccessToken, "machine"},
		"at+jwt as ID":    {token(atJWT, f.accessToken()), IDToken, ""},
		"ID":              {token(nil, f.idToken()), IDToken, "app"},
		"ID as jwt":       {token(nil, f.idToken()), JWT, "app"},
		"ID as access":    {token(nil, f.idToken()), AccessToken, ""},
		"a logout token":  {token(object{"typ": "logout+jwt"}, f.idToken()), JWT, ""},
		"neither, as jwt": {token(nil, f.idToken().with(object{"aud": "other"})), JWT, ""},
	} {
		who, err := u.Identify(t.Context(), Credential{Value: tc.token, Type: tc.kind})
		if who.ClientID != tc.client || (err == nil) != (tc.client != "") || err != nil && !errors.Is(err, ErrUnknownCredential) {
			t.Errorf("%s: %+v, %v; want the client %q", name, who, err, tc.client)
		}
	}
}

func TestRequiredClaims(t *testing.T) {
	f := newFakeProvider(t)
	u := startOIDC(t, f, func(o *OIDCOptions) {
		o.Claims = ClaimRules{Subject: "oid", Teams: "groups", Require: map[string][]string{"hd": {"acme.example", "acme.test"}, "/realm/roles": {"dev"}}}
	})
	good := f.idToken().with(object{"oid": "o-1", "hd": "acme.test", "realm": object{"roles": []string{"ops", "dev"}}})
	many := make([]string, maxClaimValues+1)
	for i := range many {
		many[i] = "g"
	}
	for name, tc := range map[string]struct{ change, header object }{
		"hd missing":        {object{"hd": nil}, nil},
		"hd another":        {object{"hd": "acme.example.evil"}, nil},
		"role missing":      {object{"realm": object{"roles": []string{"ops"}}}, nil},
		"role elsewhere":    {object{"realm": nil, "roles": []string{"dev"}}, nil},
		"a role inside one": {object{"realm": object{"roles": []any{[]string{"dev"}}}}, nil},
		"realm no object":   {object{"realm": "roles"}, nil},
		"realm twice":       {object{"realm": json.RawMessage(`{"roles":["dev"],"roles":[]}`)}, nil},
		"no oid":            {object{"oid": nil}, nil},
		"too many groups":   {object{"groups": many}, nil},
		"a group an object": {object{"groups": []object{{"a": "b"}}}, nil},
		"nothing, for once": {object{}, nil},
	} {
		who, err := u.Identify(t.Context(), Credential{Value: token(tc.header, good.with(tc.change)), Type: IDToken})
		if name == "nothing, for once" {
			if err != nil || who.Subject != "corp:o-1" {
				t.Errorf("%+v, %v; want corp:o-1", who, err)
			}
			continue
		}
		if !errors.Is(err, ErrUnknownCredential) || who.Subject != "" || who.ClientID != "" {
			t.Errorf("%s: %+v, %v; want it unknown", name, who, err)
		}
	}
}

// FuzzOIDC holds that nothing crashes and that only what is signed is accepted.
func FuzzOIDC(f *testing.F) {
	fake := newFakeProvider(f)
	u := startOIDC(f, fake, nil)
	u.tried(f, 1)
	good := token(nil, fake.idToken())
	f.Add(good)
	f.Add(token(object{"crit": 1}, fake.idToken()))
	f.Add("..")
	f.Fuzz(func(t *testing.T, raw string) {
		who, err := u.Identify(t.Context(), Credential{Value: raw, Type: JWT})
		if (err == nil) != (raw == good) || err != nil && !errors.Is(err, ErrUnknownCredential) {
			t.Fatalf("%q: %+v, %v", raw, who, err)
		}
	})
}

// FuzzOIDCSigned signs whatever comes, to get past the signature.
func FuzzOIDCSigned(f *testing.F) {
	fake := newFakeProvider(f)
	u := startOIDC(f, fake, func(o *OIDCOptions) { o.PlainAccessTokens, o.Claims.Teams = true, "/a/b" })
	u.tried(f, 1)
	f.Add(`{"alg":"EdDSA","kid":"ed"}`, fake.idToken().String())
	f.Add(`{"alg":"EdDSA","kid":"ed","typ":"at+jwt"}`, fake.accessToken().String())
	f.Add(`{"alg":"EdDSA"}`, fake.idToken().with(object{"a": object{"b": []any{1, "x", true}}, "exp": json.RawMessage("1e308")}).String())
	f.Fuzz(func(t *testing.T, header, payload string) {
		who, err := u.Identify(t.Context(), Credential{Value: signText("ed", "EdDSA", header, payload), Type: JWT})
		switch {
		case err != nil && !errors.Is(err, ErrUnknownCredential):
			t.Fatalf("%q, %q: an outage: %v", header, payload, err)
		case err == nil && (who.ClientID == "" || !strings.HasPrefix(who.Subject, "corp:") || strings.Contains(who.Subject, "@") || time.Until(who.Expires) < -jwtLeeway):
			t.Fatalf("%q, %q: %+v", header, payload, who)
		}
	})
}

func BenchmarkOIDC(b *testing.B) {
	f := newFakeProvider(b)
	u := startOIDC(b, f, nil)
	u.tried(b, 1)
	for name, raw := range map[string]string{"good": token(nil, f.idToken()), "unknown kid": token(object{"kid": "x"}, f.idToken())} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := u.Identify(context.Background(), Credential{Value: raw, Type: IDToken}); (err == nil) != (name == "good") {
					b.Fatal(err)
				}
			}
		})
	}
}

var (
	_ LoginProvider = (*OIDC)(nil)
	_ Screener      = (*OIDC)(nil)
	_ Screener      = (*Introspection)(nil)
)
