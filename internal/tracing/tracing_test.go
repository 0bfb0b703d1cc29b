package tracing

import (
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// variables are all that say whether spans are sent, and how.
var variables = []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
	"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"}

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
		})
	}
}
