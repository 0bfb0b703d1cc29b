// Package jsonedit reads and changes the members of a JSON object without
// decoding the rest of it: what is not named stays as it is, byte for byte, and
// a long text costs a scan for its end rather than a copy.
//
// All functions but [Valid] want valid JSON; they panic on nothing, but make no
// sense of anything else.
package jsonedit

import (
	"bytes"
	"iter"
	"slices"

	"github.com/tidwall/gjson"
)

// Members yields the name, with its escapes resolved, and the raw value of each
// member of an object. Both are parts of object and must not be changed.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for rawName, value := range members(object) {
			if !yield(unquote(rawName), value) {
				return
			}
		}
	}
}

// Value is the raw value of an object's first member of that name; nil if there
// is none.
func Value(object []byte, name string) []byte {
	for n, value := range Members(object) {
		if string(n) == name {
			return value
		}
	}
	return nil
}

// members is Members with the names as they are written, quotes and all.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(rawName, value []byte) bool) {
		rest := after(object, '{')
		for {
			rawName, more := next(rest)
			if len(rawName) < len(`""`) {
				return
			}
			value, more := next(after(more, ':'))
			if !yield(rawName, value) {
				return
			}
			rest = after(more, ',')
		}
	}
}

// Elements yields the raw elements of an array.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		rest := after(array, '[')
		for {
			value, more := next(rest)
			if len(value) == 0 || !yield(value) {
				return
			}
			rest = after(more, ',')
		}
	}
}

// unquote is the text of a raw string; a copy only if it has escapes.
func unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') >= 0 {
		return []byte(gjson.ParseBytes(raw).Str)
	}
	return raw[1 : len(raw)-1]
}

// after is what follows the mark at the start of text, without blanks; nothing
// if something else stands there.
func after(text []byte, mark byte) []byte {
	text = trimBlanks(text)
	if len(text) == 0 || text[0] != mark {
		return nil
	}
	return trimBlanks(text[1:])
}

// trimBlanks is bytes.TrimLeft for JSON's blanks, without a set to set up.
func trimBlanks(text []byte) []byte {
	for len(text) > 0 && isBlank(text[0]) {
		text = text[1:]
	}
	return text
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// next splits text behind its first value; no value if text is at the end of its
// object or array.
func next(text []byte) (value, rest []byte) {
	if len(text) == 0 {
		return nil, nil
	}
	end := 0
	switch text[0] {
	case '"':
		end = stringLen(text)
	case '{', '[':
		end = nestedLen(text)
	default:
		for end < len(text) && text[end] != ',' && text[end] != ']' && text[end] != '}' && !isBlank(text[end]) {
			end++
		}
	}
	return text[:end], text[end:]
}

// nestedLen is the length of the object or array that text begins with.
func nestedLen(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += stringLen(text[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// stringLen is the length of the string that text begins with, quotes included;
// all of text if it does not end.
func stringLen(text []byte) int {
	for from := 1; from < len(text); {
		quote := bytes.IndexByte(text[from:], '"')
		if quote < 0 {
			break
		}
		quote += from
		escapes := 0
		for text[quote-escapes-1] == '\\' { // ends at the opening quote at the latest
			escapes++
		}
		if escapes%2 == 0 {
			return quote + 1
		}
		from = quote + 1
	}
	return len(text)
}

// Member is one member of a JSON object. Name needs no escaping, Value is JSON.
type Member struct{ Name, Value string }

// Set makes the member name: value, for a value that is text.
func Set(name, value string) Member {
	return Member{Name: name, Value: string(gjson.AppendJSONString(nil, value))}
}

// Apply returns a copy of object with the members of set given and those of
// drop left out.
func Apply(object []byte, set []Member, drop ...string) []byte {
	size := len(object)
	for _, m := range set {
		size += len(m.Name) + len(m.Value) + len(`"":,`)
	}
	out := append(make([]byte, 0, size), '{')
	for _, m := range set {
		out = appendMember(out, `"`+m.Name+`"`, m.Value)
	}
	for rawName, value := range members(object) {
		name := unquote(rawName)
		replaced := slices.ContainsFunc(set, func(m Member) bool { return m.Name == string(name) })
		dropped := slices.ContainsFunc(drop, func(d string) bool { return d == string(name) })
		if !replaced && !dropped {
			out = appendMember(out, rawName, value)
		}
	}
	return append(out, '}')
}

func appendMember[T string | []byte](out []byte, rawName, value T) []byte {
	if len(out) > len("{") {
		out = append(out, ',')
	}
	out = append(out, rawName...)
	out = append(out, ':')
	return append(out, value...)
}
