package keys

import (
	"crypto/ed25519"
	"errors"
	"slices"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
)

// Defaults of a Policy.
const (
	DefaultRotateEvery = 7 * 24 * time.Hour
	DefaultPropagation = 5 * time.Minute
)

// maxPublished bounds the keys at once, well below what a proxy takes (64). Only
// rotations that are forced one after another come near it.
const maxPublished = 16

var errTooMany = errors.New("there are 16 keys already; a new one is made once one of them has left")

// Policy is when keys are made, sign and leave.
type Policy struct {
	// RotateEvery is for how long a key signs.
	RotateEvery time.Duration
	// Propagation is the longest time that a key set takes, once it is published,
	// to reach everybody who checks tokens.
	Propagation time.Duration
	// TokenLife is for how long a token is good.
	TokenLife time.Duration
}

// Wait is for how long a key is published before it signs.
func (p Policy) Wait() time.Duration { return 2 * p.Propagation }

// Leave is for how long a key stays published when it no longer signs: another
// issuer learns of that within Propagation, and then its last token must end.
func (p Policy) Leave() time.Duration { return p.Propagation + p.TokenLife + token.DefaultLeeway }

// MinRotateEvery is the shortest time in which a rotation ends before the next
// begins.
func (p Policy) MinRotateEvery() time.Duration { return p.Wait() + p.Leave() }

// Stage is how far a key has come.
type Stage string

// The stages of a key that is published.
const (
	Waiting Stage = "waiting" // does not sign yet
	Signing Stage = "signing"
	Leaving Stage = "leaving" // has signed
)

// Published is what may be told of a key.
type Published struct {
	ID    string
	Stage Stage
	Made  time.Time
}

// Ring is the keys of an issuer at one moment: the one that signs, and all that
// are published, so that tokens of an earlier key stay good.
type Ring struct {
	// Signer has no key if there is none to sign with.
	Signer token.Signer
	Public token.KeySet
	Keys   []Published
	// Since is when this process began to publish these keys.
	Since time.Time
	// Rotation is when the key that signs is to be followed by the next.
	Rotation time.Time
}

// signer is the index of the key that signs: the last that began to. Where none
// has, it is the one that waits for the longest. -1 if there is no key.
func signer(keys []Key) int {
	waiting := slices.IndexFunc(keys, func(k Key) bool { return k.waits() })
	if waiting > 0 {
		return waiting - 1
	}
	if waiting < 0 {
		return len(keys) - 1
	}
	return 0
}

// ends is when the key at index i is to be published no longer; false if it is
// not known yet.
func (p Policy) ends(keys []Key, i int) (time.Time, bool) {
	if i >= signer(keys) {
		return time.Time{}, false
	}
	return keys[i+1].Signs.Add(p.Leave()), true
}

// staying are the keys that have not left. If the clock jumps, what signs stays
// all the same.
func (p Policy) staying(keys []Key, now time.Time) []Key {
	var left []Key
	for i, k := range keys {
		if end, known := p.ends(keys, i); !known || now.Before(end) {
			left = append(left, k)
		}
	}
	return left
}

// ring is what the keys are at a moment.
func (p Policy) ring(keys []Key, now time.Time) *Ring {
	keys = p.staying(keys, now)
	r := &Ring{Since: now}
	at := signer(keys)
	public := make([]ed25519.PublicKey, 0, len(keys))
	for i, k := range keys {
		public = append(public, k.Key.Public().(ed25519.PublicKey))
		stage := Signing
		switch {
		case i < at:
			stage = Leaving
		case i > at:
			stage = Waiting
		default:
			r.Signer = k.Signer
			r.Rotation = p.rotation(k)
		}
		r.Keys = append(r.Keys, Published{ID: k.KeyID, Stage: stage, Made: k.Made})
	}
	r.Public = token.NewKeySet(public...)
	return r
}

// rotation is when a key that signs is to be followed by the next.
func (p Policy) rotation(signs Key) time.Time {
	since := signs.Signs
	if signs.waits() {
		since = signs.Made
	}
	return since.Add(p.RotateEvery)
}

// plan is what the store should hold at a moment. seen is since when this process
// has published a key, which is what counts: a key that was made before the issuer
// was down for a day is no better known after it. The error is about a key that
// should have been made; the plan holds without it.
func (p Policy) plan(s State, now time.Time, seen map[string]time.Time) (State, error) {
	next := s
	next.Keys = p.staying(s.Keys, now)
	at := signer(next.Keys)
	if at < 0 {
		key, err := newKey(now)
		key.Signs = key.Made
		next.Keys, next.RotationAsked = append(next.Keys, key), false
		return next, err
	}
	if next.Keys[at].waits() { // there is none that may better sign
		next.Keys[at].Signs = stamp(now)
	}
	if waiting := at + 1; waiting < len(next.Keys) {
		next.RotationAsked = false // it is under way
		if since, ok := seen[next.Keys[waiting].KeyID]; ok && now.Sub(since) >= p.Wait() {
			next.Keys[waiting].Signs = stamp(now)
			// A clock that was set back must not make it the older one.
			if last := next.Keys[at].Signs; !next.Keys[waiting].Signs.After(last) {
				next.Keys[waiting].Signs = last.Add(time.Millisecond)
			}
		}
		return next, nil
	}
	if !next.RotationAsked && now.Before(p.rotation(next.Keys[at]).Add(-p.Wait())) {
		return next, nil
	}
	if len(next.Keys) >= maxPublished {
		return next, errTooMany
	}
	key, err := newKey(now)
	if err != nil {
		return next, err
	}
	next.Keys, next.RotationAsked = append(next.Keys, key), false
	return next, nil
}

// due is how long it is until plan has something to do by itself, at most most.
func (p Policy) due(keys []Key, now time.Time, seen map[string]time.Time, most time.Duration) time.Duration {
	until := most
	at := signer(keys)
	for i, k := range keys {
		if end, known := p.ends(keys, i); known {
			until = min(until, end.Sub(now))
		}
		if since, ok := seen[k.KeyID]; ok && i > at {
			until = min(until, since.Add(p.Wait()).Sub(now))
		}
		if i == at && i == len(keys)-1 {
			until = min(until, p.rotation(k).Add(-p.Wait()).Sub(now))
		}
	}
	return max(until, 0)
}
