package identity

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func isOutage(err error) bool { return err != nil && !errors.Is(err, ErrUnknownCredential) }

// ask identifies a token that is good, if the keys are known.
func (u *underTest) ask(t *testing.T, raw string) error {
	t.Helper()
	_, err := u.Identify(t.Context(), Credential{Value: raw, Type: IDToken})
	return err
}

// TestHostileDiscovery is of documents that must not be believed: the provider is out,
// and the log says why.
func TestHostileDiscovery(t *testing.T) {
	for name, tc := range map[string]struct {
		discovery, keys func(f *fakeProvider) string
		want            string
	}{
		"no JSON":        {discovery: text("<html>"), want: "no discovery document"},
		"a list":         {discovery: text("[]"), want: "no discovery document"},
		"null":           {discovery: text("null"), want: "it is of the issuer"},
		"empty":          {discovery: text("{}"), want: "it is of the issuer"},
		"huge":           {discovery: text(`{"issuer":"` + strings.Repeat("x", 1<<20) + `"}`), want: "more than 256 KiB"},
		"deep":           {discovery: text(strings.Repeat("[", 200_000)), want: "no discovery document"},
		"another issuer": {discovery: text(`{"issuer":"https://evil.example","jwks_uri":"https://evil.example/"}`), want: "it is of the issuer"},
		"a long issuer":  {discovery: text(`{"issuer":"` + strings.Repeat("x", 100_000) + `"}`), want: "it is of the issuer"},
		"a slash more": {discovery: func(f *fakeProvider) string {
			return object{"issuer": f.URL + "/", "jwks_uri": f.URL + "/keys"}.String()
		}, want: "to the last character"},
		"issuer twice":       {discovery: func(f *fakeProvider) string { return `{"issuer":"x","issuer":"` + f.URL + `"}` }, want: "no discovery document"},
		"Issuer":             {discovery: func(f *fakeProvider) string { return object{"Issuer": f.URL}.String() }, want: "it is of the issuer"},
		"no jwks_uri":        {discovery: withKeysURI(""), want: "jwks_uri is missing"},
		"jwks_uri a file":    {discovery: withKeysURI("file:///etc/passwd"), want: "jwks_uri is no URL"},
		"jwks_uri relative":  {discovery: withKeysURI("/keys"), want: "jwks_uri is no URL"},
		"jwks_uri in clear":  {discovery: withKeysURI("http://keys.example/"), want: "jwks_uri is no https URL"},
		"jwks_uri, a user":   {discovery: withKeysURI("https://a:hunter2@keys.example/"), want: "without a user"},
		"keys elsewhere":     {discovery: func(f *fakeProvider) string { return object{"issuer": f.URL, "jwks_uri": f.URL + "/moved"}.String() }, want: "status 302"},
		"keys no JSON":       {keys: text("<html>"), want: "no JSON Web Key Set"},
		"keys null":          {keys: text("null"), want: "none of its 0 keys"},
		"no keys":            {keys: text(`{"keys":[]}`), want: "none of its 0 keys"},
		"huge keys":          {keys: text(`{"keys":["` + strings.Repeat("x", 1<<20) + `"]}`), want: "more than 256 KiB"},
		"keys twice":         {keys: text(`{"keys":[],"keys":[]}`), want: "no JSON Web Key Set"},
		"too many keys":      {keys: text(`{"keys":[1` + strings.Repeat(",1", maxWebKeys) + `]}`), want: "it has 129 keys"},
		"only unusable keys": {keys: text(`{"keys":[1,null,{},{"kty":"oct","k":"AAAA"}]}`), want: "none of its 4 keys"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProvider(t)
			f.set(func() {
				if tc.discovery != nil {
					f.discovery = tc.discovery(f)
				}
				if tc.keys != nil {
					f.keys = tc.keys(f)
				}
			})
			u := startOIDC(t, f, nil)
			if err := u.ask(t, token(nil, f.idToken())); !isOutage(err) {
				t.Errorf("error %v, want an outage", err)
			}
			if _, ok := u.Login(); ok {
				t.Error("there is a login")
			}
			err := u.Outage()
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 600 || strings.Contains(err.Error(), "hunter") {
				t.Errorf("outage %.1000v, want one with %q", err, tc.want)
			}
		})
	}
}

