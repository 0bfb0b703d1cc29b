package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Escape sequences (ECMA-48, SGR).
const (
	bold  = "\x1b[1m"
	faint = "\x1b[2m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	cyan  = "\x1b[36m"
	plain = "\x1b[0m"
)

// screen is where the demo is shown.
type screen struct {
	out      io.Writer
	coloured bool
	sections int
}

// newScreen shows on file, in colour if it is a terminal and the user has not
// asked for none (https://no-color.org).
func newScreen(file *os.File) *screen {
	coloured := term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &screen{out: file, coloured: coloured}
}

// paint returns text in a colour.
func (s *screen) paint(colour, text string) string {
	if !s.coloured || text == "" {
		return text
	}
	return colour + text + plain
}

func (s *screen) title(text string) { fmt.Fprintln(s.out, s.paint(bold, text)) }

// section begins the next part, with a sentence on what it shows.
func (s *screen) section(name, about string) {
	s.sections++
	fmt.Fprintf(s.out, "\n%s  %s\n\n", s.paint(bold+cyan, fmt.Sprintf("%d  %s", s.sections, name)), s.paint(faint, about))
}

// row is a line with a name on its left.
func (s *screen) row(name, format string, args ...any) {
	fmt.Fprintf(s.out, "   %s %s\n", s.paint(faint, fmt.Sprintf("%-22s", name)), fmt.Sprintf(format, args...))
}

// harmless drops what a model may produce and a terminal would obey.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}
