// Package load asks for completions over HTTP/2 as many editors would, and costs
// little processor time while it does: the bench's load shares its processors with
// what it measures, and net/http's client takes several times what a fast proxy does.
//
// Every answer is checked: its status, its number of events and its end. A
// connection that its peer ends is an error, as is a stream that the peer resets.
package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Request is what is asked for, again and again.
type Request struct {
	// Path and Header are sent as they are; Header has lower-case names.
	Path   string
	Header []Field
	// IDHeader, if set, is a header that has another value in each request.
	IDHeader string
	Body     []byte
	// Events is how many server-sent events a whole answer has, its end
	// ("data: [DONE]") left out.
	Events int
}

// Field is a header field.
type Field struct{ Name, Value string }

// Result is what a load came to.
type Result struct {
	Requests  int // answered in full or cancelled
	Cancelled int // reset after the first event
	Took      time.Duration
}

// Rate is requests a second.
func (r Result) Rate() float64 { return float64(r.Requests) / r.Took.Seconds() }

// Closed is a load of clients each of whom asks again once answered.
type Closed struct {
	InFlight int
	For      time.Duration // no request begins later
	Most     int           // requests; 0 is no limit
	// Cancels has every other request reset after its first event.
	Cancels bool
}

// Run puts the load on the connections, which take turns, and waits for the last
// answer.
func (l Closed) Run(ctx context.Context, conns []*Conn, req *Request) (Result, error) {
	r := newRun(conns, req)
	begun := time.Now()
	until := begun.Add(l.For)
	var begins, requests, cancelled atomic.Int64
	var next func()
	next = func() {
		n := begins.Add(1)
		if r.failed() || ctx.Err() != nil || time.Now().After(until) || l.Most > 0 && n > int64(l.Most) {
			r.running.Done()
			return
		}
		requests.Add(1)
		c := &call{cancel: l.Cancels && n%2 == 0}
		c.ended = func(err error) {
			if c.cancelled {
				cancelled.Add(1)
			}
			r.note(err)
			next()
		}
		r.begin(c)
	}
	r.running.Add(l.InFlight)
	for range l.InFlight {
		next()
	}
	err := r.wait(ctx, l.For+answerWithin)
	return Result{Requests: int(requests.Load()), Cancelled: int(cancelled.Load()), Took: time.Since(begun)}, err
}

// Open is a load of clients who ask whether or not others have been answered.
type Open struct {
	Rate float64 // requests a second
	For  time.Duration
	// Cancels has every other request reset after its first event.
	Cancels bool
	// MaxInFlight is how many may be unanswered before the run is given up.
	MaxInFlight int
}

// ErrOverloaded is the error of an open load that is more than its target can do.
var ErrOverloaded = errors.New("it does not keep up")

// Run puts the load on the connections, which take turns, waits for the last
// answer and returns how long each request's first event took. Time begins when the
// request was due, so that one which had to wait to be sent counts as the user
// would.
func (l Open) Run(ctx context.Context, conns []*Conn, req *Request) ([]time.Duration, error) {
	r := newRun(conns, req)
	calls := make([]call, int(l.Rate*l.For.Seconds()))
	begun := time.Now()
	var inFlight atomic.Int64
	for i := range calls {
		due := begun.Add(time.Duration(float64(i) / l.Rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		if ctx.Err() != nil || r.failed() {
			calls = calls[:i]
			break
		}
		if inFlight.Add(1) > int64(l.MaxInFlight) {
			r.note(fmt.Errorf("%w: %d requests wait at %.0f a second", ErrOverloaded, l.MaxInFlight, l.Rate))
			calls = calls[:i]
			break
		}
		c := &calls[i]
		c.due, c.cancel = due, l.Cancels && i%2 == 1
		c.ended = func(err error) {
			inFlight.Add(-1)
			r.note(err)
			r.running.Done()
		}
		r.running.Add(1)
		r.begin(c)
	}
	if err := r.wait(ctx, answerWithin); err != nil {
		return nil, err
	}
	times := make([]time.Duration, len(calls))
	for i := range calls {
		times[i] = calls[i].first.Sub(calls[i].due)
	}
	return times, nil
}

// run is a load at work.
type run struct {
	conns   []*Conn
	req     *Request
	turn    atomic.Int64
	running sync.WaitGroup
	err     atomic.Pointer[error] // the first one
}

func newRun(conns []*Conn, req *Request) *run { return &run{conns: conns, req: req} }

// begin starts c on the connection whose turn it is. Its ended may be called
// before begin returns.
func (r *run) begin(c *call) {
	c.req = r.req
	conn := r.conns[int(r.turn.Add(1))%len(r.conns)]
	if err := conn.begin(c); err != nil {
		c.ended(err)
	}
}

func (r *run) note(err error) {
	if err != nil {
		r.err.CompareAndSwap(nil, &err)
	}
}

func (r *run) failed() bool { return r.err.Load() != nil }

// answerWithin bounds the wait for the last answers of a load.
const answerWithin = 10 * time.Second

// wait waits until all calls have ended, within a bound.
func (r *run) wait(ctx context.Context, within time.Duration) error {
	all := make(chan struct{})
	go func() {
		r.running.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(within):
		r.note(fmt.Errorf("not all was answered within %s", answerWithin))
	}
	if err := r.err.Load(); err != nil {
		return *err
	}
	return ctx.Err()
}
