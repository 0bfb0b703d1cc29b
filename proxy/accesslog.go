package proxy

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"
)

const (
	// maxUnwritten bounds the lines that wait to be written, in bytes: two seconds'
	// of a busy proxy.
	maxUnwritten = 8 << 20
	// Lines wait for others, but not for long, and not until they are many.
	writeEvery    = 100 * time.Millisecond
	writeFrom     = 64 << 10
	lastWriteTime = time.Second
)

// accessLog has a line for each completion request. No request waits for it: one
// goroutine writes, and while it is stuck lines are dropped and counted.
type accessLog struct {
	out     io.Writer
	log     *slog.Logger // of the proxy
	dropped prometheus.Counter
	lines   sync.Pool // of *[]byte
	warned  warnings
	torn    bool // the last line that was written is not whole; of run alone

	mu        sync.Mutex
	unwritten []byte
	count     int // of lines in unwritten
	some      chan struct{}
	many      chan struct{}
}

func newAccessLog(out io.Writer, log *slog.Logger, dropped prometheus.Counter) *accessLog {
	return &accessLog{
		out: out, log: log, dropped: dropped, lines: sync.Pool{New: func() any { return new([]byte) }},
		some: make(chan struct{}, 1), many: make(chan struct{}, 1),
	}
}

// start begins to write; stop writes what is left, unless that takes too long.
func (l *accessLog) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx)
	}()
	return func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(lastWriteTime):
			l.log.Warn("the end of the access log is not written: nobody takes it")
		}
	}
}

func (l *accessLog) run(ctx context.Context) {
	var written []byte
	for ctx.Err() == nil {
		select {
		case <-l.some:
		case <-ctx.Done():
		}
		select {
		case <-time.After(writeEvery):
		case <-l.many:
		case <-ctx.Done():
		}
		written = l.write(written)
	}
	l.write(written) // what came since
}

// write writes what there is, and returns its memory for later, unless that is
// much: after a time when nobody read it would be kept for nothing.
func (l *accessLog) write(spare []byte) []byte {
	if cap(spare) > 4*writeFrom {
		spare = nil
	}
	l.mu.Lock()
	lines, count := l.unwritten, l.count
	l.unwritten, l.count = spare[:0], 0
	l.mu.Unlock()
	if count == 0 {
		return lines
	}
	if written, err := l.writeLines(lines); err != nil {
		l.dropped.Add(float64(count - written))
		if l.warned.due(time.Now()) {
			l.log.Warn("the access log cannot be written", "error", err)
		}
	}
	return lines
}

// writeLines says how many lines were written. A disk that is full may take a part
// of one, which must not spoil the first that it takes later.
func (l *accessLog) writeLines(lines []byte) (written int, err error) {
	if l.torn {
		if _, err := l.out.Write([]byte("\n")); err != nil {
			return 0, err
		}
		l.torn = false
	}
	n, err := l.out.Write(lines)
	l.torn = n > 0 && lines[n-1] != '\n'
	return bytes.Count(lines[:n], []byte("\n")), err
}

// add takes the line of a request.
func (l *accessLog) add(x *exchange, e *clientError, result outcome, now time.Time) {
	buf := l.lines.Get().(*[]byte)
	*buf = appendAccess((*buf)[:0], x, e, result, now)
	l.put(*buf)
	l.lines.Put(buf)
}

func (l *accessLog) put(line []byte) {
	l.mu.Lock()
	if len(l.unwritten)+len(line) > maxUnwritten {
		l.mu.Unlock()
		l.dropped.Inc()
		return
	}
	l.unwritten = append(l.unwritten, line...)
	l.count++
	first, many := l.count == 1, len(l.unwritten) >= writeFrom
	l.mu.Unlock()
	if first {
		signal(l.some)
	}
	if many {
		signal(l.many)
	}
}

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // it is signalled already
	}
}

