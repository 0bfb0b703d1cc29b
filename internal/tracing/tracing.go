// Package tracing sends spans to an OpenTelemetry collector, as the standard
// environment variables say.
package tracing

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	// flushWithin bounds the sending of the last spans.
	flushWithin = 5 * time.Second
	// warnEvery bounds how often a collector's trouble is warned of.
	warnEvery = 10 * time.Second
)

// FromEnvironment returns what makes spans of a service, or nil if no collector is
// configured: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT.
// The SDK reads the other OTEL_ variables, those for sampling and batches among
// them. Spans are sent in the background; while the collector does not take them,
// they are dropped. stop sends the last ones, for a few seconds at most.
func FromEnvironment(ctx context.Context, service, version string, log *slog.Logger) (provider trace.TracerProvider, stop func(), err error) {
	configured, err := isConfigured()
	if err != nil || !configured {
		return nil, func() {}, err
	}
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, func() {}, err
	}
	// What the environment says comes last and wins.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName(service), semconv.ServiceVersion(version)), resource.WithFromEnv())
	if err != nil {
		return nil, func() {}, err
	}
	// The SDK tells of export errors nowhere else.
	otel.SetErrorHandler(&warner{log: log})
	sdk := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return sdk, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		defer cancel()
		if err := sdk.Shutdown(ctx); err != nil {
			log.Warn("the last spans are not sent", "error", brief(err))
		}
	}, nil
}

// warner logs the errors of the SDK, now and then.
type warner struct {
	log  *slog.Logger
	last atomic.Int64
}

// Handle is for [otel.ErrorHandler].
func (w *warner) Handle(err error) {
	now, last := time.Now().UnixNano(), w.last.Load()
	if now-last >= int64(warnEvery) && w.last.CompareAndSwap(last, now) {
		w.log.Warn("spans are not sent", "error", brief(err))
	}
}

// maxError bounds what is logged of an error, in bytes: it may quote all that the
// collector answered.
const maxError = 512

func brief(err error) string {
	text := err.Error()
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return text
}
