package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/sse"
)

// endWithin is how long a unit may take to end a stream after its last event.
const endWithin = time.Second

var doneEvent = sse.Append(nil, []byte("[DONE]"))

// stream sends the answer to the client: events as they come, one flush for
// those that came together.
func (p *proxy) stream(w http.ResponseWriter, a *answer) error {
	x := a.x
	header := w.Header()
	header["X-Ghostline-Variant"] = []string{x.variant.Name}
	header["Cache-Control"] = []string{"no-cache, no-store"}
	c := &clientStream{w: w, control: http.NewResponseController(w), written: &x.written}
	a.clock.onBlockedWrite(c.interrupt)
	a.out = c
	if !x.ask.stream {
		return a.sendWhole(c)
	}
	header["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
	header["X-Accel-Buffering"] = []string{"no"} // nginx would hold events back
	if err := a.sendEvents(c); err != nil {
		return a.broken(err)
	}
	return nil
}

// sendWhole sends a unary answer.
func (a *answer) sendWhole(c *clientStream) error {
	c.w.Header()["Content-Type"] = []string{"application/json"}
	c.w.Header()["Content-Length"] = []string{strconv.Itoa(len(a.held))}
	a.clock.writing()
	if err := c.write(a.held); err != nil {
		return a.broken(err)
	}
	if err := c.flush(); err != nil {
		return a.broken(err)
	}
	return nil
}

func (a *answer) sendEvents(c *clientStream) error {
	a.clock.writing()
	out := a.held
	for {
		if err := c.write(out); err != nil {
			return err
		}
		event, err := a.next()
		if err != nil {
			return err
		}
		if event.Done {
			break
		}
		a.clock.gotEvent()
		out = a.appendEvent(out[:0], event)
	}
	if err := c.write(doneEvent); err != nil {
		return err
	}
	if err := c.flush(); err != nil {
		return err
	}
	a.end()
	return nil
}

// end lets the unit end its stream itself: to hang up on it between its last
// event and its end would look to it like a cancel. The client has everything
// by then.
func (a *answer) end() {
	a.clock.idle = endWithin
	a.clock.gotEvent()
	a.clock.reading() // Read does not, where there is no client
	for {
		if _, err := a.events.Next(); err != nil {
			return
		}
	}
}

// broken is what an error after the first byte means.
func (a *answer) broken(err error) error {
	cause := context.Cause(a.ctx)
	switch tooLate := errors.Is(cause, errTooLate); {
	case a.notTaken() && tooLate:
		return notRead(a.clock.write)
	case a.notTaken():
		return errCancelled
	case tooLate:
		return brokenOff(outcomeTimeout, fmt.Errorf("unit %s: %w", a.x.unit.Name, errTooLate))
	case cause != nil:
		return errCancelled
	}
	return brokenOff(outcomeUpstreamError, fmt.Errorf("unit %s: %w", a.x.unit.Name, err))
}

// notTaken says whether the client did not take what it was sent. Probes and
// mirrored requests have no client.
func (a *answer) notTaken() bool { return a.out != nil && a.out.err != nil }

// clientStream is the way to the client.
type clientStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	dirty   bool
	err     error      // the first error of a write
	written *time.Time // when the first flush was through
}

func (c *clientStream) write(b []byte) error {
	if c.err == nil && len(b) > 0 {
		_, c.err = c.w.Write(b)
		c.dirty = true
	}
	return c.err
}

func (c *clientStream) flush() error {
	if c.err == nil && c.dirty {
		c.err = c.control.Flush()
		c.dirty = false
		if c.err == nil && c.written.IsZero() {
			*c.written = time.Now()
		}
	}
	return c.err
}

// interrupt ends a write that blocks, from another goroutine.
func (c *clientStream) interrupt() {
	// An error means that the connection is gone, which ends the write too.
	_ = c.control.SetWriteDeadline(time.Unix(1, 0))
}
