package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"time"
)

const (
	// maxRefusal bounds what is read of an error's body.
	maxRefusal = 64 << 10
)

// attempt asks the picked unit and waits for the first byte of its answer.
func (p *proxy) attempt(ctx context.Context, x *exchange) (*answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	a := &answer{x: x, ctx: ctx, cancel: cancel, clock: startClock(x, cancel)}
	began := false
	defer func() {
		if !began {
			p.close(a)
		}
	}()
	x.phase, x.asked, x.reported, x.told = phaseQueue, time.Now(), false, time.Time{}
	if x.firstAsked.IsZero() {
		x.firstAsked = x.asked
	}
	if err := p.readFirst(a); err != nil {
		return nil, a.failure(err)
	}
	now := time.Now()
	x.answering(now)
	if x.place != nil && !x.place.begin() {
		return nil, superseded()
	}
	began = true
	x.firstByte, x.phase = now, phaseStream
	return a, nil
}

// readFirst asks the unit and reads the answer as far as its first byte.
func (p *proxy) readFirst(a *answer) error {
	if err := a.send(a.x.unit); err != nil {
		return err
	}
	if !a.x.ask.stream {
		return a.readWhole()
	}
	a.reading = p.readings.Get().(*reading)
	a.events.Reset(a)
	return a.awaitFirst()
}

// close ends the exchange with the unit: an answer that is not at its end is
// cancelled there.
func (p *proxy) close(a *answer) {
	a.clock.stop()
	cutShort := a.ctx.Err() != nil
	a.cancel(nil)
	if a.body != nil {
		a.body.Close()
	}
	if cutShort {
		a.x.told = time.Now()
	}
	if a.reading != nil {
		a.events.Reset(nil)
		a.repeats.Reset()
		p.readings.Put(a.reading)
		a.reading = nil
	}
}

// send sends the request and reads the head of the answer.
func (a *answer) send(u *unit) error {
	resp, err := u.endpoint.pool.RoundTrip(a.request(u), a.x.placed)
	if err != nil {
		return err
	}
	a.body = resp.Body
	a.x.worked, a.x.reported = u.dialect.Worked(textproto.MIMEHeader(resp.Header))
	if resp.StatusCode != http.StatusOK {
		// Read to its end, so that an HTTP/1.1 unit's connection can be kept.
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		if err != nil {
			return err
		}
		return refusal(u, resp.StatusCode, textproto.MIMEHeader(resp.Header), body)
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return fmt.Errorf("the unit compressed its answer (%.20q) although it was asked not to", encoding)
	}
	want := "application/json"
	if a.x.ask.stream {
		want = "text/event-stream"
	}
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, want) {
		return fmt.Errorf("the unit answered with content type %.60q, want %s", got, want)
	}
	return nil
}

// request is what goes to the unit. Of the client's headers only the request id
// and the trace context go on; its Authorization never does.
func (a *answer) request(u *unit) *http.Request {
	x := a.x
	header := make(http.Header, 8)
	header["Content-Type"] = []string{"application/json"}
	header["Accept"] = []string{"application/json"}
	if x.ask.stream {
		header["Accept"] = []string{"text/event-stream"}
	}
	// A compressed stream comes in bursts.
	header["Accept-Encoding"] = []string{"identity"}
	header["User-Agent"] = []string{"ghostline"}
	header["X-Request-Id"] = []string{x.id}
	if trace := x.outgoing(); trace.parent != "" {
		header[traceParent] = []string{trace.parent}
		if trace.state != "" {
			header[traceState] = []string{trace.state}
		}
	}
	for _, h := range x.outbound.Headers {
		header.Set(h.Name, h.Value)
	}
	body := x.outbound.Body
	req := &http.Request{
		Method: http.MethodPost, URL: u.url, Host: u.url.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	return req.WithContext(a.ctx)
}
