package provider

import "bytes"

// Repeats reads the events of one stream. The events of a stream are mostly alike
// but for their text, and one that is so need not be parsed again: what stands
// before and after the text is compared with the event before. Make one for each
// stream, or Reset it.
type Repeats struct {
	before, after []byte // of the text in the last event that was parsed
	event         Event  // what that one was, without its data
}

// Reset forgets the events so far.
func (r *Repeats) Reset() { r.before, r.after = r.before[:0], r.after[:0] }

// Event is d.Event(head, data).
func (r *Repeats) Event(d Dialect, head *Head, data []byte) (Event, error) {
	if event, ok := r.repeated(data); ok {
		return event, nil
	}
	event, err := d.Event(head, data)
	if err == nil {
		r.learn(event)
	}
	return event, err
}

// repeated is the event in data, if only its text is new.
func (r *Repeats) repeated(data []byte) (Event, bool) {
	from, to := len(r.before), len(data)-len(r.after)
	if from == 0 || from >= to || !bytes.Equal(data[:from], r.before) || !bytes.Equal(data[to:], r.after) || !isPlain(data[from:to]) {
		return Event{}, false
	}
	event := r.event
	event.Data = data
	return event, true
}

// learn remembers the parts of an event that is all text, if its dialect says
// where that is.
func (r *Repeats) learn(e Event) {
	r.Reset()
	if e.textTo == 0 || e.Choices != 1 || e.Tokens != 1 || e.Usage != nil {
		return
	}
	r.before = append(r.before, e.Data[:e.textFrom]...)
	r.after = append(r.after, e.Data[e.textTo:]...)
	r.event = e
	r.event.Data = nil
}

// isPlain says whether text can stand in a JSON string without a look at more
// than its bytes: it has no quote, no control character, and of escapes only those
// of one letter. Others are left to the parser.
func isPlain(text []byte) bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"', c < ' ':
			return false
		case c == '\\':
			i++
			if i == len(text) || !isShortEscape(text[i]) {
				return false
			}
		}
	}
	return true
}

func isShortEscape(c byte) bool {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}
