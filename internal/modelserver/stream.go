package modelserver

import (
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"
)

// eventStream is an answer as server-sent events. What is the same in every
// event is rendered once, so that an event costs no more than its text.
type eventStream struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	usage    bool
	perEvent int // tokens that make an event
	waiting  []waiting
	envelope []byte // an event up to its choices
	buf      []byte
	events   int
	begun    bool
}

// waiting is the text of a completion that is not sent yet.
type waiting struct {
	text   string
	tokens int
}

func newEventStream(w http.ResponseWriter, id identity, completions, perEvent int, usage bool) *eventStream {
	envelope := append([]byte("data: "), id.appendJSON(nil)...)
	return &eventStream{
		w: w, control: http.NewResponseController(w), usage: usage, perEvent: perEvent,
		waiting: make([]waiting, completions), envelope: append(envelope, `,"choices":[`...),
	}
}

func (s *eventStream) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("Cache-Control", "no-cache")
	s.w.WriteHeader(http.StatusOK)
	return s.control.Flush()
}

func (s *eventStream) text(index int, text string) error {
	wait := &s.waiting[index]
	wait.text += text
	wait.tokens++
	if wait.tokens < s.perEvent {
		return nil
	}
	return s.sendWaiting(index)
}

func (s *eventStream) sendWaiting(index int) error {
	text := s.waiting[index].text
	s.waiting[index] = waiting{}
	if text == "" {
		return nil
	}
	s.events++
	return s.send(index, text, "null")
}

func (s *eventStream) finish(index int, reason string) error {
	if err := s.sendWaiting(index); err != nil {
		return err
	}
	return s.send(index, "", `"`+reason+`"`)
}

// send sends one event with one choice.
func (s *eventStream) send(index int, text, reason string) error {
	buf := append(s.buf[:0], s.envelope...)
	buf = append(buf, `{"text":`...)
	buf = gjson.AppendJSONString(buf, text)
	buf = append(buf, `,"index":`...)
	buf = strconv.AppendInt(buf, int64(index), 10)
	buf = append(buf, `,"logprobs":null,"finish_reason":`...)
	buf = append(buf, reason...)
	buf = append(buf, `}]`...)
	if s.usage {
		buf = append(buf, `,"usage":null`...)
	}
	s.buf = append(buf, "}\n\n"...)
	return s.write(s.buf)
}

// write sends what it is given at once.
func (s *eventStream) write(events []byte) error {
	if err := s.begin(); err != nil {
		return err
	}
	if _, err := s.w.Write(events); err != nil {
		return err
	}
	return s.control.Flush()
}

func (s *eventStream) sent() int { return s.events }

func (s *eventStream) fail(failure *apiError) error {
	return s.write([]byte("data: " + string(failure.body()) + "\n\n"))
}

func (s *eventStream) end(u usage, done bool) error {
	if !done {
		return nil
	}
	buf := s.buf[:0]
	if s.usage {
		buf = append(buf, s.envelope...)
		buf = append(buf, `],"usage":`...)
		buf = append(u.appendJSON(buf), "}\n\n"...)
	}
	return s.write(append(buf, "data: [DONE]\n\n"...))
}
