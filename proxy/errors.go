package proxy

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// errCancelled ends a request whose client reset it or went away.
var errCancelled = errors.New("cancelled by the client")

// clientError ends a request with an answer that is no completion. Everything
// in it but cause is written for the client to read.
type clientError struct {
	status  int
	outcome outcome
	kind    string // error.type
	code    string // error.code
	message string
	// retryAfter, if not 0, is when to come again.
	retryAfter time.Duration
	// challenge is the WWW-Authenticate header: of each refusal of a token, 403 too
	// (RFC 6750 section 3).
	challenge string
	// allow is the Allow header of a 405.
	allow string
	// final says that the same request cannot succeed later either.
	final bool
	// again says whether another unit may be tried.
	again again
	// cool, if not 0, is how long the unit wants to be left alone.
	cool time.Duration
	// attempt is how the attempt that failed is counted, if not by the outcome.
	attempt string
	// plain says that clients show the body as it is: it is the message alone.
	plain bool
	// cause is for the log only.
	cause error
}

// again is whether a request may be tried again, at another unit.
type again int

const (
	never    again = iota
	ifBudget       // the unit may have worked: a retry doubles that, so they are few
	always         // the unit certainly did no work
)

func (e *clientError) Error() string {
	if e.cause == nil {
		return e.message
	}
	return e.message + ": " + e.cause.Error()
}

func (e *clientError) Unwrap() error { return e.cause }

// body is the error in the form that OpenAI's clients read.
func (e *clientError) body() []byte {
	out := append([]byte(nil), `{"error":{"message":`...)
	out = gjson.AppendJSONString(out, e.message)
	out = append(out, `,"type":`...)
	out = gjson.AppendJSONString(out, e.kind)
	out = append(out, `,"code":`...)
	out = gjson.AppendJSONString(out, e.code)
	return append(out, "}}"...)
}

// content is the error as it goes out, with its media type.
func (e *clientError) content() (mediaType string, body []byte) {
	if e.plain {
		return "text/plain; charset=utf-8", []byte(e.message)
	}
	return "application/json", e.body()
}

// retryAfterSeconds is the value of the Retry-After header: whole seconds,
// rounded up, at least 1 (RFC 9110 section 10.2.3).
func retryAfterSeconds(d time.Duration) string {
	return strconv.Itoa(max(1, int((d+time.Second-1)/time.Second)))
}

// The rows of the error table, in the order of their status.

func badRequest(format string, args ...any) *clientError {
	return &clientError{
		status: 400, outcome: outcomeBadRequest, kind: "invalid_request_error", code: "invalid_request",
		message: fmt.Sprintf(format, args...), final: true,
	}
}

// bareChallenge has no error, because the request made none. The realm says nothing
// either, but RFC 6750 section 3 wants one parameter at least.
const bareChallenge = `Bearer realm="completions"`

func noToken() *clientError {
	return &clientError{
		status: 401, outcome: outcomeDenied, kind: "authentication_error", code: "missing_token",
		message:   "this request has no completion token; send one as Authorization: Bearer",
		challenge: bareChallenge, final: true,
	}
}

func severalTokens() *clientError {
	e := badRequest("this request has more than one Authorization header; send exactly one")
	e.challenge = `Bearer error="invalid_request"`
	return e
}

func badToken(cause error, expired bool) *clientError {
	e := &clientError{
		status: 401, outcome: outcomeDenied, kind: "authentication_error", code: "invalid_token",
		message:   "the completion token is not valid",
		challenge: `Bearer error="invalid_token", error_description="the token is not valid"`,
		final:     true, cause: cause,
	}
	if expired {
		e.code, e.message = "token_expired", "the completion token has expired; get a new one from the token issuer"
		e.challenge = `Bearer error="invalid_token", error_description="the token has expired"`
	}
	return e
}

func denied(code, message string) *clientError {
	return &clientError{
		status: 403, outcome: outcomeDenied, kind: "permission_error", code: code, message: message,
		challenge: `Bearer error="insufficient_scope", error_description="the token does not allow this"`, final: true,
	}
}

func notFound(code, message string) *clientError {
	return &clientError{
		status: 404, outcome: outcomeBadRequest, kind: "invalid_request_error", code: code, message: message, final: true,
	}
}

