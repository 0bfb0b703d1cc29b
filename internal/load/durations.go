package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Durations are kept in microseconds, with three significant digits up to the
// longest that a request may take: a percentile is off by at most 0.1 %, and
// memory does not grow with requests.
const (
	durationUnit   = time.Microsecond
	durationDigits = 3
	maxDuration    = time.Hour
)

// durations are statistics of times. Mean, least and most are exact.
type durations struct {
	histogram   *hdrhistogram.Histogram
	count       int64
	sum         time.Duration
	least, most time.Duration
}

func newDurations() *durations {
	return &durations{histogram: hdrhistogram.New(1, int64(maxDuration/durationUnit), durationDigits)}
}

func (d *durations) record(value time.Duration) {
	value = max(value, 0)
	if d.count == 0 || value < d.least {
		d.least = value
	}
	d.most = max(d.most, value)
	d.count++
	d.sum += value
	// What is longer, of a machine that slept, is as long as a histogram holds.
	_ = d.histogram.RecordValue(int64(min(value, maxDuration) / durationUnit))
}

// at is the durations that the shares given, in percent, do not exceed.
func (d *durations) at(percent ...float64) map[float64]time.Duration {
	found := make(map[float64]time.Duration, len(percent))
	for share, value := range d.histogram.ValueAtPercentiles(percent) {
		// The histogram says the highest value of a range that the most is in too.
		found[share] = min(time.Duration(value)*durationUnit, d.most)
	}
	return found
}

func (d *durations) reset() {
	d.histogram.Reset()
	*d = durations{histogram: d.histogram}
}

// times is the statistics in the form of a report.
func (d *durations) times() Times {
	if d.count == 0 {
		return Times{}
	}
	at := d.at(50, 90, 95, 99, 99.9)
	return Times{
		Count: d.count, Mean: milliseconds(d.sum) / float64(d.count), Min: milliseconds(d.least), Max: milliseconds(d.most),
		P50: milliseconds(at[50]), P90: milliseconds(at[90]), P95: milliseconds(at[95]), P99: milliseconds(at[99]), P999: milliseconds(at[99.9]),
	}
}
