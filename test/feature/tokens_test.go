package feature

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// Challenges of RFC 6750 section 3: a request that brings no token is told no
// error.
const (
	bareChallenge    = `Bearer realm="completions"`
	invalidChallenge = `Bearer error="invalid_token", error_description="the token is not valid"`
	expiredChallenge = `Bearer error="invalid_token", error_description="the token has expired"`
)

// badCredentials are the Authorization headers of a request, and the answer.
type badCredentials struct {
	name          string
	authorization []string
	status        int
	code          string
	challenge     string
}

func noTokenAtAll() []badCredentials {
	missing := func(name string, authorization ...string) badCredentials {
		return badCredentials{name, authorization, http.StatusUnauthorized, "missing_token", bareChallenge}
	}
	return []badCredentials{
		missing("no header"),
		missing("empty header", ""),
		missing("Basic", "Basic dXNlcjpwYXNzd29yZA=="),
		missing("GitHub's own scheme", "token gho_0123456789"),
		missing("a token without a scheme", "eyJhbGciOiJFZERTQSJ9.e30.AAAA"),
		missing("scheme run into the token", "Bearer:abc"),
	}
}

func tokensThatAreInvalid(s *stack) []badCredentials {
	good := s.token()
	header, payload, signature := parts(good)
	now := time.Now()
	goodHeader, claims := s.goodToken()
	invalid := func(name, raw string) badCredentials {
		return badCredentials{name, []string{"Bearer " + raw}, http.StatusUnauthorized, "invalid_token", invalidChallenge}
	}
	expired := invalid("expired", s.token(func(c *token.Claims) { c.IssuedAt, c.Expires = now.Add(-2*time.Hour), now.Add(-time.Hour) }))
	expired.code, expired.challenge = "token_expired", expiredChallenge
	return []badCredentials{
		expired,
		invalid("empty", ""),
		invalid("garbage", "garbage"),
		invalid("three dots", "..."),
		invalid("two tokens in one header", good+" "+good),
		invalid("a list of tokens", good+","+good),
		invalid("other audience", s.token(func(c *token.Claims) { c.Audience = "other.test" })),
		invalid("other issuer", s.token(func(c *token.Claims) { c.Issuer = "https://evil.test" })),
		invalid("issued in the future", s.token(func(c *token.Claims) { c.IssuedAt = now.Add(time.Hour); c.Expires = now.Add(2 * time.Hour) })),
		invalid("tampered payload", header+"."+encode(strings.Replace(claims, "subject-1", "subject-2", 1))+"."+signature),
		invalid("tampered signature", header+"."+payload+"."+strings.Repeat("A", len(signature))),
		invalid("without signature", header+"."+payload+"."),
		invalid("of another kind", s.signed(strings.Replace(goodHeader, "at+jwt", "JWT", 1), claims)),
		invalid("alg none", encode(`{"alg":"none","typ":"at+jwt","kid":"`+s.signer.KeyID+`"}`)+"."+encode(claims)+"."),
		invalid("alg none with a signature", s.signed(strings.Replace(goodHeader, "EdDSA", "none", 1), claims)),
		invalid("alg HS256 with the public key", s.hmac(strings.Replace(goodHeader, "EdDSA", "HS256", 1), claims)),
		invalid("unknown kid", s.signed(strings.Replace(goodHeader, s.signer.KeyID, "other", 1), claims)),
		invalid("no kid", s.signed(`{"alg":"EdDSA","typ":"at+jwt"}`, claims)),
		invalid("a key of its own", s.signed(strings.Replace(goodHeader, "}", `,"jwk":{"kty":"OKP"}}`, 1), claims)),
		invalid("crit", s.signed(strings.Replace(goodHeader, "}", `,"crit":["exp"]}`, 1), claims)),
		invalid("no exp", s.signed(goodHeader, strings.Replace(claims, `"exp":`+far, `"x":1`, 1))),
		invalid("no sub", s.signed(goodHeader, strings.Replace(claims, `"sub":"subject-1",`, "", 1))),
		invalid("sub twice", s.signed(goodHeader, strings.Replace(claims, `"sub"`, `"sub":"root","sub"`, 1))),
		invalid("longer than 4 KiB", s.signed(goodHeader, strings.Replace(claims, "}", `,"x":"`+strings.Repeat("x", 4<<10)+`"}`, 1))),
		invalid("of 60 KiB", good+strings.Repeat("A", 60<<10)),
	}
}

