package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/ghostline-dev/ghostline/internal/oneline"
	"github.com/ghostline-dev/ghostline/proxy/sse"
)

const (
	maxTrailing = 4 << 10
	// trailingWait is how long the stream may take to end after its last event.
	trailingWait = time.Second
)

// answer is one stream of events.
type answer struct {
	resp     *http.Response
	events   *sse.Reader
	choices  int
	finished map[int]bool
	usage    *Usage
	variant  string
	close    func()
}

func newAnswer(conn *connection, l *link, resp *http.Response, choices int) *answer {
	a := &answer{
		resp:     resp,
		events:   sse.NewReader(resp.Body),
		choices:  choices,
		finished: make(map[int]bool),
		variant:  oneline.Clean(resp.Header.Get("X-Ghostline-Variant")),
	}
	a.close = sync.OnceFunc(func() {
		// Closing an unfinished body resets the stream and waits until the
		// reset is written.
		resp.Body.Close()
		conn.release(l)
	})
	return a
}

// chunk is one event's data: OpenAI's text_completion.
type chunk struct {
	Choices []struct {
		Index        int     `json:"index"`
		Text         string  `json:"text"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *Usage     `json:"usage"`
	Error *wireError `json:"error"`
}

// each yields the answer's events and then, if it did not end well, one error.
func (a *answer) each(ctx context.Context, yield func(Event, error) bool) {
	for {
		data, err := a.events.Next()
		if err == nil && string(data) == "[DONE]" {
			a.drain()
			break
		}
		if errors.Is(err, io.EOF) && len(a.finished) >= a.choices {
			break
		}
		if err != nil {
			yield(Event{}, brokenOff(ctx, err))
			return
		}
		if more, err := a.chunk(data, yield); err != nil {
			yield(Event{}, err)
			return
		} else if !more {
			return
		}
	}
	if a.usage != nil {
		yield(Event{Usage: a.usage, Variant: a.variant}, nil)
	}
}

// chunk yields the events of one chunk; more is false if the caller has enough.
func (a *answer) chunk(data []byte, yield func(Event, error) bool) (more bool, err error) {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		// The cause would quote completion text.
		return false, fmt.Errorf("%w: an event is not the JSON object of a completion", ErrTruncated)
	}
	if c.Error != nil {
		refusal := &Error{Status: a.resp.StatusCode, RequestID: oneline.Clean(a.resp.Header.Get("X-Request-Id"))}
		c.Error.apply(refusal)
		return false, fmt.Errorf("%w: %w", ErrTruncated, refusal)
	}
	if c.Usage != nil {
		a.usage = c.Usage
	}
	for _, choice := range c.Choices {
		e := Event{Index: choice.Index, Text: choice.Text, Variant: a.variant}
		if choice.FinishReason != nil {
			e.FinishReason = *choice.FinishReason
		}
		if e.FinishReason != "" {
			a.finished[e.Index] = true
		}
		if (e.Text != "" || e.FinishReason != "") && !yield(e, nil) {
			return false, nil
		}
	}
	return true, nil
}

// drain reads on to the stream's own end, so that it does not count as cancelled
// at the proxy. A proxy that does not end it gets the reset after all.
func (a *answer) drain() {
	timer := time.AfterFunc(trailingWait, func() { a.resp.Body.Close() })
	defer timer.Stop()
	// The answer is whole already: how the stream ends changes nothing.
	_, _ = io.CopyN(io.Discard, a.resp.Body, maxTrailing)
}

// brokenOff is the error of a stream that ended with err too early.
func brokenOff(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the stream ended without [DONE] or a finish reason", ErrTruncated)
	}
	return fmt.Errorf("%w: %w", ErrTruncated, err)
}
