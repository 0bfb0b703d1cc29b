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

// eventsPerRequest is how many events of feedback a completion may bring: that it
// was shown, and what became of it.
const eventsPerRequest = 2

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
	fresh := &subjectState{
		limits: limits, bucket: rate.NewLimiter(rate.Limit(limits.RequestsPerSecond), limits.Burst),
		feedback: rate.NewLimiter(rate.Limit(eventsPerRequest*limits.RequestsPerSecond), eventsPerRequest*limits.Burst),
	}
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
	x.subject = p.subjects.get(x.claims.Subject, limits)
	return x.draw(x.subject.bucket, "requests")
}

// limitFeedback is limit for feedback, which has a bucket of its own: what a user
// tells of completions must not cost them any.
func (p *proxy) limitFeedback(x *exchange) error {
	x.subject = p.subjects.get(x.claims.Subject, x.snapshot.config.Limits.PerSubject)
	return x.draw(x.subject.feedback, "events of feedback")
}

// draw takes a token from a bucket. Who is refused pays nothing.
func (x *exchange) draw(bucket *rate.Limiter, what string) error {
	reservation := bucket.ReserveN(x.start, 1)
	delay := reservation.DelayFrom(x.start)
	if delay <= 0 {
		return nil
	}
	reservation.CancelAt(x.start)
	return limited("too_many_requests",
		fmt.Sprintf("this user sends more than %g %s a second, the limit of this service", float64(bucket.Limit()), what), delay)
}
