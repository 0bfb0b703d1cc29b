package load

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"
)

func typingOptions() Options {
	return Options{
		Users: 4, Seed: 7, SuffixBytes: 500,
		Typing: Typing{CancelPercent: DefaultCancelPercent, Debounce: DefaultDebounce, Keystroke: DefaultKeystroke, Think: DefaultThink},
	}
}

// turns are the first n of a user.
func turns(o Options, user, n int) []turn {
	typist := newTypist(&o, newText(o.Seed), user)
	list := make([]turn, n)
	for i := range list {
		list[i] = typist.next()
	}
	return list
}

func TestTypingIsReproducible(t *testing.T) {
	t.Parallel()
	o := typingOptions()
	same := func(a, b []turn) bool {
		return slices.EqualFunc(a, b, func(a, b turn) bool {
			return a.pause == b.pause && a.lifetime == b.lifetime && bytes.Equal(a.prompt, b.prompt) && bytes.Equal(a.suffix, b.suffix)
		})
	}
	first := turns(o, 0, 300)
	if !same(first, turns(o, 0, 300)) {
		t.Error("the same seed and user type differently")
	}
	if same(first, turns(o, 1, 300)) {
		t.Error("two users type the same")
	}
	o.Seed++
	if same(first, turns(o, 0, 300)) {
		t.Error("two seeds type the same")
	}
}

// quantile of a normal distribution, by its inverse error function.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

func TestTypingDistributions(t *testing.T) {
	t.Parallel()
	const n = 40_000
	var lifetimes, thinks []float64
	var sizes []float64
	afterAnswer := false
	for _, turn := range turns(typingOptions(), 2, n) {
		if afterAnswer {
			thinks = append(thinks, float64(turn.pause))
		}
		afterAnswer = turn.lifetime == 0
		if !afterAnswer {
			lifetimes = append(lifetimes, float64(turn.lifetime))
		}
		sizes = append(sizes, float64(len(turn.prompt)))
	}
	near := func(what string, got, want, within float64) {
		t.Helper()
		if math.Abs(got-want) > within*want {
			t.Errorf("%s is %g, want %g within %g %%", what, got, want, 100*within)
		}
	}
	near("the share typed through", float64(len(lifetimes))/n, DefaultCancelPercent/100.0, 0.03)

	// A lifetime is what a log-normal gap has left after the debounce, given that
	// it is longer.
	slices.Sort(lifetimes)
	below := 0.5 * math.Erfc(-math.Log(float64(DefaultDebounce)/float64(DefaultKeystroke))/keystrokeSigma/math.Sqrt2)
	for _, p := range []float64{0.1, 0.5, 0.9, 0.99} {
		gap := float64(DefaultKeystroke) * math.Exp(keystrokeSigma*normalQuantile(below+p*(1-below)))
		near("a quantile of lifetimes", lifetimes[int(p*float64(len(lifetimes)))], gap-float64(DefaultDebounce), 0.1)
	}
	// The pause after an answer is a think time and some keys.
	slices.Sort(thinks)
	if median := time.Duration(thinks[len(thinks)/2]); median < DefaultThink || median > DefaultThink*3/2 {
		t.Errorf("the median pause after an answer is %s, want a little more than %s", median, DefaultThink)
	}
	slices.Sort(sizes)
	if sizes[0] < minPromptBytes || sizes[n/2] < promptMedian/2 || sizes[n/2] > 2*promptMedian || sizes[n*99/100] < 4*promptMedian {
		t.Errorf("prompts have %g to %g bytes, the median %g", sizes[0], sizes[n-1], sizes[n/2])
	}
}

func TestOpenLoopPauses(t *testing.T) {
	t.Parallel()
	o := typingOptions()
	o.Rate = 100 // 25 of each user
	const n = 20_000
	var sum, squares float64
	for _, turn := range turns(o, 0, n) {
		seconds := turn.pause.Seconds()
		sum += seconds
		squares += seconds * seconds
	}
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	// In a Poisson process both are one by the rate.
	if math.Abs(mean-0.04) > 0.002 || math.Abs(deviation-0.04) > 0.002 {
		t.Errorf("pauses are %g s on average with a deviation of %g, want 0.04 for both", mean, deviation)
	}
}

// TestPromptsGrow: in one place, each prompt is the one before and what was typed.
func TestPromptsGrow(t *testing.T) {
	t.Parallel()
	var before turn
	grown, total := 0, 0
	for _, turn := range turns(typingOptions(), 3, 400) {
		var prompt, suffix string
		if err := json.Unmarshal(slices.Concat([]byte{'"'}, turn.prompt, []byte{'"'}), &prompt); err != nil {
			t.Fatalf("a prompt is no JSON string: %v", err)
		}
		if err := json.Unmarshal(slices.Concat([]byte{'"'}, turn.suffix, []byte{'"'}), &suffix); err != nil || len(suffix) != 500 {
			t.Fatalf("a suffix has %d bytes, error %v", len(suffix), err)
		}
		if len(prompt) < minPromptBytes || len(prompt) > maxPromptBytes {
			t.Errorf("a prompt has %d bytes", len(prompt))
		}
		if bytes.HasPrefix(turn.prompt, before.prompt) && len(turn.prompt) > len(before.prompt) {
			grown++
		}
		total++
		before = turn
	}
	if grown < total*9/10 {
		t.Errorf("%d of %d prompts extend the one before", grown, total)
	}
}

func TestBody(t *testing.T) {
	t.Parallel()
	o := Options{Model: `a "model"`, MaxTokens: 9}
	head, tail := o.bodyEnds()
	b := &body{parts: [5][]byte{head, []byte(`x\n`), []byte(`","suffix":"`), []byte(`y`), tail}}
	size := b.size()
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(b); err != nil || int64(buf.Len()) != size {
		t.Fatalf("read %d bytes of %d: %v", buf.Len(), size, err)
	}
	want := `{"model":"a \"model\"","prompt":"x\n","suffix":"y","max_tokens":9,"stream":true}`
	if buf.String() != want {
		t.Errorf("%s, want %s", &buf, want)
	}
}
