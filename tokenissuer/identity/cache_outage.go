package identity

import (
	"math/rand/v2"
	"time"
)

const (
	// tolerated is how many lookups in a row may fail before the provider is held to be
	// out: one that fails alone says more of its credential than of the provider.
	tolerated = 3
	// firstProbe and lastProbe are the first and the longest wait until the provider is
	// tried again.
	firstProbe = time.Second
	lastProbe  = 10 * time.Second
	// maxPause bounds what a provider can ask for: GitHub's quotas are of an hour.
	maxPause = time.Hour
)

// outage is what is known of a provider's being out. The zero outage is none. Its owner
// holds the lock.
type outage struct {
	failures int       // in a row
	until    time.Time // when the provider is tried again; zero while it is not held to be out
	pause    time.Duration
	probing  bool // somebody tries it
	cause    error
}

func (o *outage) isOn() bool { return !o.until.IsZero() }

// refuses says that the provider is not to be asked now.
func (o *outage) refuses(now time.Time) bool {
	return o.isOn() && (o.probing || now.Before(o.until))
}

// admit is for a lookup that refuses lets through, and says whether it tries the provider.
func (o *outage) admit() bool {
	o.probing = o.isOn()
	return o.probing
}

// over is for any answer of the provider.
func (o *outage) over() { *o = outage{} }

// failed is for a lookup that failed; probe says that it was the one to try.
func (o *outage) failed(now time.Time, cause error, retryAfter time.Duration, probe bool) {
	o.failures++
	o.cause = cause
	switch {
	case o.isOn() && !probe: // begun before the outage was noticed: it says nothing new
		if asked := now.Add(retryAfter); asked.After(o.until) {
			o.until = asked
		}
	case o.isOn(), retryAfter > 0, o.failures >= tolerated:
		o.probing = false
		o.pause = min(max(2*o.pause, firstProbe), lastProbe)
		// Less than the whole, so that issuers that lost the provider together do not
		// come back together; never less than the provider asked for.
		wait := o.pause - time.Duration(rand.Float64()*float64(o.pause)/4)
		o.until = now.Add(max(wait, retryAfter))
	}
}
