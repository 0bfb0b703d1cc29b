package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/ghostline-dev/ghostline/proxy/sse"
	"github.com/tidwall/gjson"
)

const (
	maxTrailing = 4 << 10
	// trailingWait is how long a stream may take to end after its last event.
	trailingWait = time.Second
)

// event is what matters of an event of a completion.
type event struct{ text, finished, failed bool }

// read reads the answer to its end and notes the times and the outcome.
func (a *ask) read(ctx context.Context, resp *http.Response) {
	run := a.user.run
	events := run.reader()
	events.Reset(resp.Body, sse.Events)
	defer func() {
		events.Reset(nil, sse.Events)
		run.readers.Put(events)
	}()
	finished := false
	for {
		data, err := events.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			a.fail(ctx, err, resp)
			return
		}
		if err != nil {
			a.outcome = NoEnd
			return
		}
		if string(bytes.TrimSpace(data)) == "[DONE]" {
			break
		}
		e, ok := parseEvent(data)
		switch {
		case !ok:
			a.outcome, a.example = BadAnswer, "an event is not the JSON of a completion"
			return
		case e.failed:
			a.outcome, a.example = ErrorEvent, firstWord(errorCode(data))
			return
		case (e.text || e.finished) && a.firstByte == 0:
			a.firstByte = max(time.Since(a.began), 1)
		}
		finished = finished || e.finished
	}
	if !finished {
		a.outcome, a.example = NoEnd, "[DONE] without a finish reason"
		return
	}
	a.outcome, a.whole = Whole, time.Since(a.began)
	drain(resp)
}

// drain reads on to the stream's own end, so that it does not count as cancelled
// at the server. One that does not end it gets the reset after all.
func drain(resp *http.Response) {
	defer time.AfterFunc(trailingWait, func() { resp.Body.Close() }).Stop()
	// The answer is whole already: how the stream ends changes nothing.
	_, _ = io.CopyN(io.Discard, resp.Body, maxTrailing)
}

// parseEvent reads an event in OpenAI's or Mistral's form.
func parseEvent(data []byte) (e event, ok bool) {
	data = bytes.TrimSpace(data)
	if !gjson.ValidBytes(data) || data[0] != '{' {
		return event{}, false
	}
	for name, value := range jsonedit.Members(data) {
		switch string(name) {
		case "error":
			e.failed = string(value) != "null"
		case "choices":
			for choice := range jsonedit.Elements(value) {
				e.addChoice(choice)
			}
		}
	}
	return e, true
}

func (e *event) addChoice(choice []byte) {
	for name, value := range jsonedit.Members(choice) {
		switch string(name) {
		case "text":
			e.text = e.text || isText(value)
		case "delta":
			e.text = e.text || isText(jsonedit.Value(value, "content"))
		case "finish_reason":
			e.finished = e.finished || isText(value)
		}
	}
}

// isText says whether a raw value is a string with something in it.
func isText(value []byte) bool { return len(value) > len(`""`) && value[0] == '"' }

func firstWord(s string) string { return string(bytes.TrimSpace([]byte(s))) }