func text(s string) func(*fakeProvider) string { return func(*fakeProvider) string { return s } }

func withKeysURI(uri string) func(*fakeProvider) string {
	return func(f *fakeProvider) string { return object{"issuer": f.URL, "jwks_uri": uri}.String() }
}

func TestDiscoveryStatus(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusNotFound, http.StatusInternalServerError} {
		f := newFakeProvider(t)
		f.set(func() { f.status = status })
		u := startOIDC(t, f, nil)
		if err := u.ask(t, token(nil, f.idToken())); !isOutage(err) {
			t.Errorf("%d: error %v, want an outage", status, err)
		}
		if n := f.fetches.Load(); n != 0 {
			t.Errorf("%d: %d fetches of keys", status, n)
		}
	}
}

// TestClearTextOnlyOfThisMachine: a provider elsewhere must not have us ask what runs
// here.
func TestClearTextOnlyOfThisMachine(t *testing.T) {
	d := &discoverer{issuer: "https://login.example.com"}
	for url, good := range map[string]bool{
		"https://keys.example/x": true, "http://127.0.0.1/x": false, "http://localhost/": false, "ftp://keys.example/": false,
		"https://keys.example/#x": false, "https:///x": false, "https://" + strings.Repeat("x", 3000): false,
	} {
		if err := d.checkEndpoint(url); (err == nil) != good {
			t.Errorf("%.50s: %v", url, err)
		}
	}
}

// TestProviderDownAtStart is an outage until it is up, and never a denial.
func TestProviderDownAtStart(t *testing.T) {
	f := newFakeProvider(t)
	f.set(func() { f.status = http.StatusBadGateway })
	u := startOIDC(t, f, nil)
	raw := token(nil, f.idToken())
	if err := u.ask(t, raw); !isOutage(err) {
		t.Fatalf("error %v, want an outage", err)
	}
	if err := u.ask(t, "gho_x"); err != ErrUnknownCredential {
		t.Errorf("what cannot be the provider's: %v", err)
	}
	if !strings.Contains(u.log.text(), "status 502") {
		t.Errorf("the log does not say why: %s", u.log.text())
	}
	f.set(func() { f.status = 0 })
	eventually(t, func() bool { return u.ask(t, raw) == nil })
	login, ok := u.Login()
	if want := (Login{ClientID: "cli", Scope: "openid", Type: IDToken, DeviceEndpoint: f.URL + "/device", TokenEndpoint: f.URL + "/token"}); !ok || login != want {
		t.Errorf("login %+v, %v; want %+v", login, ok, want)
	}
}

func TestNoLoginWithoutEndpoints(t *testing.T) {
	for name, members := range map[string]object{
		"no device endpoint":       {"token_endpoint": "https://login.example/token"},
		"no token endpoint":        {"device_authorization_endpoint": "https://login.example/device"},
		"a token endpoint unsafe":  {"device_authorization_endpoint": "https://login.example/device", "token_endpoint": "http://login.example/"},
		"a device endpoint unsafe": {"device_authorization_endpoint": "javascript:x", "token_endpoint": "https://login.example/"},
	} {
		f := newFakeProvider(t)
		f.set(func() { f.discovery = object{"issuer": f.URL, "jwks_uri": f.URL + "/keys"}.with(members).String() })
		u := startOIDC(t, f, nil)
		if err := u.ask(t, token(nil, f.idToken())); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if login, ok := u.Login(); ok {
			t.Errorf("%s: login %+v", name, login)
		}
	}
}

