package feature

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/tracing"
	"github.com/ghostline-dev/ghostline/proxy"
	"github.com/ghostline-dev/ghostline/proxy/config"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan   = "00f067aa0ba902b7"
	clientParent = "00-" + clientTrace + "-" + clientSpan + "-01"
)

// traced is a stack whose spans go to a collector.
type traced struct {
	*stack
	flush func() // ends the tracing

	mu    sync.Mutex
	spans []*spans.Span
	about []*common.KeyValue // of the resource
}

func startTraced(t *testing.T, o setup) *traced {
	t.Helper()
	tr := &traced{}
	server := httptest.NewServer(tr)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	provider, stop, err := tracing.FromEnvironment(t.Context(), "ghostline-proxy", "v1", slog.New(slog.DiscardHandler))
	if err != nil || provider == nil {
		t.Fatalf("no tracing: %v", err)
	}
	tr.flush = sync.OnceFunc(stop)
	t.Cleanup(tr.flush)
	o.options = func(opts *proxy.Options) { opts.Tracer = provider }
	tr.stack = start(t, o)
	return tr
}

// ServeHTTP is a collector's OTLP/HTTP endpoint.
func (tr *traced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, fmt.Sprint("no spans: ", err), http.StatusBadRequest)
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		tr.about = resource.GetResource().GetAttributes()
		for _, scope := range resource.GetScopeSpans() {
			tr.spans = append(tr.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty answer is a success
}

// all ends the tracing once n requests are recorded, and returns the spans of the
// requests and of the tries, each in the order of their beginning.
func (tr *traced) all(n float64) (requests, tries []*spans.Span) {
	tr.t.Helper()
	tr.eventually("the requests are recorded", func() bool { return tr.metric("ghostline_requests_total") == n && tr.metric("ghostline_inflight") == 0 })
	tr.flush()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, span := range tr.spans {
		switch span.GetKind() {
		case spans.Span_SPAN_KIND_SERVER:
			requests = append(requests, span)
		case spans.Span_SPAN_KIND_CLIENT:
			tries = append(tries, span)
		default:
			tr.t.Errorf("a span of kind %s", span.GetKind())
		}
	}
	return requests, tries
}

// wantAttributes checks some of a span's attributes; numbers are given as int64.
func wantAttributes(t *testing.T, what string, got []*common.KeyValue, want map[string]any) {
	t.Helper()
	have := map[string]any{}
	for _, a := range got {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			have[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			have[a.GetKey()] = v.IntValue
		}
	}
	for name, value := range want {
		if have[name] != value {
			t.Errorf("%s: %s is %v, want %v; all are %v", what, name, have[name], value, have)
		}
	}
}

// askTraced sends a request with these trace headers, over h2c.
func (s *stack) askTraced(header http.Header) reply {
	s.t.Helper()
	req := s.request(s.t.Context(), s.plainURL, "/v1/completions", prompt)
	for name, values := range header {
		req.Header[name] = values
	}
	return s.do(s.h2c(), req)
}

// TestSpans: a client's trace goes on through the request's span and the try's to
// the unit.
func TestSpans(t *testing.T) {
	tr := startTraced(t, setup{})
	tr.wantWhole(tr.askTraced(http.Header{"Traceparent": {clientParent}, "Tracestate": {"vendor=1"}, "X-Request-Id": {"r-1"}}))
	requests, tries := tr.all(1)
	if len(requests) != 1 || len(tries) != 1 {
		t.Fatalf("%d spans of requests and %d of tries, want 1 and 1", len(requests), len(tries))
	}
	request, try := requests[0], tries[0]
	for _, span := range []*spans.Span{request, try} {
		if got := hex.EncodeToString(span.GetTraceId()); got != clientTrace || span.GetTraceState() != "vendor=1" {
			t.Errorf("%s: trace %s, state %q; want the client's", span.GetName(), got, span.GetTraceState())
		}
		if span.GetStatus().GetCode() != spans.Status_STATUS_CODE_UNSET || span.GetEndTimeUnixNano() < span.GetStartTimeUnixNano() {
			t.Errorf("%s: status %v, from %d to %d", span.GetName(), span.GetStatus(), span.GetStartTimeUnixNano(), span.GetEndTimeUnixNano())
		}
	}
	if got := hex.EncodeToString(request.GetParentSpanId()); got != clientSpan {
		t.Errorf("the parent of the request's span is %s, want the client's", got)
	}
	if !bytes.Equal(try.GetParentSpanId(), request.GetSpanId()) {
		t.Errorf("the parent of the try's span is not the request's")
	}
	arrived := tr.arrived.last(t)
	if got, want := arrived.header.Get("Traceparent"), "00-"+clientTrace+"-"+hex.EncodeToString(try.GetSpanId())+"-01"; got != want || arrived.header.Get("Tracestate") != "vendor=1" {
		t.Errorf("the unit got %q, want %q", got, want)
	}
	if request.GetName() != "POST /v1/completions" || try.GetName() != "text_completion upstream-model" {
		t.Errorf("the spans are %q and %q", request.GetName(), try.GetName())
	}
	wantAttributes(t, "request", request.GetAttributes(), map[string]any{
		"gen_ai.operation.name": "text_completion", "gen_ai.request.model": "ghost-code", "http.request.method": "POST", "http.route": "/v1/completions",
		"http.response.status_code": int64(200), "ghostline.outcome": "ok", "ghostline.request_id": "r-1", "ghostline.variant": "stable",
		"ghostline.tries": int64(1), "gen_ai.usage.output_tokens": tr.model.Stats().Tokens,
	})
	wantAttributes(t, "try", try.GetAttributes(), map[string]any{
		"gen_ai.operation.name": "text_completion", "gen_ai.request.model": "upstream-model", "gen_ai.provider.name": "openai", "server.address": "127.0.0.1",
		"ghostline.unit": "unit-1", "ghostline.region": "here", "ghostline.variant": "stable", "ghostline.try": int64(1), "ghostline.result": "ok",
		"gen_ai.usage.output_tokens": tr.model.Stats().Tokens,
	})
	wantAttributes(t, "resource", tr.about, map[string]any{"service.name": "ghostline-proxy", "service.version": "v1"})
	for _, secret := range []string{unitKey, "func main", "Bearer", "subject-1"} {
		if all := fmt.Sprint(request, try); strings.Contains(all, secret) {
			t.Errorf("%q is in the spans: %s", secret, all)
		}
	}
}

// TestSpansOfTries: each try has a span, and the one that failed says so.
func TestSpansOfTries(t *testing.T) {
	tr := startTraced(t, setup{unit: says(whole("a")), config: func(c *config.Config) {
		bad := unitAt(c, "bad", serveUnit(t, answers(500, nil, "")))
		bad.Priority = -1
		c.Units = append(c.Units, bad)
	}})
	tr.complete() // its client has no trace
	requests, tries := tr.all(1)
	if len(requests) != 1 || len(tries) != 2 {
		t.Fatalf("%d spans of requests and %d of tries, want 1 and 2", len(requests), len(tries))
	}
	for i, want := range []struct {
		unit, result string
		status       spans.Status_StatusCode
	}{{"bad", "error", spans.Status_STATUS_CODE_ERROR}, {"unit-1", "ok", spans.Status_STATUS_CODE_UNSET}} {
		wantAttributes(t, want.unit, tries[i].GetAttributes(), map[string]any{"ghostline.unit": want.unit, "ghostline.result": want.result, "ghostline.try": int64(i + 1)})
		if got := tries[i].GetStatus().GetCode(); got != want.status || !bytes.Equal(tries[i].GetParentSpanId(), requests[0].GetSpanId()) {
			t.Errorf("%s: status %s, parent %x", want.unit, got, tries[i].GetParentSpanId())
		}
	}
	if requests[0].GetParentSpanId() != nil || requests[0].GetStatus().GetCode() != spans.Status_STATUS_CODE_UNSET {
		t.Errorf("the request's span: parent %x, status %v", requests[0].GetParentSpanId(), requests[0].GetStatus())
	}
}

// TestCancelIsNoErrorInSpans: neither of the request nor of the try.
func TestCancelIsNoErrorInSpans(t *testing.T) {
	tr := startTraced(t, setup{unit: http.HandlerFunc(never)})
	tr.visitor(leavers[0]).start(prompt, false).leaveAt("wait")
	requests, tries := tr.all(1)
	if len(requests) != 1 || len(tries) != 1 {
		t.Fatalf("%d spans of requests and %d of tries, want 1 and 1", len(requests), len(tries))
	}
	for _, span := range append(requests, tries...) {
		if span.GetStatus().GetCode() != spans.Status_STATUS_CODE_UNSET {
			t.Errorf("%s: status %v", span.GetName(), span.GetStatus())
		}
	}
	wantAttributes(t, "request", requests[0].GetAttributes(), map[string]any{"ghostline.outcome": "cancelled", "http.response.status_code": nil})
	wantAttributes(t, "try", tries[0].GetAttributes(), map[string]any{"ghostline.result": "cancelled"})
}

// TestUnsampledTrace: who does not sample gets no span, and the unit hears so.
func TestUnsampledTrace(t *testing.T) {
	tr := startTraced(t, setup{})
	tr.wantWhole(tr.askTraced(http.Header{"Traceparent": {strings.TrimSuffix(clientParent, "01") + "00"}}))
	got := tr.arrived.last(t).header.Get("Traceparent")
	if !strings.HasPrefix(got, "00-"+clientTrace+"-") || !strings.HasSuffix(got, "-00") {
		t.Errorf("the unit got %q", got)
	}
	if requests, tries := tr.all(1); len(requests)+len(tries) != 0 {
		t.Errorf("%d spans were sent", len(requests)+len(tries))
	}
}

// TestTraceContextIsPassedOn without any tracing of ours: as it came, if it is
// valid. What is and what is not stands in a test of proxy.
func TestTraceContextIsPassedOn(t *testing.T) {
	s := start(t, setup{})
	for _, tc := range []struct{ sent, want http.Header }{
		{http.Header{"Traceparent": {clientParent}, "Tracestate": {"a=1,b=2"}}, http.Header{"Traceparent": {clientParent}, "Tracestate": {"a=1,b=2"}}},
		{http.Header{"Traceparent": {clientParent}}, http.Header{"Traceparent": {clientParent}}},
		{http.Header{"Traceparent": {clientParent, clientParent}, "Tracestate": {"a=1"}}, nil},
		{http.Header{"Traceparent": {strings.ToUpper(clientParent)}, "Tracestate": {"a=1"}}, nil},
		{http.Header{"Tracestate": {"a=1"}}, nil},
		{nil, nil},
	} {
		s.wantWhole(s.askTraced(tc.sent))
		got := s.arrived.last(t).header
		for _, name := range []string{"Traceparent", "Tracestate"} {
			if fmt.Sprint(got[name]) != fmt.Sprint(tc.want[name]) {
				t.Errorf("%v: the unit got %s %v, want %v", tc.sent, name, got[name], tc.want[name])
			}
		}
	}
}

// TestCollectorThatIsAway costs no request anything, and the end little.
func TestCollectorThatIsAway(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+nobody(t))
	log := &lockedBuffer{}
	provider, stop, err := tracing.FromEnvironment(context.Background(), "ghostline-proxy", "v1", slog.New(slog.NewJSONHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, setup{options: func(o *proxy.Options) { o.Tracer = provider }})
	for range 10 {
		s.complete()
	}
	s.wantMetric(10, "ghostline_requests_total", "outcome", "ok")
	stop()
	if !strings.Contains(log.String(), "spans are not sent") {
		t.Errorf("nobody is told: %s", log)
	}
}
