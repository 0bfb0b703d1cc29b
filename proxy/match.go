package proxy

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/tidwall/gjson"
)

const (
	// maxDepth bounds how deep a request nests; parsers recurse.
	maxDepth   = 64
	maxChoices = 16
	maxStops   = 16
	// maxAnswers bounds n times the prompts: how many choices of one answer can
	// be told apart, see provider.Event.
	maxAnswers = 64
)

// ask is what the proxy itself needs to know of a request's body.
type ask struct {
	model   string
	prompts int // how many; 0 is none
	n       int // answers for each prompt; 0 is one
	stream  bool
	// usage is whether the client wants a stream's usage and other chunks
	// without choices.
	usage bool
	// exact is whether the same request has the same answer each time: its
	// temperature is 0.
	exact bool
}

// answers is how many choices the client asked for.
func (a *ask) answers() int { return a.prompts * max(1, a.n) }

// match reads the body and finds the logical model that it asks for.
func (p *proxy) match(x *exchange) error {
	if err := parseAsk(x.body, &x.ask); err != nil {
		return err
	}
	if x.engine != "" {
		x.ask.model = x.engine
	}
	known := x.snapshot.models
	x.model = known[x.ask.model]
	switch {
	case x.ask.model == "":
		return badRequest(`the field "model" is missing; this service has: %s`, x.snapshot.modelNames(x))
	case x.model == nil:
		return notFound("model_not_found", fmt.Sprintf("the model is not known; this service has: %s", x.snapshot.modelNames(x)))
	case !x.claims.AllowsModel(x.model.Name):
		return denied("model_denied", fmt.Sprintf("this user is not allowed to use the model %s", x.model.Name))
	}
	return nil
}

