package load

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Times are kept in microseconds up to a day, with three significant digits: a
// percentile is off by at most 0.1 %, and memory does not grow with requests.
const (
	histogramUnit   = time.Microsecond
	histogramDigits = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(maxTime/histogramUnit), histogramDigits)
}

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

	firstByte    *hdrhistogram.Histogram // of requests that were waited for
	firstByteAll *hdrhistogram.Histogram // of all that got one
	whole        *hdrhistogram.Histogram // of requests that were waited for
	lag          *hdrhistogram.Histogram
}

func newTally() *tally {
	return &tally{firstByte: newHistogram(), firstByteAll: newHistogram(), whole: newHistogram(), lag: newHistogram()}
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
	record(t.lag, a.lag)
	waited := a.turn.lifetime == 0
	if a.firstByte > 0 {
		record(t.firstByteAll, a.firstByte)
		if waited {
			record(t.firstByte, a.firstByte)
		}
	}
	if waited && a.outcome == Whole {
		record(t.whole, a.whole)
	}
	if !waited {
		t.through++
		if a.outcome == Whole {
			t.throughWhole++
		}
	}
}

// record records d, which Options bound to what a histogram holds; more, of a
// machine that slept, is its maximum.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(int64(min(max(d, 0), maxTime) / histogramUnit))
}

// reset makes t count from nothing.
func (t *tally) reset() {
	t.counts = [outcomes]int64{}
	t.through, t.throughWhole = 0, 0
	for _, h := range []*hdrhistogram.Histogram{t.firstByte, t.firstByteAll, t.whole, t.lag} {
		h.Reset()
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
