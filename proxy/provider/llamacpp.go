package provider

import (
	"bytes"
	"net/textproto"
	"time"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/sse"
	"github.com/tidwall/gjson"
)

func newLlamaCpp(u config.Unit) Dialect {
	if u.API == config.APIInfill {
		return &llamaInfill{maxTokens: u.MaxTokens}
	}
	c := newCompletions(u)
	c.can = capabilities{answers: true, prompts: true}
	c.endless, c.ownTokens = true, llamaTokens
	c.drop = append([]string{"best_of", "echo"}, llamaTokens...) // best_of is refused even if it asks for nothing
	return &llamaCompletions{c}
}

// llamaCompletions speaks llama.cpp's POST /v1/completions.
type llamaCompletions struct{ completions }

// llamaTokens are llama.cpp's own names for max_tokens, in the order in which they count.
// It takes them rather than max_tokens where a request has both.
var llamaTokens = []string{"n_predict", "max_completion_tokens"}

// Event bears two peculiarities: the stream for several prompts begins with null, and
// each choice of several tells its own usage.
func (l *llamaCompletions) Event(head *Head, data []byte) (Event, error) {
	if isNull(bytes.TrimSpace(data)) {
		return Event{}, nil
	}
	event, err := l.completions.Event(head, data)
	if event.Usage != nil {
		event.Usage.OfChoice = event.Finished != 0
	}
	return event, err
}

// llamaInfill speaks llama.cpp's POST /infill, which puts the model's own marks around
// the text before and behind the cursor.
type llamaInfill struct{ maxTokens int }

func (l *llamaInfill) Request(r Request) (Outbound, error) {
	if err := (capabilities{answers: true}).check(r.Body); err != nil {
		return Outbound{}, err
	}
	e := edit{
		set: []jsonedit.Member{
			{Name: "input_prefix", Value: string(onePrompt(r.Body))},
			{Name: "input_suffix", Value: textOf(r.Body, "suffix")},
			jsonedit.Set("model", r.Model),
		},
		// The field prompt would stand behind the mark of the middle.
		drop: []string{"prompt", "suffix", "max_tokens", "max_completion_tokens", "best_of", "echo", "stream_options"},
	}
	if most := tokens(r.Body, firstNumber(r.Body, llamaTokens), l.maxTokens); most != "" {
		e.set = append(e.set, jsonedit.Member{Name: "n_predict", Value: most})
	}
	if stop := jsonedit.Value(r.Body, "stop"); hasText(stop) { // which /infill passes over
		e.set = append(e.set, jsonedit.Member{Name: "stop", Value: listOf(stop)})
	}
	if extra := inputExtra(r.Body); extra != "" {
		e.set = append(e.set, jsonedit.Member{Name: "input_extra", Value: extra})
	}
	if jsonedit.Value(r.Body, "cache_prompt") == nil {
		// Each key pressed asks for nearly the same again.
		e.set = append(e.set, jsonedit.Member{Name: "cache_prompt", Value: "true"})
	}
	return Outbound{Body: e.apply(r.Body), Headers: bearer(r.Credential)}, nil
}

// textOf is the raw text of a field; an empty one if it has none.
func textOf(body []byte, name string) string {
	if text := jsonedit.Value(body, name); hasText(text) {
		return string(text)
	}
	return `""`
}

// listOf is a list of one raw value.
func listOf(value []byte) string { return "[" + string(value) + "]" }

// inputExtra is what Copilot's clients send of other files, in the field
// extra.context, as /infill takes it.
func inputExtra(body []byte) string {
	extra := jsonedit.Value(body, "extra")
	if len(extra) == 0 || extra[0] != '{' || jsonedit.Value(body, "input_extra") != nil {
		return ""
	}
	out := []byte{'['}
	for text := range jsonedit.Elements(jsonedit.Value(extra, "context")) {
		if !hasText(text) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, `{"filename":"","text":`...), text...), '}')
	}
	if len(out) == 1 {
		return ""
	}
	return string(append(out, ']'))
}

func (*llamaInfill) Framing() sse.Framing { return sse.Events }

// Event reads {"content":"…","stop":false,…}. The last of each choice has
// "stop":true and why; llama.cpp sends no mark of the end.
func (l *llamaInfill) Event(head *Head, data []byte) (Event, error) {
	if isDone(data) { // of a hop that adds one
		return Event{Done: true}, nil
	}
	return l.one(head, data)
}

func (*llamaInfill) one(head *Head, data []byte) (Event, error) {
	data, err := object(data)
	if err != nil {
		return Event{}, err
	}
	c, usage, err := readInfill(data)
	if err != nil {
		return Event{}, err
	}
	return head.event(usage, c), nil
}

// Answer reads one such object, or a list of them if several answers were asked for, each
// of them a last one.
func (l *llamaInfill) Answer(head *Head, body []byte) (Event, error) {
	event, err := l.all(head, trimmed(body))
	if err == nil && event.Finished != event.Seen {
		return Event{}, errNotWhole
	}
	return event, err
}

func (l *llamaInfill) all(head *Head, body []byte) (Event, error) {
	if !isList(body) {
		return l.one(head, body)
	}
	if ok, _ := jsonedit.Valid(body, maxDepth); !ok {
		return Event{}, errNotJSON
	}
	var choices []choice
	var usage *Usage
	for answer := range jsonedit.Elements(body) {
		c, more, err := readInfill(answer)
		if err != nil {
			return Event{}, err
		}
		choices, usage = append(choices, c), usage.Plus(more)
	}
	if len(choices) == 0 {
		return Event{}, errNoChoice
	}
	return head.event(usage, choices...), nil
}

// readInfill reads one choice, and what it cost once it has ended.
func readInfill(data []byte) (c choice, usage *Usage, err error) {
	var stop, kind []byte
	cost := Usage{OfChoice: true}
	for name, value := range jsonedit.Members(data) {
		switch string(name) {
		case "error":
			if !isNull(value) {
				return c, nil, &Error{readRefusal(data)}
			}
		case "index":
			if c.index, err = indexOf(value); err != nil {
				return c, nil, err
			}
		case "content":
			c.text = value
		case "stop":
			stop = value
		case "stop_type":
			kind = value
		case "tokens_evaluated":
			cost.PromptTokens = metered(gjson.ParseBytes(value))
		case "tokens_predicted":
			cost.CompletionTokens = metered(gjson.ParseBytes(value))
		}
	}
	switch {
	case c.text == nil:
		return c, nil, errNoChoice
	case !mayBeText(c.text):
		return c, nil, errNoText
	case string(stop) != "true":
		return c, nil, nil
	case string(kind) == `"limit"`:
		c.reason = "length"
	default: // the model's end ("eos"), or a stop text ("word")
		c.reason = "stop"
	}
	return c, cost.kept(), nil
}

func (*llamaInfill) Refusal(body []byte) Refusal { return readRefusal(body) }

func (*llamaInfill) Worked(textproto.MIMEHeader) (time.Duration, bool) { return 0, false }
