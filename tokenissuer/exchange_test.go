package tokenissuer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/google/go-cmp/cmp"
)

const (
	testCredential = "gho_hunter22"
	testIssuer     = "https://tokens.example.com"
	testAudience   = "completions.example.com"
)

func TestOAuthGrant(t *testing.T) {
	unknown := goodForm()
	unknown.Set("client_id", "editor")
	unknown.Set("scope", "") // as good as left out
	other := goodForm()
	other.Set("audience", "other.example.com")
	other.Set("requested_token_type", typeAccessToken)
	for _, tc := range []struct {
		name        string
		form        url.Values
		contentType string
		audience    string
	}{
		{"plain", goodForm(), "application/x-www-form-urlencoded", testAudience},
		{"with a charset", goodForm(), "Application/X-WWW-Form-Urlencoded; charset=utf-8", testAudience},
		{"unknown and empty parameters", unknown, "application/x-www-form-urlencoded", testAudience},
		{"another audience", other, "application/x-www-form-urlencoded", "other.example.com"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := newIssuer(t)
			request := post(tc.form.Encode())
			request.Header.Set("Content-Type", tc.contentType)
			request.Header.Set("X-Request-Id", "r-1")
			answer := i.do(request)
			wantAnswer(t, answer, http.StatusOK, "no-store", "application/json")
			var got oauthGrant
			if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			claims := i.verify(t, got.AccessToken, tc.audience)
			wantClaims(t, claims, tc.audience)
			if got.IssuedTokenType != typeAccessToken || got.TokenType != "Bearer" || got.ExpiresIn != 1500 || got.ExpiresAt != claims.Expires.Unix() {
				t.Errorf("answer %+v", got)
			}
			wantRefresh(t, got.RefreshIn, 1500)
			if id := answer.Header().Get("X-Request-Id"); id != "r-1" {
				t.Errorf("request id %q", id)
			}
			wantAudit(t, i, map[string]any{
				"msg": "exchange", "request_id": "r-1", "endpoint": "oauth", "result": "granted", "provider": "local",
				"subject": "u-1", "client_id": "editor", "audience": tc.audience, "token_id": claims.ID,
				"address": "192.0.2.1", "identity": "asked", "rule": "",
			})
			wantCount(t, i, "oauth", "local", resultGranted)
		})
	}
}

