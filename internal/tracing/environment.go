package tracing

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

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
	return true, errors.Join(checkHeaders(), checkNumbers())
}

// checkHeaders refuses headers that the SDK would leave out. It would also log
// them, and they hold credentials, so that no part of them is repeated.
func checkHeaders() error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for i, header := range strings.Split(os.Getenv(name), ",") {
			if strings.TrimSpace(header) != "" && !isHeader(header) {
				return fmt.Errorf("%s: entry %d is no header; they are name=value, with commas between them, and values escaped as in URLs", name, i+1)
			}
		}
	}
	return nil
}

func isHeader(text string) bool {
	name, value, found := strings.Cut(text, "=")
	value, err := url.PathUnescape(value)
	return found && err == nil && httpguts.ValidHeaderFieldName(strings.TrimSpace(name)) && httpguts.ValidHeaderFieldValue(strings.TrimSpace(value))
}

// numbers are the variables whose numbers the SDK takes as they are, and the most
// that each may be: it panics at a size that cannot be, and is never idle with a
// delay of 0.
var numbers = []struct {
	name string
	most int
}{
	{"OTEL_BSP_MAX_QUEUE_SIZE", 1 << 20},
	{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1 << 20},
	{"OTEL_BSP_SCHEDULE_DELAY", 3_600_000},
	{"OTEL_BSP_EXPORT_TIMEOUT", 3_600_000},
	{"OTEL_EXPORTER_OTLP_TIMEOUT", 3_600_000},
	{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", 3_600_000},
}

func checkNumbers() error {
	for _, number := range numbers {
		value := os.Getenv(number.name)
		if n, err := strconv.Atoi(value); value != "" && (err != nil || n < 1 || n > number.most) {
			return fmt.Errorf("%s is %q; it must be a whole number from 1 to %d", number.name, value, number.most)
		}
	}
	return nil
}
