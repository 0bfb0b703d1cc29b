package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

const maxRequestID = 128

// Request asks for one completion. Zero fields are left to the proxy.
type Request struct {
	// Model is the logical model: "ghost-code".
	Model string
	// Prompt is the text before the cursor, Suffix the text after it.
	Prompt string
	Suffix string
	// MaxTokens bounds each choice.
	MaxTokens   int
	Temperature *float64
	TopP        *float64
	// N is how many choices to stream at once, each with its own Event.Index.
	N    int
	Stop []string
	// Usage asks for an Event with the token counts after the last text.
	Usage bool
	// RequestID names the request in every log on its way. Empty means a random
	// one. A retry carries the same.
	RequestID string
	// Extra holds further fields of the body.
	Extra map[string]json.RawMessage
}

// encode returns the request's body and id.
func (r Request) encode() (body []byte, id string, err error) {
	if r.Model == "" {
		return nil, "", errors.New("completion request: Model is missing; try ghost-code")
	}
	id = r.RequestID
	if id == "" {
		id = uuid.NewString()
	}
	if len(id) > maxRequestID || !headerSafe(id) {
		return nil, "", fmt.Errorf("completion request: RequestID must be at most %d characters of printable ASCII without spaces", maxRequestID)
	}
	fields := r.fields()
	for name, value := range r.Extra {
		if _, taken := fields[name]; taken {
			return nil, "", fmt.Errorf("completion request: Extra has %q, which is a field of Request", name)
		}
		if !json.Valid(value) {
			return nil, "", fmt.Errorf("completion request: Extra[%q] is not JSON", name)
		}
		fields[name] = value
	}
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false) // code is full of < and &
	if err := encoder.Encode(fields); err != nil {
		return nil, "", fmt.Errorf("completion request: %w", err)
	}
	return buf.Bytes(), id, nil
}

func (r Request) fields() map[string]any {
	fields := map[string]any{"model": r.Model, "prompt": r.Prompt, "stream": true}
	set := func(name string, value any, given bool) {
		if given {
			fields[name] = value
		}
	}
	// An empty suffix is left out: some engines refuse the field as such.
	set("suffix", r.Suffix, r.Suffix != "")
	set("max_tokens", r.MaxTokens, r.MaxTokens != 0)
	set("temperature", r.Temperature, r.Temperature != nil)
	set("top_p", r.TopP, r.TopP != nil)
	set("n", r.N, r.N != 0)
	set("stop", r.Stop, len(r.Stop) > 0)
	set("stream_options", map[string]bool{"include_usage": true}, r.Usage)
	return fields
}