// TestSlowProvider is an outage in bounded time, and stops nobody from closing.
func TestSlowProvider(t *testing.T) {
	f := newFakeProvider(t)
	f.set(func() { f.wait = make(chan struct{}) })
	u := startOIDC(t, f, nil)
	if err := u.ask(t, token(nil, f.idToken())); !errors.Is(err, errNotDiscovered) {
		t.Errorf("error %v, want %v", err, errNotDiscovered)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := u.Identify(ctx, Credential{Value: token(nil, f.idToken()), Type: IDToken}); !isOutage(err) {
		t.Errorf("one who has left: %v", err)
	}
}

// TestOutageKeepsTheKeys, and tells what the keys cannot.
func TestOutageKeepsTheKeys(t *testing.T) {
	f := newFakeProvider(t)
	u := startOIDC(t, f, nil)
	good, unknownKey := token(nil, f.idToken()), token(object{"kid": "new"}, f.idToken())
	if err := u.ask(t, good); err != nil {
		t.Fatal(err)
	}
	f.set(func() { f.status = http.StatusServiceUnavailable })
	u.forward(2 * keysGap)
	if err := u.ask(t, unknownKey); !isOutage(err) {
		t.Errorf("a key that may be new: %v, want an outage", err)
	}
	if err := u.ask(t, good); err != nil {
		t.Errorf("a key that is known: %v", err)
	}
	if err := u.Outage(); err != nil || u.up.Load() {
		t.Errorf("outage %v, up %v; want none, because the keys are known, and not up", err, u.up.Load())
	}
	f.set(func() { f.status, f.keys = 0, `{"keys":[]}` })
	u.forward(2 * keysGap)
	if err := u.ask(t, unknownKey); !isOutage(err) {
		t.Errorf("a set without keys: %v, want an outage", err)
	}
	if err := u.ask(t, good); err != nil {
		t.Errorf("after a set without keys: %v", err)
	}
}

// TestRotation: a token of a new key waits for the fetch that it leads to, and a key
// that is gone is good no more.
func TestRotation(t *testing.T) {
	f := newFakeProvider(t)
	u := startOIDC(t, f, nil)
	old := token(nil, f.idToken())
	if err := u.ask(t, old); err != nil {
		t.Fatal(err)
	}
	f.set(func() { f.keys = publicKeys("other-rsa") })
	u.forward(2 * keysGap)
	fresh := signText("other-rsa", "RS256", `{"alg":"RS256","kid":"other-rsa"}`, f.idToken().String())
	if err := u.ask(t, fresh); err != nil {
		t.Errorf("the new key: %v", err)
	}
	u.forward(2 * keysGap)
	if err := u.ask(t, old); !errors.Is(err, ErrUnknownCredential) {
		t.Errorf("the old key: %v", err)
	}
}

// TestUnknownKeysLeadToFewFetches, however many there are and whoever sends them.
func TestUnknownKeysLeadToFewFetches(t *testing.T) {
	f := newFakeProvider(t)
	u := startOIDC(t, f, nil)
	u.tried(t, 1)
	flood := func() {
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				raw := token(object{"kid": rand.Text()}, f.idToken())
				if err := u.ask(t, raw); !errors.Is(err, ErrUnknownCredential) {
					t.Errorf("error %v, want it unknown", err)
				}
			})
		}
		all.Wait()
	}
	for round := range int64(3) {
		flood()
		flood()
		if n := f.fetches.Load(); n != round+1 {
			t.Fatalf("%d fetches after %d rounds, want one each", n, round+1)
		}
		u.forward(keysGap + time.Second)
	}
}