// appendAccess appends the line of a request that was answered with e, in the form of slog's JSON handler.
// That takes several times as long, since it looks at every value's kind; the
// tests compare the two. What a request has not is left out.
func appendAccess(buf []byte, x *exchange, e *clientError, result outcome, now time.Time) []byte {
	a := attrs{append(now.AppendFormat(append(buf, `{"time":"`...), time.RFC3339Nano), `","level":"INFO","msg":"request"`...)}
	a.text("request_id", x.id)
	a.text("outcome", string(result))
	a.number("status", int64(statusOf(x, e)))
	if e != nil {
		a.text("code", e.code)
	}
	if result == outcomeCancelled || result == outcomeSuperseded {
		a.text("phase", string(x.phase))
	}
	if x.model != nil {
		a.text("model", x.model.Name)
	}
	if x.variant != nil {
		a.text("variant", x.variant.Name)
	}
	a.text("region", x.snapshot.config.Region)
	if x.served != nil {
		a.text("unit", x.served.Name)
	}
	a.number("tries", int64(x.tries()))
	a.mutations(x.mutated.met)
	if x.claims != nil {
		a.text("subject", x.claims.Subject)
	}
	a.text("client", x.client.name)
	a.text("client_version", x.client.version)
	if x.rule != nil && x.rule.action != actionAllow {
		a.text("client_action", x.rule.action)
	}
	if x.dryRun != nil {
		a.text("client_dry_run", x.dryRun.action)
	}
	a.number("bytes_in", int64(x.bodySize))
	a.number("events_out", x.tokens)
	if x.usage != nil {
		a.number("prompt_tokens", x.usage.PromptTokens)
		a.number("completion_tokens", x.usage.CompletionTokens)
	}
	a.text("trace_id", x.traceID())
	a.times(x, now)
	return append(a.buf, "}\n"...)
}

// statusOf is the status that the client was answered with; 0 if it left before.
func statusOf(x *exchange, e *clientError) int {
	switch {
	case x.phase == phaseStream: // and what came after is in the outcome
		return 200
	case e != nil:
		return e.status
	}
	return 0
}

// attrs are the attributes of a line. Those without a value are left out.
type attrs struct{ buf []byte }

func (a *attrs) key(name string) {
	a.buf = append(a.buf, `,"`...)
	a.buf = append(append(a.buf, name...), `":`...)
}

func (a *attrs) text(name, value string) {
	if value != "" {
		a.key(name)
		a.buf = gjson.AppendJSONString(a.buf, value)
	}
}

func (a *attrs) number(name string, value int64) {
	if value != 0 {
		a.key(name)
		a.buf = strconv.AppendInt(a.buf, value, 10)
	}
}

// mutations are the names of those that changed the request, which need no
// escaping.
func (a *attrs) mutations(met []metMutation) {
	before := byte('[')
	for _, m := range met {
		if m.result != mutationApplied {
			continue
		}
		if before == '[' {
			a.key("mutations")
		}
		a.buf = append(append(append(a.buf, before, '"'), m.name...), '"')
		before = ','
	}
	if before == ',' {
		a.buf = append(a.buf, ']')
	}
}

// between is the time from one moment to another in milliseconds, if both were.
func (a *attrs) between(name string, from, to time.Time) {
	if from.IsZero() || to.IsZero() {
		return
	}
	a.key(name)
	us := max(0, to.Sub(from).Microseconds())
	a.buf = strconv.AppendInt(a.buf, us/1000, 10)
	if rest := us % 1000; rest != 0 {
		a.buf = append(a.buf, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
}

// times are a request's, each but body_ms and upstream_first_byte_ms since its
// arrival.
func (a *attrs) times(x *exchange, now time.Time) {
	a.between("body_ms", x.bodyFrom, x.received)
	a.between("asked_ms", x.start, x.firstAsked)
	a.between("first_byte_ms", x.start, x.firstByte)
	if !x.firstByte.IsZero() {
		a.between("upstream_first_byte_ms", x.asked, x.firstByte)
	}
	a.between("total_ms", x.start, now)
}
