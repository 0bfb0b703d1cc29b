package load

import (
	"errors"
	"net/http"
	"strings"

	"golang.org/x/net/http2"
)

// Outcome is how a request ended: exactly one for each.
type Outcome int

// The outcomes. Those from Refused on are errors.
const (
	// Whole is an answer that came to its end: a finish reason and [DONE].
	Whole Outcome = iota
	// CancelledBefore and CancelledDuring were typed through before and after
	// the first byte.
	CancelledBefore
	CancelledDuring
	// Superseded is status 499: the server dropped it for a newer request.
	Superseded
	// CutOff was under way when the run was interrupted.
	CutOff

	// Refused is a connection that could not be opened.
	Refused
	// Lost is a connection that ended, or was sent away, before the answer did.
	Lost
	// BrokenOff is a stream that was reset, or an answer in HTTP/1.1 that ended in
	// its middle.
	BrokenOff
	// NoEnd is an answer that ended properly, but without a finish reason or
	// without [DONE].
	NoEnd
	// ErrorEvent is an answer that ended in an error event.
	ErrorEvent
	// TimedOut took longer than Options.Timeout.
	TimedOut
	// BadAnswer is status 200 with something else than events of a completion.
	BadAnswer
	// NoToken is a token that could not be had.
	NoToken
	// The statuses, those alone that clients treat each in their way.
	Status401
	Status429
	Status4xx
	Status503
	Status5xx
	StatusOther
	outcomes
)

// String is the outcome's name in reports.
func (o Outcome) String() string {
	return [outcomes]string{
		"whole", "cancelled_before_first_byte", "cancelled_mid_stream", "superseded", "cut_off",
		"connection_refused", "connection_lost", "stream_broken_off", "stream_without_end", "error_event", "timeout",
		"bad_answer", "no_token", "status_401", "status_429", "status_4xx", "status_503", "status_5xx", "status_other",
	}[o]
}

// IsError says whether the outcome is an error.
func (o Outcome) IsError() bool { return o >= Refused }

func statusOutcome(status int) Outcome {
	switch {
	case status == 499: // no constant: nginx's, and Ghostline's for superseded
		return Superseded
	case status == http.StatusUnauthorized:
		return Status401
	case status == http.StatusTooManyRequests:
		return Status429
	case status == http.StatusServiceUnavailable:
		return Status503
	case status >= 400 && status < 500:
		return Status4xx
	case status >= 500 && status < 600:
		return Status5xx
	}
	return StatusOther
}

// failure is the outcome of err, of a request whose context still stands.
// example says which error it was, in words that are ours or the protocol's and
// never a text that the server wrote.
func failure(err error, answering *http.Response) (o Outcome, example string) {
	var stream http2.StreamError
	//lint:ignore SA1019 deprecated only from Go 1.27, where net/http follows x/net
	var away http2.GoAwayError
	switch {
	case errors.As(err, &stream) && stream.Code == http2.ErrCodeRefusedStream:
		return Lost, stream.Code.String()
	case errors.As(err, &stream):
		return BrokenOff, stream.Code.String()
	case errors.As(err, &away):
		return Lost, "GOAWAY " + away.ErrCode.String()
	case strings.Contains(err.Error(), "looked like an HTTP/1.1 header"):
		return Lost, "the server answers in HTTP/1.1: ask for protocol h1"
	case answering != nil && answering.ProtoMajor == 1:
		return BrokenOff, ""
	}
	return Lost, ""
}
