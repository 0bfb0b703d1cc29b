package proxy

import (
	"fmt"

	"github.com/ghostline-dev/ghostline/proxy/config"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// maxSubjects bounds how many subjects are remembered. One that is forgotten
// comes back with a full bucket.
const maxSubjects = 100_000

type subjects struct {
	states *lru.Cache[string, *subjectState]
}

func newSubjects() *subjects {
	states, err := lru.New[string, *subjectState](maxSubjects)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &subjects{states: states}
}

// get returns a subject's state, a fresh one if the limits have changed since.
func (s *subjects) get(subject string, limits config.SubjectLimits) *subjectState {
	if state, ok := s.states.Get(subject); ok && state.limits == limits {
		return state
	}
	fresh := &subjectState{limits: limits, bucket: rate.NewLimiter(rate.Limit(limits.RequestsPerSecond), limits.Burst)}
	if earlier, ok, _ := s.states.PeekOrAdd(subject, fresh); ok && earlier.limits == limits {
		return earlier
	} else if ok {
		s.states.Add(subject, fresh)
	}
	return fresh
}

// limit takes a token from the subject's bucket. Requests that end up cancelled
// draw on it too: they are how the bucket, and not the connection, bounds a
// client that only resets.
func (p *proxy) limit(x *exchange) error {
	limits := x.snapshot.config.Limits.PerSubject
	state := p.subjects.get(x.claims.Subject, limits)
	reservation := state.bucket.ReserveN(x.start, 1)
	if delay := reservation.DelayFrom(x.start); delay > 0 {
		reservation.CancelAt(x.start)
		return limited("too_many_requests",
			fmt.Sprintf("this user sends more than %g requests a second, the limit of this service", limits.RequestsPerSecond), delay)
	}
	x.subject = state
	return nil
}