func wrongMethod(method, allow string) *clientError {
	return &clientError{
		status: 405, outcome: outcomeBadRequest, kind: "invalid_request_error", code: "method_not_allowed",
		message: fmt.Sprintf("this path does not take %s; use %s", method, allow), allow: allow, final: true,
	}
}

func bodyTooSlow(limit time.Duration) *clientError {
	return &clientError{
		status: 408, outcome: outcomeTimeout, kind: "invalid_request_error", code: "body_timeout",
		message: fmt.Sprintf("the request's body did not arrive within %s", limit),
	}
}

// endsReading tells the errors that a client waits for although its request's
// context may be done: on HTTP/1.1 a read that fails, since we ended it, ends the
// context as a client does that goes away.
func endsReading(err error) bool {
	e := asClientError(err)
	return e != nil && (e.outcome == outcomeTimeout || e.outcome == outcomeSuperseded)
}

func bodyTooLarge(limit int64) *clientError {
	return &clientError{
		status: 413, outcome: outcomeBadRequest, kind: "invalid_request_error", code: "body_too_large",
		message: fmt.Sprintf("the request's body is larger than %d bytes, the limit of this service", limit), final: true,
	}
}

func limited(code, message string, after time.Duration) *clientError {
	return &clientError{
		status: 429, outcome: outcomeLimited, kind: "rate_limit_error", code: code, message: message, retryAfter: after,
	}
}

// clientTooOld is a client that a rule refuses. Copilot's clients show the body of
// this status to their user, as it is.
func clientTooOld(message string) *clientError {
	return &clientError{
		status: 466, outcome: outcomeUpgrade, kind: "invalid_request_error", code: "client_too_old", message: message, final: true, plain: true,
	}
}

// superseded is a request that the user has typed past. Copilot's clients know
// the status as "cancelled by server".
func superseded() *clientError {
	return &clientError{
		status: 499, outcome: outcomeSuperseded, kind: "invalid_request_error", code: "superseded",
		message: "this editor session has sent newer requests in place of this one", final: true,
		attempt: attemptCancelled, cause: errSuperseded,
	}
}

func internalError(cause error) *clientError {
	return &clientError{
		status: 500, outcome: outcomeInternal, kind: "server_error", code: "internal",
		message: "the proxy made a mistake; its log has the request id", cause: cause,
	}
}

func upstreamFailed(cause error) *clientError {
	return &clientError{
		status: 502, outcome: outcomeUpstreamError, kind: "server_error", code: "upstream_error",
		message: "the model broke off before its answer began", again: ifBudget, cause: cause,
	}
}

func noCapacity(cause error, after time.Duration) *clientError {
	return &clientError{
		status: 503, outcome: outcomeNoCapacity, kind: "server_error", code: "no_capacity",
		message: "no model can take this request at the moment", retryAfter: max(after, time.Second), cause: cause,
	}
}

func tooLate(cause error) *clientError {
	return &clientError{
		status: 504, outcome: outcomeTimeout, kind: "server_error", code: "timeout",
		message: "the model's answer did not begin in time", cause: cause,
	}
}

// unitRefused is a unit that did no work, and is fit to be asked later.
func unitRefused(cause error) *clientError {
	e := noCapacity(cause, 0)
	e.again, e.attempt = always, attemptRefused
	return e
}

// unitMisconfigured is a unit that will not work before somebody mends the
// config. Its own status never reaches a client, which would take it for an
// answer to itself and drop its good token.
func unitMisconfigured(cause error) *clientError {
	e := upstreamFailed(cause)
	e.code, e.message = "unit_misconfigured", "the model that serves this request is set up wrongly in this service"
	e.again, e.attempt = always, attemptMisconfigured
	return e
}

// brokenOff ends an answer of which the client already has a part.
func brokenOff(outcome outcome, cause error) *clientError {
	e := &clientError{
		status: 502, outcome: outcome, kind: "server_error", code: "broken_off",
		message: "the model broke its answer off; what came of it is not all", cause: cause,
	}
	if outcome == outcomeUpstreamError {
		e.attempt = attemptBroken
	}
	return e
}

// notRead ends an answer that its client does not take. To the unit that is a
// cancel: it did what it was asked to.
func notRead(within time.Duration) *clientError {
	e := brokenOff(outcomeTimeout, fmt.Errorf("the client did not read for %s", within))
	e.message, e.attempt = "this answer was not read in time; what came of it is not all", attemptCancelled
	return e
}
