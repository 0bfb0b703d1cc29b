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

	"github.com/ghostline-dev/ghostline/internal/oauthhttp"
	"github.com/ghostline-dev/ghostline/internal/oneline"
)

var (
	// ErrTruncated is the error of a stream that broke off: what came of it is
	// not the whole answer.
	ErrTruncated = errors.New("the completion broke off before its end")
	// ErrClosed is returned by a Client or TokenSource that has been closed.
	ErrClosed = errors.New("the client is closed")
)

const maxErrorBody = 64 << 10

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
	e.Type, e.Message = oneline.Clean(w.Type), oneline.Clean(w.Message)
	switch code := w.Code.(type) {
	case string:
		e.Code = oneline.Clean(code)
	case float64:
		e.Code = strconv.FormatFloat(code, 'f', -1, 64)
	}
}

// errorFrom reads the refusal in resp.
func errorFrom(resp *http.Response) *Error {
	e := &Error{
		Status:     resp.StatusCode,
		RequestID:  oneline.Clean(resp.Header.Get("X-Request-Id")),
		RetryAfter: oauthhttp.RetryAfter(resp.Header),
	}
	// A body that cannot be read to its end still leaves the status to report.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	var object struct {
		Error wireError `json:"error"`
	}
	if json.Unmarshal(body, &object) == nil {
		object.Error.apply(e)
	} else {
		e.Message = oneline.Clean(string(body))
	}
	if e.Message == "" {
		e.Message = http.StatusText(e.Status)
	}
	return e
}

func firstNonEmpty(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
