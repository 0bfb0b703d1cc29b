package provider

import (
	"bytes"
	"math"
	"regexp"
	"strings"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/tidwall/gjson"
)

// maxDepth bounds how deep an answer nests.
const maxDepth = 128

var byteOrderMark = []byte("\ufeff")

// trimmed is data without blanks, and without the mark that some hops put before UTF-8.
func trimmed(data []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(data, byteOrderMark))
}

// object is the one JSON object in data.
func object(data []byte) ([]byte, error) {
	data = trimmed(data)
	if ok, _ := jsonedit.Valid(data, maxDepth); !ok || data[0] != '{' {
		return nil, errNotJSON
	}
	return data, nil
}

// readCompletion reads a completion, or a chunk of one, in OpenAI's form.
func readCompletion(data []byte) (Event, error) {
	data, err := object(data)
	if err != nil {
		return Event{}, err
	}
	event := Event{Data: oneLine(data)}
	for name, value := range jsonedit.Members(event.Data) {
		switch string(name) {
		case "error":
			if !isNull(value) {
				return Event{}, &Error{readRefusal(data)}
			}
		case "object":
			if string(value) == `"error"` { // vLLM before 0.10, Mistral
				return Event{}, &Error{readRefusal(data)}
			}
		case "choices":
			for choice := range jsonedit.Elements(value) {
				if err := event.addChoice(choice); err != nil {
					return Event{}, err
				}
			}
		case "usage":
			event.Usage = readUsage(value)
		}
	}
	return event, nil
}

func (e *Event) addChoice(choice []byte) error {
	index, text, reason := uint64(0), false, []byte(nil)
	for name, value := range jsonedit.Members(choice) {
		switch string(name) {
		case "index":
			var err error
			if index, err = indexOf(value); err != nil {
				return err
			}
		case "text":
			if text = hasText(value); text {
				e.locateText(value)
			}
		case "finish_reason":
			reason = value
		}
	}
	return e.count(index, text, reason)
}

// indexOf is the number of a choice; 63 if it is more. Anything but a whole number is an
// error: the client would be told of a choice that is not the one that ended.
func indexOf(raw []byte) (uint64, error) {
	value := gjson.ParseBytes(raw)
	switch n := value.Num; {
	case value.Type == gjson.Null:
		return 0, nil
	case value.Type != gjson.Number, n < 0, n != math.Trunc(n):
		return 0, errNoIndex
	default:
		return uint64(min(n, 63)), nil
	}
}

// count takes one choice: whether it brings text, and its raw finish reason.
func (e *Event) count(index uint64, text bool, reason []byte) error {
	e.Choices++
	e.Seen |= 1 << index
	if text {
		e.Tokens++
	}
	if hasText(reason) {
		if isBroken(reason) {
			return &Error{Refusal{Code: wordOf(gjson.ParseBytes(reason))}}
		}
		e.Finished |= 1 << index
	}
	return nil
}

// hasText says whether a raw value is a string that is not empty.
func hasText(value []byte) bool { return len(value) > len(`""`) && value[0] == '"' }

// mayBeText says whether a raw value is a string, or null, which some say for none. A
// text in another form would be lost unseen if it were taken for none.
func mayBeText(value []byte) bool { return value[0] == '"' || isNull(value) }

// isBroken tells the finish reasons of an answer that is not whole: vLLM gives up
// its work, DeepSeek has no room for it, Mistral fails.
func isBroken(reason []byte) bool {
	switch string(reason) {
	case `"abort"`, `"insufficient_system_resource"`, `"error"`:
		return true
	}
	return false
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
		PromptTokens:     metered(value.Get("prompt_tokens")),
		CompletionTokens: metered(value.Get("completion_tokens")),
	}
}

// maxMetered is more tokens than an answer can have cost.
const maxMetered = math.MaxInt32

// metered is a count of tokens; 0 for what cannot be one. Counts are added up, so one
// that is out of all proportion would be felt for ever, and the sum of two overflow.
func metered(value gjson.Result) int64 {
	if value.Type != gjson.Number || !(0 <= value.Num && value.Num <= maxMetered) {
		return 0
	}
	return int64(value.Num)
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

// readRefusal reads an error in the forms that providers have: an object error with
// param and code (OpenAI); both beside "object":"error" (vLLM before 0.10, Mistral);
// a list detail of what is wrong where (FastAPI, also within Mistral's message).
func readRefusal(body []byte) Refusal {
	object := gjson.ParseBytes(body)
	if nested := object.Get("error"); nested.IsObject() {
		object = nested
	}
	if !object.IsObject() {
		return Refusal{}
	}
	r := Refusal{Param: wordOf(object.Get("param")), Code: wordOf(object.Get("code"))}
	for _, path := range []string{"detail.0.loc", "message.detail.0.loc"} {
		if at := object.Get(path).Array(); r.Param == "" && len(at) > 1 {
			r.Param = wordOf(at[1]) // the first is "body"
		}
	}
	return r
}

func wordOf(value gjson.Result) string {
	text := strings.TrimSpace(value.String())
	if value.Type != gjson.String || !word.MatchString(text) {
		return ""
	}
	return text
}
