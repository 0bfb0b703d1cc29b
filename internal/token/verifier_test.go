package token

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSignedTokenVerifies(t *testing.T) {
	for name, claims := range map[string]Claims{
		"all claims": testClaims(),
		"no models, no tier": func() Claims {
			c := testClaims()
			c.Models, c.Tier = nil, ""
			return c
		}(),
		"an empty list of models": func() Claims {
			c := testClaims()
			c.Models = []string{}
			return c
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := testSigner().Sign(claims)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(raw, ":") {
				t.Error("the token has a colon, at which some clients cut it off")
			}
			got, err := testVerifier().Verify(raw, NewKeySet(public(testKey(0))), testNow)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(claims, got); diff != "" {
				t.Errorf("claims differ (-signed +verified):\n%s", diff)
			}
		})
	}
}

func TestAllowsModel(t *testing.T) {
	for _, tc := range []struct {
		models []string
		want   bool
	}{
		{nil, true}, {[]string{}, false}, {[]string{"other"}, false}, {[]string{"other", "ghost-code"}, true},
	} {
		c := Claims{Models: tc.models}
		if got := c.AllowsModel("ghost-code"); got != tc.want {
			t.Errorf("models %#v allow ghost-code: %v, want %v", tc.models, got, tc.want)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	for want, change := range map[string]func(*Claims){
		"the issuer is missing":    func(c *Claims) { c.Issuer = "" },
		"the audience is missing":  func(c *Claims) { c.Audience = "" },
		"the subject is missing":   func(c *Claims) { c.Subject = "" },
		"the id is missing":        func(c *Claims) { c.ID = "" },
		"the client id is missing": func(c *Claims) { c.ClientID = "" },
		"within a second":          func(c *Claims) { c.Expires = c.IssuedAt },
		"year 9999":                func(c *Claims) { c.Expires = time.Unix(maxNumericDate+1, 0) },
		"shorten the list":         func(c *Claims) { c.Models = []string{strings.Repeat("m", MaxBytes)} },
	} {
		claims := testClaims()
		change(&claims)
		if _, err := testSigner().Sign(claims); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestHostileHeaders has the right signature on every token, so that it is the
// header alone that decides.
func TestHostileHeaders(t *testing.T) {
	h, kid := goodHeader(), testSigner().KeyID
	cases := map[string]struct{ header, cause string }{
		"alg none":              {h.with("alg", "none").String(), "alg is not EdDSA"},
		"alg NONE":              {h.with("alg", "NONE").String(), "alg is not EdDSA"},
		"alg empty":             {h.with("alg", "").String(), "alg is not EdDSA"},
		"alg missing":           {h.without("alg").String(), "alg is not EdDSA"},
		"alg lower case":        {h.with("alg", "eddsa").String(), "alg is not EdDSA"},
		"alg by its new name":   {h.with("alg", "Ed25519").String(), "alg is not EdDSA"},
		"alg HS256":             {h.with("alg", "HS256").String(), "alg is not EdDSA"},
		"alg RS256":             {h.with("alg", "RS256").String(), "alg is not EdDSA"},
		"alg RS512":             {h.with("alg", "RS512").String(), "alg is not EdDSA"},
		"alg PS256":             {h.with("alg", "PS256").String(), "alg is not EdDSA"},
		"alg ES384":             {h.with("alg", "ES384").String(), "alg is not EdDSA"},
		"alg Ed448":             {h.with("alg", "Ed448").String(), "alg is not EdDSA"},
		"alg with NUL":          {h.with("alg", "EdDSA\x00").String(), "alg is not EdDSA"},
		"alg ES256":             {h.with("alg", "ES256").String(), "alg is not EdDSA"},
		"alg null":              {h.with("alg", nil).String(), "alg is not EdDSA"},
		"alg number":            {h.with("alg", 1).String(), "right types"},
		"alg list":              {h.with("alg", []string{"EdDSA"}).String(), "right types"},
		"alg of another case":   {`{"Alg":"EdDSA","typ":"at+jwt","kid":"` + kid + `"}`, "alg is not EdDSA"},
		"alg twice":             {`{"alg":"EdDSA","alg":"EdDSA","typ":"at+jwt","kid":"` + kid + `"}`, "each name once"},
		"alg twice, escaped":    {`{"alg":"none","\u0061lg":"EdDSA","typ":"at+jwt","kid":"` + kid + `"}`, "each name once"},
		"typ JWT":               {h.with("typ", "JWT").String(), "typ is not at+jwt"},
		"typ upper case":        {h.with("typ", "AT+JWT").String(), "typ is not at+jwt"},
		"typ long form":         {h.with("typ", "application/at+jwt").String(), "typ is not at+jwt"},
		"typ with another case": {h.with("typ", "at+JWT").String(), "typ is not at+jwt"},
		"typ of an id token":    {h.with("typ", "id_token").String(), "typ is not at+jwt"},
		"typ twice":             {`{"alg":"EdDSA","typ":"JWT","typ":"at+jwt","kid":"` + kid + `"}`, "each name once"},
		"kid twice":             {`{"alg":"EdDSA","typ":"at+jwt","kid":"another","kid":"` + kid + `"}`, "each name once"},
		"typ missing":           {h.without("typ").String(), "typ is not at+jwt"},
		"kid missing":           {h.without("kid").String(), "kid names no key"},
		"kid empty":             {h.with("kid", "").String(), "kid names no key"},
		"kid unknown":           {h.with("kid", "another").String(), "kid names no key"},
		"kid path":              {h.with("kid", "../../../../dev/null").String(), "kid names no key"},
		"kid SQL":               {h.with("kid", "' UNION SELECT 'key' --").String(), "kid names no key"},
		"kid with NUL":          {h.with("kid", kid+"\x00").String(), "kid names no key"},
		"kid with space":        {h.with("kid", kid+" ").String(), "kid names no key"},
		"kid number":            {h.with("kid", 1).String(), "right types"},
		"kid 10 KB":             {h.with("kid", strings.Repeat("k", 10_000)).String(), "too long"},
		"kid of a retired key":  {h.with("kid", Thumbprint(public(testKey(1)))).String(), "kid names no key"},
		"kid of another case":   {`{"alg":"EdDSA","typ":"at+jwt","KID":"` + kid + `"}`, "kid names no key"},
		"crit":                  {h.with("crit", []string{"exp"}).String(), "crit"},
		"crit empty":            {h.with("crit", []string{}).String(), "crit"},
		"crit null":             {h.with("crit", nil).String(), "crit"},
		"b64 false":             {h.with("b64", false).String(), "b64"},
		"b64 true":              {h.with("b64", true).String(), "b64"},
		"jku":                   {h.with("jku", "https://evil.example.com/keys").String(), "jku"},
		"jwk":                   {h.with("jwk", object{"kty": "OKP"}).String(), "jwk"},
		"x5u":                   {h.with("x5u", "https://evil.example.com/cert").String(), "x5u"},
		"x5c":                   {h.with("x5c", []string{"MII"}).String(), "x5c"},
		"header a list":         {`[]`, "JSON object"},
		"header null":           {`null`, "alg is not EdDSA"},
		"header no JSON":        {`alg=EdDSA`, "JSON object"},
		"header with more":      {h.String() + `{}`, "JSON object"},
		"header not UTF-8":      {`{"alg":"EdDSA","typ":"at+jwt","kid":"` + kid + `","x":"` + "\xff" + `"}`, "JSON object"},
		"header nested deeply":  {strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300), "alg is not EdDSA"},
		"header of many braces": {strings.Repeat("[", 2000), "JSON object"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wantInvalid(t, signedText(tc.header, goodPayload().String()), tc.cause)
		})
	}
}

func TestHeadersThatAreFine(t *testing.T) {
	for name, header := range map[string]object{
		"plain":                  goodHeader(),
		"with a thumbprint":      goodHeader().with("x5t", "x").with("x5t#S256", "x"),
		"with an unknown member": goodHeader().with("cty", "x"),
		// Names are case-sensitive (RFC 7515 section 4), so this is not crit.
		"with CRIT": goodHeader().with("CRIT", []string{"exp"}),
	} {
		if _, err := verify(signed(header, goodPayload())); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostilePayloads has a right header and signature throughout.
func TestHostilePayloads(t *testing.T) {
	p := goodPayload()
	const missing, malformed = "is missing", "right types"
	cases := map[string]struct{ payload, cause string }{
		"iss missing":             {p.without("iss").String(), missing},
		"iss of another":          {p.with("iss", "https://evil.example.com").String(), "another issuer"},
		"iss with a slash":        {p.with("iss", "https://tokens.example.com/").String(), "another issuer"},
		"iss list":                {p.with("iss", []string{"https://tokens.example.com"}).String(), malformed},
		"aud missing":             {p.without("aud").String(), missing},
		"aud null":                {p.with("aud", nil).String(), malformed},
		"aud empty":               {p.with("aud", "").String(), missing},
		"aud of another":          {p.with("aud", "elsewhere").String(), "our audience"},
		"aud list without us":     {p.with("aud", []string{"a", "b"}).String(), "our audience"},
		"aud list empty":          {p.with("aud", []string{}).String(), missing},
		"aud list with null":      {p.with("aud", []any{"completions.example.com", nil}).String(), malformed},
		"aud list with a number":  {p.with("aud", []any{"completions.example.com", 1}).String(), malformed},
		"aud object":              {p.with("aud", object{"completions.example.com": true}).String(), malformed},
		"sub missing":             {p.without("sub").String(), missing},
		"sub empty":               {p.with("sub", "").String(), missing},
		"sub number":              {p.with("sub", 7).String(), malformed},
		"sub of another case":     {p.without("sub").with("SUB", "u-1").String(), missing},
		"sub twice":               {strings.TrimSuffix(p.String(), "}") + `,"sub":"admin"}`, malformed},
		"sub twice, escaped":      {strings.TrimSuffix(p.String(), "}") + `,"s\u0075b":"admin"}`, malformed},
		"exp twice":               {strings.TrimSuffix(p.String(), "}") + `,"exp":9999999999}`, malformed},
		"exp missing":             {p.without("exp").String(), missing},
		"exp null":                {p.with("exp", nil).String(), malformed},
		"exp string":              {p.with("exp", "1800001500").String(), malformed},
		"exp list":                {p.with("exp", []int{1_800_001_500}).String(), malformed},
		"exp negative":            {p.with("exp", -1).String(), malformed},
		"exp huge":                {p.with("exp", json.RawMessage("1e300")).String(), malformed},
		"exp beyond float64":      {p.with("exp", json.RawMessage("1e999")).String(), malformed},
		"exp beyond int64":        {p.with("exp", json.RawMessage("92233720368547758080")).String(), malformed},
		"exp object":              {p.with("exp", object{}).String(), malformed},
		"exp true":                {p.with("exp", true).String(), malformed},
		"exp of another case":     {p.without("exp").with("EXP", testNow.Unix()+60).String(), missing},
		"iss twice":               {strings.TrimSuffix(p.String(), "}") + `,"iss":"https://tokens.example.com"}`, malformed},
		"aud twice":               {strings.TrimSuffix(p.String(), "}") + `,"aud":"completions.example.com"}`, malformed},
		"iat huge":                {p.with("iat", json.RawMessage("1e300")).String(), malformed},
		"iat far away":            {p.with("iat", json.RawMessage("253402300799")).String(), "iat lies"},
		"iat null":                {p.with("iat", nil).String(), malformed},
		"nbf huge":                {p.with("nbf", json.RawMessage("1e300")).String(), malformed},
		"nbf negative":            {p.with("nbf", -1).String(), malformed},
		"nbf null":                {p.with("nbf", nil).String(), malformed},
		"iat missing":             {p.without("iat").String(), missing},
		"iat string":              {p.with("iat", "1800000000").String(), malformed},
		"iat negative":            {p.with("iat", -1).String(), malformed},
		"iat beyond the leeway":   {p.with("iat", testNow.Unix()+31).String(), "iat lies"},
		"iat beyond by a moment":  {p.with("iat", json.RawMessage("1800000030.25")).String(), "iat lies"},
		"nbf string":              {p.with("nbf", "0").String(), malformed},
		"nbf beyond the leeway":   {p.with("nbf", testNow.Unix()+31).String(), "nbf lies"},
		"models null":             {p.with("models", nil).String(), malformed},
		"models string":           {p.with("models", "ghost-code").String(), malformed},
		"models with null":        {p.with("models", []any{nil}).String(), malformed},
		"models twice":            {strings.TrimSuffix(p.String(), "}") + `,"models":["a"],"models":["b"]}`, malformed},
		"not UTF-8":               {strings.TrimSuffix(p.String(), "}") + ",\"tier\":\"\xff\"}", malformed},
		"list":                    {`[]`, malformed},
		"null":                    {`null`, missing},
		"string":                  {`"u-1"`, malformed},
		"more than one":           {p.String() + p.String(), malformed},
		"expired and of another":  {p.with("exp", 1).with("aud", "elsewhere").String(), "our audience"},
		"expired and without sub": {p.with("exp", 1).without("sub").String(), missing},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wantInvalid(t, signedText(goodHeader().String(), tc.payload), tc.cause)
		})
	}
}

func TestPayloadsThatAreFine(t *testing.T) {
	p := goodPayload()
	for name, payload := range map[string]object{
		"plain":                       p,
		"aud list with us":            p.with("aud", []string{"elsewhere", "completions.example.com"}),
		"times with a fraction":       p.with("exp", json.RawMessage("1800000000.5")).with("iat", json.RawMessage("1.8e9")),
		"exp far away":                p.with("exp", json.RawMessage("253402300799")),
		"iat at the leeway":           p.with("iat", testNow.Unix()+30),
		"nbf at the leeway":           p.with("nbf", testNow.Unix()+30),
		"expired within the leeway":   p.with("exp", testNow.Unix()-29),
		"iat within the leeway":       p.with("iat", testNow.Unix()+29),
		"nbf within the leeway":       p.with("nbf", testNow.Unix()+29),
		"nbf with a fraction":         p.with("nbf", json.RawMessage("1800000000.5")),
		"an unknown claim":            p.with("scope", "x"),
		"a claim of another case too": p.with("SUB", "admin").with("Exp", "never"),
	} {
		got, err := verify(signed(goodHeader(), payload))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got.Subject != "u-1" {
			t.Errorf("%s: subject %q, want u-1", name, got.Subject)
		}
	}
}

func TestExpired(t *testing.T) {
	for _, exp := range []int64{0, 1, testNow.Unix() - 31, testNow.Unix() - 30} {
		raw := signed(goodHeader(), goodPayload().with("exp", exp))
		if _, err := verify(raw); !errors.Is(err, ErrExpired) || errors.Is(err, ErrInvalid) {
			t.Errorf("exp %d: error %v, want ErrExpired alone", exp, err)
		}
		// Without the right signature nobody learns that it is expired.
		wantInvalid(t, raw[:len(raw)-86]+strings.Repeat("A", 86), "signature")
	}
	// A leeway that is given holds instead of the default.
	strict := testVerifier()
	strict.Leeway = time.Second
	raw := signed(goodHeader(), goodPayload().with("exp", testNow.Unix()-1))
	if _, err := strict.Verify(raw, NewKeySet(public(testKey(0))), testNow); !errors.Is(err, ErrExpired) {
		t.Errorf("with a leeway of 1 s: error %v, want ErrExpired", err)
	}
}

func TestHostileShapes(t *testing.T) {
	good := signed(goodHeader(), goodPayload())
	parts := strings.Split(good, ".")
	header, payload, signature := parts[0], parts[1], parts[2]
	const shape = "not three parts"
	cases := map[string]struct{ raw, cause string }{
		"empty":                      {"", shape},
		"one part":                   {header, shape},
		"two parts":                  {header + "." + payload, shape},
		"four parts":                 {good + "." + signature, shape},
		"no header":                  {"." + payload + "." + signature, shape},
		"no payload":                 {header + ".." + signature, shape},
		"no signature":               {header + "." + payload + ".", shape},
		"short signature":            {good[:len(good)-1], shape},
		"a million dots":             {strings.Repeat(".", 1_000_000), "too long"},
		"dots":                       {strings.Repeat(".", 1_000), shape},
		"1 MB":                       {header + "." + strings.Repeat("A", 1<<20) + "." + signature, "too long"},
		"one byte too long":          {header + "." + strings.Repeat("A", MaxBytes-len(header)-1-86) + "." + signature, "too long"},
		"padded header":              {header + "=." + payload + "." + signature, shape},
		"padded payload":             {header + "." + payload + "=." + signature, shape},
		"padded payload, escaped":    {header + "." + payload + "%3D." + signature, shape},
		"padded signature":           {good + "==", shape},
		"standard base64":            {strings.Replace(good, header, header[:8]+"+/", 1), shape},
		"space before":               {" " + good, shape},
		"space after":                {good + " ", shape},
		"line break in the header":   {header[:4] + "\n" + header[4:] + "." + payload + "." + signature, shape},
		"line break in the payload":  {header + "." + payload[:4] + "\r\n" + payload[4:] + "." + signature, shape},
		"NUL":                        {good + "\x00", shape},
		"Bearer":                     {"Bearer " + good, shape},
		"signature of zeroes":        {header + "." + payload + "." + strings.Repeat("A", 86), "signature"},
		"signature by another key":   {otherSignature(header + "." + payload), "signature"},
		"signature of another token": {header + "." + encode(goodPayload().with("sub", "admin").String()) + "." + signature, "signature"},
		"trailing bits in signature": {good[:len(good)-1] + string(looseLast(good)), "base64url"},
		"HS256 with the public key":  {hmacToken(), "alg is not EdDSA"},
		"not canonical (S + L)":      {header + "." + payload + "." + malleable(signature), "signature"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { wantInvalid(t, tc.raw, tc.cause) })
	}
}

func TestWithoutKeysOrRules(t *testing.T) {
	raw := signed(goodHeader(), goodPayload())
	keys := NewKeySet(public(testKey(0)))
	for name, got := range map[string]func() (Claims, error){
		"no keys": func() (Claims, error) { return testVerifier().Verify(raw, KeySet{}, testNow) },
		"no issuer": func() (Claims, error) {
			return Verifier{Audience: "completions.example.com"}.Verify(raw, keys, testNow)
		},
		"no audience": func() (Claims, error) {
			return Verifier{Issuer: "https://tokens.example.com"}.Verify(raw, keys, testNow)
		},
	} {
		if _, err := got(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v, want ErrInvalid", name, err)
		}
	}
}

func verify(raw string) (Claims, error) {
	return testVerifier().Verify(raw, NewKeySet(public(testKey(0))), testNow)
}

// wantInvalid also holds that the cause is in fixed words: with whatever is in
// the token, it may not be in the error.
func wantInvalid(t *testing.T, raw, cause string) {
	t.Helper()
	claims, err := verify(raw)
	if !errors.Is(err, ErrInvalid) || errors.Is(err, ErrExpired) {
		t.Fatalf("error %v, want ErrInvalid", err)
	}
	if !strings.Contains(err.Error(), cause) {
		t.Errorf("error %q, want the cause %q", err, cause)
	}
	if diff := cmp.Diff(Claims{}, claims); diff != "" {
		t.Errorf("claims of an invalid token: %s", diff)
	}
	for _, secret := range []string{"u-1", "admin", "evil", "elsewhere", "UNION", testSigner().KeyID} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("error %q quotes the token", err)
		}
	}
}