func TestCopilotGrant(t *testing.T) {
	for _, header := range []string{"token " + testCredential, "Token  " + testCredential, "bearer " + testCredential} {
		i := newIssuer(t)
		answer := i.do(askCopilot(header))
		wantAnswer(t, answer, http.StatusOK, "no-store", "application/json")
		var got copilotGrant
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		claims := i.verify(t, got.Token, testAudience)
		wantClaims(t, claims, testAudience)
		wantRefresh(t, got.RefreshIn, 1500)
		want := copilotGrant{
			Token: got.Token, RefreshIn: got.RefreshIn, ExpiresAt: claims.Expires.Unix(), SKU: "ghostline",
			Endpoints: copilotEndpoints{Proxy: "https://proxy.example.com", API: "https://api.example.com"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
		wantCount(t, i, "copilot", "local", resultGranted)
	}
}

func TestOAuthRefuses(t *testing.T) {
	with := func(name string, values ...string) string {
		f := goodForm()
		f[name] = values
		return f.Encode()
	}
	for _, tc := range []struct {
		name, body string
		status     int
		code       string
		result     result
	}{
		{"empty", "", 400, "invalid_request", resultBadRequest},
		{"JSON", `{"grant_type":"x"}`, 400, "invalid_request", resultBadRequest},
		{"bad escape", "grant_type=%zz", 400, "invalid_request", resultBadRequest},
		{"semicolon", goodForm().Encode() + ";a=b", 400, "invalid_request", resultBadRequest},
		{"NULs", strings.Repeat("\x00", 100), 400, "invalid_request", resultBadRequest},
		{"1 MiB", with("x", strings.Repeat("x", 1<<20)), 413, "invalid_request", resultBadRequest},
		{"one byte too many", strings.Repeat("x", maxFormBytes+1), 413, "invalid_request", resultBadRequest},
		{"many parameters", strings.Repeat("a&", 10_000), 400, "invalid_request", resultBadRequest},
		{"grant_type missing", with("grant_type"), 400, "invalid_request", resultBadRequest},
		{"grant_type empty", with("grant_type", ""), 400, "invalid_request", resultBadRequest},
		{"grant_type of another", with("grant_type", "password"), 400, "unsupported_grant_type", resultBadRequest},
		{"grant_type twice", with("grant_type", grantTokenExchange, grantTokenExchange), 400, "invalid_request", resultBadRequest},
		{"subject_token missing", with("subject_token"), 400, "invalid_request", resultBadRequest},
		{"subject_token twice", with("subject_token", testCredential, "other"), 400, "invalid_request", resultBadRequest},
		{"subject_token unknown", with("subject_token", "gho_other"), 400, "invalid_request", resultUnknown},
		{"subject_token with a space", with("subject_token", testCredential+" "), 400, "invalid_request", resultUnknown},
		{"type missing", with("subject_token_type"), 400, "invalid_request", resultBadRequest},
		{"type of another", with("subject_token_type", "urn:ietf:params:oauth:token-type:saml2"), 400, "invalid_request", resultBadRequest},
		{"type twice", with("subject_token_type", typeAccessToken, typeAccessToken), 400, "invalid_request", resultBadRequest},
		{"requested type of another", with("requested_token_type", "urn:ietf:params:oauth:token-type:refresh_token"), 400, "invalid_request", resultBadRequest},
		{"actor", with("actor_token", "x"), 400, "invalid_request", resultBadRequest},
		{"actor type", with("actor_token_type", typeAccessToken), 400, "invalid_request", resultBadRequest},
		{"audience unknown", with("audience", "evil.example.com"), 400, "invalid_target", resultBadRequest},
		{"audience twice", with("audience", testAudience, "other.example.com"), 400, "invalid_target", resultBadRequest},
		{"resource", with("resource", "https://completions.example.com"), 400, "invalid_target", resultBadRequest},
		{"resource twice", with("resource", "", "https://completions.example.com"), 400, "invalid_target", resultBadRequest},
		{"scope", with("scope", "admin"), 400, "invalid_scope", resultBadRequest},
		{"unknown parameter twice", with("x", "1", "2"), 400, "invalid_request", resultBadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := newIssuer(t)
			answer := i.do(post(tc.body))
			wantOAuthError(t, answer, tc.status, tc.code)
			wantCount(t, i, "oauth", noProvider, tc.result)
			if line := i.auditLine(t); line["result"] != string(tc.result) || line["reason"] == "" {
				t.Errorf("audit line %v", line)
			}
		})
	}
}

func TestOAuthRefusesOtherContent(t *testing.T) {
	for _, contentType := range []string{"", "application/json", "multipart/form-data; boundary=x", "text/plain", ";", "application/x-www-form-urlencoded-not"} {
		r := post(goodForm().Encode())
		r.Header.Set("Content-Type", contentType)
		wantOAuthError(t, newIssuer(t).do(r), 400, "invalid_request")
	}
	for _, query := range []string{"?", "?subject_token=x", "?" + goodForm().Encode()} {
		r := httptest.NewRequest(http.MethodPost, pathOAuth+query, strings.NewReader(goodForm().Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		wantOAuthError(t, newIssuer(t).do(r), 400, "invalid_request")
	}
}

func TestSlowBodyIsRefused(t *testing.T) {
	i := newIssuer(t)
	r := post("")
	r.Body = io.NopCloser(iotest.ErrReader(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}))
	wantOAuthError(t, i.do(r), http.StatusRequestTimeout, "invalid_request")
}

func TestCopilotRefuses(t *testing.T) {
	for _, tc := range []struct {
		name          string
		authorization []string
		status        int
		result        result
	}{
		{"no header", nil, 401, resultBadRequest},
		{"empty header", []string{""}, 401, resultBadRequest},
		{"no credential", []string{"token "}, 401, resultBadRequest},
		{"only the scheme", []string{"token"}, 401, resultBadRequest},
		{"no scheme", []string{testCredential}, 401, resultBadRequest},
		{"Basic", []string{"Basic " + testCredential}, 401, resultBadRequest},
		{"two headers", []string{"token " + testCredential, "token " + testCredential}, 400, resultBadRequest},
		{"unknown", []string{"token gho_other"}, 403, resultUnknown},
		{"two in one", []string{"token " + testCredential + ", token gho_other"}, 403, resultUnknown},
		{"long", []string{"token " + strings.Repeat("x", 20_000)}, 403, resultUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := newIssuer(t)
			answer := i.do(askCopilot(tc.authorization...))
			wantAnswer(t, answer, tc.status, "no-store", "application/json")
			var got copilotRefusal
			if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			want := copilotErrorDetails{
				NotificationID: string(tc.result), Title: "Completions are not available", Message: got.Message, URL: testIssuer,
			}
			if diff := cmp.Diff(want, got.Details); diff != "" || got.Message == "" {
				t.Errorf("message %q, details (-want +got):\n%s", got.Message, diff)
			}
			if challenge := answer.Header().Get("WWW-Authenticate"); (challenge == `Bearer realm="tokens"`) != (tc.status == 401) {
				t.Errorf("WWW-Authenticate %q with status %d", challenge, tc.status)
			}
			wantCount(t, i, "copilot", noProvider, tc.result)
		})
	}
}

// TestSeveralProviders holds that an outage is never a denial, and never hides
// a provider that does know the credential.
func TestSeveralProviders(t *testing.T) {
	knows := answering("knows", identity.Identity{Subject: "u-9", ClientID: "c"}, nil)
	denies := answering("denies", identity.Identity{}, identity.ErrUnknownCredential)
	out := answering("out", identity.Identity{}, errors.New("connection refused"))
	for _, tc := range []struct {
		name             string
		providers        []identity.Provider
		oauth, copilot   int
		result           result
		providerInMetric string
	}{
		{"the second knows", []identity.Provider{denies, knows}, 200, 200, resultGranted, "knows"},
		{"out, then one that knows", []identity.Provider{out, knows}, 200, 200, resultGranted, "knows"},
		{"out, then denied", []identity.Provider{out, denies}, 503, 503, resultUnavailable, "out"},
		{"denied, then out", []identity.Provider{denies, out}, 503, 503, resultUnavailable, "out"},
		{"denied by all", []identity.Provider{denies, denies}, 400, 403, resultUnknown, noProvider},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := newIssuer(t)
			i.providers = tc.providers
			oauth, copilot := i.do(post(goodForm().Encode())), i.do(askCopilot("token x"))
			if oauth.Code != tc.oauth || copilot.Code != tc.copilot {
				t.Errorf("status %d and %d, want %d and %d", oauth.Code, copilot.Code, tc.oauth, tc.copilot)
			}
			if retry := oauth.Header().Get("Retry-After"); (retry != "") != (tc.oauth == 503) {
				t.Errorf("Retry-After %q with status %d", retry, oauth.Code)
			}
			wantCount(t, i, "oauth", tc.providerInMetric, tc.result)
			wantCount(t, i, "copilot", tc.providerInMetric, tc.result)
		})
	}
}

