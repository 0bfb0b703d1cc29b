package modelserver

import (
	"strings"
	"unicode/utf8"
)

// maxTokenBytes bounds a token, so that no table of data in a source file
// becomes one word.
const maxTokenBytes = 32

// tokenLen returns the length of the token that s, which is not empty, begins
// with. A token is a line break with the blank lines and the indentation that
// follow; a run of blanks; or a word, a number or a run of punctuation, with the
// one space before it if there is one. Tokens begin and end between characters,
// and the tokens of a text joined together are the text.
func tokenLen(s string) int {
	space := 0
	if s[0] == ' ' && len(s) > 1 && classOf(s[1]) > blank {
		space = 1
	}
	class := classOf(s[space])
	n := space + 1
	// No further than one byte too many: a word of a MiB is many tokens, and to
	// look for its end at each of them would take hours.
	for end := min(len(s), maxTokenBytes+1); n < end && class.goesOn(classOf(s[n])); {
		n++
	}
	if n <= maxTokenBytes {
		return n
	}
	for n = maxTokenBytes; n > 1 && !utf8.RuneStart(s[n]); n-- {
	}
	return n
}

// tokens returns how many tokens s has, and the last few of them: at most keep.
func tokens(s string, keep int) (last []string, count int) {
	starts := make([]int, keep+1) // of the last tokens, and the end; in a ring
	for at := 0; at < len(s); {
		at += tokenLen(s[at:])
		count++
		starts[count%len(starts)] = at
	}
	for i := max(0, count-keep); i < count; i++ {
		last = append(last, s[starts[i%len(starts)]:starts[(i+1)%len(starts)]])
	}
	return last, count
}

// class is what kind of token a byte belongs to.
type class int

const (
	newline class = iota
	blank
	word // bytes of characters beyond ASCII too
	digit
	punctuation
)

func classOf(b byte) class {
	switch {
	case b == '\n' || b == '\r':
		return newline
	case b == ' ' || b == '\t':
		return blank
	case b >= '0' && b <= '9':
		return digit
	case b == '_' || b >= utf8.RuneSelf || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z':
		return word
	default:
		return punctuation
	}
}

// goesOn reports whether a token of class c takes in a byte of class next.
func (c class) goesOn(next class) bool {
	switch c {
	case newline:
		return next <= blank
	case word:
		return next == word || next == digit
	default:
		return next == c
	}
}

// isBlank reports whether s has nothing in it to see.
func isBlank(s string) bool { return strings.TrimLeft(s, whitespace) == "" }

const whitespace = " \t\r\n"
