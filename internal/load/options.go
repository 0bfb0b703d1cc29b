package load

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ghostline-dev/ghostline/client"
)

// ErrOptions is the error of options that cannot be.
var ErrOptions = errors.New("load options")

// What a population is where its caller has no wish of its own. Options has no
// hidden defaults, because most zeros mean something there.
const (
	DefaultUsers         = 10
	DefaultDuration      = 30 * time.Second
	DefaultCancelPercent = 45
	DefaultDebounce      = 75 * time.Millisecond
	DefaultKeystroke     = 180 * time.Millisecond
	DefaultThink         = 2 * time.Second
	DefaultTimeout       = 30 * time.Second
	DefaultMaxTokens     = 64
	DefaultSeed          = 1
)

// Bounds of options.
const (
	maxUsers       = 100_000
	maxRate        = 1e6
	maxRetries     = 10
	maxSuffixBytes = maxPromptBytes
	maxTime        = 24 * time.Hour
	maxRTT         = time.Minute
	maxTimeout     = maxDuration / 2
	// maxDebounces bounds the debounce in median keystroke gaps. Beyond it a user
	// would hardly ever pause for long enough to ask.
	maxDebounces = 4
)

// Options say who types, at whom, how and for how long.
type Options struct {
	Target Target
	// Tokens authenticate the users, who are spread over them in turn; none means
	// no Authorization header. Closing them is the caller's.
	Tokens []client.Tokens
	// Plugin is sent as User-Agent and Editor-Plugin-Version.
	Plugin client.Product

	// Users is how many type, each over one connection.
	Users int
	// The run ends Duration after the warm-up, or after so many Requests,
	// whichever comes first; 0 is no such end, and one of them must be given.
	Duration time.Duration
	Requests int64
	// Warmup is how long requests are left out of the figures at the start.
	Warmup time.Duration
	// Ramp is the time over which the users arrive.
	Ramp time.Duration

	Typing Typing
	// Rate is how many requests a second all users send together, whether or not
	// answers come, and latency counts from when a request was due (open loop). 0
	// is users who wait for answers and think (closed loop).
	Rate float64

	// Model and MaxTokens go into each request.
	Model     string
	MaxTokens int
	// SuffixBytes is how much text after the cursor goes along; 0 is no suffix.
	SuffixBytes int

	// RTT is a round-trip time that is added to the network's, to stand for distance.
	RTT time.Duration
	// Timeout bounds a request, its retries included.
	Timeout time.Duration
	// Retries is how often a request without any answer is sent again at most.
	Retries int
	// Seed determines what is typed and when, but not the answers' times.
	Seed uint64

	// Progress, if set, is called every ProgressEvery, one call at a time.
	Progress      func(Progress)
	ProgressEvery time.Duration
}

// Target is the server that is asked.
type Target struct {
	// URL is a base URL (https://host or https://host/v1) or that of completions
	// itself, which then may have a query.
	URL string
	// Protocol is how to speak to it; empty means ProtocolAuto.
	Protocol Protocol
	// RootCAs are the certificates to trust; nil means the system's.
	RootCAs *x509.CertPool
}

// Typing is how a user types. See docs/load.md for the distributions.
type Typing struct {
	// CancelPercent is the share of requests that are typed through, 0 to 100.
	CancelPercent float64
	// Debounce is how long after a keystroke the editor asks.
	Debounce time.Duration
	// Keystroke and Think are medians: of the gap between two keystrokes, and of
	// the pause after an answer that was waited for.
	Keystroke, Think time.Duration
}

func (o *Options) check() error {
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
		most  time.Duration
	}{
		{"duration", o.Duration, 0, maxTime}, {"warm-up", o.Warmup, 0, maxTime}, {"ramp", o.Ramp, 0, maxTime},
		{"rtt", o.RTT, 0, maxRTT}, {"timeout", o.Timeout, time.Millisecond, maxTimeout},
		{"debounce", o.Typing.Debounce, 0, maxTime}, {"think time", o.Typing.Think, 0, maxTime},
		{"keystroke gap", o.Typing.Keystroke, time.Millisecond, maxTime},
	} {
		if d.value < d.least || d.value > d.most {
			return fmt.Errorf("the %s is %s; it must be from %s to %s", d.name, d.value, d.least, d.most)
		}
	}
	switch {
	case o.Users < 1 || o.Users > maxUsers:
		return fmt.Errorf("the users are %d; they must be from 1 to %d", o.Users, maxUsers)
	case o.Requests < 0:
		return fmt.Errorf("the requests are %d; they must be at least 1, or 0 for no limit", o.Requests)
	case o.Requests == 0 && o.Duration == 0:
		return errors.New("neither a duration nor a number of requests: it would never end")
	case !(o.Rate >= 0 && o.Rate <= maxRate):
		return fmt.Errorf("the rate is %g requests a second; it must be from 0 (a closed loop) to %g", o.Rate, float64(maxRate))
	case !(o.Typing.CancelPercent >= 0 && o.Typing.CancelPercent <= 100):
		return fmt.Errorf("the share of requests typed through is %g %%; it must be from 0 to 100", o.Typing.CancelPercent)
	case o.Typing.Debounce > maxDebounces*o.Typing.Keystroke:
		return fmt.Errorf("the debounce is %s with a keystroke every %s; it may be %d times as long, or there is hardly ever a pause to ask in",
			o.Typing.Debounce, o.Typing.Keystroke, maxDebounces)
	case o.Retries < 0 || o.Retries > maxRetries:
		return fmt.Errorf("the retries are %d; they must be from 0 to %d", o.Retries, maxRetries)
	case o.Model == "":
		return errors.New("no model is named")
	case o.MaxTokens < 1:
		return fmt.Errorf("max_tokens is %d; it must be at least 1", o.MaxTokens)
	case o.SuffixBytes < 0 || o.SuffixBytes > maxSuffixBytes:
		return fmt.Errorf("the suffix has %d bytes; it may have 0 to %d", o.SuffixBytes, maxSuffixBytes)
	case o.Progress != nil && o.ProgressEvery <= 0:
		return errors.New("progress is wanted, but not how often")
	}
	return nil
}

// bodyEnds are what stands before the prompt and after the texts in every body.
func (o *Options) bodyEnds() (head, tail []byte) {
	model, _ := json.Marshal(o.Model) // a string always marshals
	head = append(append([]byte(`{"model":`), model...), `,"prompt":"`...)
	tail = strconv.AppendInt([]byte(`","max_tokens":`), int64(o.MaxTokens), 10)
	return head, append(tail, `,"stream":true}`...)
}

// runName is different for every run.
func runName() string { return "load-" + rand.Text()[:10] }
