package strict

import (
	"net/http"
	"time"
)

// Script is what a provider answers to one request that it does not refuse. The
// zero value answers with what the model was given to read (see [Request.Echo]).
type Script struct {
	// Texts are the pieces of each completion; a piece is a token, and an event
	// of its own in a stream. Completion i has Texts[i % len(Texts)].
	Texts [][]string
	// Finish is why every completion ends, in the provider's own words. Default: "stop".
	Finish string
	// Usage is what the request cost. Default: four bytes of what was sent are a
	// token, and so is every piece.
	Usage *Usage
	// Fail is what goes wrong, Hang where the provider falls silent.
	Fail *Failure
	Hang *Hang
	// KeepAlives is how many signs of life come before the answer, from providers
	// that have them: comments in a stream of DeepSeek and LlamaCpp, empty lines
	// before an object of DeepSeek.
	KeepAlives int
	// AsyncFilter has AzureOpenAI judge the text in events of their own, behind it.
	AsyncFilter bool
	// Header is added to the answer's, and replaces what it has of the same names.
	Header http.Header
}

// Say is a script of one completion.
func Say(pieces ...string) Script { return Script{Texts: [][]string{pieces}} }

// Usage is what a request cost, in tokens.
type Usage struct{ Prompt, Completion int }

// Failure is what goes wrong with an answer.
type Failure struct {
	// Status answers with this status and the provider's error. 0: the failure
	// comes in the stream, behind After pieces, in the provider's own form; a
	// provider that sends no status before the first token, and one that was not
	// asked to stream, answers 500.
	Status int
	After  int
	// Cut breaks the connection or stream off behind After pieces, without a word.
	Cut bool
	// Message is the error's text. Default: what the provider says.
	Message string
	// RetryAfter is what a provider that has a way to say so tells the client of a
	// 429 to wait. Default: one second; Mistral, which has been seen with and
	// without Retry-After, then sends none, and DeepSeek never does.
	RetryAfter time.Duration
	// Bare leaves the headers of a 429 out.
	Bare bool
}

func (f Failure) message(otherwise string) string {
	if f.Message == "" {
		return otherwise
	}
	return f.Message
}

func (f Failure) wait() time.Duration {
	if f.RetryAfter == 0 {
		return time.Second
	}
	return f.RetryAfter
}

// Hang is a silence that ends when the client leaves.
type Hang struct {
	// After is the number of pieces before it; 0 is before the first byte.
	After int
	// Headers sends the status before a silence that comes before the first piece.
	Headers bool
	// Until ends it earlier, and the answer goes on.
	Until <-chan struct{}
}

// Phase says how far an answer was when its client left.
type Phase string

// The phases.
const (
	BeforeFirstByte Phase = "before the first byte"
	MidStream       Phase = "mid-stream"
)
