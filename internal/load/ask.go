package load

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/tidwall/gjson"
)

const (
	maxErrorBody = 64 << 10
	// firstBackoff is the wait before the first retry where the server names
	// none; it doubles.
	firstBackoff = 100 * time.Millisecond
	// maxWires bounds how many connections in a row may turn out to take no more.
	maxWires = 3
)

// ask is one request, with its retries.
type ask struct {
	user  *user
	tally *tally
	turn  turn
	id    string
	began time.Time     // latency counts from here
	lag   time.Duration // how late it was sent

	firstByte time.Duration // 0 if none came
	whole     time.Duration
	outcome   Outcome
	example   string // of an error: what it was
	retryIn   time.Duration
	final     bool // the server asked not to retry, or there is no point
}

// run sends the request until it has an outcome that stands, and counts it.
func (a *ask) run() {
	r := a.user.run
	limit, cause := r.options.Timeout, errTimeout
	if life := a.turn.lifetime; life > 0 && life < limit {
		limit, cause = life, errTypedThrough
	}
	ctx, cancel := context.WithDeadlineCause(a.tally.ctx, a.began.Add(limit), cause)
	defer cancel()
	r.inFlight.Add(1)
	defer r.inFlight.Add(-1)
	for try := 0; ; try++ {
		a.try(ctx)
		if try == r.options.Retries || !a.again() {
			break
		}
		at := time.Now().Add(a.backoff(try))
		if deadline, _ := ctx.Deadline(); cause == errTimeout && at.After(deadline) {
			break // nothing to wait for
		}
		if !sleepUntil(ctx, at) {
			a.gone(ctx)
			break
		}
		a.tally.retries.Add(1)
	}
	a.tally.end(a)
	r.interval.end(a)
}

// again says whether the outcome so far is worth another try.
func (a *ask) again() bool {
	if a.final || a.firstByte > 0 {
		return false
	}
	return slices.Contains([]Outcome{Refused, Lost, NoToken, Status401, Status429, Status503, Status5xx}, a.outcome)
}

// backoff is the wait before the try after this one.
func (a *ask) backoff(try int) time.Duration {
	if a.retryIn > 0 {
		return a.retryIn
	}
	d := firstBackoff << min(try, 6)
	return d/2 + rand.N(d/2)
}

// try sends the request once and reads the answer.
func (a *ask) try(ctx context.Context) {
	a.retryIn, a.final, a.example = 0, false, ""
	var token string
	if source := a.user.source; source != nil {
		var err error
		if token, err = source.token(ctx); err != nil {
			if !a.gone(ctx) {
				a.outcome, a.example = NoToken, issuerExample(err)
			}
			return
		}
	}
	resp, w, err := a.send(ctx, token)
	if err != nil {
		if w == nil && !a.gone(ctx) {
			a.outcome, a.example = Refused, err.Error()
		} else if w != nil {
			a.fail(ctx, err, nil)
		}
		return
	}
	defer a.user.link.release(w)
	defer resp.Body.Close()
	a.tally.speaks(resp)
	if resp.StatusCode != http.StatusOK {
		a.refusal(ctx, resp, token)
		return
	}
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media != "text/event-stream" {
		a.outcome, a.example = BadAnswer, "not text/event-stream"
		return
	}
	a.read(ctx, resp)
}

// issuerExample says what an issuer answered.
func issuerExample(err error) string {
	var refusal *client.IssuerError
	if errors.As(err, &refusal) {
		return "the issuer answered " + strconv.Itoa(refusal.Status)
	}
	return ""
}

// send does the round trip. The wire is the caller's to release if there is a
// response; with an error it says whether there was one.
func (a *ask) send(ctx context.Context, token string) (*http.Response, *wire, error) {
	link := a.user.link
	for wires := 1; ; wires++ {
		w, err := link.acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		a.tally.tries.Add(1)
		resp, err := w.conn.RoundTrip(a.request(ctx, token))
		if err == nil {
			return resp, w, nil
		}
		unsent := ctx.Err() == nil && link.lost(w, err)
		link.release(w)
		if !unsent || wires == maxWires {
			return nil, w, err
		}
		a.tally.tries.Add(-1)
	}
}

func (a *ask) request(ctx context.Context, token string) *http.Request {
	r := a.user.run
	header := make(http.Header, len(a.user.header)+2)
	for name, values := range a.user.header {
		header[name] = values
	}
	header["X-Request-Id"] = []string{a.id}
	if token != "" {
		header["Authorization"] = []string{"Bearer " + token}
	}
	body := &body{parts: [5][]byte{r.head, a.turn.prompt, nil, nil, r.tail}}
	if len(a.turn.suffix) > 0 {
		body.parts[2], body.parts[3] = []byte(`","suffix":"`), a.turn.suffix
	}
	req := &http.Request{
		Method: http.MethodPost, URL: r.target.url, Host: r.target.url.Host, Header: header,
		Body: body, ContentLength: body.size(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return req.WithContext(ctx)
}

// gone notes the outcome of a context that is done.
func (a *ask) gone(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTypedThrough) && a.firstByte > 0:
		a.outcome = CancelledDuring
	case errors.Is(cause, errTypedThrough):
		a.outcome = CancelledBefore
	case errors.Is(cause, errTimeout):
		a.outcome = TimedOut
	default:
		a.outcome = CutOff
	}
	a.example = ""
	return true
}

// fail notes the outcome of an exchange that ended in err.
func (a *ask) fail(ctx context.Context, err error, answering *http.Response) {
	if !a.gone(ctx) {
		a.outcome, a.example = failure(err, answering)
	}
}

// refusal notes the outcome of another status than 200. The body is read to its
// end, so that an HTTP/1.1 connection can be used again.
func (a *ask) refusal(ctx context.Context, resp *http.Response, token string) {
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && a.gone(ctx) {
		return
	}
	a.outcome = statusOutcome(resp.StatusCode)
	a.example = strconv.Itoa(resp.StatusCode) + errorCode(content)
	a.retryIn = retryAfter(resp.Header)
	a.final = resp.Header.Get("X-Should-Retry") == "false"
	if a.outcome == Status401 && a.user.source != nil {
		a.user.source.tokens.Invalidate(token)
		a.final = false // another token may do
	}
}

// errorCode is the code or type of an error body, with a blank before it, if it
// is the name of something. A message is not shown: it may quote what was sent.
func errorCode(body []byte) string {
	for _, path := range []string{"error.code", "error.type"} {
		code := gjson.GetBytes(body, path).String()
		if code != "" && len(code) <= 64 && !slices.ContainsFunc([]byte(code), notOfName) {
			return " " + code
		}
	}
	return ""
}

func notOfName(c byte) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.')
}

// retryAfter reads Retry-After in seconds; 0 if there is none.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return time.Duration(min(max(seconds, 0), int(maxTime/time.Second))) * time.Second
}

// body is a request's body, made of parts that all users share.
type body struct {
	parts [5][]byte
	part  int
}

func (b *body) size() (n int64) {
	for _, part := range b.parts {
		n += int64(len(part))
	}
	return n
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (n int, err error) {
	for n < len(p) && b.part < len(b.parts) {
		copied := copy(p[n:], b.parts[b.part])
		n += copied
		b.parts[b.part] = b.parts[b.part][copied:]
		if len(b.parts[b.part]) == 0 {
			b.part++
		}
	}
	if b.part == len(b.parts) {
		return n, io.EOF
	}
	return n, nil
}

// Close implements io.Closer.
func (b *body) Close() error { return nil }
