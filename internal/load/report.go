package load

import "time"

// Report is what a population saw. Its JSON is what `ghostline load --json`
// prints. Times are in milliseconds where a name ends in _ms, else in seconds.
type Report struct {
	URL string `json:"url"` // without its query
	// Protocol is that of the first answer, as in a status line: "HTTP/2.0".
	Protocol string `json:"protocol"`
	Users    int    `json:"users"`
	Seed     uint64 `json:"seed"`
	// Rate is Options.Rate: 0 is a closed loop.
	Rate float64 `json:"rate"`
	RTT  float64 `json:"rtt_ms"`
	// Interrupted says that the run ended before its time.
	Interrupted bool `json:"interrupted"`
	// Seconds is the time in which the requests below were sent, the warm-up not
	// included; PerSecond is Requests.Sent by that time.
	Seconds   float64  `json:"seconds"`
	PerSecond float64  `json:"requests_per_second"`
	Requests  Requests `json:"requests"`
	// TypedThrough are the requests that were to be typed through.
	TypedThrough TypedThrough `json:"typed_through"`
	// Errors has every kind of error, by Outcome.String.
	Errors map[string]ErrorCount `json:"errors"`
	// FirstByte and WholeAnswer are of the requests that users waited for, which
	// were chosen before they were sent. Those that were typed through would make
	// times look short, because the slow ones among them have no end.
	FirstByte   Times `json:"first_byte"`
	WholeAnswer Times `json:"whole_answer"`
	// FirstByteAll is of all requests that got a first byte.
	FirstByteAll Times `json:"first_byte_all"`
	// SentLate is by how much requests were sent later than they were due. Where it
	// is large, this program was the limit and not the server.
	SentLate    Times       `json:"sent_late"`
	Connections Connections `json:"connections"`
	Tokens      Tokens      `json:"tokens"`
}

// Requests counts the requests by how they ended: Sent is the sum of Whole,
// Cancelled, Superseded, Errors and CutOff.
type Requests struct {
	Sent       int64 `json:"sent"`
	Whole      int64 `json:"whole"`
	Cancelled  int64 `json:"cancelled"`
	Superseded int64 `json:"superseded"` // status 499
	Errors     int64 `json:"errors"`
	CutOff     int64 `json:"cut_off"` // under way when the run was interrupted
	// Retries come on top of Sent.
	Retries int64 `json:"retries"`
	// NeverLeft is how many requests and retries found a connection, but ended
	// before their headers were written to it: a server knows nothing of them.
	NeverLeft int64 `json:"never_left"`
	// Warmup is how many were sent before, WarmupErrors how many of them ended in
	// an error. They are in no other figure.
	Warmup       int64 `json:"warmup"`
	WarmupErrors int64 `json:"warmup_errors"`
}

// TypedThrough counts requests that were to be typed through. Those that are in
// none of the parts ended in an error, or were superseded or cut off.
type TypedThrough struct {
	Drawn           int64 `json:"drawn"`
	BeforeFirstByte int64 `json:"before_first_byte"`
	MidStream       int64 `json:"mid_stream"`
	// AnsweredFirst had their whole answer before the key came, and count as Whole.
	AnsweredFirst int64 `json:"answered_first"`
}

// ErrorCount is a kind of error.
type ErrorCount struct {
	Count int64 `json:"count"`
	// Example tells the first of them more exactly, where there is more to tell.
	Example string `json:"example,omitempty"`
}

