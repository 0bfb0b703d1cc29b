// Package oneline makes what others have written fit for a message of ours.
package oneline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLength is a paragraph, in bytes: more than any message needs.
const maxLength = 1 << 10

// Clean is s as one printable line of bounded length. A terminal obeys escape
// sequences, so they must not get through.
func Clean(s string) string {
	if len(s) > maxLength {
		cut := maxLength
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}
