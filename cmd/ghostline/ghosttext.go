package main

import (
	"io"
	"strings"
	"unicode"
)

const (
	dim    = "\x1b[2m"
	notDim = "\x1b[0m"
)

// ghostText prints a completion. At a terminal it is dimmed; elsewhere the bytes
// are the model's, for a script to use.
type ghostText struct {
	out        io.Writer
	atTerminal bool
	begun      bool
}

func (g *ghostText) write(text string) error {
	if g.atTerminal {
		text = strings.Map(harmless, text)
		if !g.begun {
			text = dim + text
		}
	}
	g.begun = true
	_, err := io.WriteString(g.out, text)
	return err
}

// end leaves the terminal as it was, at the start of a line.
func (g *ghostText) end() error {
	if !g.atTerminal || !g.begun {
		return nil
	}
	_, err := io.WriteString(g.out, notDim+"\n")
	return err
}

// harmless drops the control characters that a model may produce and a terminal
// would obey.
func harmless(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return -1
	}
	return r
}
