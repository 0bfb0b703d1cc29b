package load

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/net/http2"
)

// call is one request and what came of it.
type call struct {
	req *Request
	due time.Time
	// cancel has it reset after its first event, unless it has ended with that.
	cancel    bool
	cancelled bool
	// begun, if set, is told of the first event; the reader waits for it.
	begun func()
	// ended is called once, without a lock.
	ended func(error)

	id     uint32
	window int64  // for what we send
	rest   []byte // of the body

	first  time.Time // of the first byte of the answer's body
	status string
	events int
	// tail is the end of what came, enough to know the last event by and, of an
	// answer that is none, what it says.
	tail []byte
}

const (
	eventEnd = "\n\n"
	done     = "data: [DONE]" + eventEnd
	tailSize = 256
)

// data takes a piece of an answer.
func (c *Conn) data(f *http2.DataFrame) {
	c.mu.Lock()
	c.credit(int(f.Length))
	call := c.streams[f.StreamID]
	if call == nil { // it was cancelled
		c.mu.Unlock()
		return
	}
	begun := call.take(f.Data())
	over := f.StreamEnded()
	if begun && call.cancel && !over {
		c.reset(call)
		over = true
	} else if over {
		delete(c.streams, call.id)
	}
	c.mu.Unlock()
	if begun && call.begun != nil {
		call.begun()
	}
	if over {
		call.ended(call.verdict())
	}
}

// headers takes the status of an answer, or its trailers.
func (c *Conn) headers(f *http2.MetaHeadersFrame) {
	c.mu.Lock()
	call := c.streams[f.StreamID]
	if call != nil && call.status == "" {
		if status := f.PseudoValue("status"); status[0] != '1' {
			call.status = status
		}
	}
	c.mu.Unlock()
	if call != nil && f.StreamEnded() {
		c.finish(f.StreamID, call.verdict())
	}
}

// finish ends a call, if it has not ended.
func (c *Conn) finish(id uint32, err error) {
	c.mu.Lock()
	call := c.streams[id]
	delete(c.streams, id)
	c.mu.Unlock()
	if call != nil {
		call.ended(err)
	}
}

// reset cancels a call. c.mu is held.
func (c *Conn) reset(call *call) {
	delete(c.streams, call.id)
	call.cancelled = true
	// An error is the connection's, of which the reader hears too.
	_ = c.framer.WriteRSTStream(call.id, http2.ErrCodeCancel)
	_ = c.out.Flush()
}

// credit tells the peer now and then how much of its answers was read. c.mu is held.
func (c *Conn) credit(n int) {
	c.taken += n
	if c.taken < window/2 {
		return
	}
	_ = c.framer.WriteWindowUpdate(0, uint32(c.taken)) // of a broken connection the reader hears too
	_ = c.out.Flush()
	c.taken = 0
}

// take adds data to the answer and says whether the first event is whole with it.
func (call *call) take(data []byte) (begun bool) {
	if len(data) == 0 {
		return false
	}
	if call.first.IsZero() {
		call.first = time.Now()
	}
	before := call.events
	call.events += bytes.Count(data, []byte(eventEnd))
	if data[0] == '\n' && bytes.HasSuffix(call.tail, []byte("\n")) {
		call.events++
	}
	if len(data) >= tailSize {
		call.tail = append(call.tail[:0], data[len(data)-tailSize:]...)
	} else {
		over := max(0, len(call.tail)+len(data)-tailSize)
		call.tail = append(append(call.tail[:0], call.tail[over:]...), data...)
	}
	return before == 0 && call.events > 0
}

// verdict is what is wrong with an answer that has ended.
func (call *call) verdict() error {
	switch {
	case call.status != "200":
		return fmt.Errorf("status %s: %s", call.status, call.tail)
	case call.cancelled:
		return nil
	case !bytes.HasSuffix(call.tail, []byte(done)):
		return errors.New("an answer without its end")
	case call.events-1 != call.req.Events:
		return fmt.Errorf("an answer of %d events; want %d", call.events-1, call.req.Events)
	}
	return nil
}
