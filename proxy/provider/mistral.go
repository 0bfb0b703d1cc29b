package provider

import (
	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// mistral speaks Mistral's POST /v1/fim/completions: the request is nearly OpenAI's,
// the answer has the shape of a chat.
type mistral struct{ completions }

func newMistral(u config.Unit) Dialect {
	c := newCompletions(u)
	c.can = onlyOne
	// Mistral refuses any field that it does not know, and tells the usage of every
	// stream.
	c.usage = false
	c.drop = []string{
		"extra", "nwo", "code_annotations", "n", "best_of", "echo", "logprobs", "logit_bias", "frequency_penalty", "presence_penalty", "seed", "stream_options", "user",
	}
	return &mistral{c}
}

func (m *mistral) Request(r Request) (Outbound, error) {
	e, err := m.edit(r)
	if err != nil {
		return Outbound{}, err
	}
	if seed := jsonedit.Value(r.Body, "seed"); seed != nil {
		e.set = append(e.set, jsonedit.Member{Name: "random_seed", Value: string(seed)})
	}
	return Outbound{Body: e.apply(r.Body), Headers: bearer(r.Credential)}, nil
}

func (m *mistral) Event(_ *Head, data []byte) (Event, error) {
	if isDone(data) {
		return Event{Done: true}, nil
	}
	return readChat(data, "delta")
}

func (m *mistral) Answer(_ *Head, body []byte) (Event, error) {
	event, err := readChat(body, "message")
	if err == nil && event.Choices == 0 {
		err = errNoChoice
	}
	return event, err
}

// readChat puts the content of each choice's message, which has the given name, in
// the place of a completion's text.
func readChat(data []byte, message string) (Event, error) {
	data, err := object(data)
	if err != nil {
		return Event{}, err
	}
	data = oneLine(data)
	event, choices := Event{}, []byte{'['}
	for name, value := range jsonedit.Members(data) {
		switch string(name) {
		case "error":
			if !isNull(value) {
				return Event{}, &Error{readRefusal(data)}
			}
		case "object":
			if string(value) == `"error"` {
				return Event{}, &Error{readRefusal(data)}
			}
		case "choices":
			for choice := range jsonedit.Elements(value) {
				if choices, err = event.appendChat(choices, choice, message); err != nil {
					return Event{}, err
				}
			}
		case "usage":
			event.Usage = readUsage(value)
		}
	}
	event.Data = jsonedit.Apply(data, []jsonedit.Member{
		jsonedit.Set("object", "text_completion"), {Name: "choices", Value: string(append(choices, ']'))},
	})
	return event, nil
}

// appendChat counts a choice of a chat and appends it in a completion's form.
func (e *Event) appendChat(choices, choice []byte, message string) ([]byte, error) {
	index, text, reason, err := uint64(0), []byte(`""`), []byte(nil), error(nil)
	for name, value := range jsonedit.Members(choice) {
		switch string(name) {
		case "index":
			index, err = indexOf(value)
		case "finish_reason":
			reason = value
		case message:
			text, err = content(value)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := e.count(index, hasText(text), reason); err != nil {
		return nil, err
	}
	set := []jsonedit.Member{{Name: "text", Value: string(text)}}
	if string(reason) == `"model_length"` { // the model's context is full
		set = append(set, jsonedit.Set("finish_reason", "length"))
	}
	if len(choices) > len("[") {
		choices = append(choices, ',')
	}
	return append(choices, jsonedit.Apply(choice, set, message)...), nil
}

// content is the raw text of a message, which may have none yet. Mistral's reference
// allows a list of parts too; those that are no text are not for an editor.
func content(message []byte) ([]byte, error) {
	if message[0] != '{' {
		return []byte(`""`), nil
	}
	raw := jsonedit.Value(message, "content")
	switch {
	case hasText(raw):
		return raw, nil
	case len(raw) > 0 && raw[0] == '[':
		return joined(raw), nil
	case raw != nil && !mayBeText(raw):
		return nil, errNoText
	default:
		return []byte(`""`), nil
	}
}

// joined is the text of all parts that have one.
func joined(parts []byte) []byte {
	out := []byte{'"'}
	for part := range jsonedit.Elements(parts) {
		if text := jsonedit.Value(part, "text"); hasText(text) {
			out = append(out, inner(text)...)
		}
	}
	return append(out, '"')
}
