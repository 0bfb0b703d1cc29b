package proxy

import (
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const goodParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceContextOf(t *testing.T) {
	long := "a=" + strings.Repeat("x", 256)
	many := strings.TrimSuffix(strings.Repeat("a,", 33), ",")
	for _, tc := range []struct {
		parent, state []string
		want          traceContext
	}{
		{[]string{goodParent}, nil, traceContext{parent: goodParent}},
		{[]string{goodParent[:53] + "00"}, []string{"a=1,b@c=2"}, traceContext{goodParent[:53] + "00", "a=1,b@c=2"}},
		{[]string{"01" + goodParent[2:]}, nil, traceContext{parent: goodParent}},
		{[]string{"fe" + goodParent[2:] + "-new"}, nil, traceContext{parent: goodParent}},
		{parent: nil, state: []string{"a=1"}},
		{parent: []string{}},
		{parent: []string{""}},
		{parent: []string{goodParent, goodParent}},
		{parent: []string{goodParent + "-new"}},
		{parent: []string{"01" + goodParent[2:] + "new"}},
		{parent: []string{"ff" + goodParent[2:]}},
		{parent: []string{"0x" + goodParent[2:]}},
		{parent: []string{goodParent[:54]}},
		{parent: []string{strings.ToUpper(goodParent)}},
		{parent: []string{" " + goodParent}},
		{parent: []string{strings.Replace(goodParent, "4bf92f3577b34da6a3ce929d0e0e4736", strings.Repeat("0", 32), 1)}},
		{parent: []string{strings.Replace(goodParent, "00f067aa0ba902b7", strings.Repeat("0", 16), 1)}},
		{parent: []string{strings.Replace(goodParent, "-00f0", "_00f0", 1)}},
		{parent: []string{strings.Replace(goodParent, "-01", "-0g", 1)}},
		{parent: []string{"01" + goodParent[2:] + "-" + strings.Repeat("x", maxTraceState)}},
		{[]string{goodParent}, []string{"a=1", "b=2"}, traceContext{goodParent, "a=1,b=2"}},
		{[]string{goodParent}, []string{"a=1", "a=2"}, traceContext{parent: goodParent}},
		{[]string{goodParent}, []string{long + "," + strings.Replace(long, "a", "b", 1)}, traceContext{parent: goodParent}},
		{[]string{goodParent}, []string{many}, traceContext{parent: goodParent}},
		{[]string{goodParent}, []string{"a"}, traceContext{parent: goodParent}},
		{[]string{goodParent}, []string{"a=1,a=2"}, traceContext{parent: goodParent}},
		{[]string{goodParent}, []string{"a=\x7f"}, traceContext{parent: goodParent}},
	} {
		got := traceContextOf(textproto.MIMEHeader{traceParent: tc.parent, traceState: tc.state})
		if got != tc.want {
			t.Errorf("%q, %q: %+v, want %+v", tc.parent, tc.state, got, tc.want)
		}
	}
}

// TestTraceThatIsNotSampled: the unit hears so, under the id that the access log
// has, and no attribute is made for nobody.
func TestTraceThatIsNotSampled(t *testing.T) {
	p := &proxy{tracer: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())).Tracer(tracerName)}
	for _, header := range []textproto.MIMEHeader{{}, {traceParent: {goodParent}}} {
		x := &exchange{trace: traceContextOf(header), form: openAIForm{}}
		if err := p.traceRequest(x); err != nil {
			t.Fatal(err)
		}
		p.traceTry(x) // which would look at the unit
		span := x.span.SpanContext()
		if got, want := x.outgoing().parent, "00-"+x.traceID()+"-"+span.SpanID().String()+"-00"; got != want || x.traceID() != span.TraceID().String() {
			t.Errorf("the unit is told %s, want %s", got, want)
		}
		x.traceTried(attemptOK)
		x.traceRecorded(outcomeOK, nil, time.Now())
	}
}

// BenchmarkTrace is a request's part in tracing, and that of its one try.
func BenchmarkTrace(b *testing.B) {
	for name, p := range map[string]*proxy{
		"off": {}, "on": {tracer: sdktrace.NewTracerProvider().Tracer(tracerName)},
		"not sampled": {tracer: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())).Tracer(tracerName)},
	} {
		b.Run(name, func(b *testing.B) {
			_, served := recorder(b)
			x := served()
			x.unit, x.form = x.served, openAIForm{}
			x.unit.url = &url.URL{Scheme: "http", Host: "127.0.0.1:8000", Path: "/v1/completions"}
			x.unit.Provider = config.ProviderOpenAI
			x.header = textproto.MIMEHeader{traceParent: {goodParent}}
			b.ReportAllocs()
			for b.Loop() {
				x.trace = traceContextOf(x.header)
				_ = p.traceRequest(x)
				p.traceTry(x)
				_ = x.outgoing()
				x.traceTried(attemptOK)
				x.traceRecorded(outcomeOK, nil, x.start)
			}
		})
	}
}
