package feature

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

const prompt = `{"prompt":"func main() {\n\t","max_tokens":8,"stream":true,"model":"ghost-code"}`

func TestStreamOverEveryProtocol(t *testing.T) {
	s := start(t, setup{})
	for _, tc := range []struct {
		name, base string
		client     *http.Client
		major      int
	}{
		{"h2", s.tlsURL, s.h2(), 2},
		{"h1 over TLS", s.tlsURL, s.h1(), 1},
		{"h2c", s.plainURL, s.h2c(), 2},
		{"h1", s.plainURL, s.h1(), 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := s.do(tc.client, s.request(t.Context(), tc.base, "/v1/completions", prompt))
			events := got.events()
			if got.status != http.StatusOK || got.err != nil || len(events) < 2 || events[len(events)-1] != "[DONE]" {
				t.Fatalf("got %d, %v, events %q; want a stream with its end", got.status, got.err, events)
			}
			if ct := got.header.Get("Content-Type"); !strings.HasPrefix(ct, "text/event-stream") {
				t.Errorf("content type %q", ct)
			}
			if v := got.header.Get("X-Ghostline-Variant"); v != "stable" {
				t.Errorf("variant %q, want stable", v)
			}
			for _, event := range events[:len(events)-1] {
				if !gjson.Valid(event) || !gjson.Get(event, "choices.0").Exists() {
					t.Errorf("event %s: want JSON with choices", event)
				}
			}
		})
	}
	s.outcomes("ok", 4)
}