func TestClientThatGoesAwayIsNoOutage(t *testing.T) {
	i := newIssuer(t)
	ctx, cancel := context.WithCancel(t.Context())
	i.providers = []identity.Provider{provider{"slow", func(ctx context.Context, _ identity.Credential) (identity.Identity, error) {
		cancel()
		return identity.Identity{}, ctx.Err()
	}}}
	i.do(post(goodForm().Encode()).WithContext(ctx))
	wantCount(t, i, "oauth", "slow", resultCancelled)
}

func TestTokenThatCannotBeMade(t *testing.T) {
	i := newIssuer(t)
	i.providers = []identity.Provider{answering("wide", identity.Identity{
		Subject: "u-1", ClientID: "c", Models: []string{strings.Repeat("m", token.MaxBytes)},
	}, nil)}
	wantOAuthError(t, i.do(post(goodForm().Encode())), 500, "server_error")
	wantCount(t, i, "oauth", "wide", resultInternal)
	if cause, _ := i.auditLine(t)["cause"].(string); !strings.Contains(cause, "shorten the list of models") {
		t.Errorf("cause %q", cause)
	}
}

func TestRefreshIn(t *testing.T) {
	for _, tc := range []struct {
		life     time.Duration
		fraction float64
		want     time.Duration
	}{
		{1000 * time.Second, 0, 720 * time.Second},
		{1000 * time.Second, 0.5, 800 * time.Second},
		{1000 * time.Second, 0.99999, 879 * time.Second},
		{minTokenLife, 0.99999, 8 * time.Second},
	} {
		if got := refreshIn(tc.life, tc.fraction); got != tc.want {
			t.Errorf("refreshIn(%v, %v) = %v, want %v", tc.life, tc.fraction, got, tc.want)
		}
	}
}

