package provider

import (
	"bytes"
	"errors"
	"net/textproto"
	"slices"
	"strconv"
	"time"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/sse"
	"github.com/tidwall/gjson"
)

// completions is OpenAI's completions API as one provider speaks it: requests go out
// nearly as they came, answers come back as they go out.
type completions struct {
	can capabilities
	// fim puts the field suffix into the prompt; nil leaves both as they are.
	fim *fillInTheMiddle
	// maxTokens bounds max_tokens; 0 is no bound.
	maxTokens int
	// endless says that the provider has no bound of its own for a request without
	// max_tokens.
	endless bool
	// ownTokens are its own names for max_tokens, which are dropped too: they would get
	// round what max_tokens says.
	ownTokens []string
	// drop are the fields that the provider refuses, and that change nothing if they
	// are left out.
	drop []string
	// usage says that a stream can be asked to tell its usage.
	usage bool
	// unnamed says that it is not the body that names the model.
	unnamed bool
}

// copilotOnly are the fields that Copilot's and Mistral's clients send and OpenAI's
// API does not have.
var copilotOnly = []string{"extra", "nwo", "code_annotations", "min_tokens"}

func newCompletions(u config.Unit) completions {
	return completions{can: everything, fim: newFillInTheMiddle(u.FillInTheMiddle), maxTokens: u.MaxTokens, usage: true}
}

func (c *completions) Request(r Request) (Outbound, error) {
	edit, err := c.edit(r)
	if err != nil {
		return Outbound{}, err
	}
	return Outbound{Body: edit.apply(r.Body), Headers: bearer(r.Credential)}, nil
}

// bearer is a credential as most providers take it.
func bearer(credential string) []Header {
	if credential == "" {
		return nil
	}
	return []Header{{"Authorization", "Bearer " + credential}}
}

// edit is what to change of the request's body.
func (c *completions) edit(r Request) (edit, error) {
	e := edit{drop: c.drop}
	if c.unnamed {
		e.leaveOut("model")
	} else {
		e.set = append(e.set, jsonedit.Set("model", r.Model))
	}
	if err := c.can.check(r.Body); err != nil {
		return e, err
	}
	if !c.can.prompts && isList(jsonedit.Value(r.Body, "prompt")) {
		e.set = append(e.set, jsonedit.Member{Name: "prompt", Value: string(onePrompt(r.Body))})
	}
	if c.fim != nil {
		if err := c.fim.put(&e, r.Body); err != nil {
			return e, err
		}
	}
	c.bound(&e, r.Body)
	switch {
	case !r.Stream:
		e.leaveOut("stream_options") // OpenAI and vLLM refuse it then
	case c.usage:
		// Usage is metered whether the client asks for it or not.
		e.set = append(e.set, jsonedit.Member{Name: "stream_options", Value: streamOptions(r.Body)})
	}
	return e, nil
}

// edit is a change of a request's body: members that are set, others that are left
// out, in one pass over the bytes.
type edit struct {
	set  []jsonedit.Member
	drop []string
}

func (e *edit) apply(body []byte) []byte { return jsonedit.Apply(body, e.set, e.drop...) }

// leaveOut leaves fields out too. What a dialect always drops is shared by all requests.
func (e *edit) leaveOut(fields ...string) { e.drop = append(slices.Clip(e.drop), fields...) }

// bound holds max_tokens to what the unit allows.
func (c *completions) bound(e *edit, body []byte) {
	asked := jsonedit.Value(body, "max_tokens")
	most := ""
	switch {
	case c.endless:
		most = tokens(body, firstNumber(body, c.ownTokens), c.maxTokens)
	case c.maxTokens > 0 && gjson.ParseBytes(asked).Num > float64(c.maxTokens):
		most = strconv.Itoa(c.maxTokens)
	}
	if most != "" && most != string(asked) {
		e.set = append(e.set, jsonedit.Member{Name: "max_tokens", Value: most})
	}
}

// tokens is the request's max_tokens, or what it has in the provider's own field in its
// place, at most most, as a number in JSON. Providers without a default of their own go on
// for ever (as they do for a number below 0), so most holds for a request that does not say
// too. It is empty if neither does.
func tokens(body, own []byte, most int) string {
	asked := gjson.ParseBytes(jsonedit.Value(body, "max_tokens"))
	if asked.Type != gjson.Number {
		asked = gjson.ParseBytes(own)
	}
	switch {
	case asked.Type == gjson.Number && (most == 0 || 0 <= asked.Num && asked.Num <= float64(most)):
		return asked.Raw
	case most > 0:
		return strconv.Itoa(most)
	}
	return ""
}

// firstNumber is the raw number in the first of these fields that has one; nil if none has.
func firstNumber(body []byte, names []string) []byte {
	for _, name := range names {
		if value := jsonedit.Value(body, name); gjson.ParseBytes(value).Type == gjson.Number {
			return value
		}
	}
	return nil
}

// streamOptions is the request's stream_options with the usage asked for.
func streamOptions(body []byte) string {
	const usage = `{"include_usage":true}`
	options := jsonedit.Value(body, "stream_options")
	if len(options) == 0 || options[0] != '{' {
		return usage
	}
	return string(jsonedit.Apply(options, []jsonedit.Member{{Name: "include_usage", Value: "true"}}))
}

func (*completions) Framing() sse.Framing { return sse.Events }

var (
	doneMark = []byte("[DONE]")

	errNotJSON  = errors.New("the event is not a JSON object")
	errNoChoice = errors.New("the answer has no choices")
	errNotWhole = errors.New("the answer does not say that it is at its end")
	errNoIndex  = errors.New("a choice has an index that is no whole number")
	errNoText   = errors.New("a choice has something else than text")
)

func (*completions) Event(_ *Head, data []byte) (Event, error) {
	if isDone(data) {
		return Event{Done: true}, nil
	}
	return readCompletion(data)
}

func isDone(data []byte) bool { return bytes.Equal(bytes.TrimSpace(data), doneMark) }

func (*completions) Answer(_ *Head, body []byte) (Event, error) {
	event, err := readCompletion(body)
	if err == nil && event.Choices == 0 {
		err = errNoChoice
	}
	return event, err
}

func (*completions) Refusal(body []byte) Refusal { return readRefusal(body) }

// maxWorked is the longest that a provider is believed to have worked.
const maxWorked = 10 * time.Minute

func (*completions) Worked(header textproto.MIMEHeader) (time.Duration, bool) {
	values := header["Openai-Processing-Ms"]
	if len(values) != 1 || len(values[0]) > len("600000.000000") {
		return 0, false
	}
	ms, err := strconv.ParseFloat(values[0], 64)
	if err != nil || !(0 <= ms && ms <= float64(maxWorked.Milliseconds())) { // NaN is neither
		return 0, false
	}
	return time.Duration(ms * float64(time.Millisecond)), true
}
