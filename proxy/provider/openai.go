package provider

import (
	"bytes"
	"errors"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/tidwall/gjson"
)

// openAI is OpenAI's legacy completions API, POST /v1/completions, which many
// model servers speak.
type openAI struct{}

// maxDepth bounds how deep an answer nests.
const maxDepth = 128

// clientOnly are fields that Copilot's and Mistral's clients send and that
// OpenAI's API refuses as unknown.
var clientOnly = []string{"extra", "nwo", "min_tokens"}

func (openAI) Request(r Request) (Outbound, error) {
	set := []jsonedit.Member{jsonedit.Set("model", r.Model)}
	if r.Stream {
		// Usage is metered whether the client asks for it or not.
		set = append(set, jsonedit.Member{Name: "stream_options", Value: streamOptions(r.Body)})
	}
	out := Outbound{Body: jsonedit.Apply(r.Body, set, clientOnly...)}
	if r.Credential != "" {
		out.Headers = []Header{{"Authorization", "Bearer " + r.Credential}}
	}
	return out, nil
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

var (
	doneMark = []byte("[DONE]")

	errNotJSON  = errors.New("the event is not a JSON object")
	errNoChoice = errors.New("the answer has no choices")
)

func (o openAI) Event(data []byte) (Event, error) {
	if bytes.Equal(bytes.TrimSpace(data), doneMark) {
		return Event{Done: true}, nil
	}
	return o.read(data)
}

func (o openAI) Answer(body []byte) (Event, error) {
	event, err := o.read(body)
	if err == nil && event.Choices == 0 {
		err = errNoChoice
	}
	return event, err
}

func (openAI) read(data []byte) (Event, error) {
	data = bytes.TrimSpace(data)
	if ok, _ := jsonedit.Valid(data, maxDepth); !ok || data[0] != '{' {
		return Event{}, errNotJSON
	}
	event := Event{Data: oneLine(data)}
	for name, value := range jsonedit.Members(event.Data) {
		switch string(name) {
		case "error":
			if !isNull(value) {
				return Event{}, &Error{openAI{}.Refusal(data)}
			}
		case "choices":
			for choice := range jsonedit.Elements(value) {
				event.addChoice(choice)
			}
		case "usage":
			event.Usage = readUsage(value)
		}
	}
	return event, nil
}

func (e *Event) addChoice(choice []byte) {
	index, text, finished := uint64(0), false, false
	for name, value := range jsonedit.Members(choice) {
		switch string(name) {
		case "index":
			index = min(gjson.ParseBytes(value).Uint(), 63)
		case "text":
			if text = value[0] == '"' && len(value) > len(`""`); text {
				e.locateText(value)
			}
		case "finish_reason":
			finished = value[0] == '"' && len(value) > len(`""`)
		}
	}
	e.Choices++
	e.Seen |= 1 << index
	if finished {
		e.Finished |= 1 << index
	}
	if text {
		e.Tokens++
	}
}

// locateText notes where the event's data has a text, quotes and all. Both are
// parts of one slice, unless the data is a copy, so their capacities tell.
func (e *Event) locateText(raw []byte) {
	if e.textFrom = cap(e.Data) - cap(raw) + 1; e.textFrom > 0 {
		e.textTo = e.textFrom + len(raw) - len(`""`)
	}
}

func isNull(value []byte) bool { return string(value) == "null" }

func readUsage(raw []byte) *Usage {
	if raw[0] != '{' {
		return nil
	}
	value := gjson.ParseBytes(raw)
	return &Usage{
		PromptTokens:     max(0, value.Get("prompt_tokens").Int()),
		CompletionTokens: max(0, value.Get("completion_tokens").Int()),
	}
}

// oneLine takes out line ends, which JSON has only between its tokens and which
// an event's data must not have.
func oneLine(data []byte) []byte {
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return data
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, data)
}

// word is what a provider's code or param must look like to be passed on: the
// name of something, not text.
var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.\[\]]{0,63}$`)

func (openAI) Refusal(body []byte) Refusal {
	object := gjson.GetBytes(body, "error")
	if !object.IsObject() {
		return Refusal{}
	}
	return Refusal{Param: wordOf(object.Get("param")), Code: wordOf(object.Get("code"))}
}

func wordOf(value gjson.Result) string {
	text := strings.TrimSpace(value.String())
	if value.Type != gjson.String || !word.MatchString(text) {
		return ""
	}
	return text
}

// maxWorked is the longest that a provider is believed to have worked.
const maxWorked = 10 * time.Minute

func (openAI) Worked(header textproto.MIMEHeader) (time.Duration, bool) {
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
