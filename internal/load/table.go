package load

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Write prints the report for people to read.
func (r *Report) Write(out io.Writer) error {
	var b strings.Builder
	r.writeHead(&b)
	r.writeCounts(&b)
	r.writeRest(&b)
	r.writeTimes(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *Report) writeHead(b *strings.Builder) {
	protocol, how := r.Protocol, "who type and wait"
	if protocol == "" {
		protocol = "no answer"
	}
	if r.Rate > 0 {
		how = fmt.Sprintf("sending %g requests/s whatever comes back", r.Rate)
	}
	fmt.Fprintf(b, "%s\n%s, %d users %s, seed %d", r.URL, protocol, r.Users, how, r.Seed)
	if r.RTT > 0 {
		fmt.Fprintf(b, ", round trip longer by %s", time.Duration(r.RTT*float64(time.Millisecond)))
	}
	if r.Interrupted {
		b.WriteString(", interrupted")
	}
	b.WriteString("\n\n")
}

// writeCounts prints how requests ended. Errors show only if there are any.
func (r *Report) writeCounts(b *strings.Builder) {
	row := func(name string, n int64, note string) {
		share := ""
		if r.Requests.Sent > 0 {
			share = fmt.Sprintf("%.1f %%", 100*float64(n)/float64(r.Requests.Sent))
		}
		fmt.Fprintln(b, strings.TrimRight(fmt.Sprintf("%-30s%9d%9s   %s", name, n, share, note), " "))
	}
	q, through := r.Requests, r.TypedThrough
	fmt.Fprintf(b, "%-30s%9d%9s   in %.1f s: %.1f/s\n", "requests", q.Sent, "", r.Seconds, r.PerSecond)
	row("  whole", q.Whole, "")
	row("  cancelled", q.Cancelled, fmt.Sprintf("%d before the first byte, %d mid-stream", through.BeforeFirstByte, through.MidStream))
	if q.Superseded > 0 {
		row("  superseded (499)", q.Superseded, "")
	}
	if q.CutOff > 0 {
		row("  cut off by the interruption", q.CutOff, "")
	}
	row("  errors", q.Errors, "")
	for o := Refused; o < outcomes; o++ {
		if e := r.Errors[o.String()]; e.Count > 0 {
			row("    "+strings.ReplaceAll(o.String(), "_", " "), e.Count, e.Example)
		}
	}
	row("typed through", through.Drawn, fmt.Sprintf("%d answered first", through.AnsweredFirst))
}

func (r *Report) writeRest(b *strings.Builder) {
	q, c := r.Requests, r.Connections
	if q.Retries > 0 {
		fmt.Fprintf(b, "%-30s%9d\n", "retries", q.Retries)
	}
	if q.NeverLeft > 0 {
		fmt.Fprintf(b, "%-30s%9d            cancelled before they were sent\n", "never left", q.NeverLeft)
	}
	if q.Warmup > 0 {
		note := "not in these figures"
		if q.WarmupErrors > 0 {
			note += fmt.Sprintf(", %d errors", q.WarmupErrors)
		}
		fmt.Fprintf(b, "%-30s%9d            %s\n", "requests of the warm-up", q.Warmup, note)
	}
	note := fmt.Sprintf("%d opened again", c.Reopened)
	if c.ClosedByCancel > 0 {
		note += fmt.Sprintf(", %d after a cancel", c.ClosedByCancel)
	}
	if c.Failed > 0 {
		note += fmt.Sprintf(", %d failed", c.Failed)
	}
	fmt.Fprintf(b, "%-30s%9d            %s\n", "connections", c.Opened, note)
	if r.Tokens.Sources > 0 {
		fmt.Fprintf(b, "%-30s%9d            %d refreshed\n", "tokens", r.Tokens.Sources, r.Tokens.Refreshed)
	}
}

// writeTimes prints the statistics of times.
func (r *Report) writeTimes(b *strings.Builder) {
	fmt.Fprintf(b, "\n%-30s%9s%9s%9s%9s%9s%9s%9s%9s\n", "milliseconds", "count", "mean", "p50", "p90", "p95", "p99", "p99.9", "max")
	for _, row := range []struct {
		name string
		t    Times
	}{
		{"first byte", r.FirstByte},
		{"whole answer", r.WholeAnswer},
		{"first byte, typed through too", r.FirstByteAll},
		{"sent late by", r.SentLate},
	} {
		fmt.Fprintf(b, "%-30s%9d", row.name, row.t.Count)
		for _, value := range []float64{row.t.Mean, row.t.P50, row.t.P90, row.t.P95, row.t.P99, row.t.P999, row.t.Max} {
			if row.t.Count == 0 {
				fmt.Fprintf(b, "%9s", "-")
				continue
			}
			fmt.Fprintf(b, "%9.1f", value)
		}
		b.WriteString("\n")
	}
}
