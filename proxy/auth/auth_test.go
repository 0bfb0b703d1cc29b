package auth

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Unix(1_800_000_000, 0)

func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string('a'+rune(n)), ed25519.SeedSize)))
}

func signer(n byte) token.Signer {
	return token.Signer{KeyID: token.Thumbprint(key(n).Public().(ed25519.PublicKey)), Key: key(n)}
}

func keySet(n byte) token.KeySet { return token.NewKeySet(key(n).Public().(ed25519.PublicKey)) }

func authenticator() *Authenticator {
	return New(token.Verifier{Issuer: "https://tokens.example.com", Audience: "completions.example.com"}, keySet(0))
}

// sign makes a good token of a subject that lives for a time.
func sign(t testing.TB, subject string, life time.Duration) string {
	t.Helper()
	raw, err := signer(0).Sign(token.Claims{
		Issuer: "https://tokens.example.com", Audience: "completions.example.com", Subject: subject,
		IssuedAt: now, Expires: now.Add(life), ID: "id-" + subject, ClientID: "editor",
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func bearerOf(raw string) []string { return []string{"Bearer " + raw} }

func TestRemembers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		life   time.Duration
		at     time.Duration // of the second request
		cached bool
		err    error
	}{
		{"at once", 25 * time.Minute, 0, true, nil},
		{"just before a minute", 25 * time.Minute, time.Minute - 1, true, nil},
		{"after a minute", 25 * time.Minute, time.Minute, false, nil},
		{"just before the end", 20 * time.Second, 20*time.Second - 1, true, nil},
		{"after the end, within the leeway", 20 * time.Second, 20 * time.Second, false, nil},
		{"after the leeway", 20 * time.Second, 20*time.Second + token.DefaultLeeway, false, ErrExpired},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, raw := authenticator(), sign(t, "u-1", tc.life)
			first, cached, err := a.Authenticate(bearerOf(raw), now)
			if err != nil || cached || first.Subject != "u-1" {
				t.Fatalf("at first: %+v, cached %t, error %v", first, cached, err)
			}
			second, cached, err := a.Authenticate(bearerOf(raw), now.Add(tc.at))
			if cached != tc.cached || !errors.Is(err, tc.err) {
				t.Fatalf("then: cached %t, error %v; want %t, %v", cached, err, tc.cached, tc.err)
			}
			if cached && first != second {
				t.Error("the claims of a remembered token are a copy")
			}
			if tc.err != nil && second != nil {
				t.Errorf("claims %+v beside an error", second)
			}
		})
	}
}