// modelNames lists the models that the subject may use, for a message.
func (s *snapshot) modelNames(x *exchange) string {
	names := map[string]bool{}
	for _, m := range s.models {
		if x.claims.AllowsModel(m.Name) {
			names[m.Name] = true
		}
	}
	if len(names) == 0 {
		return "no model for this user"
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// field is one field that the proxy reads: what it must be, and a function that
// takes its raw value and says whether it is that.
type field struct {
	name string
	want string
	take func(a *ask, value []byte) bool
}

// fields are checked here rather than left to the unit, because a clear answer
// at once is worth more than a provider's refusal after a round trip, and
// because every provider refuses in words of its own.
var fields = []field{
	{"model", "text", func(a *ask, v []byte) bool {
		if isText(v) {
			a.model = gjson.ParseBytes(v).Str
		}
		return isText(v)
	}},
	{"prompt", "text, or a list of texts", func(a *ask, v []byte) bool {
		a.prompts = texts(v)
		return 1 <= a.prompts && a.prompts <= maxChoices
	}},
	{"suffix", "text", func(_ *ask, v []byte) bool { return isText(v) || isNull(v) }},
	{"stream", "true or false", func(a *ask, v []byte) bool {
		a.stream = string(v) == "true"
		return a.stream || string(v) == "false" || isNull(v)
	}},
	{"stream_options", "an object", func(a *ask, v []byte) bool {
		a.usage = v[0] == '{' && gjson.GetBytes(v, "include_usage").Bool()
		return v[0] == '{' || isNull(v)
	}},
	{"max_tokens", "a whole number from 1", wholeNumber(1, math.MaxInt32)},
	{"n", fmt.Sprintf("a whole number from 1 to %d", maxChoices), func(a *ask, v []byte) bool {
		a.n = int(gjson.ParseBytes(v).Num)
		return wholeNumber(1, maxChoices)(a, v)
	}},
	{"stop", fmt.Sprintf("text, or a list of up to %d texts", maxStops), func(_ *ask, v []byte) bool {
		count := texts(v)
		return 0 <= count && count <= maxStops || isNull(v)
	}},
	{"temperature", "a number from 0 to 2", func(a *ask, v []byte) bool {
		a.exact = !isNull(v) && gjson.ParseBytes(v).Num == 0
		return numberIn(0, 2)(a, v)
	}},
	{"top_p", "a number from 0 to 1", numberIn(0, 1)},
}

func isText(value []byte) bool { return value[0] == '"' }

func isNull(value []byte) bool { return string(value) == "null" }

func wholeNumber(least, most float64) func(*ask, []byte) bool {
	inRange := numberIn(least, most)
	return func(a *ask, value []byte) bool {
		n := gjson.ParseBytes(value).Num
		return inRange(a, value) && n == math.Trunc(n)
	}
}

// numberIn is true for a number from least to most, and for null.
func numberIn(least, most float64) func(*ask, []byte) bool {
	return func(_ *ask, value []byte) bool {
		v := gjson.ParseBytes(value)
		return v.Type == gjson.Null || v.Type == gjson.Number && v.Num >= least && v.Num <= most
	}
}

// texts is how many texts a value is: one, or a list of them; -1 for anything else.
func texts(value []byte) int {
	switch {
	case isText(value):
		return 1
	case value[0] != '[':
		return -1
	}
	count := 0
	for element := range jsonedit.Elements(value) {
		if !isText(element) {
			return -1
		}
		count++
	}
	return count
}

// parseAsk reads the fields that the proxy needs and refuses a body that a unit
// could read differently than we do.
func parseAsk(body []byte, a *ask) error {
	if err := checkJSON(body); err != nil {
		return err
	}
	return a.read(body)
}

// read reads the fields of a JSON object.
func (a *ask) read(body []byte) error {
	var seen uint32
	for name, value := range jsonedit.Members(body) {
		if err := a.takeField(name, value, &seen); err != nil {
			return err
		}
	}
	switch answers := a.answers(); {
	case a.prompts == 0:
		return badRequest(`the field "prompt" is missing; it must be the text before the cursor`)
	case answers > maxAnswers:
		return badRequest(`the field "n" times the number of prompts is %d; it must be at most %d`, answers, maxAnswers)
	}
	return nil
}

// takeField reads one member of the body. A field that stands twice, or in
// other letter case, is refused: parsers differ on which one counts, and what
// was checked must be what the model gets. Go's own parser takes either case as
// Unicode folds it: a long s (ſ) is an s to it, and a Kelvin sign a k.
func (a *ask) takeField(name, value []byte, seen *uint32) error {
	for i, f := range fields {
		if string(name) != f.name && !bytes.EqualFold(name, []byte(f.name)) {
			continue
		}
		switch {
		case string(name) != f.name:
			return badRequest("the field %q must be written %q", name, f.name)
		case *seen&(1<<i) != 0:
			return badRequest("the field %q stands twice", f.name)
		case !f.take(a, value):
			return badRequest("the field %q must be %s", f.name, f.want)
		}
		*seen |= 1 << i
	}
	return nil
}

// byteOrderMark is what some editors put before UTF-8, and what JSON must not
// begin with (RFC 8259 section 8.1).
var byteOrderMark = []byte("\ufeff")

// checkJSON is nil for one JSON object (RFC 8259) in UTF-8 of bounded depth.
func checkJSON(body []byte) error {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(trimmed) == 0:
		return badRequest("the request has no body; it must be a JSON object")
	case !utf8.Valid(body):
		return badRequest("the request's body is not valid UTF-8")
	case bytes.HasPrefix(body, byteOrderMark):
		return badRequest("the request's body begins with a byte order mark; send the JSON without it")
	case trimmed[0] != '{':
		return badRequest("the request's body must be a JSON object")
	}
	switch ok, tooDeep := jsonedit.Valid(body, maxDepth); {
	case tooDeep:
		return badRequest("the request's body nests deeper than %d levels", maxDepth)
	case !ok:
		return badRequest("the request's body is not valid JSON")
	}
	return nil
}
