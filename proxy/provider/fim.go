package provider

import (
	"bytes"
	"encoding/json"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// fillInTheMiddle puts the text behind the cursor into the prompt, as a model was
// taught to find it there.
type fillInTheMiddle struct {
	// The marks as they stand in a JSON string, without its quotes.
	prefix, suffix, middle string
	suffixFirst            bool
	none                   bool // the model was not taught to
}

func newFillInTheMiddle(f *config.FillInTheMiddle) *fillInTheMiddle {
	if f == nil {
		return nil
	}
	marks := f.Marks()
	return &fillInTheMiddle{
		prefix: escaped(marks.Prefix), suffix: escaped(marks.Suffix), middle: escaped(marks.Middle),
		suffixFirst: marks.SuffixFirst, none: marks.Template == config.TemplateNone,
	}
}

// escaped is valid text as it stands in a JSON string; brackets stay legible.
func escaped(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string always can be
	return string(inner(bytes.TrimSpace(out.Bytes())))
}

// inner is a raw JSON string without its quotes.
func inner(raw []byte) []byte { return raw[1 : len(raw)-1] }

// put takes the field suffix out of the body and into each of its prompts. A request
// without text behind the cursor keeps its prompt: it is to be continued, not filled in.
func (f *fillInTheMiddle) put(e *edit, body []byte) error {
	suffix := jsonedit.Value(body, "suffix")
	if suffix == nil {
		return nil
	}
	e.leaveOut("suffix")
	if f.none || !hasText(suffix) {
		return nil
	}
	if string(jsonedit.Value(body, "echo")) == "true" {
		return cannot("echo", "must be false for a prompt with a suffix: the model would repeat the marks of its template too")
	}
	e.set = append(e.set, jsonedit.Member{Name: "prompt", Value: f.prompts(jsonedit.Value(body, "prompt"), suffix)})
	return nil
}

// prompts is a raw prompt, or a list of them, with the suffix put in.
func (f *fillInTheMiddle) prompts(prompt, suffix []byte) string {
	if !isList(prompt) {
		return string(f.appendPrompt(nil, prompt, suffix))
	}
	out := []byte{'['}
	for text := range jsonedit.Elements(prompt) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = f.appendPrompt(out, text, suffix)
	}
	return string(append(out, ']'))
}

// appendPrompt appends one raw prompt. Strings are joined as they are written, so
// whatever they hold stays as the client escaped it.
func (f *fillInTheMiddle) appendPrompt(out, prompt, suffix []byte) []byte {
	out = append(out, '"')
	if f.suffixFirst {
		out = append(append(out, f.suffix...), inner(suffix)...)
		out = append(append(out, f.prefix...), inner(prompt)...)
	} else {
		out = append(append(out, f.prefix...), inner(prompt)...)
		out = append(append(out, f.suffix...), inner(suffix)...)
	}
	return append(append(out, f.middle...), '"')
}