// Times are statistics of durations, in milliseconds. Percentiles are exact to
// 0.1 %, the others exactly.
type Times struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ms"`
	Min   float64 `json:"min_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P95   float64 `json:"p95_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p99_9_ms"`
	Max   float64 `json:"max_ms"`
}

// Connections counts the connections of all users, the warm-up included.
type Connections struct {
	Opened int64 `json:"opened"`
	// Reopened is how many of them replaced a user's earlier one.
	Reopened int64 `json:"reopened"`
	// ClosedByCancel is how many were replaced because a cancel closed them, as it
	// must in HTTP/1.1.
	ClosedByCancel int64 `json:"closed_by_cancel"`
	// Failed is how many could not be opened.
	Failed int64 `json:"failed"`
}

// Tokens is about the tokens that users had.
type Tokens struct {
	// Sources is how many there were, each shared by some users or one.
	Sources   int   `json:"sources"`
	Refreshed int64 `json:"refreshed"`
}

// Progress is where a run is. All but the times count from its start.
type Progress struct {
	Elapsed   time.Duration
	WarmingUp bool
	Users     int64
	InFlight  int64
	Errors    int64
	// PerSecond, CancelPercent, FirstByteP50 and FirstByteP99 are of the requests
	// that ended since the progress before; the last two are 0 if none had a first
	// byte.
	PerSecond, CancelPercent   float64
	FirstByteP50, FirstByteP99 time.Duration
}

func (r *run) progress(now time.Time, since time.Duration) Progress {
	p := Progress{
		Elapsed: now.Sub(r.began), WarmingUp: now.Before(r.measureFrom),
		Users: r.users.Load(), InFlight: r.inFlight.Load(),
	}
	for _, t := range []*tally{r.measured, r.warmup} {
		t.mu.Lock()
		_, _, failed := t.total()
		t.mu.Unlock()
		p.Errors += failed
	}
	t := r.interval
	t.mu.Lock()
	defer t.mu.Unlock()
	all, cancelled, _ := t.total()
	p.PerSecond = float64(all) / since.Seconds()
	if all > 0 {
		p.CancelPercent = 100 * float64(cancelled) / float64(all)
	}
	at := t.firstByteAll.at(50, 99)
	p.FirstByteP50, p.FirstByteP99 = at[50], at[99]
	t.reset()
	return p
}

// report reports what was measured. All requests must have ended.
func (r *run) report(interrupted bool) *Report {
	r.measured.mu.Lock()
	defer r.measured.mu.Unlock()
	r.warmup.mu.Lock()
	defer r.warmup.mu.Unlock()
	t := r.measured
	all, cancelled, failed := t.total()
	warmup, _, warmupErrors := r.warmup.total()
	address := *r.target.url
	address.RawQuery = ""
	report := &Report{
		URL: address.String(), Protocol: t.protocol, Users: r.options.Users, Seed: r.options.Seed,
		Rate: r.options.Rate, RTT: milliseconds(r.options.RTT), Interrupted: interrupted,
		Requests: Requests{
			Sent: all, Whole: t.counts[Whole], Cancelled: cancelled, Superseded: t.counts[Superseded], Errors: failed,
			CutOff: t.counts[CutOff], Retries: t.retries.Load(), NeverLeft: t.tries.Load() - t.left.Load(),
			Warmup: warmup, WarmupErrors: warmupErrors,
		},
		TypedThrough: TypedThrough{
			Drawn: t.through, BeforeFirstByte: t.counts[CancelledBefore], MidStream: t.counts[CancelledDuring], AnsweredFirst: t.throughWhole,
		},
		Errors:    make(map[string]ErrorCount),
		FirstByte: t.firstByte.times(), WholeAnswer: t.whole.times(), FirstByteAll: t.firstByteAll.times(), SentLate: t.lag.times(),
		Connections: Connections{
			Opened: r.connections.opened.Load(), Reopened: r.connections.reopened.Load(),
			ClosedByCancel: r.connections.afterCancel.Load(), Failed: r.connections.failed.Load(),
		},
		Tokens: Tokens{Sources: len(r.sources)},
	}
	for o := Refused; o < outcomes; o++ {
		report.Errors[o.String()] = ErrorCount{Count: t.counts[o], Example: t.examples[o]}
	}
	for _, source := range r.sources {
		report.Tokens.Refreshed += source.refreshes()
	}
	if window := r.window(); window > 0 {
		report.Seconds = window.Seconds()
		report.PerSecond = float64(all) / report.Seconds
	}
	return report
}

// window is how long measured requests were sent; not above 0 if none were.
func (r *run) window() time.Duration {
	if stopped := r.stopped.Load(); stopped != nil {
		return stopped.Sub(r.measureFrom)
	}
	return time.Since(r.measureFrom) // interrupted
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
