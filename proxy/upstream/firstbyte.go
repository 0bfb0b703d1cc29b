package upstream

import (
	"slices"
	"sync"
	"time"
)

const (
	// firstBytes is how many first-byte times are remembered of a unit for each
	// size of prompt.
	firstBytes = 128
	// minFirstBytes is how many are needed before anything is concluded.
	minFirstBytes = 20
	// freshFor is how old they may be to compare the unit with its peers. A slow
	// unit is then not asked, and so comes to be asked again.
	freshFor = time.Minute
	// minPeers is how many units one is compared with at least, and slowFactor
	// how much slower than their median it may be.
	minPeers   = 3
	slowFactor = 3
)

// Size is a range of prompt sizes whose first-byte times can be compared: the
// time to the first byte grows with the prompt.
type Size int

// Sizes is how many there are.
const Sizes = 4

// SizeOf returns the range of a request's size in bytes.
func SizeOf(bytes int) Size {
	size := Size(0)
	for limit := 2 << 10; size < Sizes-1 && bytes >= limit; limit *= 4 {
		size++
	}
	return size
}

// FirstBytes are a unit's last first-byte times. The zero value has none.
type FirstBytes struct {
	mu    sync.Mutex
	last  time.Time
	sizes [Sizes]struct {
		took [firstBytes]time.Duration
		at   [firstBytes]time.Time // zero for those that took at most as long
		n    int                   // ever added
	}
}

// Add remembers how long the first byte of an answer took that came at a time.
func (f *FirstBytes) Add(size Size, took time.Duration, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(size, took, at, at)
}

// AddAtMost remembers that the first byte of an answer, which was seen at a time,
// took at most so long. That can clear a unit, but does not make it slow.
func (f *FirstBytes) AddAtMost(size Size, took time.Duration, seen time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(size, took, time.Time{}, seen)
}

func (f *FirstBytes) add(size Size, took time.Duration, at, seen time.Time) {
	s := &f.sizes[size]
	i := s.n % firstBytes
	s.took[i], s.at[i] = took, at
	s.n++
	if seen.After(f.last) {
		f.last = seen
	}
}

// Hangs says whether a request that was sent at asked, and still waits, waits for
// a unit that hangs: more than 99 of 100 answers had begun after that time, and
// none has since. A unit that is only overloaded begins others.
func (f *FirstBytes) Hangs(size Size, asked, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last.After(asked) {
		return false
	}
	waited := now.Sub(asked)
	s := &f.sizes[size]
	n, later := min(s.n, firstBytes), 0
	for _, took := range s.took[:n] {
		if took >= waited {
			later++
		}
	}
	return n >= minFirstBytes && later*100 < n
}

// median is that of the times which are fresh; false if they are too few.
func (f *FirstBytes) median(size Size, now time.Time) (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.sizes[size]
	var fresh []time.Duration
	for i := range min(s.n, firstBytes) {
		if now.Sub(s.at[i]) < freshFor {
			fresh = append(fresh, s.took[i])
		}
	}
	if len(fresh) < minFirstBytes {
		return 0, false
	}
	return median(fresh), true
}

func median(values []time.Duration) time.Duration {
	slices.Sort(values)
	return values[len(values)/2]
}

// SlowUnits compares units that could serve each other's requests. The result
// has bit s set for a unit that is much slower than its peers with requests of
// [Size] s.
func SlowUnits(units []*FirstBytes, now time.Time) []uint32 {
	slow := make([]uint32, len(units))
	for size := range Size(Sizes) {
		medians := map[int]time.Duration{}
		for i, u := range units {
			if m, ok := u.median(size, now); ok {
				medians[i] = m
			}
		}
		for i, own := range medians {
			var peers []time.Duration
			for j, m := range medians {
				if j != i {
					peers = append(peers, m)
				}
			}
			if len(peers) >= minPeers && own > slowFactor*median(peers) {
				slow[i] |= 1 << size
			}
		}
	}
	return slow
}
