package load

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// tally counts requests that have ended.
type tally struct {
	ctx     context.Context // of the requests that it counts
	tries   atomic.Int64    // requests and retries that were handed to a connection
	left    atomic.Int64    // those of them whose headers were written
	retries atomic.Int64

	mu       sync.Mutex
	counts   [outcomes]int64
	examples [outcomes]string
	protocol string
	// Of the requests that were to be typed through: all, and those whose answer
	// came first.
	through, throughWhole int64

	firstByte    *durations // of requests that were waited for
	firstByteAll *durations // of all that got one
	whole        *durations // of requests that were waited for
	lag          *durations
}

func newTally() *tally {
	return &tally{firstByte: newDurations(), firstByteAll: newDurations(), whole: newDurations(), lag: newDurations()}
}

// traced sets the context of the tally's requests: one for all, so that counting
// headers costs a request nothing.
func (t *tally) traced(ctx context.Context) {
	t.ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { t.left.Add(1) }})
}

// speaks notes the protocol of the first answer.
func (t *tally) speaks(resp *http.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.protocol == "" {
		t.protocol = resp.Proto
	}
}

// end counts a request.
func (t *tally) end(a *ask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[a.outcome]++
	if t.examples[a.outcome] == "" {
		t.examples[a.outcome] = a.example
	}
	t.lag.record(a.lag)
	waited := a.turn.lifetime == 0
	if a.firstByte > 0 {
		t.firstByteAll.record(a.firstByte)
		if waited {
			t.firstByte.record(a.firstByte)
		}
	}
	if waited && a.outcome == Whole {
		t.whole.record(a.whole)
	}
	if !waited {
		t.through++
		if a.outcome == Whole {
			t.throughWhole++
		}
	}
}

// reset makes t count from nothing.
func (t *tally) reset() {
	t.counts = [outcomes]int64{}
	t.through, t.throughWhole = 0, 0
	for _, d := range []*durations{t.firstByte, t.firstByteAll, t.whole, t.lag} {
		d.reset()
	}
}

// total is the number of requests, with those of some outcomes: cancelled, and
// errors.
func (t *tally) total() (all, cancelled, failed int64) {
	for o, n := range t.counts {
		all += n
		if Outcome(o).IsError() {
			failed += n
		}
	}
	return all, t.counts[CancelledBefore] + t.counts[CancelledDuring], failed
}
