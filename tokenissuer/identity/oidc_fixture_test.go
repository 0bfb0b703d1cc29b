package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// object is a JSON object as a test writes it.
type object map[string]any

// with replaces members; nil takes one away.
func (o object) with(changes object) object {
	changed := maps.Clone(o)
	for name, value := range changes {
		if changed[name] = value; value == nil {
			delete(changed, name)
		}
	}
	return changed
}

func (o object) String() string {
	text, err := json.Marshal(map[string]any(o))
	if err != nil {
		panic(err)
	}
	return string(text)
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// signingKey is a provider's key with its public form.
type signingKey struct {
	private crypto.Signer
	public  object
}

var testKeys = sync.OnceValue(func() map[string]signingKey {
	keys := map[string]signingKey{}
	for kid, bits := range map[string]int{"rsa": 2048, "other-rsa": 2048} {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		must(err)
		keys[kid] = signingKey{key, rsaJWK(kid, &key.PublicKey)}
	}
	for kid, curve := range map[string]elliptic.Curve{"p256": elliptic.P256(), "p384": elliptic.P384(), "p521": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		must(err)
		point, err := key.PublicKey.Bytes()
		must(err)
		half := len(point) / 2
		keys[kid] = signingKey{key, object{"kty": "EC", "crv": curve.Params().Name, "kid": kid, "x": encode(point[1 : half+1]), "y": encode(point[half+1:])}}
	}
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	keys["ed"] = signingKey{key, object{"kty": "OKP", "crv": "Ed25519", "kid": "ed", "use": "sig", "alg": "EdDSA", "x": encode(key.Public().(ed25519.PublicKey))}}
	return keys
})

func rsaJWK(kid string, key *rsa.PublicKey) object {
	return object{"kty": "RSA", "kid": kid, "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes())}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// signText signs whatever comes.
func signText(kid, algorithm, header, payload string) string {
	input := encode([]byte(header)) + "." + encode([]byte(payload))
	signature, err := jwt.GetSigningMethod(algorithm).Sign(input, testKeys()[kid].private)
	must(err)
	return input + "." + encode(signature)
}

// fakeProvider is an OpenID provider whose documents a test decides.
type fakeProvider struct {
	*httptest.Server
	mu        sync.Mutex
	discovery string // "" is the right one
	keys      string // "" is all of testKeys but other-rsa
	status    int    // not 0: of every answer
	wait      chan struct{}

	discoveries, fetches atomic.Int64
}

func (f *fakeProvider) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func newFakeProvider(t testing.TB) *fakeProvider {
	f := &fakeProvider{}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		f.discoveries.Add(1)
		f.answer(w, r, func() string { return f.discovery }, object{
			"issuer": f.URL, "jwks_uri": f.URL + "/keys", "token_endpoint": f.URL + "/token", "device_authorization_endpoint": f.URL + "/device",
			"unknown": 1,
		}.String())
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		f.fetches.Add(1)
		f.answer(w, r, func() string { return f.keys }, publicKeys("rsa", "p256", "p384", "p521", "ed"))
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, f.URL+"/keys", http.StatusFound) })
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeProvider) answer(w http.ResponseWriter, r *http.Request, chosen func() string, right string) {
	f.mu.Lock()
	body, status, wait := chosen(), f.status, f.wait
	f.mu.Unlock()
	if body == "" {
		body = right
	}
	if wait != nil {
		select {
		case <-wait:
		case <-r.Context().Done():
		}
	}
	if status != 0 {
		w.Header().Set("Location", "https://elsewhere.example/")
		w.WriteHeader(status)
	}
	_, _ = w.Write([]byte(body)) // a client that went away
}

func publicKeys(kids ...string) string {
	list := []object{}
	for _, kid := range kids {
		list = append(list, testKeys()[kid].public)
	}
	return object{"keys": list}.String()
}

// underTest is a provider that asks a fakeProvider, with a clock that only a test moves.
type underTest struct {
	*OIDC
	fake  *fakeProvider
	base  time.Time
	ahead atomic.Int64
	tries atomic.Int64
	up    atomic.Bool
	log   *safeBuffer
}

type safeBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *safeBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(data)
}

func (b *safeBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

func (u *underTest) forward(d time.Duration) { u.ahead.Add(int64(d)) }

func (u *underTest) time() time.Time { return u.base.Add(time.Duration(u.ahead.Load())) }

func testOptions(f *fakeProvider) OIDCOptions {
	return OIDCOptions{
		Name: "corp", Issuer: f.URL, ClientIDs: []string{"app", "cli"}, Audiences: []string{"https://tokens.example.com"},
		Login: Login{ClientID: "cli", Scope: "openid", Type: IDToken},
	}
}

// startOIDC makes a provider and starts it.
func startOIDC(t testing.TB, f *fakeProvider, change func(*OIDCOptions)) *underTest {
	o := testOptions(f)
	u := &underTest{fake: f, base: time.Now().Truncate(time.Second), log: new(safeBuffer)}
	o.Log = slog.New(slog.NewTextHandler(u.log, nil))
	if change != nil {
		change(&o)
	}
	o.Up = func(up bool) {
		u.up.Store(up)
		u.tries.Add(1)
	}
	u.OIDC = newOIDC(o)
	u.now, u.known.now = u.time, u.time
	u.start()
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

// tried waits for that many tries to fetch the keys.
func (u *underTest) tried(t testing.TB, n int64) {
	t.Helper()
	eventually(t, func() bool { return u.tries.Load() >= n })
}

func eventually(t testing.TB, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not so in 20 s")
		}
	}
}

func (f *fakeProvider) idToken() object {
	now := time.Now().Unix()
	return object{"iss": f.URL, "aud": "app", "sub": "u-1", "iat": now, "exp": now + 600}
}

func (f *fakeProvider) accessToken() object {
	return f.idToken().with(object{"aud": []string{"https://tokens.example.com", "https://other.example.com"}, "client_id": "machine", "jti": "1", "scope": "x"})
}

// token signs claims with the RSA key, for a header with the given members.
func token(header, claims object) string {
	return signText("rsa", "RS256", object{"alg": "RS256", "kid": "rsa", "typ": "JWT"}.with(header).String(), claims.String())
}

var atJWT = object{"typ": "at+jwt"}

// flip changes a character of a part of a token.
func flip(token string, part int) string {
	parts := strings.Split(token, ".")
	b := []byte(parts[part])
	i := len(b) / 2
	if b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	parts[part] = string(b)
	return strings.Join(parts, ".")
}
