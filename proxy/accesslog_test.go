package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func newTestLog(out io.Writer) (*accessLog, func() float64) {
	dropped := prometheus.NewCounter(prometheus.CounterOpts{Name: "dropped"})
	return newAccessLog(out, slog.New(slog.DiscardHandler), dropped), func() float64 {
		var m dto.Metric
		if dropped.Write(&m) != nil {
			return -1
		}
		return m.GetCounter().GetValue()
	}
}

// accessRecord is what appendAccess writes, by slog.
func accessRecord(x *exchange, now time.Time) slog.Record {
	r := slog.NewRecord(now, slog.LevelInfo, "request", 0)
	r.AddAttrs(slog.String("request_id", x.id), slog.String("outcome", "ok"), slog.Int("status", 200), slog.String("model", "m"),
		slog.String("variant", "stable"), slog.String("region", "here"), slog.String("unit", "u"), slog.Int("tries", 1), slog.Any("mutations", []string{"cap", "bias"}),
		slog.String("subject", x.claims.Subject), slog.String("client", x.client.name), slog.String("client_version", x.client.version),
		slog.Int("bytes_in", x.bodySize), slog.Int64("events_out", 12), slog.Int64("prompt_tokens", 900), slog.Int64("completion_tokens", 12),
		slog.Float64("body_ms", 0.05), slog.Float64("asked_ms", 0.2), slog.Float64("first_byte_ms", 100), slog.Float64("upstream_first_byte_ms", 99.8),
		slog.Float64("total_ms", 123.456))
	return r
}

// TestAccessLine compares a line with slog's, also where a client has had a say.
func TestAccessLine(t *testing.T) {
	_, served := recorder(t)
	for _, said := range []string{"plain", `"}` + "\n{", "\u2028\x00é<&>", "\xff", strings.Repeat("x", 300)} {
		x := served()
		x.mutated.met = []metMutation{
			{&mutation{name: "cap"}, mutationApplied, nil}, {&mutation{name: "no"}, mutationUnchanged, nil}, {&mutation{name: "bias"}, mutationApplied, nil},
			{&mutation{name: "never"}, mutationNotApplicable, errors.New("stop is no list")},
		}
		x.id, x.claims.Subject, x.client = said, said, clientInfo{name: said, version: said}
		now := x.start.Add(123456 * time.Microsecond)
		var want bytes.Buffer
		if err := slog.NewJSONHandler(&want, nil).Handle(t.Context(), accessRecord(x, now)); err != nil {
			t.Fatal(err)
		}
		got := appendAccess(nil, x, nil, outcomeOK, now)
		if bytes.Count(got, []byte("\n")) != 1 || got[len(got)-1] != '\n' {
			t.Fatalf("more than a line: %q", got)
		}
		var gotFields, wantFields map[string]any
		if err := errors.Join(json.Unmarshal(got, &gotFields), json.Unmarshal(want.Bytes(), &wantFields)); err != nil {
			t.Fatalf("%v in %q", err, got)
		}
		if diff := cmp.Diff(wantFields, gotFields); diff != "" {
			t.Errorf("%q: (-slog +the access log)\n%s", said, diff)
		}
	}
}

// TestAccessLineOfRefused is the line of a request that came nowhere.
func TestAccessLineOfRefused(t *testing.T) {
	_, served := recorder(t)
	x := &exchange{id: "r", start: served().start, snapshot: served().snapshot, phase: phaseReceive}
	got := string(appendAccess(nil, x, noToken(), outcomeDenied, x.start.Add(time.Millisecond)))
	if _, rest, _ := strings.Cut(got, `"msg"`); rest != `:"request","request_id":"r","outcome":"denied","status":401,"code":"missing_token","region":"here","total_ms":1}`+"\n" {
		t.Errorf("the line is %s", got)
	}
}

func TestAccessLogWritesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out taken
		l, dropped := newTestLog(&out)
		stop := l.start()
		l.put([]byte("1\n"))
		l.put([]byte("2\n"))
		synctest.Wait()
		if out.String() != "" {
			t.Error("lines do not wait for others")
		}
		time.Sleep(writeEvery)
		synctest.Wait()
		if got := out.String(); got != "1\n2\n" {
			t.Errorf("%q is written after %s", got, writeEvery)
		}
		l.put(bytes.Repeat([]byte("x"), writeFrom))
		synctest.Wait()
		if got := len(out.String()); got != writeFrom+4 {
			t.Errorf("%d bytes are written once they are many", got)
		}
		l.put([]byte("last\n"))
		stop()
		if got := out.String(); !strings.HasSuffix(got, "last\n") || dropped() != 0 {
			t.Errorf("the end is not written, and %v are dropped", dropped())
		}
	})
}

// taken is what a log was given so far.
type taken struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *taken) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

func (t *taken) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// stuck is a writer that takes nothing until it is let go.
type stuck struct {
	release chan struct{}
	out     bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.release
	return s.out.Write(p)
}

// TestAccessLogIsNeverInTheWay: lines that nobody takes are dropped and counted.
func TestAccessLogIsNeverInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{release: make(chan struct{})}
		l, dropped := newTestLog(out)
		stop := l.start()
		line := append(bytes.Repeat([]byte("x"), 1<<20-1), '\n')
		l.put(line)
		synctest.Wait() // it is being written
		for range 20 {
			l.put(line)
		}
		if got := dropped(); got != 12 {
			t.Errorf("%v lines are dropped, want 12: 8 MiB of the 20 fit", got)
		}
		began := time.Now()
		stop()
		if took := time.Since(began); took != lastWriteTime {
			t.Errorf("the end took %s, want %s", took, lastWriteTime)
		}
		close(out.release)
		synctest.Wait()
		if got := bytes.Count(out.out.Bytes(), []byte("\n")); got != 9 {
			t.Errorf("%d lines are written in the end, want 9", got)
		}
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestAccessLogThatCannotBeWritten(t *testing.T) {
	l, dropped := newTestLog(failing{})
	stop := l.start()
	l.put([]byte("1\n"))
	l.put([]byte("2\n"))
	stop()
	if got := dropped(); got != 2 {
		t.Errorf("%v lines are counted as dropped, want 2", got)
	}
}

// small is a disk with room for so many bytes.
type small struct {
	taken
	room int
}

func (s *small) Write(p []byte) (int, error) {
	n, err := s.taken.Write(p[:min(len(p), s.room)])
	if s.room -= n; n < len(p) {
		return n, errors.New("no space left")
	}
	return n, err
}

// TestAccessLogOnFullDisk: what fits is not counted as dropped, and a line of which
// only a part fits spoils no other.
func TestAccessLogOnFullDisk(t *testing.T) {
	var out small
	l, dropped := newTestLog(&out)
	for _, step := range []struct {
		room    int
		lines   string
		dropped float64 // so far
	}{{10, "one\ntwo\nthree\n", 1}, {0, "four\n", 2}, {2, "five\n", 3}, {1 << 10, "six\n", 3}} {
		out.room = step.room
		for line := range strings.Lines(step.lines) {
			l.put([]byte(line))
		}
		l.write(nil)
		if got := dropped(); got != step.dropped {
			t.Errorf("%v lines are dropped after %q, want %v", got, step.lines, step.dropped)
		}
	}
	if got, want := out.String(), "one\ntwo\nth\nf\nsix\n"; got != want {
		t.Errorf("written is %q, want %q", got, want)
	}
}

func BenchmarkAccessLog(b *testing.B) {
	l, _ := newTestLog(io.Discard)
	stop := l.start()
	_, served := recorder(b)
	x, now := served(), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		l.add(x, nil, outcomeOK, now)
	}
	stop()
}

func BenchmarkAccessLogBySlog(b *testing.B) {
	_, served := recorder(b)
	x, now := served(), time.Now()
	h := slog.NewJSONHandler(io.Discard, nil)
	b.ReportAllocs()
	for b.Loop() {
		_ = h.Handle(context.Background(), accessRecord(x, now))
	}
}
