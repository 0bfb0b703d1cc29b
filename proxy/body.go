package proxy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// firstBuffer is what is set aside for a body before any of it has come: what a
// client promises in Content-Length beyond it costs nothing until it keeps the
// promise. Most prompts have less than half of it.
const firstBuffer = 128 << 10

// readBody reads the body, bounded in size and in time.
func (p *proxy) readBody(x *exchange) error { return x.readBody(x.snapshot.config.Limits.MaxBodyBytes) }

func (x *exchange) readBody(most int64) error {
	if x.length > most {
		return bodyTooLarge(most)
	}
	x.bodyFrom = time.Now()
	within := time.Duration(x.snapshot.config.Timeouts.ReadBody)
	deadline := startReadDeadline(x.source, within)
	defer deadline.stop()
	x.reading.Store(deadline)
	if x.isSuperseded.Load() { // before anybody could end the read
		deadline.expire() // or the server would wait for the body
		return superseded()
	}

	var buf bytes.Buffer
	buf.Grow(int(min(max(x.length, 0), firstBuffer)) + bytes.MinRead)
	_, err := buf.ReadFrom(io.LimitReader(x.source, most+1))
	ended := deadline.stop() // perhaps as the body was whole; the connection is spoilt even so
	switch {
	case x.isSuperseded.Load():
		return superseded()
	case errors.Is(err, os.ErrDeadlineExceeded), ended:
		return bodyTooSlow(within)
	case err != nil:
		return bodyBroken(err)
	case int64(buf.Len()) > most:
		return bodyTooLarge(most)
	case x.length >= 0 && int64(buf.Len()) != x.length:
		return badRequest("the request's body has %d bytes, but Content-Length says %d", buf.Len(), x.length)
	}
	x.body, x.bodySize, x.received = buf.Bytes(), buf.Len(), time.Now()
	return nil
}

// connectionGone is what the HTTP/2 engine's reads end with when the client's
// connection closes, a moment before it cancels the request's context. It does
// not export the error; the test provokes it.
const connectionGone = "client disconnected"

// bodyBroken is a body that ends before its end, because its client went away,
// or that is framed wrongly.
func bodyBroken(cause error) *clientError {
	e := badRequest("the request's body broke off or is framed wrongly")
	e.cause = cause
	if errors.Is(cause, io.ErrUnexpectedEOF) || cause.Error() == connectionGone {
		e.outcome = outcomeCancelled
	}
	return e
}

// readDeadline bounds a read that has usually all it needs at hand. Setting the
// deadline on the connection costs more than the read, so it is only set when
// time is up.
type readDeadline struct {
	mu               sync.Mutex
	timer            *time.Timer
	stopped, expired bool
	source           bodySource
}

func startReadDeadline(source bodySource, within time.Duration) *readDeadline {
	d := &readDeadline{source: source}
	d.timer = time.AfterFunc(within, d.expire)
	return d
}

func (d *readDeadline) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		d.expired = true
		// An error means that the connection is gone, which ends the read too.
		_ = d.source.SetReadDeadline(time.Unix(1, 0))
	}
}

// stop returns once the deadline can no longer touch the source, and whether it has.
func (d *readDeadline) stop() (expired bool) {
	d.timer.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	return d.expired
}
