package strict

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/tidwall/gjson"
)

// field is what a reference says of one field of a body.
type field struct {
	name      string
	wanted    string // the kind in words
	fits      func(gjson.Result) bool
	low, high float64 // of a number, or of the length of an array
	mandatory bool
	nullable  bool
	parts     []field // of an object; nil: they are free
}

func newField(name, wanted string, fits func(gjson.Result) bool) field {
	return field{name: name, wanted: wanted, fits: fits, low: math.Inf(-1), high: math.Inf(1)}
}

func text(name string) field    { return newField(name, "a string", isText) }
func boolean(name string) field { return newField(name, "a boolean", gjson.Result.IsBool) }
func number(name string) field  { return newField(name, "a number", isNumber) }
func integer(name string) field { return newField(name, "an integer", isInteger) }
func anything(name string) field {
	return newField(name, "anything", func(gjson.Result) bool { return true })
}

// object has the given parts and no others; without any, they are free.
func object(name string, parts ...field) field {
	f := newField(name, "an object", gjson.Result.IsObject)
	f.parts = parts
	return f
}

// array has elements of one kind.
func array(name string, element func(gjson.Result) bool) field {
	return newField(name, "an array", func(v gjson.Result) bool { return isArrayOf(v, element) })
}

// texts is a string or an array of strings.
func texts(name string) field {
	return newField(name, "a string or an array of strings", func(v gjson.Result) bool {
		return isText(v) || isArrayOf(v, isText)
	})
}

// prompts is what OpenAI takes as a prompt: a string, an array of strings, of
// tokens, or of arrays of tokens.
func prompts(name string) field {
	return newField(name, "a string, or an array of strings, tokens or arrays of tokens", func(v gjson.Result) bool {
		return isText(v) || isArrayOf(v, isText) || isArrayOf(v, isInteger) ||
			isArrayOf(v, func(e gjson.Result) bool { return isArrayOf(e, isInteger) })
	})
}

// map of tokens to biases, each fit to element.
func biases(name string, element func(gjson.Result) bool) field {
	return newField(name, "an object of numbers", func(v gjson.Result) bool {
		fits := v.IsObject()
		v.ForEach(func(_, e gjson.Result) bool { fits = fits && element(e); return fits })
		return fits
	})
}

func (f field) required() field                 { f.mandatory = true; return f }
func (f field) orNull() field                   { f.nullable = true; return f }
func (f field) from(low float64) field          { f.low = low; return f }
func (f field) between(low, high float64) field { f.low, f.high = low, high; return f }
func isText(v gjson.Result) bool                { return v.Type == gjson.String }
func isNumber(v gjson.Result) bool              { return v.Type == gjson.Number }
func isInteger(v gjson.Result) bool             { return isNumber(v) && v.Num == math.Trunc(v.Num) }
func isArrayOf(v gjson.Result, element func(gjson.Result) bool) bool {
	fits := v.IsArray()
	v.ForEach(func(_, e gjson.Result) bool { fits = fits && element(e); return fits })
	return fits
}

// kindOf names the kind of a JSON value, as the providers do.
func kindOf(v gjson.Result) string {
	switch {
	case v.IsObject():
		return "object"
	case v.IsArray():
		return "array"
	case v.IsBool():
		return "boolean"
	case isText(v):
		return "string"
	case isInteger(v):
		return "integer"
	case isNumber(v):
		return "decimal"
	default:
		return "null"
	}
}

// trouble is the kind of what is wrong with a field.
type trouble int

const (
	wrongKind trouble = iota
	outOfRange
	missing
	unknown
	twice
	notAnObject // the body as a whole
)

// problem is something in a body that a reference does not allow.
type problem struct {
	trouble
	name  string // with the names of the objects it is in, by dots
	field field  // zero if unknown
	value gjson.Result
}

// Error says it in this package's words; the providers have their own.
func (p problem) Error() string {
	switch p.trouble {
	case wrongKind:
		return fmt.Sprintf("%s is of kind %s; it must be %s", p.name, kindOf(p.value), p.field.wanted)
	case outOfRange:
		return fmt.Sprintf("%s is out of range: it must be from %g to %g", p.name, p.field.low, p.field.high)
	case missing:
		return p.name + " is required and missing"
	case unknown:
		return p.name + " is a field that the API reference does not have"
	case twice:
		return p.name + " is there twice"
	default:
		return "the body is not a JSON object"
	}
}

// examine holds a body against the fields of its reference.
func examine(body []byte, fields []field) []problem {
	root := gjson.ParseBytes(body)
	if !json.Valid(body) || !root.IsObject() {
		return []problem{{trouble: notAnObject, value: root}}
	}
	return examineObject(root, "", fields)
}

func examineObject(object gjson.Result, within string, fields []field) []problem {
	var problems []problem
	seen := map[string]bool{}
	object.ForEach(func(key, value gjson.Result) bool {
		name := within + key.Str
		if seen[key.Str] {
			problems = append(problems, problem{trouble: twice, name: name})
		}
		seen[key.Str] = true
		for _, f := range fields {
			if f.name == key.Str {
				problems = append(problems, f.examine(name, value)...)
				return true
			}
		}
		problems = append(problems, problem{trouble: unknown, name: name, value: value})
		return true
	})
	for _, f := range fields {
		if f.mandatory && !seen[f.name] {
			problems = append(problems, problem{trouble: missing, name: within + f.name, field: f})
		}
	}
	return problems
}

func (f field) examine(name string, value gjson.Result) []problem {
	measure := value.Num
	if value.IsArray() {
		measure = float64(len(value.Array()))
	}
	switch {
	case value.Type == gjson.Null && f.nullable:
		return nil
	case !f.fits(value):
		return []problem{{wrongKind, name, f, value}}
	case (isNumber(value) || value.IsArray()) && (measure < f.low || measure > f.high):
		return []problem{{outOfRange, name, f, value}}
	case value.IsObject() && f.parts != nil:
		return examineObject(value, name+".", f.parts)
	}
	return nil
}
