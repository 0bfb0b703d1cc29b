// Command bench measures the proxy beside others, in one run and in turns, on the
// same model server and load: processor time for each completion, the time that
// first bytes take longer, the time from a client's reset to the unit, and resident
// memory. The others are net/http/httputil.ReverseProxy, HAProxy, nghttpx and
// nothing at all. docs/performance.md says how and why.
//
// Absolute numbers wander on a shared machine; the ratios of a run do not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

type options struct {
	bin     string // where the built programs are, and bench.json goes
	quick   bool
	run     string // regular expression of cells' names
	profile string // file for a processor profile of the proxy

	role              string
	model, unit       string
	certFile, keyFile string
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "`directory` of the built programs; bench.json is written there")
	flag.BoolVar(&o.quick, "quick", false, "measure the main cells only, in less than a minute")
	flag.StringVar(&o.run, "run", "", "measure only the cells whose names match the regular `expression`")
	flag.StringVar(&o.profile, "profile", "", "`file` for a processor profile of the proxy under load; nothing else is measured then")
	flag.StringVar(&o.role, "role", "", "for the bench itself: "+roleReverseProxy+" runs the peer")
	flag.StringVar(&o.model, "model", "", "for the bench itself: the model server's address")
	flag.StringVar(&o.unit, "unit", "", "for the bench itself: its unit's address")
	flag.StringVar(&o.certFile, "tls-cert", "", "for the bench itself: certificate `file`")
	flag.StringVar(&o.keyFile, "tls-key", "", "for the bench itself: key `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := runBench
	switch {
	case o.role == roleReverseProxy:
		run = runReverseProxy
	case o.profile != "":
		run = runProfile
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runBench(ctx context.Context, o options) error {
	begun := time.Now()
	p, err := o.plan()
	if err != nil {
		return err
	}
	fmt.Printf("%d processors, %s, %s\n\n", runtime.NumCPU(), runtime.Version(), begun.Format(time.DateOnly))
	r, err := startRig(ctx, o.bin)
	if err != nil {
		return err
	}
	defer r.stop()
	say := func(what string) { fmt.Fprintf(os.Stderr, "[%6s] %s\n", time.Since(begun).Round(time.Second), what) }
	printHead(os.Stdout)
	var all []result
	for _, c := range p.cells {
		lanes, err := measure(ctx, r, p, c, say)
		if err != nil {
			return err
		}
		rows := results(c, lanes)
		printCell(os.Stdout, c, rows)
		printNotes(os.Stdout, lanes)
		all = append(all, rows...)
	}
	printVerdict(os.Stdout, all)
	file := filepath.Join(o.bin, "bench.json")
	fmt.Printf("\n%s has the same; it took %s\n", file, time.Since(begun).Round(time.Second))
	return writeJSON(file, all)
}

// plan is what the options ask to be measured.
func (o options) plan() (plan, error) {
	p := fullPlan()
	if o.quick {
		p = quickPlan()
	}
	names, err := regexp.Compile(o.run)
	if err == nil {
		p.cells, err = matching(p.cells, names)
	}
	if err != nil {
		return plan{}, fmt.Errorf("-run: %w", err)
	}
	return p, nil
}
