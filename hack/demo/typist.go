package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/client"
)

const (
	keystrokes   = 200
	typistSeed   = 2
	typistTokens = 24
	// A user types in bursts, about ten keys a second, and then looks up.
	burst    = 12
	keyFrom  = 40 * time.Millisecond
	keyTo    = 120 * time.Millisecond
	pauseFor = 300 * time.Millisecond
	// leaveWithin is how long after its keystroke a request is typed through, at
	// most.
	leaveWithin = 400 * time.Millisecond
	// maxInFlight keeps below what the proxy allows a user to have running, even
	// where the proxy is slow to notice an end.
	maxInFlight = 5
)

// keystroke is one key, which asks for one completion.
type keystroke struct {
	gap   time.Duration // since the key before
	leave time.Duration // until the user types through it; waits if the answer is waited for
}

// waits is the leave of a key whose answer is waited for.
const waits = -1

// schedule is how a user types: the same for the same seed. Half of the keys are
// typed through, after times that are spread evenly.
func schedule(seed uint64, n int) []keystroke {
	random := rand.New(rand.NewPCG(seed, 0))
	keys := make([]keystroke, n)
	for i := range keys {
		keys[i].leave = waits
		keys[i].gap = keyFrom + time.Duration(random.Int64N(int64(keyTo-keyFrom)))
		if i%burst == burst-1 {
			keys[i].gap += pauseFor
		}
	}
	through := random.Perm(n)[:n/2]
	for i, key := range through {
		keys[key].leave = leaveWithin * time.Duration(i) / time.Duration(len(through))
	}
	return keys
}

// ending is how a request ended, as its client saw it.
type ending int

const (
	lost ending = iota // neither whole nor cancelled
	whole
	leftBefore // cancelled before the first byte
	leftDuring // cancelled mid-stream
)

// marks show a request that has ended, in one character.
var marks = map[ending]string{lost: "!", whole: ".", leftBefore: "x", leftDuring: "~"}

// result is what became of a request.
type result struct {
	ending    ending
	left      bool          // meant to be typed through
	firstByte time.Duration // 0 if none came
	err       error
	sent      *atomic.Bool // that its headers left, which may be after its end
}

// typeOn plays the typist.
func (d *demo) typeOn(ctx context.Context) error {
	d.section("Type", fmt.Sprintf("%d keystrokes ask for a completion each; the user types through half of them, after 0 to %s.", keystrokes, milliseconds(leaveWithin)))
	texts, err := d.scene.typing(keystrokes)
	if err != nil {
		return err
	}
	before, err := d.settled(ctx, nil)
	if err != nil {
		return err
	}
	t := &typist{client: d.client, slots: make(chan struct{}, maxInFlight), show: d.progress()}
	began := time.Now()
	for i, key := range schedule(typistSeed, keystrokes) {
		ask, err := texts[i].request(typistTokens)
		if err != nil {
			return err
		}
		if err := t.press(ctx, key, ask); err != nil {
			t.running.Wait()
			return err
		}
	}
	t.running.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	d.typed = t.results
	fmt.Fprintf(d.out, "\n   %s   (%.1f s)\n", d.paint(faint, ". whole   x reset before the first byte   ~ reset mid-stream"), time.Since(began).Seconds())
	after, err := d.settled(ctx, func(now counts) bool { return now.minus(before).books(d.typed).balance() })
	d.counts = after.minus(before)
	return err
}

// progress returns what shows a request that has ended.
func (d *demo) progress() func(ending) {
	const width = 50
	shown := 0
	return func(e ending) {
		if shown%width == 0 {
			if shown > 0 {
				fmt.Fprintln(d.out)
			}
			fmt.Fprint(d.out, "   ")
		}
		shown++
		colour := map[ending]string{lost: red, whole: green, leftBefore: faint, leftDuring: cyan}[e]
		fmt.Fprint(d.out, d.paint(colour, marks[e]))
	}
}

// typist asks for completions as an editor does.
type typist struct {
	client  *client.Client
	slots   chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	results []result
	show    func(ending)
}

// press waits for the time of a key and asks for its completion, without waiting
// for that. It returns ctx's error.
func (t *typist) press(ctx context.Context, key keystroke, ask client.Request) error {
	select {
	case <-time.After(key.gap):
	case <-ctx.Done():
		return ctx.Err()
	}
	t.slots <- struct{}{} // given back in bounded time: the proxy bounds an answer
	t.running.Go(func() {
		defer func() { <-t.slots }()
		r := t.ask(ctx, key.leave, ask)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.results = append(t.results, r)
		t.show(r.ending)
	})
	return nil
}

// ask reads a completion to its end, or until it is typed through.
func (t *typist) ask(ctx context.Context, leave time.Duration, ask client.Request) result {
	r := result{left: leave != waits, sent: new(atomic.Bool)}
	ctx, cancel := context.WithCancel(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { r.sent.Store(true) }}))
	defer cancel()
	if leave != waits {
		defer time.AfterFunc(leave, cancel).Stop()
	}
	began := time.Now()
	for event, err := range t.client.Complete(ctx, ask) {
		if err != nil {
			r.err = err
			break
		}
		if r.firstByte == 0 && (event.Text != "" || event.FinishReason != "") {
			r.firstByte = time.Since(began)
		}
	}
	switch {
	case r.err == nil:
		r.ending = whole
	case !errors.Is(r.err, context.Canceled):
		r.ending = lost
	case r.firstByte == 0:
		r.ending = leftBefore
	default:
		r.ending = leftDuring
	}
	return r
}

// number counts the results that ended so.
func number(results []result, endings ...ending) int {
	n := 0
	for _, r := range results {
		if slices.Contains(endings, r.ending) {
			n++
		}
	}
	return n
}

// percentile is the first-byte time that p percent of the requests which got a
// first byte did not exceed; 0 if none got one.
func percentile(results []result, p float64) time.Duration {
	var times []time.Duration
	for _, r := range results {
		if r.firstByte > 0 {
			times = append(times, r.firstByte)
		}
	}
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[max(0, int(math.Ceil(p/100*float64(len(times))))-1)]
}
