package proxy

import (
	"context"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	traceParent = "Traceparent"
	traceState  = "Tracestate"
	// maxTraceState is how much of a tracestate is to be passed on (W3C Trace
	// Context section 3.3.1.5).
	maxTraceState = 512
	// tracerName is the instrumentation scope of our spans.
	tracerName = "github.com/ghostline-dev/ghostline/proxy"
)

// traceContext is the trace that a request belongs to, as its client says (W3C
// Trace Context). The zero value is none.
type traceContext struct{ parent, state string }

// traceContextOf reads what is valid: a second traceparent makes neither of them
// so, and without one a tracestate means nothing.
func traceContextOf(header textproto.MIMEHeader) (t traceContext) {
	parents := header[traceParent]
	if len(parents) != 1 || !isTraceParent(parents[0]) {
		return t
	}
	// What a later version has beyond ours is not ours to pass on.
	t.parent = parents[0]
	if t.parent[:2] != "00" {
		t.parent = "00" + t.parent[2:traceParentLength]
	}
	state := strings.Join(header[traceState], ",") // it may come in several lines (section 3.3)
	if len(state) <= maxTraceState {
		if _, err := trace.ParseTraceState(state); err == nil {
			t.state = state
		}
	}
	return t
}

// traceParentLength is that of version 00: VERSION-TRACEID-PARENTID-FLAGS.
const traceParentLength = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")

func isTraceParent(value string) bool {
	if len(value) < traceParentLength || len(value) > maxTraceState {
		return false
	}
	version, traceID, parentID, flags := value[:2], value[3:35], value[36:52], value[53:55]
	longer := len(value) > traceParentLength
	return value[2] == '-' && value[35] == '-' && value[52] == '-' &&
		isHex(version) && version != "ff" && (!longer || version != "00" && value[traceParentLength] == '-') &&
		isHex(traceID) && strings.Trim(traceID, "0") != "" && isHex(parentID) && strings.Trim(parentID, "0") != "" && isHex(flags)
}

// isHex is true for lower case, as the specification wants.
func isHex(text string) bool {
	for _, c := range []byte(text) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}

// traceID is the id of the request's trace; empty if it has none.
func (x *exchange) traceID() string {
	switch {
	case x.span != nil:
		return x.span.SpanContext().TraceID().String()
	case x.trace.parent != "":
		return x.trace.parent[3:35]
	}
	return ""
}

// traceRequest begins the span of a request, if spans are wanted. It is a stage
// behind authenticate: a client's flag can have a span sampled, and strangers are
// not to fill the collector.
func (p *proxy) traceRequest(x *exchange) error {
	if p.tracer == nil {
		return nil
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{
		"traceparent": x.trace.parent, "tracestate": x.trace.state,
	})
	route := x.route()
	_, x.span = p.tracer.Start(ctx, "POST "+route, trace.WithTimestamp(x.start), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(semconv.HTTPRequestMethodPost, semconv.HTTPRoute(route), semconv.GenAIOperationNameTextCompletion))
	return nil
}

// route is the path that was asked, without what is the client's in it.
func (x *exchange) route() string {
	if x.engine != "" {
		return "/v1/engines/{model}/completions"
	}
	if _, ok := x.form.(mistralForm); ok {
		return "/v1/fim/completions"
	}
	return "/v1/completions"
}

// traceTry begins the span of a try, unless the request's is not sampled: neither
// would it be.
func (p *proxy) traceTry(x *exchange) {
	if x.span == nil || !x.span.IsRecording() {
		return
	}
	u := x.unit
	port, _ := strconv.Atoi(u.url.Port()) // 0 is left out below
	attributes := append(make([]attribute.KeyValue, 0, 9),
		semconv.GenAIOperationNameTextCompletion,
		semconv.GenAIProviderNameKey.String(strings.ToLower(u.Provider)),
		semconv.GenAIRequestModel(u.model),
		semconv.ServerAddress(u.url.Hostname()),
		attribute.String("ghostline.unit", u.Name),
		attribute.String("ghostline.region", u.Region),
		attribute.String("ghostline.variant", x.variant.Name),
		attribute.Int("ghostline.try", x.tries()),
	)
	if port != 0 {
		attributes = append(attributes, semconv.ServerPort(port))
	}
	_, x.trySpan = p.tracer.Start(trace.ContextWithSpan(context.Background(), x.span), "text_completion "+u.model,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
}

// outgoing is the trace context that a unit is sent: that of our own span, or what
// the client sent.
func (x *exchange) outgoing() traceContext {
	span := x.trySpan
	if span == nil {
		span = x.span
	}
	if span == nil {
		return x.trace
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return traceContext{carrier["traceparent"], carrier["tracestate"]}
}

// traceTried ends the span of a try. That a client cancelled is no error.
func (x *exchange) traceTried(result string) {
	if x.trySpan == nil {
		return
	}
	x.trySpan.SetAttributes(append(x.usageAttributes(), attribute.String("ghostline.result", result))...)
	if x.phase == phaseStream {
		x.trySpan.AddEvent("first byte", trace.WithTimestamp(x.firstByte))
	}
	if result != attemptOK && result != attemptCancelled {
		failSpan(x.trySpan, result)
	}
	x.trySpan.End()
	x.trySpan = nil
}

// traceRecorded ends the span of a request.
func (x *exchange) traceRecorded(result outcome, e *clientError, now time.Time) {
	if x.span == nil {
		return
	}
	x.traceTried(attemptError) // only if a panic has left it open
	if !x.span.IsRecording() {
		x.span.End()
		return
	}
	attributes := append(x.usageAttributes(), attribute.String("ghostline.outcome", string(result)), attribute.String("ghostline.request_id", x.id),
		attribute.Int("ghostline.tries", x.tries()))
	if status := statusOf(x, e); status != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(status))
	}
	if x.model != nil {
		attributes = append(attributes, semconv.GenAIRequestModel(x.model.Name))
	}
	if x.variant != nil {
		attributes = append(attributes, attribute.String("ghostline.variant", x.variant.Name))
	}
	x.span.SetAttributes(attributes...)
	switch result {
	case outcomeUpstreamError, outcomeTimeout, outcomeNoCapacity, outcomeInternal:
		failSpan(x.span, string(result))
	}
	x.span.End(trace.WithTimestamp(now))
}

func (x *exchange) usageAttributes() []attribute.KeyValue {
	if x.usage == nil {
		return nil
	}
	return []attribute.KeyValue{
		semconv.GenAIUsageInputTokens(int(x.usage.PromptTokens)), semconv.GenAIUsageOutputTokens(int(x.usage.CompletionTokens)),
	}
}

// failSpan marks a span as failed. Causes are for the log: they may name what a
// collector is not to know.
func failSpan(span trace.Span, kind string) {
	span.SetStatus(codes.Error, kind)
	span.SetAttributes(semconv.ErrorTypeKey.String(kind))
}
