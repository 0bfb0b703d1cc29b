package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var discard = slog.New(slog.NewTextHandler(io.Discard, nil))

const every = 2 * time.Hour

// testPolicy: a key waits 10 minutes, and leaves 30 minutes and 30 s after it signed.
var testPolicy = Policy{RotateEvery: every, Propagation: 5 * time.Minute, TokenLife: 25 * time.Minute}

// keeping runs a keeper for the rest of a bubble.
func keeping(t *testing.T, store Store, log *slog.Logger) *Keeper {
	t.Helper()
	k, err := Open(t.Context(), store, testPolicy, log)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { k.Run(t.Context()) })
	t.Cleanup(running.Wait)
	synctest.Wait() // until it watches
	return k
}

// stages are the keys' stages, oldest first.
func stages(k *Keeper) string {
	var all []string
	for _, key := range k.Ring().Keys {
		all = append(all, string(key.Stage))
	}
	return strings.Join(all, " ")
}

func wantStages(t *testing.T, k *Keeper, at, want string) {
	t.Helper()
	synctest.Wait()
	if got := stages(k); got != want {
		t.Errorf("%s: the keys are %q, want %q", at, got, want)
	}
	if signs := k.Ring().Signer; len(signs.Key) == 0 {
		t.Errorf("%s: nothing signs", at)
	} else if _, ok := k.Ring().Public.Key(signs.KeyID); !ok {
		t.Errorf("%s: the key that signs is not published", at)
	}
}

// TestRotation is the whole of a key's life.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeping(t, newShelf(), discard)
		first, start := k.Ring().Signer.KeyID, time.Now()
		at := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(time.Until(start.Add(d)))
			wantStages(t, k, d.String(), want)
		}
		at(0, "signing")
		at(every-10*time.Minute-time.Second, "signing")
		at(every-10*time.Minute+time.Second, "signing waiting")
		next := k.Ring().Keys[1].ID
		at(every-time.Second, "signing waiting")
		if k.Ring().Signer.KeyID != first {
			t.Error("the new key signs too soon")
		}
		at(every+time.Second, "leaving signing")
		if got := k.Ring(); got.Signer.KeyID != next || got.Keys[0].ID != first {
			t.Errorf("%s signs, want %s", got.Signer.KeyID, next)
		}
		at(every+30*time.Minute+29*time.Second, "leaving signing")
		at(every+30*time.Minute+31*time.Second, "signing")
		at(2*every+time.Second, "leaving signing")
		if status := k.Status(); status != (Status{Loaded: true, Rotated: true, Leads: true}) {
			t.Errorf("status %+v", status)
		}
	})
}

// TestWaitBeginsAnew: a key that was made just before the issuer was away has not
// become known meanwhile.
func TestWaitBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShelf()
		ctx, cancel := context.WithCancel(t.Context())
		first, err := Open(ctx, store, testPolicy, discard)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); first.Run(ctx) }()
		time.Sleep(every - 9*time.Minute)
		wantStages(t, first, "before", "signing waiting")
		signed := first.Ring().Signer.KeyID
		cancel()
		<-ended

		time.Sleep(time.Hour)
		k := keeping(t, store, discard)
		wantStages(t, k, "after an hour away", "signing waiting")
		time.Sleep(9 * time.Minute)
		wantStages(t, k, "9 minutes later", "signing waiting")
		if k.Ring().Signer.KeyID != signed {
			t.Error("a key that nobody knows signs")
		}
		time.Sleep(2 * time.Minute)
		wantStages(t, k, "11 minutes later", "leaving signing")
	})
}

func TestForcedRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShelf()
		k := keeping(t, store, discard)
		ask := func() { store.set(func(c *content) { c.entries[RotateEntry] = nil }); synctest.Wait() }
		time.Sleep(time.Hour)
		ask()
		wantStages(t, k, "at once", "signing waiting")
		ask()
		wantStages(t, k, "asked again", "signing waiting")
		if state, err := store.Load(t.Context()); err != nil || state.RotationAsked {
			t.Errorf("it is still asked for, %v", err)
		}
		time.Sleep(10*time.Minute + time.Second)
		wantStages(t, k, "after the wait", "leaving signing")

		// Forced again and again, the keys stay few, and the issuer says so.
		for range 30 {
			ask()
			time.Sleep(15 * time.Second)
			store.set(func(c *content) { // as if it had waited
				for name, content := range c.entries {
					if key, err := DecodeKey(name, content); err == nil && key.waits() {
						delete(c.entries, name)
						key.Signs = stamp(time.Now())
						c.entries[key.EntryName()] = content
					}
				}
			})
			synctest.Wait()
		}
		if n := k.Ring().Public.Len(); n != maxPublished {
			t.Errorf("%d keys, want %d", n, maxPublished)
		}
		if k.Status().Rotated {
			t.Error("a rotation that was refused is not told")
		}
		time.Sleep(2 * time.Hour)
		wantStages(t, k, "in the end", "signing")
		if !k.Status().Rotated {
			t.Error("it is still told")
		}
	})
}

