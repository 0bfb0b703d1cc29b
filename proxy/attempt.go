package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/sse"
)

const (
	// maxRefusal bounds what is read of an error's body.
	maxRefusal = 64 << 10
	// maxKept bounds the buffers that are kept for other streams. The last event of
	// llama.cpp's /infill has the whole prompt in it: else they would all grow to the
	// longest that there was.
	maxKept = 64 << 10
)

// attempt asks the picked unit and waits for the first byte of its answer.
func (p *proxy) attempt(ctx context.Context, x *exchange) (*answer, error) {
	x.phase, x.asked, x.reported, x.told = phaseQueue, time.Now(), false, time.Time{}
	if x.firstAsked.IsZero() {
		x.firstAsked, x.stood = x.asked, p.standstill.Stood(x.asked)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a := &answer{x: x, ctx: ctx, cancel: cancel, clock: startClock(x, &p.standstill, cancel)}
	began := false
	defer func() {
		if !began {
			p.close(a)
		}
	}()
	if err := p.readFirst(a); err != nil {
		return nil, a.failure(err)
	}
	now := time.Now()
	p.answering(x, now)
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
	a.events.Reset(a, a.x.unit.dialect.Framing())
	a.head.ID, a.head.Model, a.head.Created = a.x.answerID(), a.x.ask.model, a.x.asked
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
		a.events.Reset(nil, sse.Events)
		a.repeats.Reset()
		if a.events.Cap() <= maxKept { // what came of an event is no longer than it
			p.readings.Put(a.reading)
		}
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
	err = a.unpack(resp.Header.Get("Content-Encoding"))
	a.x.worked, a.x.reported = u.dialect.Worked(textproto.MIMEHeader(resp.Header))
	if resp.StatusCode != http.StatusOK {
		return a.refused(u, resp)
	}
	if err != nil {
		return err
	}
	want := contentType(a.x)
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(strings.ToLower(got), want) {
		return fmt.Errorf("the unit answered with content type %s, want %s", known(got), want)
	}
	return nil
}

// wellKnownTypes are the content types and codings that an error names.
var wellKnownTypes = []string{"application/json", "application/x-ndjson", "application/octet-stream", "text/event-stream", "text/html", "text/plain",
	"br", "compress", "deflate", "zstd"}

// known is the value of a unit's header for a log, which must not have the words of a
// prompt or an answer, whatever header a unit puts them into.
func known(value string) string {
	value, _, _ = strings.Cut(strings.ToLower(value), ";")
	switch value = strings.TrimSpace(value); {
	case value == "":
		return "none"
	case !slices.Contains(wellKnownTypes, value):
		return "(another)"
	}
	return value
}

// refused reads an answer whose status is an error. The status stands even if its
// body cannot be read.
func (a *answer) refused(u *unit, resp *http.Response) error {
	// Read to its end, so that an HTTP/1.1 unit's connection can be kept.
	body, err := io.ReadAll(io.LimitReader(a.body, maxRefusal))
	if err != nil && a.ctx.Err() != nil {
		return err
	}
	return refusal(u, resp.StatusCode, textproto.MIMEHeader(resp.Header), body)
}

// unpack has the body read unpacked. Units are asked not to pack theirs, but hops
// before them do it all the same.
func (a *answer) unpack(encoding string) error {
	switch strings.ToLower(encoding) { // RFC 9110 section 8.4.1
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		a.body = &unpacked{packed: a.body}
		return nil
	}
	return fmt.Errorf("the unit packed its answer (%s) although it was asked not to", known(encoding))
}

// unpacked is a body that came packed by gzip. It is unpacked as it comes.
type unpacked struct {
	packed io.ReadCloser
	reader *gzip.Reader
}

func (u *unpacked) Read(p []byte) (n int, err error) {
	if u.reader == nil {
		if u.reader, err = gzip.NewReader(u.packed); err != nil {
			return 0, err
		}
	}
	return u.reader.Read(p)
}

func (u *unpacked) Close() error { return u.packed.Close() }

// request is what goes to the unit.
func (a *answer) request(u *unit) *http.Request {
	header, body := http.Header(a.x.unitHeader()), a.x.outbound.Body
	req := &http.Request{
		Method: http.MethodPost, URL: u.url, Host: u.url.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	return req.WithContext(a.ctx)
}
