package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/textproto"
	"strconv"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

// coolFor is how long a unit that is full is left alone if it does not say.
const coolFor = time.Second

// refusal is what a unit's status other than 200 means.
func refusal(u *unit, status int, header textproto.MIMEHeader, body []byte) error {
	cause := fmt.Errorf("unit %s answered with status %d", u.Name, status)
	switch status {
	case 400, 413, 422:
		r := u.dialect.Refusal(body)
		if r.Misconfigured {
			return unitMisconfigured(fmt.Errorf("%w: its model cannot be asked in this way", cause))
		}
		return refusedByModel(r, cause)
	case 401, 402, 403, 404:
		return unitMisconfigured(fmt.Errorf("%w: its url, its credential or the account behind that is wrong", cause))
	case 501: // llama.cpp, for a model without marks for /infill
		return unitMisconfigured(fmt.Errorf("%w: its model cannot be asked in this way", cause))
	case 429, 503:
		e := unitRefused(cause)
		e.cool = cmp.Or(retryAfter(header, time.Now()), coolFor)
		return e
	}
	return upstreamFailed(cause)
}

// refusedByModel is a 400 in our words: the provider's may repeat the prompt.
func refusedByModel(r provider.Refusal, cause error) *clientError {
	e := badRequest("the model refused this request as invalid")
	if r.Param != "" {
		e.message += fmt.Sprintf("; the field at fault is %q", r.Param)
	}
	if r.Code != "" {
		e.code = r.Code
	}
	e.cause, e.attempt = cause, attemptInvalid
	return e
}

// retryAfter reads when a unit wants to be asked again; 0 if it does not say.
// OpenAI and Azure say it in milliseconds too, which is more exact.
func retryAfter(header textproto.MIMEHeader, now time.Time) time.Duration {
	const most = time.Minute
	// Bounded before they become durations, which would overflow.
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, float64(most.Milliseconds())) * float64(time.Millisecond))
	}
	text := header.Get("Retry-After")
	if s, err := strconv.Atoi(text); err == nil && s > 0 {
		return time.Duration(min(s, int(most.Seconds()))) * time.Second
	}
	if at, err := time.Parse(time.RFC1123, text); err == nil { // RFC 9110 section 5.6.7
		return min(max(0, at.Sub(now)), most)
	}
	return min(limitReset(header), most)
}

// limitReset is when a limit that is used up is whole again, as OpenAI says it ("120ms",
// "6m0s"); 0 if it does not. Others send headers of these names with a -1, a 0 or whole
// seconds in them, which tell nothing.
func limitReset(header textproto.MIMEHeader) (reset time.Duration) {
	for _, of := range []string{"Requests", "Tokens"} {
		if header.Get("X-Ratelimit-Remaining-"+of) != "0" {
			continue
		}
		if after, err := time.ParseDuration(header.Get("X-Ratelimit-Reset-" + of)); err == nil {
			reset = max(reset, after)
		}
	}
	return reset
}

// failure is what an error before the first byte means for the client.
func (a *answer) failure(err error) error {
	if e, ok := errors.AsType[*clientError](err); ok {
		return e
	}
	switch cause := context.Cause(a.ctx); {
	case errors.Is(cause, errGivenUp):
		e := tooLate(fmt.Errorf("unit %s: %w", a.x.unit.Name, errGivenUp))
		e.again = always // the retry is taken already
		return e
	case errors.Is(cause, errTooLate):
		return tooLate(fmt.Errorf("unit %s: %w", a.x.unit.Name, errTooLate))
	case cause != nil:
		return gone(a.ctx)
	}
	err = fmt.Errorf("unit %s: %w", a.x.unit.Name, err)
	if !upstream.NotProcessed(err) {
		return upstreamFailed(err)
	}
	e := unitRefused(err)
	if _, ok := errors.AsType[*upstream.DialError](err); ok {
		e.attempt = attemptUnreachable
	}
	return e
}
