package oneline

import (
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	for given, want := range map[string]string{
		"":                                "",
		" plain\ttext\r\n ":               "plain text",
		"\x1b[31mred\x1b]0;title\a\x9b1m": "[31mred]0;title\ufffd1m",
		"left\u202eright\u200b\u0085":     "leftright",
		strings.Repeat("x", 2000):         strings.Repeat("x", 1024),
		strings.Repeat("é", 600) + "x":    strings.Repeat("é", 512),
		"x" + strings.Repeat("é", 600):    "x" + strings.Repeat("é", 511),
	} {
		if got := Clean(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}
