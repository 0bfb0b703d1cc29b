package modelserver

import (
	"slices"
	"strings"
	"testing"
)

func TestCutter(t *testing.T) {
	for _, test := range []struct {
		name   string
		stops  []string
		suffix string
		push   []string
		want   []string // what goes out at each push
		ended  bool
		rest   string
	}{
		{name: "nothing to mind", push: []string{"a", "\n", "b"}, want: []string{"a", "\n", "b"}},
		{name: "a stop within a token", stops: []string{";"}, push: []string{"a", "b;c"}, want: []string{"a", "b"}, ended: true},
		{name: "a stop over tokens", stops: []string{"a\n}"}, push: []string{"xa", "\n", "}"}, want: []string{"x", "", ""}, ended: true},
		{name: "no stop after all", stops: []string{"a\n}"}, push: []string{"xa", "\n", "b"}, want: []string{"x", "", "a\nb"}},
		{name: "the first stop wins", stops: []string{"c", "b"}, push: []string{"abc"}, want: []string{"a"}, ended: true},
		{name: "a stop can come at once", stops: []string{"a"}, push: []string{"a"}, want: []string{""}, ended: true},
		{name: "held to the end", stops: []string{"abc"}, push: []string{"xab"}, want: []string{"x"}, rest: "ab"},
		{name: "the suffix", suffix: "return x", push: []string{"a; ", "return", " x"}, want: []string{"a; ", "", ""}, ended: true},
		{name: "the suffix after blanks", suffix: "\n}", push: []string{"a", "\n\t", "}"}, want: []string{"a", "", ""}, ended: true},
		{name: "the suffix not at the start", suffix: ")", push: []string{")", "x", ")"}, want: []string{")", "x", ""}, ended: true},
		{name: "the suffix not in own brackets", suffix: ")", push: []string{"f", "(", ")", ")"}, want: []string{"f", "(", ")", ""}, ended: true},
		{name: "a long suffix by its first tokens", suffix: "a b c d e", push: []string{"x", " a", " b", " c"}, want: []string{"x", " ", "", ""}, ended: true},
		{name: "a blank suffix is none", suffix: " \n", push: []string{"a", " ", "b"}, want: []string{"a", " ", "b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCutter(test.stops, test.suffix)
			var got []string
			ended := false
			for _, text := range test.push {
				if ended {
					t.Fatalf("ended early, having said %q", got)
				}
				var out string
				out, ended = c.push(text)
				got = append(got, out)
			}
			if !slices.Equal(got, test.want) || ended != test.ended {
				t.Errorf("said %q, ended %t; want %q, %t", got, ended, test.want, test.ended)
			}
			if rest := c.rest(); !test.ended && rest != test.rest {
				t.Errorf("the rest is %q; want %q", rest, test.rest)
			}
		})
	}
}

// However a text is cut into tokens, what goes out is the same.
func FuzzCutter(f *testing.F) {
	f.Add("f(a, b)\n\treturn\n}", "\n}", "ret", 3)
	f.Fuzz(func(t *testing.T, text, suffix, stop string, size int) {
		if stop == "" || size < 1 {
			t.Skip()
		}
		whole := newCutter([]string{stop}, "")
		want, ended := whole.push(text)
		if !ended {
			want += whole.rest()
		}
		if strings.Contains(want, stop) {
			t.Fatalf("said the stop text: %q", want)
		}
		pieces := newCutter([]string{stop}, suffix)
		var got strings.Builder
		for rest, ended := text, false; !ended; {
			var out string
			if rest == "" {
				got.WriteString(pieces.rest())
				break
			}
			n := min(size, len(rest))
			out, ended = pieces.push(rest[:n])
			got.WriteString(out)
			rest = rest[n:]
		}
		if !strings.HasPrefix(want, got.String()) {
			t.Fatalf("in pieces said %q, which does not begin %q", got.String(), want)
		}
		if suffix == "" && got.String() != want {
			t.Fatalf("in pieces said %q; want %q", got.String(), want)
		}
	})
}
