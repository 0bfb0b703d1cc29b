package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/ghostline-dev/ghostline/proxy/sse"
)

const (
	// maxAnswer bounds a unary answer, in bytes.
	maxAnswer = 16 << 20
	// maxHeld bounds what comes before the first byte of an answer.
	maxHeld = 64 << 10
)

// answer is a unit's answer. Once attempt has returned it, its first byte has
// come: from then on nothing is tried again.
type answer struct {
	x      *exchange
	ctx    context.Context // of the exchange with the unit
	cancel context.CancelCauseFunc
	clock  *clock
	body   io.ReadCloser
	*reading
	// held is what goes out first: the event that counts as the first byte,
	// and what came before it. A unary answer is all held.
	held []byte
	// seen and finished have bit i set once choice i was seen and has ended.
	seen, finished uint64
	// last says that the event before was the last of its choices.
	last bool
	// out is where the answer goes, once it goes.
	out *clientStream
}

// reading is how a stream is read. Its buffers are used again.
type reading struct {
	events  *sse.Reader
	repeats provider.Repeats
	head    provider.Head
}

// awaitFirst reads up to the first event with text or a finish reason, so that
// an error that comes before can still become the answer's status.
func (a *answer) awaitFirst() error {
	for {
		event, err := a.next()
		if err != nil {
			return err
		}
		if event.Done {
			return errors.New("the stream ended before it brought anything")
		}
		a.held = a.appendEvent(a.held, event)
		if len(a.held) > maxHeld && event.Tokens == 0 {
			return fmt.Errorf("more than %d bytes came before any text", maxHeld)
		}
		if event.Tokens > 0 || event.Finished != 0 {
			return nil
		}
	}
}

// readWhole reads a unary answer.
func (a *answer) readWhole() error {
	body, err := io.ReadAll(io.LimitReader(a.body, maxAnswer+1))
	switch {
	case err != nil:
		return err
	case len(body) > maxAnswer:
		return fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	head := &provider.Head{ID: a.x.answerID(), Model: a.x.ask.model, Created: a.x.asked}
	event, err := a.x.unit.dialect.Answer(head, body)
	if err != nil {
		return err
	}
	a.count(event)
	a.held = a.x.form.answer(event)
	return nil
}

// next reads the next event of a stream. At the end it returns a mark of the
// end, the provider's or our own, and io.ErrUnexpectedEOF if the answer is not
// whole: a fake end would make a part look like all. Whole is an answer whose
// choices have all finished; without the provider's own mark they must also be
// as many as were asked for. A provider without a mark is not waited for then.
func (a *answer) next() (provider.Event, error) {
	if a.last && a.hasAll() {
		return provider.Event{Done: true}, nil
	}
	var event provider.Event
	data, err := a.events.Next()
	if err == nil {
		event, err = a.repeats.Event(a.x.unit.dialect, &a.head, data)
	}
	switch {
	case errors.Is(err, io.EOF) && a.hasAll(), err == nil && event.Done && a.isWhole():
		return provider.Event{Done: true}, nil
	case errors.Is(err, io.EOF), err == nil && event.Done:
		return provider.Event{}, io.ErrUnexpectedEOF
	case err != nil:
		return provider.Event{}, err
	}
	a.count(event)
	return event, nil
}

// isWhole says that all choices that were seen have finished, hasAll that they are as
// many as were asked for.
func (a *answer) isWhole() bool { return a.seen != 0 && a.seen == a.finished }
func (a *answer) hasAll() bool {
	return a.isWhole() && bits.OnesCount64(a.finished) >= a.x.ask.answers()
}

func (a *answer) count(event provider.Event) {
	a.last = event.Last
	a.seen |= event.Seen
	a.finished |= event.Finished
	a.x.tokens += int64(event.Tokens)
	a.x.usage = a.x.usage.Plus(event.Usage)
	if a.x.transcript != nil {
		a.x.transcript.add(event.Data)
	}
}

// appendEvent appends the event as it goes out, or nothing if it is only about
// the request and the client did not ask for that.
func (a *answer) appendEvent(dst []byte, event provider.Event) []byte {
	if len(event.Data) == 0 || event.Choices == 0 && !a.x.ask.usage {
		return dst
	}
	return a.x.form.appendEvent(dst, event)
}

// Read reads the stream for events. What the client was not sent yet goes out
// first, because the read may block: so events that came together leave
// together, and none waits for the next.
func (a *answer) Read(p []byte) (int, error) {
	if a.out == nil { // still waiting for the first byte
		return a.more(p)
	}
	if err := a.out.flush(); err != nil {
		return 0, err
	}
	a.clock.reading()
	n, err := a.more(p)
	a.clock.writing()
	return n, err
}

// more reads the body, unless nobody waits for it any more: what has arrived can still
// be read then, and packed by gzip that may be a thousand times as much.
func (a *answer) more(p []byte) (int, error) {
	if err := a.ctx.Err(); err != nil {
		return 0, err
	}
	return a.body.Read(p)
}
