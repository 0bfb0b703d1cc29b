package keys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is how often the store is read where nothing tells of a change. It
	// bounds how long an issuer goes on with a key that was withdrawn.
	lookEvery = 5 * time.Second
	// lookPause is between two looks at the least.
	lookPause = 250 * time.Millisecond
	// storeTimeout bounds one step, so that a store that hangs is one that fails.
	storeTimeout = 10 * time.Second
	// maxTries bounds how often a plan is made anew because another was quicker.
	maxTries = 5
)

// Status is how the keeping of the keys goes.
type Status struct {
	// Loaded is false while the store cannot be read, or something in it is broken.
	// The last good keys are then in use.
	Loaded bool
	// Rotated is false if the last change that was due to the keys failed.
	Rotated bool
	// Leads says whether it is this process that rotates.
	Leads bool
}

// Keeper keeps the ring of a running issuer.
type Keeper struct {
	store  Store
	policy Policy
	log    *slog.Logger

	ring            atomic.Pointer[Ring]
	loaded, rotated atomic.Bool

	// What follows is Open's and then Run's alone.
	state State
	seen  map[string]time.Time // since when a key is published, by its id
	said  string               // what the log says is wrong
}

// Open reads the keys, and makes a first one if there is none. Whatever is wrong
// with them is an error.
func Open(ctx context.Context, store Store, policy Policy, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{store: store, policy: policy, log: log, seen: map[string]time.Time{}}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := k.step(ctx); err != nil {
		return nil, fmt.Errorf("signing keys: %w", err)
	}
	return k, nil
}

// Ring is the keys now. It never changes; ask again for each token.
func (k *Keeper) Ring() *Ring { return k.ring.Load() }

// Status is how it goes now.
func (k *Keeper) Status() Status {
	return Status{Loaded: k.loaded.Load(), Rotated: k.rotated.Load(), Leads: k.store.Leads()}
}

// Run keeps the ring until ctx is done. Whatever fails, the last good keys stay.
func (k *Keeper) Run(ctx context.Context) {
	changed := make(chan struct{}, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		k.store.Watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default: // one is told already
			}
		})
	})
	for {
		wait := max(k.policy.due(k.state.Keys, time.Now(), k.seen, lookEvery), lookPause)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(wait):
		}
		k.look(ctx)
	}
}

// look is step for the background, where nobody waits for the error.
func (k *Keeper) look(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	err := k.step(bounded)
	cancel()
	if ctx.Err() != nil {
		return
	}
	k.publish() // what has left by now has left, also if the store is out
	said := k.said
	k.said = ""
	if err == nil {
		if said != "" {
			k.log.Info("the signing keys are in order again")
		}
		return
	}
	k.said = err.Error()
	if k.said != said { // once, not at each look
		k.log.Error("the signing keys cannot be kept as they should; the last good ones stay in use", "error", err)
	}
}

// step takes what the store has, and changes it if that is due.
func (k *Keeper) step(ctx context.Context) error {
	for range maxTries {
		state, err := k.store.Load(ctx)
		if err != nil {
			k.loaded.Store(false)
			return err
		}
		broken := k.mend(&state)
		k.loaded.Store(broken == nil)
		if k.ring.Load() == nil && broken != nil {
			return broken // a start refuses what a running issuer survives
		}
		// Where all keys were withdrawn, the fresh one comes first: between the two
		// nobody would get a token.
		if len(state.Keys) > 0 {
			k.take(state)
		}
		done, err := k.change(ctx, state)
		if err == nil && !done {
			continue
		}
		k.rotated.Store(err == nil)
		if err != nil && len(state.Keys) == 0 && k.ring.Load() != nil {
			k.take(state)
		}
		return errors.Join(broken, err)
	}
	k.rotated.Store(false)
	return ErrConflict
}

// mend lets keys stay that were good when they were read last and are broken now,
// and returns what is broken.
func (k *Keeper) mend(state *State) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(state.Broken)) {
		problems = append(problems, fmt.Errorf("%s: %w", name, state.Broken[name]))
		for _, key := range k.state.Keys {
			if key.EntryName() == name && !slices.ContainsFunc(state.Keys, func(other Key) bool { return other.KeyID == key.KeyID }) {
				state.Keys = append(state.Keys, key)
			}
		}
	}
	state.sort()
	return errors.Join(problems...)
}

// change saves what is due. It is done if nothing is, or another does it. A store
// without a key gets one from whoever sees it first.
func (k *Keeper) change(ctx context.Context, state State) (done bool, err error) {
	next, problem := k.policy.plan(state, time.Now(), k.seen)
	changes := Diff(state, next)
	if changes.Empty() || !k.store.Leads() && len(state.Keys) > 0 {
		return true, problem
	}
	if err := k.store.Save(ctx, state, next); err != nil && !errors.Is(err, ErrConflict) {
		return false, errors.Join(problem, fmt.Errorf("save: %w", err))
	}
	return false, nil
}

// take makes a state the current one.
func (k *Keeper) take(state State) {
	k.state = state
	k.publish()
	now := time.Now()
	known := map[string]time.Time{}
	for _, key := range k.ring.Load().Keys {
		known[key.ID] = now
		if since, ok := k.seen[key.ID]; ok {
			known[key.ID] = since
		}
	}
	k.seen = known
}

// publish puts the ring of this moment in place, if it is another.
func (k *Keeper) publish() {
	next, last := k.policy.ring(k.state.Keys, time.Now()), k.ring.Load()
	if last != nil && slices.Equal(last.Keys, next.Keys) && last.Rotation.Equal(next.Rotation) {
		return
	}
	if last != nil && slices.Equal(last.Public.IDs(), next.Public.IDs()) {
		next.Since = last.Since
	}
	k.ring.Store(next)
	k.log.Info("signing keys", "signs", next.Signer.KeyID, "published", describe(next.Keys), "next_rotation", next.Rotation.UTC().Format(time.RFC3339))
}

func describe(all []Published) string {
	var words []string
	for _, key := range all {
		words = append(words, key.ID+" "+string(key.Stage))
	}
	return strings.Join(words, ", ")
}
