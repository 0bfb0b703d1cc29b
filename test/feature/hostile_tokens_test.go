package feature

import (
	"crypto/ed25519"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hostileToken is a token that somebody makes up, and what a proxy answers it.
type hostileToken struct {
	name   string
	raw    func() string // made when it is sent, because some are good for a second
	status int
	code   string
}

const (
	accepted     = http.StatusOK
	unauthorized = http.StatusUnauthorized
	tooLarge     = http.StatusRequestHeaderFieldsTooLarge
)

// hostileTokens is the table. internal/token has more, down to the cause; here is
// what of it goes over the wire, and what the wire itself is to refuse.
func hostileTokens(s *stack) []hostileToken {
	header, claims := s.goodToken()
	member := func(json string) string { return strings.Replace(header, "}", ","+json+"}", 1) }
	instead := func(text, old, new string) string {
		if !strings.Contains(text, old) {
			s.t.Fatalf("%s has no %s", text, old)
		}
		return strings.Replace(text, old, new, 1)
	}
	var all []hostileToken
	add := func(status int, code, name string, raw func() string) {
		all = append(all, hostileToken{name, raw, status, code})
	}
	invalid := func(name, header, claims string) {
		add(unauthorized, "invalid_token", name, func() string { return s.signed(header, claims) })
	}
	good := func(name, header, claims string) {
		add(accepted, "", name, func() string { return s.signed(header, claims) })
	}
	for _, alg := range []string{"none", "NONE", "nOnE", "", "HS256", "HS512", "RS256", "RS512", "PS256", "ES256", "ES384", "ES512", "ES256K", "Ed448", "eddsa"} {
		invalid("alg "+alg, instead(header, "EdDSA", alg), claims)
	}
	for name, kid := range map[string]string{
		"path": "../../../../dev/null", "SQL": "' OR '1'='1", "NUL": s.signer.KeyID + `\u0000`, "of 10 KB": strings.Repeat("k", 10_000),
		"unknown": "unknown", "URL": "https://evil.test/key", "of another case": strings.ToUpper(s.signer.KeyID), "empty": "",
	} {
		invalid("kid "+name, instead(header, s.signer.KeyID, kid), claims)
	}
	for _, name := range []string{"jku", "x5u", "jwk", "x5c", "crit", "b64"} {
		invalid(name, member(`"`+name+`":"https://evil.test"`), claims)
		invalid(name+" null", member(`"`+name+`":null`), claims)
	}
	good("CRIT, which is another name", member(`"CRIT":["exp"]`), claims)
	good("an unknown member", member(`"x5t":"x"`), claims)
	for _, typ := range []string{"JWT", "AT+JWT", "application/at+jwt", "id_token", ""} {
		invalid("typ "+typ, instead(header, "at+jwt", typ), claims)
	}
	for name, value := range map[string]string{"string": `"4102444800"`, "negative": "-1", "huge": "1e300", "beyond numbers": "1e999", "null": "null", "list": "[1]"} {
		invalid("exp "+name, header, instead(claims, far, value))
		invalid("iat "+name, header, instead(claims, `"iat":1`, `"iat":`+value))
		invalid("nbf "+name, header, instead(claims, `"iat":1`, `"iat":1,"nbf":`+value))
	}
	invalid("exp missing", header, instead(claims, `,"exp":`+far, ""))
	invalid("iat missing", header, instead(claims, `"iat":1,`, ""))
	good("times with a fraction", header, instead(instead(claims, far, far+".5"), `"iat":1`, `"iat":1.5,"nbf":1.5`))
	good("aud a list with us", header, instead(claims, `"aud":"`+audience+`"`, `"aud":["other.test","`+audience+`"]`))
	invalid("aud a list without us", header, instead(claims, `"aud":"`+audience+`"`, `"aud":["other.test"]`))
	invalid("aud an empty list", header, instead(claims, `"aud":"`+audience+`"`, `"aud":[]`))
	invalid("aud that begins like us", header, instead(claims, `"aud":"`, `"aud":"x`))
	for _, name := range []string{"sub", "exp", "aud", "iss"} {
		invalid(name+" twice", header, instead(claims, "{", `{"`+name+`":1,`))
		invalid(name+" by another case only", header, instead(claims, `"`+name+`"`, `"`+strings.ToUpper(name)+`"`))
		good(name+" by another case too", header, instead(claims, "{", `{"`+strings.ToUpper(name)+`":1,`))
	}
	return append(append(all, shapelyTokens(s)...), leewayTokens(s)...)
}

// shapelyTokens are hostile by their form alone.
func shapelyTokens(s *stack) []hostileToken {
	goodHeader, claims := s.goodToken()
	good := s.signed(goodHeader, claims)
	header, payload, signature := parts(good)
	otherKey := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	of := func(status int, code, name, raw string) hostileToken {
		return hostileToken{name, func() string { return raw }, status, code}
	}
	return []hostileToken{
		of(accepted, "", "good, so that the table proves something", good),
		of(unauthorized, "invalid_token", "HS256 with the public key", s.hmac(strings.Replace(goodHeader, "EdDSA", "HS256", 1), claims)),
		of(unauthorized, "invalid_token", "alg none without a signature", encode(strings.Replace(goodHeader, "EdDSA", "none", 1))+"."+payload+"."),
		of(unauthorized, "invalid_token", "signed by a key that is not published", header+"."+payload+"."+encode(string(ed25519.Sign(otherKey, []byte(header+"."+payload))))),
		of(unauthorized, "invalid_token", "padded header", header+"==."+payload+"."+signature),
		of(unauthorized, "invalid_token", "padded payload", header+"."+payload+"=."+signature),
		of(unauthorized, "invalid_token", "padded signature", good+"=="),
		of(unauthorized, "invalid_token", "a thousand dots", strings.Repeat(".", 1_000)),
		of(unauthorized, "invalid_token", "60,000 dots", strings.Repeat(".", 60_000)),
		of(unauthorized, "invalid_token", "a long payload", header+"."+strings.Repeat("A", 60_000)+"."+signature),
		of(tooLarge, "", "a million dots", strings.Repeat(".", 1_000_000)),
		of(tooLarge, "", "1 MB", header+"."+strings.Repeat("A", 1<<20)+"."+signature),
	}
}

// leewayTokens lie a second on either side of what is allowed: 30 s.
func leewayTokens(s *stack) []hostileToken {
	header, claims := s.goodToken()
	at := func(claim string, seconds int64) func() string {
		return func() string {
			value := strconv.FormatInt(time.Now().Unix()+seconds, 10)
			old, new := `"iat":1`, `"iat":`+value
			switch claim {
			case "exp":
				old, new = far, value
			case "nbf":
				new = `"iat":1,"nbf":` + value
			}
			return s.signed(header, strings.Replace(claims, old, new, 1))
		}
	}
	return []hostileToken{
		{"expired 28 s ago", at("exp", -28), accepted, ""},
		{"expired 31 s ago", at("exp", -31), unauthorized, "token_expired"},
		{"issued in 29 s", at("iat", 29), accepted, ""},
		{"issued in 32 s", at("iat", 32), unauthorized, "invalid_token"},
		{"good in 29 s", at("nbf", 29), accepted, ""},
		{"good in 32 s", at("nbf", 32), unauthorized, "invalid_token"},
	}
}

// TestHostileTokensAtTheProxy sends each several times, so that a second look is no
// other than the first, and holds that nothing reaches the unit that is not accepted.
func TestHostileTokensAtTheProxy(t *testing.T) {
	s := start(t, setup{})
	h1, h2c := s.h1(), s.h2c()
	h1.Timeout, h2c.Timeout = 20*time.Second, 20*time.Second
	for _, tc := range hostileTokens(s) {
		t.Run(tc.name, func(t *testing.T) {
			clients := []*http.Client{h1, h1, h2c}
			if tc.status == tooLarge {
				clients = clients[:1] // Go's client does not send it over HTTP/2
			}
			for _, c := range clients {
				before := s.arrived.count()
				got := s.sendQuickly(c, tc.raw)
				if tc.status == accepted {
					if got.status != accepted {
						t.Fatalf("got %d %.200q, want it accepted", got.status, got.body)
					}
					continue
				}
				if got.status != tc.status || tc.code != "" && !strings.Contains(got.body, `"code":"`+tc.code+`"`) {
					t.Fatalf("got %d %.200q, want %d %s", got.status, got.body, tc.status, tc.code)
				}
				s.wantArrivals(before)
			}
		})
	}
}

// sendQuickly asks with a token that was made less than a second before the answer.
func (s *stack) sendQuickly(c *http.Client, raw func() string) reply {
	for {
		req := s.request(s.t.Context(), s.plainURL, "/v1/completions", prompt)
		made := time.Now()
		req.Header.Set("Authorization", "Bearer "+raw())
		if got := s.do(c, req); time.Since(made) < time.Second {
			return got
		}
	}
}

// TestHostileTokensAreCheap: refusing a flood of the largest leaves nothing behind.
func TestHostileTokensAreCheap(t *testing.T) {
	s := start(t, setup{})
	h1 := s.h1()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	s.sendQuickly(h1, func() string { return "x" })
	before := heap()
	for _, tc := range shapelyTokens(s) {
		for range 20 {
			if tc.status != accepted {
				s.sendQuickly(h1, tc.raw)
			}
		}
	}
	if after := heap(); after > before+8<<20 {
		t.Errorf("the heap has grown from %d to %d bytes", before, after)
	}
	s.complete()
}

// TestHostileTokensAtTheIssuer shows them as subject tokens. The issuer knows none
// of them, whatever they claim: its own tokens are no login either.
func TestHostileTokensAtTheIssuer(t *testing.T) {
	i := startIssuer(t)
	s := start(t, setup{before: i.trusted})
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	exchange := func(kind, subject string) (int, string) {
		resp, err := client.PostForm(i.url+"/oauth/token", url.Values{
			"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
			"subject_token":      {subject},
			"subject_token_type": {"urn:ietf:params:oauth:token-type:" + kind},
		})
		if err != nil {
			t.Fatal(err)
		}
		return readAll(t, resp)
	}
	for _, tc := range append(hostileTokens(s), hostileToken{"the issuer's own token", i.token, 0, ""}) {
		raw := tc.raw()
		want := http.StatusBadRequest
		if len(raw) > 32<<10 {
			want = http.StatusRequestEntityTooLarge
		}
		for _, kind := range []string{"access_token", "id_token", "jwt"} {
			if status, body := exchange(kind, raw); status != want || !strings.Contains(body, `"error":"invalid_request"`) {
				t.Errorf("%s as %s: %d %.200s, want %d", tc.name, kind, status, body, want)
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, i.url+"/copilot_internal/v2/token", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "token "+raw)
		want = http.StatusForbidden
		switch {
		case len(raw) > 64<<10:
			want = tooLarge
		case len(raw) > 32<<10:
			want = 0 // Go's server reads a little more than it is told to
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if status, body := readAll(t, resp); want != 0 && status != want || status == http.StatusOK {
			t.Errorf("%s to Copilot's endpoint: %d %.200s, want %d", tc.name, status, body, want)
		}
	}
	if strings.Contains(i.log.String(), "eyJ") {
		t.Error("the issuer's log has a token")
	}
}

func readAll(t *testing.T, resp *http.Response) (status int, body string) {
	t.Helper()
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}
