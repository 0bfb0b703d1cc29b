package identity

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// introspector is an authorization server whose answer a test decides.
type introspector struct {
	*httptest.Server
	answer http.HandlerFunc
	asked  []*http.Request // with its form read
}

func newIntrospector(t testing.TB) *introspector {
	s := &introspector{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		s.asked = append(s.asked, r)
		s.answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *introspector) says(status int, body string) {
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "https://elsewhere.example/")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // a client that went away
	}
}

func active() object {
	now := time.Now().Unix()
	return object{
		"active": true, "sub": "u-1", "client_id": "cli", "aud": "https://tokens.example.com", "token_type": "Bearer",
		"iat": now, "exp": now + 600, "iss": "https://login.example.com", "scope": "a b",
	}
}

func (s *introspector) provider(t testing.TB, change func(*IntrospectionOptions)) *Introspection {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hunter2+/%\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := IntrospectionOptions{
		Name: "corp", URL: s.URL + "/introspect", Issuer: "https://login.example.com", Auth: ClientSecretBasic, ClientID: "the:issuer", SecretFile: file,
		ClientIDs: []string{"cli"}, Audiences: []string{"https://tokens.example.com"}, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	i, err := NewIntrospection(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}

func TestIntrospection(t *testing.T) {
	s := newIntrospector(t)
	i := s.provider(t, func(o *IntrospectionOptions) { o.Claims = ClaimRules{Teams: "groups", Keep: []string{"scope"}} })
	answer := active().with(object{"groups": []string{"/Acme/Core"}})
	s.says(http.StatusOK, answer.String())
	got, err := i.Identify(t.Context(), Credential{Value: "opaque +&token", Type: AccessToken})
	if err != nil {
		t.Fatal(err)
	}
	want := Identity{
		Subject: "corp:u-1", ClientID: "cli", Teams: []string{"acme/core"}, Claims: map[string][]string{"scope": {"a b"}},
		Expires: time.Unix(answer["exp"].(int64), 0),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	r := s.asked[0]
	if r.Method != http.MethodPost || r.URL.Path != "/introspect" || r.URL.RawQuery != "" || len(r.Form) != 2 ||
		r.PostForm.Get("token") != "opaque +&token" || r.PostForm.Get("token_type_hint") != "access_token" {
		t.Errorf("asked %s %s with %v", r.Method, r.URL, r.PostForm)
	}
}

// TestClientAuthentication has the secret anew for each look-up.
func TestClientAuthentication(t *testing.T) {
	s := newIntrospector(t)
	s.says(http.StatusOK, `{"active":false}`)
	file := filepath.Join(t.TempDir(), "secret")
	write := func(secret string) {
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for auth, want := range map[ClientAuth]struct{ header, id, secret string }{
		ClientSecretBasic: {header: "Basic dGhlJTNBaXNzdWVyOm5ldyUyQg=="}, // the%3Aissuer:new%2B
		ClientSecretPost:  {id: "the:issuer", secret: "new+"},
		ClientBearer:      {header: "Bearer new+"},
	} {
		write("old")
		i := s.provider(t, func(o *IntrospectionOptions) { o.Auth, o.SecretFile = auth, file })
		write("new+\n")
		if _, err := i.Identify(t.Context(), Credential{Value: "x", Type: AccessToken}); !errors.Is(err, ErrUnknownCredential) {
			t.Errorf("%s: %v", auth, err)
		}
		r := s.asked[len(s.asked)-1]
		if got := r.Header.Get("Authorization"); got != want.header || r.PostForm.Get("client_id") != want.id || r.PostForm.Get("client_secret") != want.secret {
			t.Errorf("%s: Authorization %q and %v, want %+v", auth, got, r.PostForm, want)
		}
	}
	if _, err := NewIntrospection(IntrospectionOptions{SecretFile: filepath.Join(t.TempDir(), "absent")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent secret: %v", err)
	}
}

func TestIntrospectionRefuses(t *testing.T) {
	s := newIntrospector(t)
	i := s.provider(t, func(o *IntrospectionOptions) { o.Claims.Require = map[string][]string{"scope": {"a b"}} })
	for name, tc := range map[string]struct {
		change object
		reason string
	}{
		"inactive":              {object{"active": false}, ""},
		"a refresh token":       {object{"token_type": nil}, "token_type does not say"},
		"said to be one":        {object{"token_type": "refresh_token"}, "no bearer access token"},
		"Hydra's":               {object{"token_use": "refresh_token"}, "no bearer access token"},
		"DPoP's":                {object{"token_type": "DPoP"}, "no bearer access token"},
		"bound":                 {object{"cnf": object{"x5t#S256": "x"}}, "bound to a key"},
		"another issuer":        {object{"iss": "https://evil.example"}, "iss is another"},
		"another audience":      {object{"aud": []string{"https://other.example.com"}}, "aud is no configured"},
		"no audience":           {object{"aud": nil}, "aud is no configured"},
		"another client":        {object{"client_id": "other"}, "no configured client"},
		"no client":             {object{"client_id": nil}, "neither client_id"},
		"no subject":            {object{"sub": nil}, "sub is not"},
		"a mail address":        {object{"sub": "hunter@example.com"}, "e-mail"},
		"expired":               {object{"exp": time.Now().Unix() - 90}, "expired"},
		"exp text":              {object{"exp": "1"}, "exp is no number"},
		"not yet":               {object{"nbf": time.Now().Unix() + 90}, "nbf lies"},
		"without what it needs": {object{"scope": "a"}, "scope has none"},
		"iss a list":            {object{"iss": []string{}}, "iss is no string"},
		"token_type a number":   {object{"token_type": 1}, "token_type is no string"},
	} {
		s.says(http.StatusOK, active().with(tc.change).String())
		who, err := i.Identify(t.Context(), Credential{Value: "x", Type: AccessToken})
		if !errors.Is(err, ErrUnknownCredential) || who.Subject != "" || !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%s: %+v, %v; want it unknown for %q", name, who, err, tc.reason)
		}
		if strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: error %q quotes the answer", name, err)
		}
	}
	s.says(http.StatusBadRequest, `{"error":"unsupported_token_type"}`)
	if _, err := i.Identify(t.Context(), Credential{Value: "x", Type: AccessToken}); !errors.Is(err, ErrUnknownCredential) {
		t.Errorf("of a kind that the server does not know: %v", err)
	}
	loose := s.provider(t, func(o *IntrospectionOptions) {
		o.Untyped, o.Issuer, o.ClientIDs, o.Audiences, o.Claims.Subject = true, "", nil, nil, "client_id"
	})
	s.says(http.StatusOK, `{"active":true,"client_id":"x"}`)
	if who, err := loose.Identify(t.Context(), Credential{Value: "x", Type: AccessToken}); err != nil || who.Subject != "corp:x" || !who.Expires.IsZero() {
		t.Errorf("with nothing asked for: %+v, %v", who, err)
	}
}

// TestIntrospectionOutages: an answer that says nothing about the token is no denial.
func TestIntrospectionOutages(t *testing.T) {
	s := newIntrospector(t)
	i := s.provider(t, nil)
	for name, tc := range map[string]struct {
		status int
		body   string
		single bool
	}{
		"401":              {status: 401, body: `{"error":"invalid_client"}`},
		"403":              {status: 403, body: `{"active":false}`},
		"404":              {status: 404},
		"429":              {status: 429},
		"500":              {status: 500, body: `{"active":false}`},
		"503":              {status: 503},
		"a redirect":       {status: 302},
		"400":              {status: 400, single: true},
		"400 of another":   {status: 400, body: `{"error":"invalid_request","error_description":"opaque-token"}`, single: true},
		"400, not its own": {status: 400, body: `["unsupported_token_type"]`, single: true},
		"204":              {status: 204},
		"no JSON":          {status: 200, body: "<html>opaque-token"},
		"empty":            {status: 200},
		"null":             {status: 200, body: "null"},
		"a list":           {status: 200, body: "[]"},
		"no active":        {status: 200, body: `{"sub":"opaque-token"}`},
		"active text":      {status: 200, body: `{"active":"false"}`},
		"active null":      {status: 200, body: `{"active":null}`},
		"Active":           {status: 200, body: `{"Active":false}`},
		"active twice":     {status: 200, body: `{"active":false,"active":true}`},
		"huge":             {status: 200, body: `{"active":false,"x":"` + strings.Repeat("x", 1<<20) + `"}`},
		"deep":             {status: 200, body: strings.Repeat("[", 200_000)},
		"said in a status": {status: 299, body: `{"active":false}`},
	} {
		s.says(tc.status, tc.body)
		_, err := i.Identify(t.Context(), Credential{Value: "opaque-token", Type: AccessToken})
		var more *OutageError
		if !isOutage(err) || (errors.As(err, &more) && more.Single) != tc.single {
			t.Errorf("%s: %v; want an outage, of this token alone: %v", name, err, tc.single)
			continue
		}
		if strings.Contains(err.Error(), "opaque-token") || strings.Contains(err.Error(), "hunter") || len(err.Error()) > 300 {
			t.Errorf("%s: error %q quotes", name, err)
		}
	}
	if len(s.asked) != 23 {
		t.Errorf("%d calls, want one for each", len(s.asked))
	}
}

// TestIntrospectionIsOut has nobody there who speaks HTTP.
func TestIntrospectionIsOut(t *testing.T) {
	s := newIntrospector(t)
	i := s.provider(t, nil)
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Write([]byte("HTTP/1.1 opaque-token\r\n\r\n")) // closing it is what counts
		_ = conn.Close()
	}
	if _, err := i.Identify(t.Context(), Credential{Value: "opaque-token", Type: AccessToken}); !isOutage(err) || strings.Contains(err.Error(), "opaque-token") {
		t.Errorf("no HTTP: %v", err)
	}
	s.Close()
	if _, err := i.Identify(t.Context(), Credential{Value: "opaque-token", Type: AccessToken}); !isOutage(err) {
		t.Errorf("nobody there: %v", err)
	}
}

// TestIntrospectionIsSentNoOthers' tokens.
func TestIntrospectionIsSentNoOthers(t *testing.T) {
	s := newIntrospector(t)
	i := s.provider(t, func(o *IntrospectionOptions) { o.Pattern = regexp.MustCompile(`^(?:corp_.*|ey.*)$`) })
	s.says(http.StatusOK, active().String())
	jwt := func(issuer string) string {
		return signText("ed", "EdDSA", `{"alg":"EdDSA"}`, object{"iss": issuer, "x": json.RawMessage("1")}.String())
	}
	for name, tc := range map[string]struct {
		credential Credential
		sent       bool
	}{
		"ours":             {Credential{Value: "corp_1", Type: AccessToken}, true},
		"as a jwt":         {Credential{Value: "corp_1", Type: JWT}, true},
		"an ID token":      {Credential{Value: "corp_1", Type: IDToken}, false},
		"GitHub's":         {Credential{Value: "gho_16C7e42F", Type: AccessToken}, false},
		"our issuer's JWT": {Credential{Value: jwt("https://login.example.com"), Type: AccessToken}, true},
		"another's JWT":    {Credential{Value: jwt("https://evil.example"), Type: AccessToken}, false},
		"empty":            {Credential{Value: "", Type: AccessToken}, false},
		"a line end":       {Credential{Value: "corp_1\n", Type: AccessToken}, false},
		"no ASCII":         {Credential{Value: "corp_\xff", Type: AccessToken}, false},
		"huge":             {Credential{Value: "corp_" + strings.Repeat("x", 1<<20), Type: AccessToken}, false},
	} {
		before := len(s.asked)
		_, err := i.Identify(t.Context(), tc.credential)
		if sent := len(s.asked) > before; sent != tc.sent || i.Plausible(tc.credential) != tc.sent || (err == nil) != tc.sent {
			t.Errorf("%s: sent %v, error %v; want %v", name, sent, err, tc.sent)
		}
	}
}
