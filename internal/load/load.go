// Package load is a population that types: users with one connection each, who
// ask for a completion when they stop typing and type through about half of
// them, at any OpenAI-compatible completions URL. It measures what they feel.
//
// How they type is in typing.go and docs/load.md. Nothing here corrects what a
// server does wrong: nothing is retried unless the options ask for it, and an
// answer counts as whole only if its finish reason and its [DONE] have come.
package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/sse"
)

// Causes of the end of a request's context. Each is the reason of a reset.
var (
	errTypedThrough = errors.New("typed through")
	errTimeout      = errors.New("timed out")
)

// run is a population at work.
type run struct {
	options Options
	target  *target
	text    *text
	sources []*source
	head    []byte // of a request's body, up to the prompt
	tail    []byte
	name    string // random, so that request ids of two runs differ
	readers sync.Pool

	began       time.Time
	measureFrom time.Time
	stopSending context.CancelFunc
	measured    *tally // of requests from measureFrom on
	warmup      *tally // of those before
	interval    *tally // of all since the last progress
	claimed     atomic.Int64
	stopped     atomic.Pointer[time.Time] // when the last measured request was sent
	users       atomic.Int64
	inFlight    atomic.Int64
	connections connectionBooks
}

// Run lets the population type until o.Duration is over or o.Requests were sent,
// waits for the answers under way, and reports. An error means that nothing was
// measured: the options are wrong (ErrOptions), or the first user got no token or
// no connection. If ctx ends, requests are cut off and the report says so.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	target, err := newTarget(o.Target, o.RTT)
	if err != nil {
		return nil, err
	}
	defer target.wait()
	r := newRun(o, target)
	first := r.newUser(0)
	if err := first.warm(ctx); err != nil {
		first.link.close()
		return nil, err
	}
	r.populate(ctx, first)
	return r.report(ctx.Err() != nil), nil
}

func newRun(o Options, target *target) *run {
	r := &run{
		options: o, target: target, text: newText(o.Seed), name: runName(),
		measured: newTally(), warmup: newTally(), interval: newTally(),
	}
	r.head, r.tail = o.bodyEnds()
	r.readers.New = func() any { return sse.NewReader(nil) }
	for _, tokens := range o.Tokens[:min(len(o.Tokens), o.Users)] {
		r.sources = append(r.sources, &source{tokens: tokens})
	}
	return r
}

// populate runs the users, of whom the first is connected already.
func (r *run) populate(ctx context.Context, first *user) {
	r.began = time.Now()
	r.measureFrom = r.began.Add(r.options.Warmup)
	r.measured.traced(ctx)
	r.warmup.traced(ctx)
	sending, stop := context.WithCancel(ctx)
	defer stop()
	r.stopSending = stop
	if d := r.options.Duration; d > 0 {
		defer time.AfterFunc(r.options.Warmup+d, r.stop).Stop()
	}
	var users sync.WaitGroup
	for i := range r.options.Users {
		arrival := r.began.Add(time.Duration(float64(r.options.Ramp) * float64(i) / float64(r.options.Users)))
		users.Go(func() {
			u := first
			if i > 0 {
				if !sleepUntil(sending, arrival) {
					return
				}
				u = r.newUser(i)
			}
			u.live(ctx, sending)
		})
	}
	ended := make(chan struct{})
	go func() { users.Wait(); close(ended) }()
	r.watch(ended)
}

// stop ends the sending of requests, as of now.
func (r *run) stop() {
	now := time.Now()
	r.stopped.CompareAndSwap(nil, &now)
	r.stopSending()
}

// claim says whether one more request may be sent that was due then, and returns
// the tally that it goes to.
func (r *run) claim(due time.Time) (*tally, bool) {
	if due.Before(r.measureFrom) {
		return r.warmup, true
	}
	if limit := r.options.Requests; limit > 0 {
		n := r.claimed.Add(1)
		if n >= limit {
			r.stop()
		}
		return r.measured, n <= limit
	}
	return r.measured, true
}

// watch reports progress until ended is closed.
func (r *run) watch(ended <-chan struct{}) {
	if r.options.Progress == nil {
		<-ended
		return
	}
	ticker := time.NewTicker(r.options.ProgressEvery)
	defer ticker.Stop()
	last := r.began
	for {
		select {
		case <-ended:
			return
		case now := <-ticker.C:
			r.options.Progress(r.progress(now, now.Sub(last)))
			last = now
		}
	}
}

// sleepUntil returns whether the time came before ctx was done.
func sleepUntil(ctx context.Context, at time.Time) bool {
	if ctx.Err() != nil {
		return false
	}
	wait := time.Until(at)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
