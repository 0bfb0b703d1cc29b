package main

import (
	"fmt"
	"io"
	"time"

	"github.com/ghostline-dev/ghostline/internal/load"
)

const (
	clearLine = "\r\x1b[K"
	// At a terminal the line is rewritten; elsewhere each is one more line of a log.
	liveEvery = time.Second
	logEvery  = 10 * time.Second
)

// progressLine shows how a run goes.
type progressLine struct {
	out   io.Writer
	live  bool
	every time.Duration
}

func newProgressLine(out io.Writer) *progressLine {
	if _, ok := terminal(out); ok {
		return &progressLine{out: out, live: true, every: liveEvery}
	}
	return &progressLine{out: out, every: logEvery}
}

func (l *progressLine) show(p load.Progress) {
	line := progressText(p)
	if l.live {
		line = clearLine + line
	} else {
		line += "\n"
	}
	// Progress that cannot be written is no reason to end the run.
	_, _ = io.WriteString(l.out, line)
}

// end takes the line away from a terminal.
func (l *progressLine) end() {
	if l.live {
		_, _ = io.WriteString(l.out, clearLine)
	}
}

// progressText fits into 100 columns, at a terminal in most cases.
func progressText(p load.Progress) string {
	line := fmt.Sprintf("%5s  %d users  %.0f req/s  %d in flight  %.0f %% cancelled  %d errors",
		p.Elapsed.Round(time.Second), p.Users, p.PerSecond, p.InFlight, p.CancelPercent, p.Errors)
	if p.FirstByteP50 > 0 {
		line += fmt.Sprintf("  first byte %d/%d ms", p.FirstByteP50.Milliseconds(), p.FirstByteP99.Milliseconds())
	}
	if p.WarmingUp {
		line += "  (warm-up)"
	}
	return line
}