// TestKeySets is of sets with keys that cannot be used beside one that can.
func TestKeySets(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	good := testKeys()["rsa"].public
	for name, tc := range map[string]struct {
		key  object
		kid  string
		want string // of an error; "" leaves the key out
	}{
		"RSA 1024":             {key: rsaJWK("x", &small.PublicKey)},
		"RSA 512":              {key: rsaJWK("x", &rsa.PublicKey{N: new(big.Int).Rsh(small.N, 512), E: 65537})},
		"RSA 16384":            {key: good.with(object{"kid": "x", "n": encode([]byte(strings.Repeat("\xff", 2048)))})},
		"RSA e 1":              {key: good.with(object{"kid": "x", "e": "AQ"})},
		"RSA e even":           {key: good.with(object{"kid": "x", "e": "AQAA"})},
		"RSA e huge":           {key: good.with(object{"kid": "x", "e": encode([]byte(strings.Repeat("\xff", 9)))})},
		"RSA n padded":         {key: good.with(object{"kid": "x", "n": good["n"].(string) + "=="})},
		"RSA n missing":        {key: good.with(object{"kid": "x", "n": nil})},
		"EC off the curve":     {key: testKeys()["p256"].public.with(object{"kid": "x", "y": testKeys()["p256"].public["x"]})},
		"EC another curve":     {key: testKeys()["p256"].public.with(object{"kid": "x", "crv": "P-384"})},
		"EC secp256k1":         {key: testKeys()["p256"].public.with(object{"kid": "x", "crv": "secp256k1"})},
		"EC the zero point":    {key: testKeys()["p256"].public.with(object{"kid": "x", "x": encode(make([]byte, 32)), "y": encode(make([]byte, 32))})},
		"Ed448":                {key: testKeys()["ed"].public.with(object{"kid": "x", "crv": "Ed448"})},
		"X25519":               {key: testKeys()["ed"].public.with(object{"kid": "x", "crv": "X25519"})},
		"Ed25519 short":        {key: testKeys()["ed"].public.with(object{"kid": "x", "x": "AAAA"})},
		"symmetric":            {key: object{"kty": "oct", "kid": "x", "k": "AAAA", "alg": "HS256"}},
		"no kty":               {key: good.with(object{"kid": "x", "kty": nil})},
		"of another algorithm": {key: good.with(object{"kid": "x", "alg": "RSA-OAEP"})},
		"of a wrong algorithm": {key: good.with(object{"kid": "x", "alg": "ES256"})},
		"for encryption":       {key: good.with(object{"kid": "x", "use": "enc"})},
		"to sign only":         {key: good.with(object{"kid": "x", "key_ops": []string{"sign"}})},
		"with its private key": {key: good.with(object{"kid": "x", "d": "AQAB"})},
		"kid a number":         {key: good.with(object{"kid": 1})},
		"kid long":             {key: good.with(object{"kid": strings.Repeat("x", 257)})},
		"kid of another kind":  {key: testKeys()["p256"].public.with(object{"kid": "rsa"}), kid: "rsa"},
		"kid repeated":         {key: testKeys()["other-rsa"].public.with(object{"kid": "rsa"}), want: "keys[1]: its kid"},
	} {
		set := object{"keys": []object{good, tc.key}}.String()
		keys, err := parseWebKeys([]byte(set), Algorithms())
		switch {
		case tc.want != "":
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case (len(keys) == 2) != (tc.kid != ""):
			t.Errorf("%s: %d keys", name, len(keys))
		}
	}
}

// TestTokensWithoutKeyID name no key only where there is no choice.
func TestTokensWithoutKeyID(t *testing.T) {
	f := newFakeProvider(t)
	raw := func() string { return token(object{"kid": nil}, f.idToken()) }
	for set, good := range map[string]bool{
		publicKeys("rsa"): true, publicKeys("rsa", "p256"): true, publicKeys("rsa", "other-rsa"): false, publicKeys("other-rsa", "rsa"): false,
		object{"keys": []object{testKeys()["rsa"].public.with(object{"kid": nil})}}.String(): true,
	} {
		f.set(func() { f.keys = set })
		u := startOIDC(t, f, nil)
		if err := u.ask(t, raw()); (err == nil) != good || isOutage(err) {
			t.Errorf("%.40s…: %v", set, err)
		}
	}
}

// TestIssuerWithAPath has its document below the path, whether that ends in a slash or
// not.
func TestIssuerWithAPath(t *testing.T) {
	for _, path := range []string{"/realms/acme", "/"} {
		var asked string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.Path
			w.WriteHeader(http.StatusNotFound)
		}))
		d := &discoverer{issuer: server.URL + path, client: server.Client()}
		if _, err := d.fetch(t.Context()); err == nil || asked != strings.TrimSuffix(path, "/")+"/.well-known/openid-configuration" {
			t.Errorf("%s: asked for %s, %v", path, asked, err)
		}
		server.Close()
	}
}
