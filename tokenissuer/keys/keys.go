// Package keys keeps the issuer's signing keys: it makes them, lets each be
// known for a while before it signs and after it has signed, and follows what
// is done to them from outside.
package keys

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
)

// Key is a signing key and how far it has come. It is published from the moment
// that it is in the store.
type Key struct {
	token.Signer
	// Made is when it was made.
	Made time.Time
	// Signs is since when it signs; zero while it waits to be known everywhere.
	Signs time.Time
}

func (k *Key) waits() bool { return k.Signs.IsZero() }

// newKey makes a key that waits. Its id does not begin with a dash, so that on a
// command line it is no flag. Times have the resolution that their text has.
func newKey(now time.Time) (Key, error) {
	for {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return Key{}, fmt.Errorf("make a key: %w", err)
		}
		if id := token.Thumbprint(public); id[0] != '-' {
			return Key{Signer: token.Signer{KeyID: id, Key: private}, Made: stamp(now)}, nil
		}
	}
}

func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// State is all that a store holds.
type State struct {
	// Keys are sorted: those that signed by when they began to, then those that
	// wait by when they were made.
	Keys []Key
	// Broken has what is no good key, by its name in the store, and why.
	Broken map[string]error
	// RotationAsked says that somebody wants a rotation now.
	RotationAsked bool
	// Version changes with the content. Only stores know what it means.
	Version string
}

func (s *State) sort() {
	slices.SortFunc(s.Keys, func(a, b Key) int {
		if a.waits() != b.waits() {
			return map[bool]int{true: 1, false: -1}[a.waits()]
		}
		return cmp.Or(a.Signs.Compare(b.Signs), a.Made.Compare(b.Made), cmp.Compare(a.KeyID, b.KeyID))
	})
}

// ErrConflict is what Save returns if another has changed the store meanwhile.
var ErrConflict = errors.New("the keys were changed by another meanwhile")

// Store is where the keys are kept, for one issuer or for several that share them.
// Whoever can write to it can have tokens made for anybody.
type Store interface {
	// Load returns all that is there. An error says nothing about the keys: those
	// of the last Load are still the keys.
	Load(ctx context.Context) (State, error)
	// Save brings the store from what Load returned to another state, or returns
	// ErrConflict and changes nothing if it is no longer what Load returned. It
	// touches neither what it does not know nor what is broken.
	Save(ctx context.Context, from, to State) error
	// Watch calls changed when the store may have changed, as far as it is told,
	// until ctx is done. Whoever must know also looks from time to time.
	Watch(ctx context.Context, changed func())
	// Leads says whether it is this process that rotates.
	Leads() bool
}
