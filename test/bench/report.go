package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// result is a competitor's figures in a cell, as bin/bench.json has them. What was
// not measured is null.
type result struct {
	Name        string `json:"name"`
	TLS         bool   `json:"tls"`
	Events      int    `json:"events"`
	PromptBytes int    `json:"prompt_bytes"`
	Connections int    `json:"connections"`
	Cancels     int    `json:"cancels"` // percent
	// CPU is of the competitor alone.
	CPU       *float64   `json:"cpu_us_per_request"`
	Rate      float64    `json:"requests_per_second"`
	FirstByte *quantiles `json:"first_byte_added_ms"`
	Cancel    *quantiles `json:"cancel_ms"`
	RSS       *float64   `json:"rss_mb"`

	// ratio is CPU's to ReverseProxy's, pair by pair; 0 if there is none.
	ratio float64
}

// results are the figures of a cell, without the competitors that were left out.
func results(c cell, lanes []*lane) []result {
	var reference []float64
	for _, l := range lanes {
		if l.name == nameReverseProxy && l.failure == nil {
			reference = l.costs
		}
	}
	var all []result
	for _, l := range lanes {
		if l.failure != nil {
			continue
		}
		r := result{
			Name: l.name, TLS: c.tls, Events: c.events, PromptBytes: c.promptBytes, Connections: c.connections,
			Cancels: c.cancels, Rate: median(l.rates),
		}
		if l.name != nameDirect {
			r.CPU, r.RSS = new(median(l.costs)), new(l.resident)
			r.ratio = median(ratios(l.costs, reference))
			if l.slow == nil {
				r.FirstByte = new(medians(l.firsts))
			}
		}
		if len(l.cancels) > 0 {
			r.Cancel = new(quantilesOf(l.cancels))
		}
		all = append(all, r)
	}
	return all
}

// Columns of the table.
const (
	headLine = "%-16s %-13s %8s %6s %9s %17s %17s %8s\n"
	rowLine  = "%-16s %-13s %8s %6s %9.0f %17s %17s %8s\n"
)

func printHead(w io.Writer) {
	fmt.Fprintf(w, headLine, "", "", "CPU", "", "", "first byte added", "cancel", "memory")
	fmt.Fprintf(w, headLine, "cell", "", "µs/req", "ratio", "req/s", "p50   p99 ms", "p50   p99 ms", "MiB")
}

func printCell(w io.Writer, c cell, rows []result) {
	fmt.Fprintln(w, strings.Repeat("-", 102))
	name := c.name
	for _, r := range rows {
		fmt.Fprintf(w, rowLine, name, r.Name, number("%.0f", r.CPU), ratio(r.ratio), r.Rate,
			both(r.FirstByte), both(r.Cancel), number("%.0f", r.RSS))
		name = ""
	}
}

func number(format string, value *float64) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprintf(format, *value)
}

func ratio(value float64) string {
	if value == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", value)
}

func both(q *quantiles) string {
	if q == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f %7.2f", q.P50, q.P99)
}

// printNotes says what the table does not show.
func printNotes(w io.Writer, lanes []*lane) {
	for _, l := range lanes {
		switch {
		case l.failure != nil:
			fmt.Fprintf(w, "%-16s %-13s left out: %v\n", "", l.name, l.failure)
		case l.slow != nil:
			fmt.Fprintf(w, "%-16s %-13s first byte not taken: %v\n", "", l.name, l.slow)
		}
	}
}

// bar is what Ghostline's processor time may be of ReverseProxy's.
const bar = 1.10

// printVerdict compares Ghostline with ReverseProxy at the base.
func printVerdict(w io.Writer, all []result) {
	ours, theirs := atBase(all, nameGhostline), atBase(all, nameReverseProxy)
	if ours == nil || theirs == nil {
		return
	}
	fmt.Fprintf(w, "\nGhostline beside ReverseProxy, base:\n")
	fmt.Fprintf(w, "  processor time against ReverseProxy: %.2f (bar %.2f)\n", ours.ratio, bar)
	if ours.FirstByte != nil && theirs.FirstByte != nil {
		fmt.Fprintf(w, "  first byte added, p99: %.2f ms against %.2f ms\n", ours.FirstByte.P99, theirs.FirstByte.P99)
	}
	if ours.Cancel != nil && theirs.Cancel != nil {
		fmt.Fprintf(w, "  cancel, p99: %.2f ms against %.2f ms\n", ours.Cancel.P99, theirs.Cancel.P99)
	}
}

// atBase is a competitor's result at the base, or nil.
func atBase(all []result, name string) *result {
	c := base()
	for i, r := range all {
		if r.Name == name && r.TLS == c.tls && r.Events == c.events && r.PromptBytes == c.promptBytes &&
			r.Connections == c.connections && r.Cancels == c.cancels {
			return &all[i]
		}
	}
	return nil
}

// writeJSON replaces the file.
func writeJSON(file string, all []result) error {
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
