package proxy

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// recorder is a proxy that can only record, and one that has served a stream.
func recorder(tb testing.TB) (*proxy, func() *exchange) {
	tb.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		tb.Fatal(err)
	}
	s := testUnits(config.Unit{Name: "u", Region: "here", Serves: "m/stable"})
	u := s.unit("u")
	u.metrics = m.unit(u.Unit, "here", "m", "stable")
	p := &proxy{log: slog.New(slog.NewTextHandler(io.Discard, nil)), metrics: m, failureLines: rate.NewLimiter(failureLines, failureLinesBurst)}
	start := time.Now()
	return p, func() *exchange {
		x := &exchange{
			start: start, snapshot: s, id: "0f8fad5b-d9cb-469f-a165-70867728950e", claims: &token.Claims{Subject: "user-1234"},
			client: newClientInfo("copilot", "1.300.0"), received: start.Add(100 * time.Microsecond), bodySize: 4096, variant: s.variants[0], model: s.variants[0].model,
			tried: []*unit{u}, served: u, phase: phaseStream, asked: start.Add(200 * time.Microsecond),
			bodyFrom: start.Add(50 * time.Microsecond), firstAsked: start.Add(200 * time.Microsecond), worked: 90 * time.Millisecond, reported: true,
			firstByte: start.Add(100 * time.Millisecond), written: start.Add(100100 * time.Microsecond), tokens: 12, usage: &provider.Usage{PromptTokens: 900, CompletionTokens: 12},
		}
		p.inFlight.Add(1)
		return x
	}
}

func BenchmarkRecord(b *testing.B) {
	p, served := recorder(b)
	b.ReportAllocs()
	for b.Loop() {
		p.record(served(), nil)
	}
}

func BenchmarkRecordCancelled(b *testing.B) {
	p, served := recorder(b)
	b.ReportAllocs()
	for b.Loop() {
		p.record(served(), errCancelled)
	}
}