func severalHeaders(s *stack) []badCredentials {
	good := "Bearer " + s.token()
	several := func(name string, authorization ...string) badCredentials {
		return badCredentials{name, authorization, http.StatusBadRequest, "invalid_request", `Bearer error="invalid_request"`}
	}
	return []badCredentials{
		several("two, both good", good, "Bearer "+s.token(func(c *token.Claims) { c.Subject = "subject-2" })),
		several("two alike", good, good),
		several("a good one and Basic", good, "Basic dXNlcjpwYXNzd29yZA=="),
		several("an empty one and a good one", "", good),
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	s := start(t, setup{})
	control := s.request(t.Context(), s.plainURL, "/v1/models", "")
	control.Method = http.MethodGet
	control.Header.Set("Authorization", "Bearer "+s.signed(s.goodToken()))
	if got := s.do(s.h2c(), control); got.status != http.StatusOK {
		t.Fatalf("the token that the others are made of got %d %s", got.status, got.body)
	}
	cases := append(append(noTokenAtAll(), tokensThatAreInvalid(s)...), severalHeaders(s)...)
	var answers []reply
	secrets := []string{secretText}
	for _, client := range []*http.Client{s.h2c(), s.h1()} {
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				req := s.request(t.Context(), s.plainURL, "/v1/completions", withPrompt(`"`+secretText+`"`))
				req.Header["Authorization"] = tc.authorization
				got := s.do(client, req)
				got.wantRefusal(t, refusal{status: tc.status, code: tc.code})
				if challenge := got.header.Get("WWW-Authenticate"); challenge != tc.challenge {
					t.Errorf("WWW-Authenticate %q, want %q", challenge, tc.challenge)
				}
				answers = append(answers, got)
				secrets = append(secrets, longParts(tc.authorization)...)
			})
		}
	}
	s.wantArrivals(0)
	s.outcomes("denied", float64(2*(len(cases)-len(severalHeaders(s)))))
	s.wantNoLeak(answers, secrets...)
}

// longParts are the parts of headers that are long enough to search for.
func longParts(authorization []string) []string {
	var long []string
	for _, value := range authorization {
		for _, part := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" .,:", r) }) {
			if len(part) >= 8 {
				long = append(long, part)
			}
		}
	}
	return long
}

// TestCredentialsStayOnTheirSide sends a good request and looks for the token
// behind the proxy, and for the unit's key before it.
func TestCredentialsStayOnTheirSide(t *testing.T) {
	s := start(t, setup{})
	raw := s.token()
	var answers []reply
	for _, stream := range []string{"true", "false"} {
		req := s.request(t.Context(), s.plainURL, "/v1/completions", withField(`"max_tokens":4,"stream":`+stream))
		req.Header.Set("Authorization", "bearer  "+raw) // the scheme's case does not count
		for _, name := range []string{"Cookie", "X-Api-Key", "Proxy-Authorization", "X-Forwarded-Authorization"} {
			req.Header.Set(name, raw)
		}
		got := s.do(s.h2c(), req)
		if got.status != http.StatusOK {
			t.Fatalf("got %d %.200q, want 200", got.status, got.body)
		}
		answers = append(answers, got)
		arrived := s.arrived.last(t)
		if got := arrived.header["Authorization"]; len(got) != 1 || got[0] != "Bearer "+unitKey {
			t.Errorf("the unit got Authorization %.60q, want its own key once", got)
		}
		for name, values := range arrived.header {
			if strings.Contains(strings.Join(values, ","), raw) {
				t.Errorf("the unit got the client's token in %s", name)
			}
		}
	}
	s.wantNoLeak(answers, append(longParts([]string{raw}), secretText)...)
}

func TestTokensThatDoNotReachTheModel(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		c.Models = append(c.Models, config.Model{Name: "other", Variants: []config.Variant{{Name: "only", Weight: 1}}})
	}})
	for _, tc := range []struct {
		name    string
		models  []string
		model   string
		refused *refusal
	}{
		{"all models", nil, "ghost-code", nil},
		{"this model", []string{"ghost-code"}, "ghost-code", nil},
		{"this model by its alias", []string{"ghost-code"}, "copilot-codex", nil},
		{"another model", []string{"other"}, "ghost-code", &refusal{status: 403, code: "model_denied", message: "ghost-code"}},
		{"no model", []string{}, "ghost-code", &refusal{status: 403, code: "model_denied", message: "ghost-code"}},
		{"an unknown model, with one allowed", []string{"other"}, "x", &refusal{status: 404, code: "model_not_found", message: "this service has: other"}},
		{"an unknown model, with none allowed", []string{}, "x", &refusal{status: 404, code: "model_not_found", message: "no model for this user"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := s.arrived.count()
			req := s.request(t.Context(), s.plainURL, "/v1/completions", `{"prompt":"x","model":"`+tc.model+`"}`)
			req.Header.Set("Authorization", "Bearer "+s.token(func(c *token.Claims) { c.Models = tc.models }))
			got := s.do(s.h2c(), req)
			if tc.refused == nil {
				if got.status != http.StatusOK {
					t.Errorf("got %d %.200q, want 200", got.status, got.body)
				}
				return
			}
			got.wantRefusal(t, *tc.refused)
			s.wantArrivals(before)
		})
	}
}

