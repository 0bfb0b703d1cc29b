package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	ghostTokens = 13
	linesBefore = 7
	linesAfter  = 3
)

// complete streams one completion into the source around the cursor.
func (d *demo) complete(ctx context.Context) error {
	d.section("Complete", "One cursor in one real file; the ghost text is shown as it streams.")
	ask, err := d.scene.request(ghostTokens)
	if err != nil {
		return err
	}
	d.row("cursor", "%s:%s", d.scene.file, d.scene.cursor())
	d.row("sent", "%d bytes before the cursor, %d after it\n", len(ask.Prompt), len(ask.Suffix))

	began := time.Now()
	view := newView(d.screen, d.scene)
	view.before()
	var first, last time.Duration
	events := 0
	for event, err := range d.client.Complete(ctx, ask) {
		if err != nil {
			return err
		}
		if first == 0 {
			first = time.Since(began)
		}
		if event.Text != "" {
			events++
			last = time.Since(began)
		}
		d.ghost += event.Text
		view.ghost(event.Text)
	}
	view.after()
	fmt.Fprintln(d.out)
	d.row("first byte", "%s, connecting included", milliseconds(first))
	d.row("streamed", "%d events in %s after that", events, milliseconds(last-first))
	return nil
}

// view shows source with ghost text in it.
type view struct {
	*screen
	lines  []string
	line   int // of the cursor, from 0
	column int // of the cursor, from 0
}

func newView(s *screen, from *scene) *view {
	at := from.cursor()
	return &view{screen: s, lines: strings.Split(from.content, "\n"), line: at.Line - 1, column: at.Column - 1}
}

// before shows the lines up to the cursor.
func (v *view) before() {
	for i := max(0, v.line-linesBefore); i < v.line; i++ {
		v.source(i, v.lines[i]+"\n")
	}
	v.source(v.line, v.lines[v.line][:v.column])
	fmt.Fprint(v.out, v.mark("«"))
}

// ghost shows a piece of ghost text.
func (v *view) ghost(piece string) {
	for i, line := range strings.Split(harmless(piece), "\n") {
		if i > 0 {
			fmt.Fprintf(v.out, "\n   %s ", v.paint(green, "   + │"))
		}
		fmt.Fprint(v.out, v.paint(green, spaced(line)))
	}
}

// after shows the lines from the cursor on.
func (v *view) after() {
	fmt.Fprintln(v.out, v.mark("»")+spaced(v.lines[v.line][v.column:]))
	for i := v.line + 1; i < min(len(v.lines), v.line+1+linesAfter); i++ {
		v.source(i, v.lines[i]+"\n")
	}
}

// mark shows where ghost text begins and ends, which colour shows too.
func (v *view) mark(text string) string { return v.paint(green, text) }

func (v *view) source(i int, text string) {
	fmt.Fprintf(v.out, "   %s %s", v.paint(faint, fmt.Sprintf("%4d │", i+1)), spaced(text))
}

// spaced has every tab as wide as the next, whatever is on its left.
func spaced(text string) string { return strings.ReplaceAll(text, "\t", "    ") }
