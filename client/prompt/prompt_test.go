package prompt_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ghostline-dev/ghostline/client/prompt"
	"github.com/google/go-cmp/cmp"
)

func TestCut(t *testing.T) {
	t.Parallel()
	lines := func(n int) string { return strings.Repeat("seven..\n", n) } // 8 bytes each
	for name, test := range map[string]struct {
		content string
		at      prompt.Cursor
		budget  int
		want    prompt.Parts
	}{
		"whole file fits":         {"a\nbc\nd\n", prompt.Cursor{Line: 2, Column: 2}, 0, prompt.Parts{Prompt: "a\nb", Suffix: "c\nd\n"}},
		"empty file":              {"", prompt.Cursor{Line: 1, Column: 1}, 0, prompt.Parts{}},
		"end of the last line":    {"ab", prompt.Cursor{Line: 1, Column: 3}, 0, prompt.Parts{Prompt: "ab"}},
		"line after the last":     {"ab\n", prompt.Cursor{Line: 2, Column: 1}, 0, prompt.Parts{Prompt: "ab\n"}},
		"CRLF stays":              {"a\r\nb\r\n", prompt.Cursor{Line: 1, Column: 2}, 0, prompt.Parts{Prompt: "a", Suffix: "\r\nb\r\n"}},
		"three to one":            {lines(40), prompt.Cursor{Line: 21, Column: 1}, 64, prompt.Parts{Prompt: lines(6), Suffix: lines(2)}},
		"prefix takes the rest":   {lines(40), prompt.Cursor{Line: 41, Column: 1}, 64, prompt.Parts{Prompt: lines(8)}},
		"suffix takes the rest":   {lines(40), prompt.Cursor{Line: 1, Column: 1}, 64, prompt.Parts{Suffix: lines(8)}},
		"short prefix":            {lines(40), prompt.Cursor{Line: 2, Column: 1}, 64, prompt.Parts{Prompt: lines(1), Suffix: lines(7)}},
		"short suffix":            {lines(40), prompt.Cursor{Line: 40, Column: 1}, 64, prompt.Parts{Prompt: lines(7), Suffix: lines(1)}},
		"cut at a line's end":     {lines(40), prompt.Cursor{Line: 21, Column: 5}, 64, prompt.Parts{Prompt: lines(5) + "seve", Suffix: "n..\n" + lines(1)}},
		"long line is cut inside": {strings.Repeat("x", 400), prompt.Cursor{Line: 1, Column: 201}, 64, prompt.Parts{Prompt: strings.Repeat("x", 48), Suffix: strings.Repeat("x", 16)}},
		"never inside a character": {strings.Repeat("€", 100), prompt.Cursor{Line: 1, Column: 151}, 65,
			prompt.Parts{Prompt: strings.Repeat("€", 16), Suffix: strings.Repeat("€", 5)}},
		"never inside a CRLF": {strings.Repeat("x", 90) + "\r\n" + strings.Repeat("y", 300), prompt.Cursor{Line: 1, Column: 76}, 64,
			prompt.Parts{Prompt: strings.Repeat("x", 48), Suffix: strings.Repeat("x", 15)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := prompt.Cut(test.content, test.at, test.budget)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCutErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		content string
		at      prompt.Cursor
		budget  int
		want    string
	}{
		"line":                        {"a\nb", prompt.Cursor{Line: 4, Column: 1}, 0, "line 4 is outside the file, which has 2 lines"},
		"one line":                    {"", prompt.Cursor{Line: 2, Column: 1}, 0, "line 2 is outside the file, which has 1 line"},
		"column":                      {"abc\r\nd", prompt.Cursor{Line: 1, Column: 5}, 0, "column 5 is outside line 1, which has 3 bytes: columns 1 to 4"},
		"zero line":                   {"abc", prompt.Cursor{Line: 0, Column: 1}, 0, "no place 0:1: lines and columns count from 1"},
		"zero column":                 {"abc", prompt.Cursor{Line: 1, Column: 0}, 0, "no place 1:0"},
		"character":                   {"a€b", prompt.Cursor{Line: 1, Column: 4}, 0, "inside a character, which begins at column 2"},
		"first character of its line": {"a\n€b", prompt.Cursor{Line: 2, Column: 3}, 0, "inside a character, which begins at column 1"},
		"budget":                      {"abc", prompt.Cursor{Line: 1, Column: 1}, 5, "the least is 64"},
		"not UTF-8":                   {"a\xff", prompt.Cursor{Line: 1, Column: 1}, 0, "not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := prompt.Cut(test.content, test.at, test.budget); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

func TestParseLocation(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"main.go:12:5":       "main.go 12:5",
		`C:\src\main.go:1:2`: `C:\src\main.go 1:2`,
		"main.go:12":         "should look like",
		"main.go":            "should look like",
		":1:2":               "should look like",
		"main.go:x:5":        `line "x" should be a number from 1`,
		"main.go:0:5":        `line "0" should be a number from 1`,
		"main.go:1:-5":       `column "-5" should be a number from 1`,
		"main.go:1:":         `column "" should be a number from 1`,
	} {
		file, at, err := prompt.ParseLocation(in)
		got := file + " " + at.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("package main\n\nfunc main() {\r\n\tprintln(\"€\")\n}\n", 3, 5, 64)
	f.Add(strings.Repeat("€\r\n", 100), 50, 4, 100)
	f.Add(strings.Repeat("x", 500), 1, 250, 77)
	f.Fuzz(func(t *testing.T, content string, line, column, budget int) {
		parts, err := prompt.Cut(content, prompt.Cursor{Line: line, Column: column}, budget)
		if err != nil {
			return
		}
		if budget == 0 {
			budget = prompt.DefaultBudget
		}
		size := len(parts.Prompt) + len(parts.Suffix)
		if size > budget || size < min(budget, len(content))/4 {
			t.Errorf("%d bytes of %d for a budget of %d", size, len(content), budget)
		}
		if !utf8.ValidString(parts.Prompt) || !utf8.ValidString(parts.Suffix) {
			t.Error("cut inside a character")
		}
		if !strings.Contains(content, parts.Prompt+parts.Suffix) {
			t.Error("the parts do not meet at a place of the file")
		}
		if len(content) <= budget && parts.Prompt+parts.Suffix != content {
			t.Error("a file that fits was cut")
		}
	})
}
