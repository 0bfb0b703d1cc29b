package main

import (
	"slices"
	"time"
)

// quantiles are in milliseconds.
type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// median is the middle one of the values, or the mean of the middle two; 0 of none.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 0:
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[n/2]
}

// ratios are a's values divided by b's of the same rounds, as many as both have.
func ratios(a, b []float64) []float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		all = append(all, a[i]/b[i])
	}
	return all
}

// quantilesOf are those of the times, by the nearest rank.
func quantilesOf(times []time.Duration) quantiles {
	sorted := slices.Sorted(slices.Values(times))
	if len(sorted) == 0 {
		return quantiles{}
	}
	at := func(percent int) float64 {
		rank := (len(sorted)*percent + 99) / 100 // rounded up
		return float64(sorted[max(rank, 1)-1].Nanoseconds()) / 1e6
	}
	return quantiles{P50: at(50), P99: at(99)}
}

// medians are taken of each quantile alone.
func medians(all []quantiles) quantiles {
	var p50, p99 []float64
	for _, q := range all {
		p50, p99 = append(p50, q.P50), append(p99, q.P99)
	}
	return quantiles{P50: median(p50), P99: median(p99)}
}
