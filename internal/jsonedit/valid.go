package jsonedit

import (
	"encoding/binary"
	"math/bits"
)

// Valid says whether text is one JSON value (RFC 8259) that nests at most maxDepth
// levels; if not, tooDeep says whether that is why, as far as it was read. It does
// not look at the encoding: see utf8.Valid.
//
// gjson.ValidBytes looks at each byte of a prompt by itself, this one at eight.
func Valid(text []byte, maxDepth int) (ok, tooDeep bool) {
	v := validator{text: text, left: maxDepth}
	ok = v.value()
	v.blanks()
	return ok && v.at == len(text), v.tooDeep
}

// validator reads text from at on. Each of its methods is false at a mistake.
type validator struct {
	text    []byte
	at      int
	left    int // levels
	tooDeep bool
}

func (v *validator) peek() byte {
	if v.at < len(v.text) {
		return v.text[v.at]
	}
	return 0
}

// take skips c, if it stands here.
func (v *validator) take(c byte) bool {
	if v.peek() != c {
		return false
	}
	v.at++
	return true
}

func (v *validator) blanks() {
	for v.at < len(v.text) && isBlank(v.text[v.at]) {
		v.at++
	}
}

func (v *validator) value() bool {
	v.blanks()
	switch c := v.peek(); c {
	case '{':
		return v.list('}', v.member)
	case '[':
		return v.list(']', v.value)
	case '"':
		return v.str()
	case 't':
		return v.word("true")
	case 'f':
		return v.word("false")
	case 'n':
		return v.word("null")
	}
	return v.number()
}

// list reads an object or an array, whose opening bracket stands here.
func (v *validator) list(end byte, element func() bool) bool {
	if v.left == 0 {
		v.tooDeep = true
		return false
	}
	v.left--
	v.at++
	v.blanks()
	for more := !v.take(end); more; {
		if !element() {
			return false
		}
		v.blanks()
		if more = v.take(','); !more && !v.take(end) {
			return false
		}
	}
	v.left++
	return true
}

func (v *validator) member() bool {
	v.blanks()
	if !v.str() {
		return false
	}
	v.blanks()
	return v.take(':') && v.value()
}

func (v *validator) word(word string) bool {
	if len(v.text)-v.at < len(word) || string(v.text[v.at:v.at+len(word)]) != word {
		return false
	}
	v.at += len(word)
	return true
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (v *validator) number() bool {
	v.take('-')
	if !v.take('0') && !v.digits() {
		return false
	}
	if v.take('.') && !v.digits() {
		return false
	}
	if v.take('e') || v.take('E') {
		if !v.take('+') {
			v.take('-')
		}
		return v.digits()
	}
	return true
}

func (v *validator) digits() bool {
	from := v.at
	for '0' <= v.peek() && v.peek() <= '9' {
		v.at++
	}
	return v.at > from
}

func (v *validator) str() bool {
	if !v.take('"') {
		return false
	}
	for {
		v.at += plain(v.text[v.at:])
		switch v.peek() {
		case '"':
			v.at++
			return true
		case '\\':
			v.at++
			if !v.escape() {
				return false
			}
		default: // a control character, or the end
			return false
		}
	}
}

func (v *validator) escape() bool {
	c := v.peek()
	v.at++
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range 4 {
			if !isHex(v.peek()) {
				return false
			}
			v.at++
		}
		return true
	}
	return false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// plain is how many bytes of text stand before the first quote, backslash or
// control character.
func plain(text []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		quote, escape := w^(ones*'"'), w^(ones*'\\')
		// The high bit of a byte below n is set by (w - n) &^ w. Borrows can set it
		// wrongly only behind a byte for which it is right.
		if found := ((w-ones*' ')&^w | (quote-ones)&^quote | (escape-ones)&^escape) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(text); i++ {
		if c := text[i]; c == '"' || c == '\\' || c < ' ' {
			return i
		}
	}
	return i
}
