package load

import (
	"math"
	"math/rand/v2"
	"time"
)

// The shapes of the distributions. Gaps between keystrokes and pauses are
// log-normal, given by their median and the standard deviation of their
// logarithm: most are short, a few very long. Prompt sizes are too, within their
// bounds.
const (
	keystrokeSigma = 0.8
	thinkSigma     = 0.8
	promptMedian   = 4 << 10
	promptSigma    = 1.0
	// sessionKeys is how many keys a user types in one place, on average.
	sessionKeys = 200
)

// The streams of random numbers that one seed gives: one for the text, and one
// for each user from userStreams on.
const (
	textStream  = 0
	userStreams = 1
)

// turn is one request of a user.
type turn struct {
	// pause is the time from the end of the turn before to this request.
	pause time.Duration
	// lifetime is the time from the request to the key that types through it; 0
	// if the user waits for the answer.
	lifetime time.Duration
	// prompt and suffix are escaped for JSON, and shared.
	prompt, suffix []byte
}

// typist is how one user types: the same for the same seed and user.
type typist struct {
	random      *rand.Rand
	typing      Typing
	rate        float64 // requests a second in an open loop, else 0
	text        *text
	suffixBytes int

	begun    bool // it has had a turn
	through  bool // the turn before was typed through
	start    int  // of the prompt
	cursor   int  // its end
	keysLeft int  // until the user goes on somewhere else
}

func newTypist(o *Options, t *text, user int) *typist {
	return &typist{
		random:      rand.New(rand.NewPCG(o.Seed, userStreams+uint64(user))),
		typing:      o.Typing,
		rate:        o.Rate / float64(o.Users),
		text:        t,
		suffixBytes: o.SuffixBytes,
	}
}

// next is what the user does next. The draws depend on nothing that a server
// does.
func (t *typist) next() turn {
	var next turn
	if !t.through {
		next.pause = t.logNormal(t.typing.Think, thinkSigma)
	}
	// The user types until a gap is longer than the debounce: then the editor
	// asks, and what is left of the gap is how long the answer is of use.
	keys := 1
	gap := t.logNormal(t.typing.Keystroke, keystrokeSigma)
	for gap < t.typing.Debounce {
		next.pause += gap
		keys++
		gap = t.logNormal(t.typing.Keystroke, keystrokeSigma)
	}
	next.pause += t.typing.Debounce
	t.through = t.random.Float64()*100 < t.typing.CancelPercent
	if t.through {
		next.lifetime = max(gap-t.typing.Debounce, 1)
	}
	switch {
	case t.rate > 0:
		next.pause = time.Duration(t.random.ExpFloat64() / t.rate * float64(time.Second))
	case !t.begun: // in the middle of a thought, or all users would begin with the longest pause
		next.pause = time.Duration(t.random.Float64() * float64(next.pause))
	}
	t.begun = true
	t.move(keys)
	next.prompt = t.text.part(t.start, t.cursor)
	next.suffix = t.text.part(t.cursor, min(t.cursor+t.suffixBytes, t.text.size()))
	return next
}

// move types keys, or goes to another place and types there.
func (t *typist) move(keys int) {
	t.keysLeft -= keys
	if t.keysLeft < 0 || t.cursor+keys > t.text.size() {
		size := t.promptSize()
		t.start = t.text.lineAt(t.random.IntN(t.text.size() - 2*maxPromptBytes))
		t.cursor = t.start + size
		t.keysLeft = int(t.random.ExpFloat64() * sessionKeys)
		return
	}
	t.cursor += keys
	if t.cursor-t.start > maxPromptBytes {
		// As an editor does, which sends what fits; half, so that it is not every key.
		t.start = t.text.lineAt(t.cursor - maxPromptBytes/2)
	}
}

// promptSize is the size of the prompt in a new place, in bytes.
func (t *typist) promptSize() int {
	for {
		size := int(promptMedian * math.Exp(promptSigma*t.random.NormFloat64()))
		if size >= minPromptBytes && size <= maxPromptBytes {
			return size
		}
	}
}

func (t *typist) logNormal(median time.Duration, sigma float64) time.Duration {
	return time.Duration(min(float64(median)*math.Exp(sigma*t.random.NormFloat64()), float64(maxTime)))
}
