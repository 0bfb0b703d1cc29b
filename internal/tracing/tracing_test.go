package tracing

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// variables are all that say whether spans are sent, and how.
var variables = []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
	"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
	"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
	"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT"}

func TestFromEnvironment(t *testing.T) {
	const endpoint = "http://127.0.0.1:4318"
	for _, tc := range []struct {
		name string
		set  map[string]string
		on   bool
		want string // the error
	}{
		{"nothing", nil, false, ""},
		{"an endpoint", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, true, ""},
		{"one for traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint + "/v1/traces", "OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		{"a protocol", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, true, ""},
		{"disabled", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SDK_DISABLED": "true"}, false, ""},
		{"no exporter", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_EXPORTER": "none"}, false, ""},
		{"another exporter", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_EXPORTER": "zipkin"}, false,
			`OTEL_TRACES_EXPORTER is "zipkin"; it must be otlp or none`},
		{"gRPC", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, false,
			`OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is "grpc"; it must be http/protobuf`},
		{"no URL", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, false,
			"OTEL_EXPORTER_OTLP_ENDPOINT is no absolute http or https URL, such as http://collector:4318"},
		{"a wrong URL for traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "/v1/traces", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, false,
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no absolute"},
		{"headers", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20hidden, x-team = ghost,"}, true, ""},
		{"a header without a name", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_HEADERS": "Bearer hidden"}, false,
			"OTEL_EXPORTER_OTLP_HEADERS: entry 1 is no header"},
		{"a header's name that is none", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_HEADERS": "a=b,a hidden=b"}, false,
			"OTEL_EXPORTER_OTLP_HEADERS: entry 2 is no header"},
		{"a header's value with a wrong escape", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=%zzhidden"}, false,
			"OTEL_EXPORTER_OTLP_TRACES_HEADERS: entry 1 is no header"},
		{"a header's value of two lines", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_HEADERS": "a=b%0ahidden"}, false,
			"OTEL_EXPORTER_OTLP_HEADERS: entry 1 is no header"},
		{"a queue below nothing", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, false,
			`OTEL_BSP_MAX_QUEUE_SIZE is "-1"; it must be a whole number from 1 to 1048576`},
		{"a queue beyond all memory", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_MAX_QUEUE_SIZE": "9999999999999"}, false,
			"OTEL_BSP_MAX_QUEUE_SIZE is"},
		{"a batch below nothing", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "-1"}, false,
			"OTEL_BSP_MAX_EXPORT_BATCH_SIZE is"},
		{"no delay", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "0"}, false, "OTEL_BSP_SCHEDULE_DELAY is"},
		{"a time with a unit", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT": "5s"}, false,
			`OTEL_EXPORTER_OTLP_TIMEOUT is "5s"; it must be a whole number from 1 to 3600000`},
		{"wrong, but disabled", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_MAX_QUEUE_SIZE": "-1", "OTEL_SDK_DISABLED": "true"}, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, name := range variables {
				t.Setenv(name, tc.set[name])
			}
			provider, stop, err := FromEnvironment(t.Context(), "thing", "v1", slog.New(slog.DiscardHandler))
			defer stop()
			if got := provider != nil; got != tc.on {
				t.Errorf("on is %t, want %t", got, tc.on)
			}
			if tc.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "hidden") {
				t.Errorf("the error %q shows a header", err)
			}
		})
	}
}

func TestLongErrorIsCut(t *testing.T) {
	var out strings.Builder
	w := &warner{log: slog.New(slog.NewTextHandler(&out, nil))}
	w.Handle(errors.New("the collector says " + strings.Repeat("ü", 1<<20)))
	if text := out.String(); !strings.Contains(text, "the collector says üü") || len(text) > 2*maxError {
		t.Errorf("logged %d bytes: %.100s", len(text), text)
	}
}
