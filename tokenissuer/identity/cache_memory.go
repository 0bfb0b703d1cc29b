package identity

import (
	"math/rand/v2"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// answer is what a provider said of a credential that it knows.
type answer struct {
	who Identity
	// at is when it said so; fresh, until when that is good.
	at, fresh time.Time
}

// until is something that holds for a while.
type until struct {
	end time.Time
	err error
}

// memory is what a Cached remembers of credentials. Its owner holds the lock.
type memory struct {
	known   *simplelru.LRU[key, answer]
	unknown *simplelru.LRU[key, until] // nobody's
	resting *simplelru.LRU[key, until] // not to be looked up again yet
}

func newMemory(entries int) memory {
	return memory{known: newLRU[answer](entries), unknown: newLRU[until](maxUnknown), resting: newLRU[until](maxUnknown)}
}

func newLRU[V any](size int) *simplelru.LRU[key, V] {
	lru, err := simplelru.NewLRU[key, V](max(size, 1), nil)
	if err != nil {
		panic(err) // only of a size below one
	}
	return lru
}

// last is what the provider said last of a credential, if that may be used at all: not
// when it is older than stale and no longer good, and not when the credential has ended.
func (m *memory) last(k key, now time.Time, stale time.Duration) (answer, bool) {
	a, ok := m.known.Get(k)
	if !ok {
		return answer{}, false
	}
	ended := !a.who.Expires.IsZero() && !now.Before(a.who.Expires)
	if ended || !now.Before(a.fresh) && now.Sub(a.at) >= stale {
		m.known.Remove(k)
		return answer{}, false
	}
	return a, true
}

func (m *memory) know(k key, who Identity, now time.Time, life time.Duration) {
	m.unknown.Remove(k)
	m.resting.Remove(k)
	m.known.Add(k, answer{who: who, at: now, fresh: now.Add(life - time.Duration(rand.Float64()*float64(life)/10))})
}

func (m *memory) deny(k key, err error, end time.Time) {
	m.known.Remove(k)
	m.resting.Remove(k)
	m.unknown.Add(k, until{end: end, err: err})
}

func (m *memory) rest(k key, err error, end time.Time) { m.resting.Add(k, until{end: end, err: err}) }

// unknownFor is the denial that is remembered of a credential, or nil.
func (m *memory) unknownFor(k key, now time.Time) error { return held(m.unknown, k, now) }

// restingFor is the failure after which a credential is left alone, or nil.
func (m *memory) restingFor(k key, now time.Time) error { return held(m.resting, k, now) }

func held(in *simplelru.LRU[key, until], k key, now time.Time) error {
	u, ok := in.Get(k)
	if !ok {
		return nil
	}
	if !now.Before(u.end) {
		in.Remove(k)
		return nil
	}
	return u.err
}
