package modelserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Bounds of a request.
const (
	maxBodyBytes   = 8 << 20
	maxTokens      = 8192
	maxCompletions = 128
	maxStops       = 4

	defaultMaxTokens = 16
	defaultModel     = "ngram"
)

// request is what a client asks for, checked.
type request struct {
	model        string
	prompts      []string
	suffix       string
	stops        []string
	maxTokens    int
	n            int // completions of each prompt
	temperature  float64
	seed         *int64
	stream       bool
	includeUsage bool
}

// wireRequest is the body of POST /v1/completions. Fields that are not here are
// ignored; null is the same as absent.
type wireRequest struct {
	Model         string      `json:"model"`
	Prompt        any         `json:"prompt"` // a string or an array of strings
	Suffix        string      `json:"suffix"`
	MaxTokens     *int        `json:"max_tokens"`
	Stop          any         `json:"stop"` // the same
	N             *int        `json:"n"`
	Temperature   *float64    `json:"temperature"`
	TopP          *float64    `json:"top_p"` // checked, and of no effect
	Seed          *int64      `json:"seed"`
	Echo          bool        `json:"echo"`
	Stream        bool        `json:"stream"`
	StreamOptions streamShape `json:"stream_options"`
}

type streamShape struct {
	IncludeUsage bool `json:"include_usage"`
}

// parseRequest reads the body of a completion request. Its errors are *apiError.
// If models is not empty, it names those that may be asked for.
func parseRequest(body []byte, models []string) (*request, error) {
	var wire wireRequest
	if err := json.Unmarshal(body, &wire); err != nil {
		return nil, jsonError(body, err)
	}
	prompts, err := textsOf("prompt", wire.Prompt)
	if err != nil {
		return nil, err
	}
	stops, err := textsOf("stop", wire.Stop)
	if err != nil {
		return nil, err
	}
	req := &request{
		model:        wire.Model,
		prompts:      prompts,
		suffix:       wire.Suffix,
		stops:        stops,
		maxTokens:    orElse(wire.MaxTokens, defaultMaxTokens),
		n:            orElse(wire.N, 1),
		temperature:  orElse(wire.Temperature, 1),
		seed:         wire.Seed,
		stream:       wire.Stream,
		includeUsage: wire.StreamOptions.IncludeUsage,
	}
	if err := req.check(models); err != nil {
		return nil, err
	}
	if topP := orElse(wire.TopP, 1); topP < 0 || topP > 1 {
		return nil, invalid("top_p", "top_p is %g; it must be from 0 to 1", topP)
	}
	if wire.Echo {
		return nil, invalid("echo", "echo is not supported: leave it out or set it to false")
	}
	if req.model == "" {
		req.model = defaultModel
	}
	return req, nil
}

// check returns what is wrong with the first field that is wrong, or nil.
func (req *request) check(models []string) error {
	switch {
	case len(models) > 0 && !slices.Contains(models, req.model):
		return &apiError{status: http.StatusNotFound, param: "model", code: "model_not_found",
			message: fmt.Sprintf("no such model here; this server has %s", strings.Join(models, ", "))}
	case len(req.prompts) == 0:
		return invalid("prompt", "prompt is missing: give a string, or an array of strings")
	case req.maxTokens < 1 || req.maxTokens > maxTokens:
		return invalid("max_tokens", "max_tokens is %d; it must be from 1 to %d", req.maxTokens, maxTokens)
	case req.n < 1 || req.n > maxCompletions || req.n*len(req.prompts) > maxCompletions:
		return invalid("n", "n is %d; it must be at least 1, and n times the number of prompts at most %d", req.n, maxCompletions)
	case req.temperature < 0 || req.temperature > 2:
		return invalid("temperature", "temperature is %g; it must be from 0 to 2", req.temperature)
	case len(req.stops) > maxStops:
		return invalid("stop", "stop has %d texts; it may have %d", len(req.stops), maxStops)
	case slices.Contains(req.stops, ""):
		return invalid("stop", "stop has an empty text, which would stop everything; leave stop out instead")
	}
	return nil
}

// textsOf reads a field that is a string or an array of strings.
func textsOf(field string, value any) ([]string, error) {
	switch value := value.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{value}, nil
	case []any:
		var texts []string
		for _, element := range value {
			text, ok := element.(string)
			if !ok {
				return nil, invalid(field, "%s is an array with %s; %s", field, kindOf(element), textsWanted(field))
			}
			texts = append(texts, text)
		}
		return texts, nil
	default:
		return nil, invalid(field, "%s is %s; %s", field, kindOf(value), textsWanted(field))
	}
}

func textsWanted(field string) string {
	if field == "prompt" {
		return "it must be a string or an array of strings (tokens are not understood here)"
	}
	return "it must be a string or an array of strings"
}

// kindOf names the kind of a JSON value.
func kindOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case nil:
		return "null"
	default:
		return "a number"
	}
}

// jsonError says what is wrong with a body that does not decode, without
// repeating any of it.
func jsonError(body []byte, err error) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return invalid("", "the body is empty; it must be a JSON object with a prompt")
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return invalid("", "the body is a JSON %s; it must be an object with a prompt", wrongType.Value)
	case errors.As(err, &wrongType):
		got, _, _ := strings.Cut(wrongType.Value, " ") // "number 1.5": the value is not ours to repeat
		return invalid(wrongType.Field, "%s has the wrong type: got a JSON %s, wanted %s", wrongType.Field, got, wrongType.Type)
	case errors.As(err, &syntax):
		return invalid("", "the body is not JSON: syntax error at byte %d", syntax.Offset)
	default:
		return invalid("", "the body is not JSON that can be read")
	}
}

func orElse[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}
