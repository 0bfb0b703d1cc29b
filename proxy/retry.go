package proxy

import (
	"sync"
	"time"
)

const (
	// Of the requests of the last retryWindow seconds one in retryShare may be
	// tried again although its first unit may have worked for it, and always
	// retryFloor a second: when units fail, retries must not double what the
	// others have to do.
	retryWindow = 10
	retryShare  = 10
	retryFloor  = 3
)

// retryBudget bounds the retries that cost something.
type retryBudget struct {
	mu      sync.Mutex
	second  int64 // of the slot in use
	slots   [retryWindow]struct{ requests, retries int }
	current int
}

// request counts a request.
func (b *retryBudget) request(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	b.slots[b.current].requests++
}

// take says whether one more retry is allowed, and counts it if so.
func (b *retryBudget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	requests, retries := 0, 0
	for _, slot := range b.slots {
		requests += slot.requests
		retries += slot.retries
	}
	if retries >= max(requests/retryShare, retryFloor*retryWindow) {
		return false
	}
	b.slots[b.current].retries++
	return true
}

// advance empties the slots of the seconds that have passed.
func (b *retryBudget) advance(now time.Time) {
	second := now.Unix()
	for passed := min(second-b.second, retryWindow); passed > 0; passed-- {
		b.current = (b.current + 1) % retryWindow
		b.slots[b.current] = struct{ requests, retries int }{}
	}
	b.second = max(b.second, second)
}
