package modelserver

import (
	"slices"
	"strings"
)

// anchorTokens is how much of the suffix has to be said to count as the suffix.
const anchorTokens = 3

// cutter ends a completion where it says one of the stop texts, or what the
// suffix begins with. It holds back text that may turn out to be the beginning
// of such an end.
type cutter struct {
	stops []string
	// anchor is the beginning of the suffix from its first visible character.
	anchor string
	// led is set if blanks come before the anchor in the suffix; then those that
	// the completion ends with are one time too many.
	led  bool
	ends []string // the stops and the anchor

	held  string
	depth int  // brackets opened and not closed again in what was let out
	said  bool // anything visible was let out
}

func newCutter(stops []string, suffix string) *cutter {
	visible := strings.TrimLeft(suffix, whitespace)
	line, _, _ := strings.Cut(visible, "\n")
	anchor := 0
	for range anchorTokens {
		if anchor < len(line) {
			anchor += tokenLen(line[anchor:])
		}
	}
	c := &cutter{
		stops:  stops,
		anchor: strings.TrimRight(line[:anchor], whitespace),
		led:    len(visible) < len(suffix),
	}
	c.ends = append(slices.Clone(stops), c.anchor)
	return c
}

// push takes a token's text. It returns the text that may go out now, and
// whether the completion ends with it.
func (c *cutter) push(text string) (out string, ended bool) {
	if len(c.stops) == 0 && c.anchor == "" {
		c.said = c.said || !isBlank(text)
		return text, false
	}
	c.held += text
	if at := c.stopsAt(); at >= 0 {
		return c.let(at), true
	}
	if at := c.anchorAt(); at >= 0 {
		c.held = c.held[:at]
		return c.last(), true
	}
	return c.let(len(c.held) - c.unsure()), false
}

// rest returns what is held back, at an end that is not the cutter's doing.
func (c *cutter) rest() string { return c.let(len(c.held)) }

// last returns what is held back, where the suffix follows.
func (c *cutter) last() string {
	if c.led {
		c.held = strings.TrimRight(c.held, whitespace)
	}
	return c.rest()
}

// mayBridge reports whether the suffix could follow here: something was said,
// and no bracket of it is open.
func (c *cutter) mayBridge() bool {
	return c.anchor != "" && c.spoken(c.held) && c.depth+depthOf(c.held) <= 0
}

func (c *cutter) spoken(held string) bool { return c.said || !isBlank(held) }

// let lets the first n held bytes out.
func (c *cutter) let(n int) string {
	out := c.held[:n]
	c.held = c.held[n:]
	c.depth += depthOf(out)
	c.said = c.spoken(out)
	return out
}

// stopsAt returns where the first stop text begins in what is held, or -1.
func (c *cutter) stopsAt() int {
	first := -1
	for _, stop := range c.stops {
		if at := strings.Index(c.held, stop); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// anchorAt returns where the suffix begins in what is held, or -1. Within
// brackets that the completion opened itself, a bracket closes those.
func (c *cutter) anchorAt() int {
	if c.anchor == "" {
		return -1
	}
	for from := 0; ; {
		at := strings.Index(c.held[from:], c.anchor)
		if at < 0 {
			return -1
		}
		at += from
		if c.spoken(c.held[:at]) && c.depth+depthOf(c.held[:at]) <= 0 {
			return at
		}
		from = at + 1
	}
}

// unsure returns how many bytes at the end of what is held may belong to an end.
func (c *cutter) unsure() int {
	n := 0
	for _, end := range c.ends {
		for k := min(len(end)-1, len(c.held)); k > n; k-- {
			if strings.HasSuffix(c.held, end[:k]) {
				n = k
			}
		}
	}
	if c.led {
		n = len(c.held) - len(strings.TrimRight(c.held[:len(c.held)-n], whitespace))
	}
	return n
}

// depthOf returns how many more brackets s opens than it closes.
func depthOf(s string) (depth int) {
	for i := range len(s) {
		switch s[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
	}
	return depth
}
