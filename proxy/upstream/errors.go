package upstream

import (
	"errors"
	"strings"

	"golang.org/x/net/http2"
)

// What the HTTP engines say of a request that they did not send, because its
// connection turned out to be of no use, and of one above a GOAWAY's last
// stream. They do not export these errors; the tests provoke each.
const (
	unusable       = "http2: client conn not usable"
	notEstablished = "http2: client conn could not be established"
	closedIdle     = "http: server closed idle connection"
	resetIdle      = "readLoopPeekFailLocked: " // the same of HTTP/1.1, reset rather than closed
	goAway         = "http2: Transport received Server's graceful shutdown GOAWAY"
	goAwayFirst    = "http2: Transport received GOAWAY from server ErrCode:" // on a connection's first stream
)

// NotProcessed says whether err is of a request that certainly did no work at
// the unit: it never got a connection, or the unit refused the stream
// (REFUSED_STREAM, or a GOAWAY with a lower last stream id; RFC 9113 section 8.7).
func NotProcessed(err error) bool {
	if _, ok := errors.AsType[*DialError](err); ok {
		return true
	}
	if _, ok := errors.AsType[http2.StreamError](err); ok {
		return refusedStream(err)
	}
	return notSent(err) || wentAway(err) || says(err, notEstablished)
}

// refusedStream says whether err is the unit's refusal to look at a stream.
func refusedStream(err error) bool {
	stream, ok := errors.AsType[http2.StreamError](err)
	return ok && stream.Code == http2.ErrCodeRefusedStream
}

// notSent says whether err is of a request whose connection, which was good
// once, had ended before it.
func notSent(err error) bool {
	return says(err, unusable) || says(err, closedIdle) || says(err, resetIdle)
}

// wentAway says whether err is of a request that crossed a GOAWAY.
func wentAway(err error) bool { return says(err, goAway) || says(err, goAwayFirst) }

// says looks for a text at the head of err and of what it wraps.
func says(err error, text string) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasPrefix(err.Error(), text) {
			return true
		}
	}
	return false
}

// quoting is an error without what it quotes.
type quoting struct {
	text string
	err  error
}

func (q *quoting) Error() string { return q.text }
func (q *quoting) Unwrap() error { return q.err }

// wordless is err without the unit's words, which the HTTP engines quote where
// they are no HTTP: a unit that loses count of its answers sends a completion
// there, and none is to be logged.
func wordless(err error) error {
	if err == nil {
		return nil
	}
	text, _, quotes := strings.Cut(err.Error(), `"`)
	if !quotes {
		return err
	}
	return &quoting{text + "…", err}
}
