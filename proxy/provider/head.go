package provider

import (
	"strconv"

	"github.com/tidwall/gjson"
)

// choice is one choice of an event, read from a form that is the provider's own.
type choice struct {
	index  uint64
	text   []byte // a raw JSON string, or nothing
	reason string // OpenAI's finish reason; empty while there is more to come
}

// event is an event in OpenAI's form with these choices.
func (h *Head) event(usage *Usage, choices ...choice) Event {
	out := append(h.buf[:0], `{"id":`...)
	out = gjson.AppendJSONString(out, h.ID)
	out = append(out, `,"object":"text_completion","created":`...)
	out = strconv.AppendInt(out, h.Created.Unix(), 10)
	out = append(out, `,"model":`...)
	out = gjson.AppendJSONString(out, h.Model)
	out = append(out, `,"choices":[`...)
	e := Event{Usage: usage}
	for i, c := range choices {
		if i > 0 {
			out = append(out, ',')
		}
		out = c.append(out)
		e.addOwn(c)
	}
	out = append(out, ']')
	if usage != nil {
		out = usage.append(out)
	}
	h.buf = append(out, '}')
	e.Data = h.buf
	return e
}

func (c choice) append(out []byte) []byte {
	out = append(out, `{"text":`...)
	if hasText(c.text) {
		out = append(out, c.text...)
	} else {
		out = append(out, `""`...)
	}
	out = append(out, `,"index":`...)
	out = strconv.AppendUint(out, c.index, 10)
	out = append(out, `,"logprobs":null,"finish_reason":`...)
	if c.reason == "" {
		return append(out, "null}"...)
	}
	return append(gjson.AppendJSONString(out, c.reason), '}')
}

func (u *Usage) append(out []byte) []byte {
	out = append(out, `,"usage":{"prompt_tokens":`...)
	out = strconv.AppendInt(out, u.PromptTokens, 10)
	out = append(out, `,"completion_tokens":`...)
	out = strconv.AppendInt(out, u.CompletionTokens, 10)
	out = append(out, `,"total_tokens":`...)
	out = strconv.AppendInt(out, u.PromptTokens+u.CompletionTokens, 10)
	return append(out, '}')
}

// addOwn counts a choice.
func (e *Event) addOwn(c choice) {
	bit := uint64(1) << min(c.index, 63)
	e.Choices++
	e.Seen |= bit
	if hasText(c.text) {
		e.Tokens++
	}
	if c.reason != "" {
		e.Finished |= bit
		e.Last = true
	}
}
