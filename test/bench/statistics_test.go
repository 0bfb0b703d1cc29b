package main

import (
	"slices"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 3, 100}, 3.5},
	} {
		given := slices.Clone(test.values)
		if got := median(given); got != test.want || !slices.Equal(given, test.values) {
			t.Errorf("%v: %g, and they are %v now; want %g", test.values, got, given, test.want)
		}
	}
}

func TestRatios(t *testing.T) {
	for _, test := range []struct{ a, b, want []float64 }{
		{nil, nil, nil},
		{[]float64{3, 4}, nil, nil},
		{[]float64{3, 4}, []float64{2, 8}, []float64{1.5, 0.5}},
		{[]float64{3, 4, 5}, []float64{2}, []float64{1.5}},
	} {
		if got := ratios(test.a, test.b); !slices.Equal(got, test.want) {
			t.Errorf("%v to %v: %v; want %v", test.a, test.b, got, test.want)
		}
	}
}

func TestQuantiles(t *testing.T) {
	upTo := func(n int) []time.Duration {
		var times []time.Duration
		for i := n; i > 0; i-- {
			times = append(times, time.Duration(i)*time.Millisecond)
		}
		return times
	}
	for _, test := range []struct {
		times []time.Duration
		want  quantiles
	}{
		{nil, quantiles{}},
		{upTo(1), quantiles{1, 1}},
		{upTo(2), quantiles{1, 2}},
		{upTo(100), quantiles{50, 99}},
		{upTo(101), quantiles{51, 100}},
		{upTo(1000), quantiles{500, 990}},
		{[]time.Duration{1500 * time.Microsecond}, quantiles{1.5, 1.5}},
	} {
		if got := quantilesOf(test.times); got != test.want {
			t.Errorf("%d times: %+v; want %+v", len(test.times), got, test.want)
		}
	}
}

func TestMedians(t *testing.T) {
	got := medians([]quantiles{{P50: 1, P99: 30}, {P50: 3, P99: 10}, {P50: 2, P99: 20}})
	if want := (quantiles{P50: 2, P99: 20}); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
}
