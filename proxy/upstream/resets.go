package upstream

import "time"

const (
	// resetWindow is the time for which a reset counts.
	resetWindow = time.Second
	// resetPatience is how long a request waits for a connection within the
	// budget to open. To exceed the budget costs perhaps a connection, to wait
	// longer certainly the request's worth.
	resetPatience = 250 * time.Millisecond
)

// resets are the last resets on an HTTP/2 connection, as many as its budget is.
//
// A connection is given a request only while
//
//	resets in the last second + requests that it has < budget.
//
// The sum is then at most the budget at any time: a request that ends moves from
// the right to the left with a reset, and leaves the sum without one; nothing
// but a new request makes it grow. So no second sees more resets than the
// budget, not even if all that a connection carries is cancelled at once, and
// no reset ever has to wait. A request counts until it is released, which is
// after its reset; only that of a context which was cancelled may leave a moment
// later, and on the way to the unit the distances between resets change. The
// difference of the budget and of what units tolerate is for that.
//
// Beyond the budget is only what had no other connection in time (see acquire).
// Then the ring holds the latest resets, which says all that the rule asks:
// whether there were as many as the budget within the second.
type resets struct {
	at   []time.Time
	next int // where the next goes
	n    int // how many before it count, at most
}

func newResets(budget int) resets { return resets{at: make([]time.Time, budget)} }

// add remembers one. Those of HTTP/1.1, which cost the connection, do not count.
func (r *resets) add(now time.Time) {
	if len(r.at) == 0 {
		return
	}
	r.at[r.next] = now
	r.next = (r.next + 1) % len(r.at)
	r.n = min(r.n+1, len(r.at))
}

// recent is how many there were in the last second, at most the budget.
func (r *resets) recent(now time.Time) int {
	for r.n > 0 && now.Sub(r.at[(r.next-r.n+len(r.at))%len(r.at)]) > resetWindow {
		r.n--
	}
	return r.n
}