// TestWithdrawn takes keys away in every stage.
func TestWithdrawn(t *testing.T) {
	for name, tc := range map[string]struct {
		withdraw []int  // of leaving, signing, waiting
		signs    int    // of them; 3 is a fresh one
		want     string // the stages
	}{
		"the one that leaves":        {[]int{0}, 1, "signing waiting"},
		"the one that waits":         {[]int{2}, 1, "leaving signing"},
		"the one that signs":         {[]int{1}, 0, "signing waiting"},
		"all but the one that waits": {[]int{0, 1}, 2, "signing"},
		"all":                        {[]int{0, 1, 2}, 3, "signing"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newShelf()
				k := keeping(t, store, discard)
				time.Sleep(every + time.Minute)
				store.set(func(c *content) { c.entries[RotateEntry] = nil })
				wantStages(t, k, "before", "leaving signing waiting")
				before := k.Ring().Keys
				for _, i := range tc.withdraw {
					store.withdraw(before[i].ID)
				}
				wantStages(t, k, "at once", tc.want)
				for _, i := range tc.withdraw {
					if _, published := k.Ring().Public.Key(before[i].ID); published {
						t.Errorf("key %d is still published", i)
					}
				}
				signs := slices.IndexFunc(before, func(p Published) bool { return p.ID == k.Ring().Signer.KeyID })
				if want := map[bool]int{true: -1, false: tc.signs}[tc.signs == 3]; signs != want {
					t.Errorf("key %d signs, want %d", signs, want)
				}
				// It goes on by itself from there.
				time.Sleep(every + time.Hour)
				synctest.Wait()
				if n := k.Ring().Public.Len(); n != 1 && n != 2 {
					t.Errorf("%d keys later", n)
				}
			})
		})
	}
}

// TestStoreFails holds that a running issuer keeps what it has, that the clock goes
// on for it, and that it says so once.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := newShelf()
		k := keeping(t, store, slog.New(slog.NewTextHandler(&log, nil)))
		time.Sleep(every + time.Minute)
		wantStages(t, k, "before", "leaving signing")
		signs := k.Ring().Signer.KeyID
		store.set(func(c *content) { c.failing = errors.New("the disk is gone") })
		synctest.Wait()
		time.Sleep(10 * time.Minute)
		wantStages(t, k, "while it is out", "leaving signing")
		time.Sleep(30 * time.Minute)
		wantStages(t, k, "when the old one's time has come", "signing")
		if k.Ring().Signer.KeyID != signs || k.Status().Loaded {
			t.Errorf("%s signs, want %s; status %+v", k.Ring().Signer.KeyID, signs, k.Status())
		}
		if n := strings.Count(log.String(), "the disk is gone"); n != 1 {
			t.Errorf("it is said %d times:\n%s", n, log.String())
		}
		store.set(func(c *content) { c.failing = nil })
		synctest.Wait()
		if !k.Status().Loaded || !strings.Contains(log.String(), "in order again") {
			t.Errorf("status %+v, log %s", k.Status(), log.String())
		}
	})
}

// TestBrokenEntry holds that a key that was good stays, that one that never was does
// not count, and that a withdrawal holds all the same.
func TestBrokenEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShelf()
		k := keeping(t, store, discard)
		store.set(func(c *content) { c.entries[RotateEntry] = nil })
		wantStages(t, k, "before", "signing waiting")
		signs, waits := k.Ring().Keys[0].ID, k.Ring().Keys[1].ID
		store.set(func(c *content) {
			for name := range c.entries {
				if strings.Contains(name, signs) {
					c.entries[name] = []byte("rust")
				}
			}
			c.entries["backup.pem"] = []byte("x")
		})
		wantStages(t, k, "with a broken one", "signing waiting")
		if k.Ring().Signer.KeyID != signs || k.Status().Loaded {
			t.Errorf("%s signs, want %s; status %+v", k.Ring().Signer.KeyID, signs, k.Status())
		}
		store.withdraw(waits)
		wantStages(t, k, "one withdrawn", "signing")
		store.withdraw(signs)
		wantStages(t, k, "both withdrawn", "signing")
		if id := k.Ring().Signer.KeyID; id == signs || id == waits {
			t.Errorf("the withdrawn %s signs", id)
		}
		if _, err := Open(t.Context(), store, testPolicy, discard); err == nil || !strings.Contains(err.Error(), "backup.pem: the name must be") {
			t.Errorf("a start with a broken entry: %v", err)
		}
	})
}

