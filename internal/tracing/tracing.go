// Package tracing sends spans to an OpenTelemetry collector, as the standard
// environment variables say.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync/atomic"
	"time"

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
			log.Warn("the last spans are not sent", "error", err)
		}
	}, nil
}

// isConfigured says whether spans are to be sent, and refuses what cannot be done.
func isConfigured() (bool, error) {
	const protocol = "http/protobuf"
	exporter, name := os.Getenv("OTEL_TRACES_EXPORTER"), "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	if os.Getenv(name) == "" {
		name = "OTEL_EXPORTER_OTLP_ENDPOINT"
	}
	endpoint := os.Getenv(name)
	switch {
	case os.Getenv("OTEL_SDK_DISABLED") == "true", exporter == "none", endpoint == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; it must be otlp or none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if value := os.Getenv(name); value != "" && value != protocol {
			return false, fmt.Errorf("%s is %q; it must be %s", name, value, protocol)
		}
	}
	// The text itself may hold a password, so it is not repeated.
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false, errors.New(name + " is no absolute http or https URL, such as http://collector:4318")
	}
	return true, nil
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
		w.log.Warn("spans are not sent", "error", err)
	}
}
