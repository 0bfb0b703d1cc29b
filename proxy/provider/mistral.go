package provider

import (
	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/tidwall/gjson"
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
	if raw := jsonedit.Value(data, "error"); raw != nil && !isNull(raw) || string(jsonedit.Value(data, "object")) == `"error"` {
		return Event{}, &Error{readRefusal(data)}
	}
	event, choices := Event{}, []byte{'['}
	for choice := range jsonedit.Elements(jsonedit.Value(data, "choices")) {
		if len(choices) > 1 {
			choices = append(choices, ',')
		}
		text, reason := content(jsonedit.Value(choice, message)), jsonedit.Value(choice, "finish_reason")
		index := min(gjson.ParseBytes(jsonedit.Value(choice, "index")).Uint(), 63)
		if err := event.count(index, len(text) > len(`""`), reason); err != nil {
			return Event{}, err
		}
		set := []jsonedit.Member{{Name: "text", Value: text}}
		if string(reason) == `"model_length"` { // the model's context is full
			set = append(set, jsonedit.Set("finish_reason", "length"))
		}
		choices = append(choices, jsonedit.Apply(choice, set, message)...)
	}
	if usage := jsonedit.Value(data, "usage"); usage != nil {
		event.Usage = readUsage(usage)
	}
	event.Data = jsonedit.Apply(data, []jsonedit.Member{
		jsonedit.Set("object", "text_completion"), {Name: "choices", Value: string(append(choices, ']'))},
	})
	return event, nil
}

// content is the raw text of a message, which may have none yet. Mistral's reference
// allows a list of parts too; those that are no text are not for an editor.
func content(message []byte) string {
	if len(message) == 0 || message[0] != '{' {
		return `""`
	}
	raw := jsonedit.Value(message, "content")
	if hasText(raw) {
		return string(raw)
	}
	out := []byte{'"'}
	for part := range jsonedit.Elements(raw) {
		if text := jsonedit.Value(part, "text"); hasText(text) {
			out = append(out, inner(text)...)
		}
	}
	return string(append(out, '"'))
}