// TestRefreshIsSpread holds that clients that log in together do not come back
// together: of 100, not all have the same second in a range of 240.
func TestRefreshIsSpread(t *testing.T) {
	i := newIssuer(t)
	seen := map[time.Duration]bool{}
	for range 100 {
		var d decision
		i.sign(identity.Identity{Subject: "u", ClientID: "c"}, testAudience, &d)
		seen[d.refresh] = true
	}
	if len(seen) < 10 {
		t.Errorf("100 tokens share %d times of refresh", len(seen))
	}
}

// FuzzExchange holds that nothing but the one credential gets a token, and that
// every answer is of the stated forms.
func FuzzExchange(f *testing.F) {
	i := newIssuer(f, unlimited)
	f.Add("application/x-www-form-urlencoded", goodForm().Encode())
	f.Add("application/x-www-form-urlencoded; charset=utf-8", goodForm().Encode()+"&audience=other.example.com")
	f.Add("application/x-www-form-urlencoded", "grant_type=%zz&subject_token=x")
	f.Add("multipart/form-data; boundary=x", "--x--")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		i.log.Reset()
		r := post(body)
		r.Header["Content-Type"] = []string{contentType}
		answer := i.do(r)
		if answer.Code == http.StatusOK {
			if values, err := url.ParseQuery(body); err != nil || values.Get("subject_token") != testCredential {
				t.Fatalf("a token for %q", body)
			}
			return
		}
		if !slices.Contains([]int{400, 413}, answer.Code) || !json.Valid(answer.Body.Bytes()) {
			t.Fatalf("status %d: %s", answer.Code, answer.Body)
		}
		if lines := strings.Count(i.log.String(), "\n"); lines != 1 {
			t.Fatalf("%d audit lines", lines)
		}
	})
}

// FuzzCopilotExchange holds the same of a header and of what edges say of the client.
func FuzzCopilotExchange(f *testing.F) {
	i := newIssuer(f, unlimited, func(c *Config) { c.TrustedEdges = []string{"192.0.2.0/24"} })
	f.Add("token "+testCredential, "198.51.100.7", "for=198.51.100.7")
	f.Add("Bearer\t"+testCredential, "x, 2001:db8::1", `for="[2001:db8::1]:443";proto=https`)
	f.Add("token "+testCredential+", token x", "", `for="`)
	f.Fuzz(func(t *testing.T, authorization, listed, standard string) {
		i.log.Reset()
		r := askCopilot(authorization)
		r.Header["X-Forwarded-For"], r.Header["Forwarded"] = []string{listed}, []string{standard}
		answer := i.do(r)
		if _, credential, _ := strings.Cut(authorization, " "); answer.Code == http.StatusOK && strings.TrimSpace(credential) != testCredential {
			t.Fatalf("a token for %q", authorization)
		}
		if !slices.Contains([]int{200, 401, 403}, answer.Code) || !json.Valid(answer.Body.Bytes()) {
			t.Fatalf("status %d: %s", answer.Code, answer.Body)
		}
		if line := i.auditLine(t); line["address"] == "unknown" {
			t.Fatalf("audit line %v", line)
		}
	})
}

// TestTokenEndsWithItsCredential is of a credential whose end is known: a token that is
// made for it does not go on for its own life.
func TestTokenEndsWithItsCredential(t *testing.T) {
	issued := time.Now().Truncate(time.Second).Add(900 * time.Millisecond)
	for name, tc := range map[string]struct {
		left, want time.Duration // left is 0 if no end is known
	}{
		"no end is known":              {0, DefaultTokenLife},
		"ends later":                   {time.Hour, DefaultTokenLife},
		"ends in two minutes":          {2 * time.Minute, 2 * time.Minute},
		"ends at once":                 {time.Second, time.Minute},
		"has ended by the other clock": {-20 * time.Second, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			i.now = func() time.Time { return issued }
			who := identity.Identity{Subject: "u-9", ClientID: "c"}
			if tc.left != 0 {
				who.Expires = issued.Add(tc.left)
			}
			i.providers = []identity.Provider{answering("corp", who, nil)}
			var got oauthGrant
			if err := json.Unmarshal(i.do(post(goodForm().Encode())).Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			claims := i.verify(t, got.AccessToken, testAudience)
			if life := claims.Expires.Sub(claims.IssuedAt); life != tc.want || got.ExpiresIn != seconds(tc.want) {
				t.Errorf("the token lives %v, expires_in is %d s, want %v", life, got.ExpiresIn, tc.want)
			}
			wantRefresh(t, got.RefreshIn, got.ExpiresIn)
		})
	}
}
