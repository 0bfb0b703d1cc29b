// Command bench measures the proxy beside net/http/httputil.ReverseProxy, in one
// run and in turns, on the same model server and load: processor time for each
// completion, the time from a client's reset to the unit, and resident memory.
//
// Absolute numbers wander on a shared machine; the ratios of a run do not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"time"
)

type options struct {
	bin      string // where the built programs are
	rounds   int
	requests int    // of a round
	cancels  int    // samples of cancel propagation
	memory   int    // completions of the memory run
	profile  string // file for a processor profile of the proxy
	role     string
	unit     string
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "`directory` of the built programs")
	flag.IntVar(&o.rounds, "rounds", 7, "pairs of runs")
	flag.IntVar(&o.requests, "requests", 4000, "completions of a run")
	flag.IntVar(&o.cancels, "cancels", 1000, "cancels that are timed, for each proxy and phase")
	flag.IntVar(&o.memory, "memory", 100_000, "completions of the memory run, half of them cancelled; 0 leaves it out")
	flag.StringVar(&o.profile, "profile", "", "`file` for a processor profile of the proxy under load; nothing else is measured then")
	flag.StringVar(&o.role, "role", "", "for the bench itself: reverseproxy runs the peer")
	flag.StringVar(&o.unit, "unit", "", "for the bench itself: the unit's URL")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := runBench
	if o.role == "reverseproxy" {
		run = runReverseProxy
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runBench(ctx context.Context, o options) error {
	fmt.Printf("%d processors, %s, %s\n\n", runtime.NumCPU(), runtime.Version(), time.Now().Format(time.DateOnly))
	r, err := startRig(ctx, o)
	if err != nil {
		return err
	}
	defer r.stop()
	if o.profile != "" {
		return r.profile(ctx, o)
	}
	if err := r.processorTime(ctx, o); err != nil {
		return err
	}
	if err := r.cancelTime(ctx, o); err != nil {
		return err
	}
	if o.memory == 0 {
		return nil
	}
	return r.memory(ctx, o)
}

// processorTime compares what a completion costs each proxy.
func (r *rig) processorTime(ctx context.Context, o options) error {
	fmt.Printf("Processor time of the proxy for a streamed completion (4 KiB prompt, 10 events, h2c, %d at a time)\n", concurrency)
	costs := map[string][]float64{}
	var ratios []float64
	for round := range o.rounds + 1 {
		pair := map[string]float64{}
		for _, p := range r.proxies() {
			cost, rate, err := r.run(ctx, p, o.requests)
			if err != nil {
				return err
			}
			pair[p.name] = cost
			if round > 0 { // the first round warms up
				costs[p.name] = append(costs[p.name], cost)
				fmt.Printf("  %-14s %6.1f µs/request  %6.0f requests/s\n", p.name, cost, rate)
			}
		}
		if round > 0 {
			ratios = append(ratios, pair[r.ghostline.name]/pair[r.peer.name])
		}
	}
	for _, p := range r.proxies() {
		fmt.Printf("  median %-14s %6.1f µs/request\n", p.name, median(costs[p.name]))
	}
	fmt.Printf("  median ratio, pair by pair: %.2f\n\n", median(ratios))
	return nil
}

// cancelTime compares how long a client's reset takes to the unit's handler.
func (r *rig) cancelTime(ctx context.Context, o options) error {
	fmt.Printf("Time from a client's reset to the unit's handler (%d each, in turns)\n", o.cancels)
	for _, phase := range []string{phaseWait, phaseStream} {
		times := map[string][]time.Duration{}
		for range o.cancels {
			for _, p := range append(r.proxies(), r.direct) {
				took, err := r.timeCancel(ctx, p, phase)
				if err != nil {
					return err
				}
				times[p.name] = append(times[p.name], took)
			}
		}
		for _, p := range append(r.proxies(), r.direct) {
			slices.Sort(times[p.name])
			fmt.Printf("  %-8s %-14s p50 %8s  p99 %8s\n", phase, p.name, percentile(times[p.name], 50), percentile(times[p.name], 99))
		}
	}
	fmt.Println()
	return nil
}

// memory compares the proxy's resident memory after many completions with that
// after few.
func (r *rig) memory(ctx context.Context, o options) error {
	fmt.Printf("Resident memory of the proxy, half of the completions cancelled\n")
	for _, n := range []int{1000, o.memory} {
		if err := r.load(ctx, r.ghostline, n, true); err != nil {
			return err
		}
		rss, err := r.ghostline.residentMiB()
		if err != nil {
			return err
		}
		fmt.Printf("  after %7d: %.1f MiB\n", n, rss)
	}
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[min(len(sorted)-1, len(sorted)*p/100)].Round(10 * time.Microsecond)
}