// TestWithdrawnAndNoneToBeHad: without a key to sign with nobody signs, least of all
// with what was withdrawn.
func TestWithdrawnAndNoneToBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShelf()
		k := keeping(t, store, discard)
		store.set(func(c *content) { clear(c.entries); c.refuses = errors.New("read-only") })
		synctest.Wait()
		if ring := k.Ring(); len(ring.Signer.Key) != 0 || ring.Public.Len() != 0 || k.Status().Rotated {
			t.Errorf("%s signs, %d are published, status %+v", ring.Signer.KeyID, ring.Public.Len(), k.Status())
		}
		store.set(func(c *content) { c.refuses = nil })
		wantStages(t, k, "when it can be written", "signing")
	})
}

// TestSeveralIssuers have one store. One leads, and all sign with the same key but
// for the time in which they learn of it.
func TestSeveralIssuers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := newShelf()
		var all []*Keeper
		for i := range 3 {
			all = append(all, keeping(t, &shelf{content: leader.content, leads: i == 0}, discard))
		}
		same := func(at string) {
			t.Helper()
			time.Sleep(lookEvery + time.Second)
			for _, k := range all[1:] {
				if k.Ring().Signer.KeyID != all[0].Ring().Signer.KeyID || !slices.Equal(k.Ring().Public.IDs(), all[0].Ring().Public.IDs()) {
					t.Errorf("%s: the issuers differ", at)
				}
			}
		}
		same("at first")
		for hour := range 6 {
			time.Sleep(time.Hour)
			same(fmt.Sprint("hour ", hour))
		}
		leader.set(func(c *content) { clear(c.entries) })
		same("all withdrawn, and whoever sees it first makes one")
		if state, err := leader.Load(t.Context()); err != nil || len(state.Keys) != 1 {
			t.Errorf("there are %d keys, %v; want 1", len(state.Keys), err)
		}
	})
}

// TestOneOfTwoWritersWins has another change the store between Load and Save.
func TestOneOfTwoWritersWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShelf()
		other := &shelf{content: store.content, leads: true}
		store.before = func() {
			store.before = nil
			if _, err := Open(t.Context(), other, testPolicy, discard); err != nil {
				t.Error(err)
			}
		}
		k := keeping(t, store, discard)
		if len(store.entries) != 1 || stages(k) != "signing" {
			t.Errorf("%d keys, %s", len(store.entries), stages(k))
		}
		// One that is always too late gives up, and says so.
		store.before = func() { store.mu.Lock(); store.version++; store.mu.Unlock() }
		store.set(func(c *content) { c.entries[RotateEntry] = nil })
		synctest.Wait()
		if k.Status().Rotated || !k.Status().Loaded {
			t.Errorf("status %+v", k.Status())
		}
	})
}

// TestClockSetBack: the key that signs does not become the older one.
func TestClockSetBack(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	seen := map[string]time.Time{}
	s, err := testPolicy.plan(State{}, now, seen)
	if err != nil {
		t.Fatal(err)
	}
	s.RotationAsked = true
	if s, err = testPolicy.plan(s, now, seen); err != nil || len(s.Keys) != 2 {
		t.Fatalf("%d keys, %v", len(s.Keys), err)
	}
	waits := s.Keys[1].KeyID
	back := now.Add(-time.Hour)
	seen[waits] = back.Add(-testPolicy.Wait())
	s, err = testPolicy.plan(s, back, seen)
	if s.sort(); err != nil || s.Keys[signer(s.Keys)].KeyID != waits {
		t.Errorf("%d keys, %v, and another one signs", len(s.Keys), err)
	}
	// Set forward by a year, what signs stays all the same.
	if left := testPolicy.staying(s.Keys, now.AddDate(1, 0, 0)); len(left) != 1 || left[0].KeyID != waits {
		t.Errorf("%d keys are left", len(left))
	}
}
