// Package provider translates between the one form that the proxy works in,
// OpenAI's completions, and what each kind of model server speaks. A dialect
// only turns bytes into bytes: it does no I/O.
package provider

import (
	"cmp"
	"fmt"
	"net/textproto"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/sse"
)

// Dialect is how one unit is spoken to. Implementations are stateless and safe for
// concurrent use.
type Dialect interface {
	// Request is what to send for r. An error is written for the client: it says
	// what of the request the provider cannot do.
	Request(r Request) (Outbound, error)
	// Framing is how a streamed answer is cut into events.
	Framing() sse.Framing
	// Event reads the data of one event of the streamed answer that has this head.
	Event(head *Head, data []byte) (Event, error)
	// Answer reads the body of a unary answer.
	Answer(head *Head, body []byte) (Event, error)
	// Refusal reads the body of an answer whose status is an error.
	Refusal(body []byte) Refusal
	// Worked reads how long the provider says that it worked before it sent the
	// head of its answer; false if it does not say.
	Worked(header textproto.MIMEHeader) (time.Duration, bool)
}

// Request is a completion to ask for.
type Request struct {
	// Body is a JSON object in OpenAI's form, as the client sent it.
	Body []byte
	// Model is the name that the provider knows.
	Model  string
	Stream bool
	// ID is that of the client's request, which may come several times. Unique makes a
	// word that no other request to a unit has.
	ID     string
	Unique func() string
	// Credential is the unit's key; empty is none.
	Credential string
}

// Outbound is a request as the provider expects it.
type Outbound struct {
	Body []byte
	// Headers are set beside those that every request has.
	Headers []Header
}

// Header is one header field.
type Header struct{ Name, Value string }

// Head is what an answer in OpenAI's form says of itself, where the provider's own
// does not: each event of a stream says the same.
type Head struct {
	ID      string
	Model   string
	Created time.Time

	buf []byte // of the last event, used again
}

// Event is one event of a streamed answer, or a whole unary answer, in OpenAI's
// form.
type Event struct {
	// Data is the JSON object, on one line; empty if there is nothing to pass on. It
	// is good until the next event of the answer is read.
	Data []byte
	// Done is the provider's mark of the end; all else is unset then.
	Done bool
	// Last says that the provider sends nothing more of the choices that it ends, and no
	// mark of the end behind them.
	Last bool
	// Choices is how many choices the event has; 0 is an event about the
	// request, such as its usage.
	Choices int
	// Tokens is how many of the choices bring text.
	Tokens int
	// Seen and Finished have bit i set if the event has choice i, and ends it.
	// Choices over 63 count as 63.
	Seen, Finished uint64
	// Usage is what the provider metered, if the event says so.
	Usage *Usage

	// textFrom and textTo are where Data has the text of its one choice, without
	// the quotes; 0 if the dialect does not say. See [Repeats].
	textFrom, textTo int
}

// Usage is what a completion cost, in the model's tokens.
type Usage struct {
	PromptTokens, CompletionTokens int64
	// OfChoice says that it is what the choice cost that the event ends, and not all
	// of the answer up to here: completion tokens add up then.
	OfChoice bool
}

// kept is a copy that outlives its reader, which most events do not need.
func (u Usage) kept() *Usage { return &u }

// Plus is what an answer cost with one more event: u, nil if nothing was known yet,
// and what that event says.
func (u *Usage) Plus(more *Usage) *Usage {
	if u == nil || more == nil || !more.OfChoice {
		return cmp.Or(more, u)
	}
	return &Usage{
		PromptTokens:     max(u.PromptTokens, more.PromptTokens),
		CompletionTokens: u.CompletionTokens + more.CompletionTokens, OfChoice: true,
	}
}

// Refusal is what may be told to a client of an error body: never free text,
// which may repeat the prompt.
type Refusal struct {
	// Param is the request's field that the provider objects to, if it says.
	Param string
	// Code is the provider's word for the error, if it has one.
	Code string
	// Misconfigured says that it is the unit's setup that is at fault, although the
	// provider blames the request.
	Misconfigured bool
}

// Error is an error that the provider reported inside an answer.
type Error struct{ Refusal }

func (e *Error) Error() string {
	return fmt.Sprintf("the provider reported an error (code %q, param %q)", e.Code, e.Param)
}

// For returns the dialect of a unit of a valid config.
func For(u config.Unit) (Dialect, error) {
	switch u.Provider {
	case config.ProviderOpenAI:
		return newOpenAI(u), nil
	case config.ProviderAzureOpenAI:
		return newAzureOpenAI(u), nil
	case config.ProviderVLLM:
		return newVLLM(u), nil
	case config.ProviderLlamaCpp:
		return newLlamaCpp(u), nil
	case config.ProviderOllama:
		return newOllama(u), nil
	case config.ProviderMistral:
		return newMistral(u), nil
	case config.ProviderDeepSeek:
		return newDeepSeek(u), nil
	}
	return nil, fmt.Errorf("provider %q has no dialect", u.Provider)
}