// TestVerifiedAgainIsRememberedAgain holds that a token is good for many minutes.
func TestVerifiedAgainIsRememberedAgain(t *testing.T) {
	a, raw := authenticator(), sign(t, "u-1", 25*time.Minute)
	for i := range 10 {
		at := now.Add(time.Duration(i) * time.Minute)
		for j, want := range []bool{false, true} {
			if _, cached, err := a.Authenticate(bearerOf(raw), at.Add(time.Duration(j)*59*time.Second)); cached != want || err != nil {
				t.Fatalf("minute %d, request %d: cached %t, error %v", i, j, cached, err)
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	raw := sign(t, "u-1", time.Hour)
	for _, tc := range []struct {
		name    string
		headers []string
		want    error
	}{
		{"none", nil, ErrNoToken},
		{"empty", []string{""}, ErrNoToken},
		{"no scheme", []string{raw}, ErrNoToken},
		{"another scheme", []string{"Basic " + raw}, ErrNoToken},
		{"a scheme that begins alike", []string{"BearerToken " + raw}, ErrNoToken},
		{"GitHub's scheme is not for us", []string{"token " + raw}, ErrNoToken},
		{"two", []string{"Bearer " + raw, "Bearer " + raw}, ErrSeveral},
		{"two, one empty", []string{"Bearer " + raw, ""}, ErrSeveral},
		{"two in one", []string{"Bearer " + raw + ", Bearer " + raw}, ErrInvalid},
		{"no token", []string{"Bearer "}, ErrInvalid},
		{"scheme alone", []string{"Bearer"}, ErrInvalid},
		{"a blank inside", []string{"Bearer " + raw[:10] + " " + raw[10:]}, ErrInvalid},
		{"good", []string{"Bearer " + raw}, nil},
		{"lower case", []string{"bearer " + raw}, nil},
		{"upper case", []string{"BEARER " + raw}, nil},
		{"blanks around", []string{"Bearer   " + raw + " "}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := authenticator()
			claims, _, err := a.Authenticate(tc.headers, now)
			if !errors.Is(err, tc.want) || (err == nil) != (claims != nil) {
				t.Errorf("claims %+v, error %v; want %v", claims, err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), raw[:20]) {
				t.Errorf("the error repeats the token: %v", err)
			}
		})
	}
}

// TestBadTokensAreNotRemembered also holds that a good token's verification
// helps no other token.
func TestBadTokensAreNotRemembered(t *testing.T) {
	a, raw := authenticator(), sign(t, "u-1", time.Hour)
	if _, _, err := a.Authenticate(bearerOf(raw), now); err != nil {
		t.Fatal(err)
	}
	end := map[byte]string{'A': "B"}[raw[len(raw)-1]]
	if end == "" {
		end = "A"
	}
	for name, bad := range map[string]string{
		"another signature": raw[:len(raw)-1] + end,
		"a part of it":      raw[:len(raw)-1],
		"more of it":        raw + "A",
		"other claims":      strings.Replace(raw, ".", ".A", 1),
	} {
		for range 2 {
			if _, cached, err := a.Authenticate(bearerOf(bad), now); cached || !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: cached %t, error %v", name, cached, err)
			}
		}
	}
	if n := a.cache.Len(); n != 1 {
		t.Errorf("%d verifications are remembered, want 1", n)
	}
}

// TestBeginsLikeAnother: a token that is too long must not be taken for the
// remembered one that it begins with.
func TestBeginsLikeAnother(t *testing.T) {
	a := authenticator()
	longest := strings.Repeat("x", token.MaxBytes)
	a.cache.Add(fingerprintOf(longest), verified{until: now.Add(time.Minute), claims: &token.Claims{Subject: "u-1"}})
	if claims, cached, err := a.Authenticate(bearerOf(longest), now); err != nil || !cached || claims.Subject != "u-1" {
		t.Errorf("the longest: %+v, cached %t, error %v", claims, cached, err)
	}
	if claims, cached, err := a.Authenticate(bearerOf(longest+"x"), now); cached || !errors.Is(err, ErrInvalid) {
		t.Errorf("a longer one: %+v, cached %t, error %v", claims, cached, err)
	}
}

// TestKeysAreItsOwn: a withdrawn key takes what it verified with it, because
// the new keys come with an Authenticator of their own.
func TestKeysAreItsOwn(t *testing.T) {
	raw := sign(t, "u-1", time.Hour)
	before := authenticator()
	if _, _, err := before.Authenticate(bearerOf(raw), now); err != nil {
		t.Fatal(err)
	}
	after := New(before.verifier, keySet(1))
	if _, cached, err := after.Authenticate(bearerOf(raw), now); cached || !errors.Is(err, ErrInvalid) {
		t.Errorf("cached %t, error %v", cached, err)
	}
}

// TestTokenIsNotKept holds that the cache has no token in it: so many are large,
// and whoever sees the memory could use them.
func TestTokenIsNotKept(t *testing.T) {
	a, raw := authenticator(), sign(t, "u-1", time.Hour)
	if _, _, err := a.Authenticate(bearerOf(raw), now); err != nil {
		t.Fatal(err)
	}
	for _, key := range a.cache.Keys() {
		entry, _ := a.cache.Get(key)
		kept := fmt.Sprintf("%s %+v %+v", key, entry, *entry.claims)
		for part := range strings.SplitSeq(raw, ".") {
			if strings.Contains(kept, part) {
				t.Errorf("%q is kept in %q", part, kept)
			}
		}
	}
}

// TestHitAllocatesNothing has tokens of all lengths, up to the longest.
func TestHitAllocatesNothing(t *testing.T) {
	for _, subject := range []int{3, 500, 1000, 1300} {
		a, raw := authenticator(), sign(t, strings.Repeat("u", subject), time.Hour)
		header := bearerOf(raw)
		if n := testing.AllocsPerRun(100, func() {
			if _, _, err := a.Authenticate(header, now); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("a remembered token of %d bytes costs %g allocations", len(raw), n)
		}
	}
}

// TestFingerprint: however long a token is, it is the hash of the whole.
func TestFingerprint(t *testing.T) {
	for _, n := range []int{0, 1, 1023, 1024, 1025, 2048, token.MaxBytes} {
		raw := strings.Repeat("abc", n)[:n]
		if fingerprintOf(raw) != sha256.Sum256([]byte(raw)) {
			t.Errorf("that of %d bytes is another", n)
		}
	}
}

// TestHitIsCheap: a remembered token costs at most 3 % of one that is verified.
// Compared are the best of several runs each, side by side.
func TestHitIsCheap(t *testing.T) {
	const runs = 200
	header := bearerOf(sign(t, "u-1", time.Hour))
	a := authenticator()
	if _, _, err := a.Authenticate(header, now); err != nil {
		t.Fatal(err)
	}
	best := map[bool]time.Duration{true: time.Hour, false: time.Hour}
	for range 20 {
		for _, hit := range []bool{true, false} {
			begun := time.Now()
			for range runs {
				if !hit {
					a.cache.Purge()
				}
				if _, cached, err := a.Authenticate(header, now); err != nil || cached != hit {
					t.Fatalf("cached %t, error %v", cached, err)
				}
			}
			best[hit] = min(best[hit], time.Since(begun)/runs)
		}
	}
	if best[true]*100 > best[false]*3 {
		t.Errorf("a remembered token costs %v, one that is verified %v: want 3 %% at most", best[true], best[false])
	}
	t.Logf("remembered %v, verified %v", best[true], best[false])
}

func TestConcurrent(t *testing.T) {
	a := authenticator()
	raws := []string{sign(t, "u-0", time.Hour), sign(t, "u-1", time.Hour), sign(t, "u-2", time.Hour)}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				n := (i + j) % len(raws)
				claims, _, err := a.Authenticate(bearerOf(raws[n]), now)
				if want := "u-" + string('0'+rune(n)); err != nil || claims.Subject != want {
					t.Errorf("%+v, error %v, want %s", claims, err, want)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkAuthenticate(b *testing.B) {
	header := bearerOf(sign(b, "u-1", time.Hour))
	b.Run("hit", func(b *testing.B) {
		a := authenticator()
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := a.Authenticate(header, now); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("miss", func(b *testing.B) {
		a := authenticator()
		b.ReportAllocs()
		for b.Loop() {
			a.cache.Purge()
			if _, _, err := a.Authenticate(header, now); err != nil {
				b.Fatal(err)
			}
		}
	})
}
