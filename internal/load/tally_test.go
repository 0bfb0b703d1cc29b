package load

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// ended is a request with an outcome and its times.
func ended(o Outcome, lifetime, firstByte, whole time.Duration) *ask {
	return &ask{outcome: o, turn: turn{lifetime: lifetime}, firstByte: firstByte, whole: whole, lag: time.Millisecond}
}

func TestTallyIsExact(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	tally := newTally()
	times := make([]float64, 100_000)
	for i := range times {
		d := time.Duration(float64(20*time.Millisecond) * math.Exp(1.2*random.NormFloat64()))
		times[i] = milliseconds(d)
		tally.end(ended(Whole, 0, d, 2*d))
	}
	slices.Sort(times)
	sum := 0.0
	for _, value := range times {
		sum += value
	}
	got := tally.firstByte.times()
	at := func(percent float64) float64 { return times[int(math.Round(percent/100*float64(len(times))))-1] }
	for name, pair := range map[string][2]float64{
		"mean": {got.Mean, sum / float64(len(times))}, "min": {got.Min, times[0]}, "max": {got.Max, times[len(times)-1]},
		"p50": {got.P50, at(50)}, "p90": {got.P90, at(90)}, "p95": {got.P95, at(95)}, "p99": {got.P99, at(99)}, "p99.9": {got.P999, at(99.9)},
	} {
		// 0.1 %, and the microsecond to which times are cut.
		if math.Abs(pair[0]-pair[1]) > 0.002*pair[1]+0.001 {
			t.Errorf("%s is %g, want %g", name, pair[0], pair[1])
		}
	}
	if whole := tally.whole.times(); math.Abs(whole.P50-2*got.P50) > 0.01*whole.P50 {
		t.Errorf("whole answers have a median of %g, want twice %g", whole.P50, got.P50)
	}
}

// TestTallyIsBounded: a request allocates nothing, so that no number of them does.
func TestTallyIsBounded(t *testing.T) {
	tally := newTally()
	requests := []*ask{
		ended(Whole, 0, 1, 2*maxDuration), ended(CancelledDuring, time.Second, time.Hour, 0), ended(Status503, 0, 0, 0),
		ended(CancelledBefore, 1, 0, 0), ended(Whole, time.Second, time.Minute, time.Minute),
	}
	i := 0
	allocated := testing.AllocsPerRun(100_000, func() {
		tally.end(requests[i%len(requests)])
		i++
	})
	if all, _, _ := tally.total(); allocated != 0 || all < 100_000 {
		t.Errorf("%g allocations for each of %d requests", allocated, all)
	}
}

// TestTallyKeepsApart: times of typed through requests are not among those of
// requests that were waited for.
func TestTallyKeepsApart(t *testing.T) {
	t.Parallel()
	tally := newTally()
	tally.end(ended(Whole, 0, 100*time.Millisecond, 200*time.Millisecond))
	tally.end(ended(Whole, time.Second, time.Millisecond, 2*time.Millisecond))
	tally.end(ended(CancelledDuring, time.Second, time.Millisecond, 0))
	tally.end(ended(CancelledBefore, time.Second, 0, 0))
	tally.end(ended(BrokenOff, 0, 100*time.Millisecond, 0))
	for name, got := range map[string][2]int64{
		"first bytes":     {tally.firstByte.count, 2},
		"all first bytes": {tally.firstByteAll.count, 4},
		"whole answers":   {tally.whole.count, 1},
		"sent late":       {tally.lag.count, 5},
		"typed through":   {tally.through, 3},
		"answered first":  {tally.throughWhole, 1},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", name, got[0], got[1])
		}
	}
	if tally.firstByte.least < 100*time.Millisecond {
		t.Errorf("the fastest first byte took %s: it was typed through", tally.firstByte.least)
	}
}

func TestOutcomesHaveNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for o := range outcomes {
		if name := o.String(); name == "" || seen[name] {
			t.Errorf("outcome %d is called %q", o, name)
		} else {
			seen[name] = true
		}
	}
}

func TestReportForm(t *testing.T) {
	t.Parallel()
	r := &Report{
		URL: "https://x/v1/completions", Protocol: "HTTP/2.0", Users: 3, Seed: 1, RTT: 80, Seconds: 10, PerSecond: 1.2, Interrupted: true,
		Requests:     Requests{Sent: 12, Whole: 6, Cancelled: 3, Superseded: 1, Errors: 1, CutOff: 1, Retries: 2, NeverLeft: 1, Warmup: 4, WarmupErrors: 2},
		TypedThrough: TypedThrough{Drawn: 4, BeforeFirstByte: 2, MidStream: 1, AnsweredFirst: 1},
		Errors:       map[string]ErrorCount{"status_429": {1, "429 too_many_requests"}},
		FirstByte:    Times{Count: 6, Mean: 12.34},
		Connections:  Connections{Opened: 4, Reopened: 1, ClosedByCancel: 1, Failed: 1},
		Tokens:       Tokens{Sources: 1, Refreshed: 2},
	}
	var out bytes.Buffer
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"HTTP/2.0, 3 users who type and wait, seed 1, round trip longer by 80ms, interrupted",
		"requests 12 in 10.0 s: 1.2/s", "whole 6 50.0 %", "cancelled 3 25.0 % 2 before the first byte, 1 mid-stream",
		"superseded (499) 1", "cut off by the interruption 1", "status 429 1 8.3 % 429 too_many_requests",
		"typed through 4 33.3 % 1 answered first", "retries 2", "never left 1", "requests of the warm-up 4 not in these figures, 2 errors",
		"connections 4 1 opened again, 1 after a cancel, 1 failed", "tokens 1 2 refreshed", "first byte 6 12.3",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q:\n%s", want, &out)
		}
	}
	encoded, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(encoded), `"p99_9_ms":0`) {
		t.Errorf("%s, %v", encoded, err)
	}
}
