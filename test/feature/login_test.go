package feature

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/client/login"
	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/tokenissuer"
	"github.com/golang-jwt/jwt/v5"
)

// openID is an OpenID provider at which a person logs in by the device flow.
type openID struct {
	*httptest.Server
	key     ed25519.PrivateKey
	mu      sync.Mutex
	pending int // polls until the person has entered the code
	renewed int
	refresh string // good once
}

func startOpenID(t *testing.T) *openID {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &openID{key: key, pending: 2, refresh: "refresh-0"}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"%[1]s/jwks","token_endpoint":"%[1]s/token","device_authorization_endpoint":"%[1]s/device",
			"authorization_endpoint":"%[1]s/auth","response_types_supported":["code"],"subject_types_supported":["public"],
			"id_token_signing_alg_values_supported":["EdDSA"]}`, p.URL)
	})
	mux.HandleFunc("GET /jwks", func(w http.ResponseWriter, _ *http.Request) {
		x := base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
		fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","use":"sig","kid":"k","x":%q}]}`, x)
	})
	mux.HandleFunc("POST /device", func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("client_id") != "cli" || r.PostFormValue("scope") != "openid offline_access" {
			t.Errorf("asked for a code with %v", r.PostForm)
		}
		fmt.Fprintf(w, `{"device_code":"d","user_code":"WDJB-MJHT","verification_uri":"%s/enter","expires_in":900,"interval":0.01}`, p.URL)
	})
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *openID) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.PostFormValue("grant_type") == "refresh_token" {
		if r.PostFormValue("refresh_token") != p.refresh {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		p.renewed++
		p.refresh = fmt.Sprint("refresh-", p.renewed)
	} else if p.pending > 0 {
		p.pending--
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":"authorization_pending"}`)
		return
	}
	now := time.Now()
	id := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
		"iss": p.URL, "aud": "cli", "sub": "alice", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	})
	id.Header["kid"] = "k"
	signed, err := id.SignedString(p.key)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, `{"access_token":"opaque","token_type":"Bearer","expires_in":86400,"id_token":%q,"refresh_token":%q}`, signed, p.refresh)
}

// trusting has the issuer know people by an OpenID provider.
func trusting(p *openID) func(*tokenIssuer, *tokenissuer.Config) {
	return func(_ *tokenIssuer, c *tokenissuer.Config) {
		c.IdentityProviders = []tokenissuer.ProviderConfig{{Name: "corp", Type: tokenissuer.ProviderOIDC, OIDC: &tokenissuer.OIDCConfig{
			Issuer: p.URL, ClientIDs: []string{"cli"},
			Login: &tokenissuer.OIDCLoginConfig{ClientID: "cli", Scope: "openid offline_access"},
		}}}
	}
}

// keptLogin is a login.Store.
type keptLogin struct {
	mu sync.Mutex
	login.Login
}

func (k *keptLogin) Load() (login.Login, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.Login, nil
}

func (k *keptLogin) Update(_ context.Context, change func(login.Login) (login.Login, error)) (login.Login, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed, err := change(k.Login)
	if err == nil {
		k.Login = changed
	}
	return changed, err
}

// TestLogin goes from the issuer's metadata by the provider's device flow to a
// completion token, and to the next one when the ID token has expired.
func TestLogin(t *testing.T) {
	p := startOpenID(t)
	address := startIssuer(t, trusting(p)).url
	people := login.New(login.Options{})
	defer people.Close()
	var providers []login.Provider
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var err error
		if providers, err = people.Providers(t.Context(), address); err == nil {
			break // the issuer runs, and has discovered the provider
		}
		if time.Now().After(deadline) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	if len(providers) != 1 || providers[0].Name != "corp" || providers[0].Type != client.TypeIDToken {
		t.Fatalf("logins %+v", providers)
	}
	code, err := people.Start(t.Context(), providers[0])
	if err != nil {
		t.Fatal(err)
	}
	l, err := people.Wait(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	kept := &keptLogin{Login: l}
	wantSubject(t, address, kept, people, "corp:alice")
	if p.renewed > 0 || p.pending > 0 {
		t.Errorf("renewed %d times a login that is new, with %d polls left", p.renewed, p.pending)
	}
	kept.Expires = time.Now()
	wantSubject(t, address, kept, people, "corp:alice")
	if p.renewed != 1 || kept.RefreshToken != "refresh-1" || kept.Token == l.Token && kept.Obtained.Equal(l.Obtained) {
		t.Errorf("renewed %d times, and kept the refresh token %q", p.renewed, kept.RefreshToken)
	}
	// The provider ends the login.
	kept.Expires, p.refresh = time.Now(), "none"
	if _, err := completionToken(t, address, kept, people); !errors.Is(err, login.ErrEnded) {
		t.Errorf("error %v, want ErrEnded", err)
	}
}

func completionToken(t *testing.T, address string, kept *keptLogin, people *login.Client) (string, error) {
	t.Helper()
	tokens, err := client.NewTokenSource(client.TokenOptions{IssuerURL: address, Credentials: login.NewSource(people, kept)})
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	return tokens.Token(t.Context())
}

// wantSubject checks the token that a login gives as a proxy would.
func wantSubject(t *testing.T, address string, kept *keptLogin, people *login.Client, subject string) {
	t.Helper()
	raw, err := completionToken(t, address, kept, people)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(address + "/.well-known/jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var document json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&document); err != nil {
		t.Fatal(err)
	}
	keys, err := token.ParseKeySet(document)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := token.Verifier{Issuer: address, Audience: audience}.Verify(raw, keys, time.Now())
	if err != nil || claims.Subject != subject || claims.ClientID != "cli" {
		t.Errorf("claims %+v, %v; want the subject %s", claims, err, subject)
	}
}
