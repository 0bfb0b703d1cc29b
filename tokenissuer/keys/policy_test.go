package keys

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
)

// TestEveryTokenIsGoodEverywhere has two issuers and two proxies, of each one that
// learns at once and one that learns as late as may be. Every token is good at both
// proxies for all of its life and the leeway, over several rotations, one of them
// forced.
func TestEveryTokenIsGoodEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShelf()
		k := keeping(t, store, discard)
		const step = 20 * time.Second
		late := int(testPolicy.Propagation / step)
		type issued struct {
			raw string
			end time.Time
		}
		var rings []*Ring // one a step
		var tokens []issued
		verifier := token.Verifier{Issuer: "i", Audience: "a"}
		checks, signers := 0, map[string]bool{}
		for i := range int(3 * every / step) {
			if i == int(every/step)/3 {
				store.set(func(c *content) { c.entries[RotateEntry] = nil })
			}
			synctest.Wait()
			now := time.Now()
			rings = append(rings, k.Ring())
			behind := rings[max(0, i-late)]
			for _, ring := range []*Ring{rings[i], behind} {
				raw, err := ring.Signer.Sign(token.Claims{Issuer: "i", Audience: "a", Subject: "s", ClientID: "c", ID: "t",
					IssuedAt: now, Expires: now.Add(testPolicy.TokenLife)})
				if err != nil {
					t.Fatal(err)
				}
				signers[ring.Signer.KeyID] = true
				tokens = append(tokens, issued{raw, now.Add(testPolicy.TokenLife + token.DefaultLeeway)})
			}
			for !tokens[0].end.After(now) {
				tokens = tokens[1:]
			}
			// Of those that live, the oldest and the newest are the hard ones.
			for _, of := range []issued{tokens[0], tokens[1], tokens[len(tokens)-2]} {
				for _, ring := range []*Ring{rings[i], behind} {
					checks++
					if _, err := verifier.Verify(of.raw, ring.Public, now); err != nil {
						t.Fatalf("after %v: %v", time.Duration(i)*step, err)
					}
				}
			}
			time.Sleep(step)
		}
		if len(signers) < 4 {
			t.Errorf("%d keys have signed in %d checks, want 4 at least", len(signers), checks)
		}
	})
}

// TestKeyIDIsNoFlag: one of 64 would be.
func TestKeyIDIsNoFlag(t *testing.T) {
	for range 1000 {
		key, err := newKey(time.Now())
		if err != nil || key.KeyID[0] == '-' {
			t.Fatalf("%s, %v", key.KeyID, err)
		}
	}
}