// TestDeniedSubjects changes the list while the proxy runs: that a token was
// good a moment ago must not count.
func TestDeniedSubjects(t *testing.T) {
	s := start(t, setup{})
	s.write("denied", "# nobody yet\n")
	s.config.Tokens.DeniedSubjects = &config.DeniedSubjects{File: "denied"}
	s.writeConfig()
	s.eventually("the list is in use", func() bool { return strings.Contains(s.admin("/statusz"), s.configHash()) })

	client := s.h2c()
	ask := func(raw string) reply {
		req := s.request(t.Context(), s.plainURL, "/v1/completions", withPrompt(`"x"`))
		req.Header.Set("Authorization", "Bearer "+raw)
		return s.do(client, req)
	}
	first, second := s.token(), s.token(func(c *token.Claims) { c.Subject = "subject-2" })
	for range 2 {
		if got := ask(first); got.status != http.StatusOK {
			t.Fatalf("got %d %.200q, want 200", got.status, got.body)
		}
	}
	if hits := s.metric("ghostline_token_cache_total", "result", "hit"); hits != 1 {
		t.Errorf("%v remembered tokens, want 1", hits)
	}
	s.write("denied", "\n# so that lines and their ends are read\r\n  subject-1  \r\nsubject-10\n")
	s.eventually("the subject is denied", func() bool { return ask(first).status == http.StatusForbidden })
	ask(first).wantRefusal(t, refusal{status: http.StatusForbidden, code: "subject_denied"})
	if got := ask(second); got.status != http.StatusOK {
		t.Errorf("another subject got %d %.200q, want 200", got.status, got.body)
	}
	s.write("denied", "")
	s.eventually("the subject is allowed again", func() bool { return ask(first).status == http.StatusOK })
}

func TestKeysRotateWhileRunning(t *testing.T) {
	s := start(t, setup{})
	client := s.h2c()
	ask := func(raw string) reply {
		req := s.request(t.Context(), s.plainURL, "/v1/completions", withPrompt(`"x"`))
		req.Header.Set("Authorization", "Bearer "+raw)
		return s.do(client, req)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	old, next := s.signer, token.Signer{KeyID: token.Thumbprint(key.Public().(ed25519.PublicKey)), Key: key}
	oldToken := s.token()
	s.signer = next
	newToken := s.token()

	ask(newToken).wantRefusal(t, refusal{status: http.StatusUnauthorized, code: "invalid_token"})
	s.writeKeys(old, next)
	s.eventually("the new key is good", func() bool { return ask(newToken).status == http.StatusOK })
	if got := ask(oldToken); got.status != http.StatusOK {
		t.Errorf("with both keys, the old token got %d", got.status)
	}
	s.writeKeys(next)
	s.eventually("the old key is withdrawn, and what it signed with it", func() bool { return ask(oldToken).status == http.StatusUnauthorized })
	ask(oldToken).wantRefusal(t, refusal{status: http.StatusUnauthorized, code: "invalid_token"})
	if got := ask(newToken); got.status != http.StatusOK {
		t.Errorf("the new token got %d", got.status)
	}
}

// far is a time of expiry that no test reaches, in Unix seconds.
const far = "4102444800"

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func parts(raw string) (header, payload, signature string) {
	list := strings.SplitN(raw, ".", 3)
	return list[0], list[1], list[2]
}

// goodToken is the header and the claims of a token that is good.
func (s *stack) goodToken() (header, claims string) {
	return `{"alg":"EdDSA","typ":"at+jwt","kid":"` + s.signer.KeyID + `"}`,
		`{"iss":"` + issuer + `","aud":"` + audience + `","sub":"subject-1","jti":"1","client_id":"c","iat":1,"exp":` + far + `}`
}

// signed puts a token together without any of Sign's care, with a right signature.
func (s *stack) signed(header, payload string) string {
	input := encode(header) + "." + encode(payload)
	return input + "." + encode(string(ed25519.Sign(s.signer.Key, []byte(input))))
}

// hmac is the classic confusion: the public key as an HMAC secret.
func (s *stack) hmac(header, payload string) string {
	input := encode(header) + "." + encode(payload)
	mac := hmac.New(sha256.New, s.signer.Key.Public().(ed25519.PublicKey))
	mac.Write([]byte(input))
	// As long as an Ed25519 signature, so that it gets past a look at its length.
	return input + "." + encode(string(mac.Sum(mac.Sum(nil))))
}
