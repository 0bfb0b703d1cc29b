// Package prompt turns a file and a cursor into what a completion is asked with:
// the text before the cursor and the text after it, within a budget.
package prompt

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// DefaultBudget is the budget in bytes that Cut takes for 0. Completion
	// models are trained on a few thousand tokens of context, and every one more
	// delays the first byte.
	DefaultBudget = 8 << 10
	// MinBudget is the smallest budget that leaves something to go by.
	MinBudget = 64
)

// Cursor is a place between two characters of a file, as compilers, grep and vim
// count: lines from 1, columns from 1 and in bytes. Column 1 is before the line's
// first character, length + 1 behind its last.
type Cursor struct {
	Line   int
	Column int
}

func (c Cursor) String() string { return fmt.Sprintf("%d:%d", c.Line, c.Column) }

// Parts are the two sides of the cursor.
type Parts struct {
	Prompt string // before
	Suffix string // after
}

// ParseLocation splits FILE:LINE:COL. FILE may hold colons itself.
func ParseLocation(s string) (file string, at Cursor, err error) {
	rest, column, ok := cutLast(s)
	file, line, ok2 := cutLast(rest)
	if !ok || !ok2 || file == "" {
		return "", Cursor{}, fmt.Errorf("%q is no location; it should look like main.go:12:5", s)
	}
	if at.Line, err = strconv.Atoi(line); err != nil || at.Line < 1 {
		return "", Cursor{}, fmt.Errorf("%q: line %q should be a number from 1", s, line)
	}
	if at.Column, err = strconv.Atoi(column); err != nil || at.Column < 1 {
		return "", Cursor{}, fmt.Errorf("%q: column %q should be a number from 1, counting bytes", s, column)
	}
	return file, at, nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// Cut returns at most budget bytes of content around the cursor; 0 means
// DefaultBudget. Three quarters go to the text before the cursor, the rest to
// the text after it, and what one side does not need goes to the other. Where the
// text does not fit, it is cut at the end of a line, or, if that would leave
// less than half of the side's share, between two characters. The bytes are
// those of the file: line ends stay as they are.
func Cut(content string, at Cursor, budget int) (Parts, error) {
	if budget == 0 {
		budget = DefaultBudget
	}
	if budget < MinBudget {
		return Parts{}, fmt.Errorf("a budget of %d bytes is too small; the least is %d", budget, MinBudget)
	}
	if !utf8.ValidString(content) {
		return Parts{}, errors.New("the file is not UTF-8 text")
	}
	offset, err := at.offset(content)
	if err != nil {
		return Parts{}, err
	}
	before, after := content[:offset], content[offset:]
	suffixBytes := min(len(after), max(budget/4, budget-len(before)))
	return Parts{
		Prompt: tail(before, budget-suffixBytes),
		Suffix: head(after, suffixBytes),
	}, nil
}

// offset finds the cursor in content.
func (c Cursor) offset(content string) (int, error) {
	if c.Line < 1 || c.Column < 1 {
		return 0, fmt.Errorf("there is no place %s: lines and columns count from 1", c)
	}
	start := 0
	for line := 1; line < c.Line; line++ {
		i := strings.IndexByte(content[start:], '\n')
		if i < 0 {
			return 0, fmt.Errorf("line %d is outside the file, which has %s", c.Line, count(line, "line"))
		}
		start += i + 1
	}
	text, _, _ := strings.Cut(content[start:], "\n")
	text = strings.TrimSuffix(text, "\r")
	if c.Column > len(text)+1 {
		return 0, fmt.Errorf("column %d is outside line %d, which has %s: columns 1 to %d",
			c.Column, c.Line, count(len(text), "byte"), len(text)+1)
	}
	offset := start + c.Column - 1
	for back := 0; offset-back >= start && offset < len(content); back++ {
		if !utf8.RuneStart(content[offset-back]) {
			continue
		}
		if back == 0 {
			break
		}
		return 0, fmt.Errorf("column %d of line %d is inside a character, which begins at column %d; columns count bytes",
			c.Column, c.Line, c.Column-back)
	}
	return offset, nil
}

// tail is the end of s, at most n bytes.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := len(s) - n
	// The byte before the cut is looked at too: the cut may be at a line's start.
	if i := strings.IndexByte(s[cut-1:], '\n'); i >= 0 && n-i >= n/2 {
		return s[cut+i:]
	}
	for cut < len(s) && !utf8.RuneStart(s[cut]) {
		cut++
	}
	return strings.TrimPrefix(s[cut:], "\n") // never half of a CRLF
}

// head is the start of s, at most n bytes.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if i := strings.LastIndexByte(s[:n], '\n'); i+1 >= (n+1)/2 {
		return s[:i+1]
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimSuffix(s[:n], "\r")
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
