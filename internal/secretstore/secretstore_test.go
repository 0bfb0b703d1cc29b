package secretstore

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
)

var discard = slog.New(slog.NewTextHandler(io.Discard, nil))

var policy = keys.Policy{RotateEvery: keys.DefaultRotateEvery, Propagation: 100 * time.Millisecond, TokenLife: time.Minute}

func open(t *testing.T, api *apiServer, identity string) *Store {
	t.Helper()
	store, err := Open(Options{API: api.config(), Namespace: "ghostline", Name: "signing-keys", Identity: identity, Log: discard})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// keeping runs an issuer's keeper until stop.
func keeping(t *testing.T, store *Store) (k *keys.Keeper, stop func()) {
	t.Helper()
	k, err := keys.Open(t.Context(), store, policy, discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return k, stop
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so in 60s: %s", what)
		}
	}
}

// TestIssuersShareAKey has two issuers, one of which leads; the other takes over.
func TestIssuersShareAKey(t *testing.T) {
	t.Parallel()
	api := startAPI(t)
	first, stopFirst := keeping(t, open(t, api, "first"))
	eventually(t, "the first leads", func() bool { return first.Status().Leads && api.holder() == "first" })
	second, _ := keeping(t, open(t, api, "second"))
	same := func() bool {
		return first.Ring().Signer.KeyID == second.Ring().Signer.KeyID && slices.Equal(first.Ring().Public.IDs(), second.Ring().Public.IDs())
	}
	if !same() || second.Status().Leads {
		t.Errorf("the second has other keys, or leads: %+v", second.Status())
	}
	old := first.Ring().Signer.KeyID

	api.edit(func(data map[string]any) { data[keys.RotateEntry] = "" })
	eventually(t, "both sign with the next key", func() bool { return first.Ring().Signer.KeyID != old && same() })
	if n := first.Ring().Public.Len(); n != 2 || slices.Contains(api.entries(), keys.RotateEntry) {
		t.Errorf("%d keys, the Secret has %q", n, api.entries())
	}

	stopFirst()
	eventually(t, "the second leads", func() bool { return second.Status().Leads && api.holder() == "second" })
	signed := second.Ring().Signer.KeyID
	api.edit(func(data map[string]any) { clear(data) })
	eventually(t, "what was withdrawn is gone, and a fresh key signs", func() bool {
		return second.Ring().Signer.KeyID != signed && second.Ring().Public.Len() == 1 && len(second.Ring().Signer.Key) > 0
	})
}

// TestFollowersDoNotRotate: without the Lease an issuer reads, and writes only
// where there is no key at all.
func TestFollowersDoNotRotate(t *testing.T) {
	t.Parallel()
	api := startAPI(t)
	store := open(t, api, "alone")
	if _, err := keys.Open(t.Context(), store, policy, discard); err != nil {
		t.Fatal(err)
	}
	api.edit(func(data map[string]any) { data[keys.RotateEntry] = "" })
	before := len(api.asked)
	if _, err := keys.Open(t.Context(), store, policy, discard); err != nil {
		t.Fatal(err)
	}
	for _, asked := range api.asked[before:] {
		if asked != "GET "+secretPath {
			t.Errorf("a follower: %s", asked)
		}
	}
	if n := len(api.entries()); n != 2 {
		t.Errorf("%d entries, want the key and what asks for a rotation", n)
	}
}

// TestOneOfTwoWritersWins: both have loaded the same.
func TestOneOfTwoWritersWins(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*apiServer){
		"no Secret":       func(*apiServer) {},
		"an empty Secret": func(api *apiServer) { api.edit(func(map[string]any) {}) },
	} {
		api := startAPI(t)
		prepare(api)
		store := open(t, api, "x")
		from, err := store.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// A keeper on another API server makes the keys to save.
		other := open(t, startAPI(t), "y")
		var wins, conflicts int
		for range 2 {
			if err := remakeKeys(t, other); err != nil {
				t.Fatal(err)
			}
			to, err := other.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch err := store.Save(t.Context(), from, to); {
			case err == nil:
				wins++
			case errors.Is(err, keys.ErrConflict):
				conflicts++
			default:
				t.Errorf("%s: %v", name, err)
			}
		}
		if wins != 1 || conflicts != 1 || len(api.entries()) != 1 {
			t.Errorf("%s: %d writers won, %d lost, the Secret has %q", name, wins, conflicts, api.entries())
		}
	}
}

func remakeKeys(t *testing.T, store *Store) error {
	_, err := keys.Open(t.Context(), store, policy, discard)
	return err
}

// TestSaveLeavesTheRest: what is not a key of the issuer's is none of its business.
func TestSaveLeavesTheRest(t *testing.T) {
	t.Parallel()
	api := startAPI(t)
	api.edit(func(data map[string]any) { data["note"] = "aGk=" })
	store := open(t, api, "x")
	if _, err := keys.Open(t.Context(), store, policy, discard); err != nil {
		t.Fatal(err)
	}
	state, err := store.Load(t.Context())
	if err != nil || len(state.Keys) != 1 {
		t.Fatalf("%+v, %v", state, err)
	}
	next := state
	next.Keys = slices.Clone(state.Keys)
	next.Keys[0].Signs = next.Keys[0].Signs.Add(time.Second)
	if err := store.Save(t.Context(), state, next); err != nil {
		t.Fatal(err)
	}
	if got := api.entries(); len(got) != 2 || !slices.Contains(got, "note") || !slices.Contains(got, next.Keys[0].EntryName()) {
		t.Errorf("the Secret has %q", got)
	}
	if err := store.Save(t.Context(), state, next); !errors.Is(err, keys.ErrConflict) {
		t.Errorf("saved twice: %v", err)
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	api := startAPI(t)
	api.setDown(true)
	store := open(t, api, "x")
	if _, err := keys.Open(t.Context(), store, policy, discard); err == nil || !strings.Contains(err.Error(), "secret signing-keys: ") {
		t.Errorf("a start without the API server: %v", err)
	}
	api.setDown(false)
	k, _ := keeping(t, store)
	signs := k.Ring().Signer.KeyID
	api.setDown(true)
	eventually(t, "it is told", func() bool { return !k.Status().Loaded })
	if k.Ring().Signer.KeyID != signs {
		t.Error("another key signs")
	}
	api.setDown(false)
	eventually(t, "it is well again", func() bool { return k.Status().Loaded })
}

// TestWhatItAsksFor is what its Role must allow; docs/keys.md has it.
func TestWhatItAsksFor(t *testing.T) {
	t.Parallel()
	api := startAPI(t)
	k, stop := keeping(t, open(t, api, "x"))
	eventually(t, "it leads", func() bool { return k.Status().Leads })
	api.edit(func(data map[string]any) { data[keys.RotateEntry] = "" })
	eventually(t, "it has rotated", func() bool { return k.Ring().Public.Len() == 2 })
	stop()
	asked := map[string]bool{}
	for _, one := range api.asked {
		asked[one] = true
	}
	const leases = "/apis/coordination.k8s.io/v1/namespaces/ghostline/leases"
	want := []string{
		"GET " + secretPath, "GET " + leases + "/signing-keys", "PATCH " + secretPath,
		"POST " + strings.TrimSuffix(secretPath, "/signing-keys"), "POST " + leases, "PUT " + leases + "/signing-keys",
	}
	if got := slices.Sorted(maps.Keys(asked)); !slices.Equal(got, want) {
		t.Errorf("asked for %q, want %q", got, want)
	}
	if api.holder() != "" {
		t.Errorf("%s holds the Lease after its end", api.holder())
	}
}
