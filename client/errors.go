package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

var (
	// ErrTruncated is the error of a stream that broke off: what came of it is
	// not the whole answer.
	ErrTruncated = errors.New("the completion broke off before its end")
	// ErrClosed is returned by a Client or TokenSource that has been closed.
	ErrClosed = errors.New("the client is closed")
)

const (
	maxErrorBody    = 64 << 10
	maxErrorMessage = 1 << 10
	maxRetryAfter   = 10 * time.Minute
)

// Error is the proxy's refusal of a completion.
type Error struct {
	// Status is the HTTP status, or 200 for an error that came mid-stream.
	Status int
	// Type, Code and Message are those of the JSON body; a body in another form
	// is the Message as it is (status 466 is meant to be shown to the user).
	Type    string
	Code    string
	Message string
	// RequestID finds the request in the proxy's log.
	RequestID string
	// RetryAfter is how long the proxy asked to wait, or 0.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the proxy answered %d", e.Status)
	if kind := firstNonEmpty(e.Code, e.Type); kind != "" {
		fmt.Fprintf(&b, " (%s)", kind)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; try again in %s", e.RetryAfter)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " [request %s]", e.RequestID)
	}
	return b.String()
}

// wireError is the error object of OpenAI's API.
type wireError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    any    `json:"code"` // a string, a number or null, depending on the server
}

func (w wireError) apply(e *Error) {
	e.Type, e.Message = clean(w.Type), clean(w.Message)
	switch code := w.Code.(type) {
	case string:
		e.Code = clean(code)
	case float64:
		e.Code = strconv.FormatFloat(code, 'f', -1, 64)
	}
}

// errorFrom reads the refusal in resp.
func errorFrom(resp *http.Response) *Error {
	e := &Error{
		Status:     resp.StatusCode,
		RequestID:  clean(resp.Header.Get("X-Request-Id")),
		RetryAfter: retryAfter(resp.Header),
	}
	// A body that cannot be read to its end still leaves the status to report.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	var object struct {
		Error wireError `json:"error"`
	}
	if json.Unmarshal(body, &object) == nil {
		object.Error.apply(e)
	} else {
		e.Message = clean(string(body))
	}
	if e.Message == "" {
		e.Message = http.StatusText(e.Status)
	}
	return e
}

// retryAfter reads Retry-After (RFC 9110 section 10.2.3), at most ten minutes.
// A date counts from the server's own Date, because our clock may be wrong.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// clean makes a server's text fit for a message: one printable line of bounded
// length. A terminal obeys escape sequences, so they must not get through.
func clean(s string) string {
	if len(s) > maxErrorMessage {
		cut := maxErrorMessage
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

func firstNonEmpty(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
