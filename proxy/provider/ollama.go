package provider

import (
	"bytes"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/sse"
	"github.com/tidwall/gjson"
)

func newOllama(u config.Unit) Dialect {
	if u.API == config.APIGenerate {
		return &ollamaGenerate{fim: newFillInTheMiddle(u.FillInTheMiddle), maxTokens: u.MaxTokens}
	}
	c := newCompletions(u)
	c.can, c.endless = onlyOne, true
	c.drop = []string{"n", "best_of", "echo", "logit_bias", "user"}
	return &ollamaCompletions{c}
}

// ollamaCompletions speaks Ollama's POST /v1/completions: OpenAI's, one answer to one
// prompt. Fields that it does not know it ignores.
type ollamaCompletions struct{ completions }

func (o *ollamaCompletions) Request(r Request) (Outbound, error) {
	if !hasText(onePrompt(r.Body)) {
		return Outbound{}, errEmptyPrompt
	}
	return o.completions.Request(r)
}

func (*ollamaCompletions) Refusal(body []byte) Refusal { return ollamaRefusal(body) }

// ollamaRefusal is readRefusal for a provider that says only in words that a model was
// set up without a template that has a place for the suffix.
func ollamaRefusal(body []byte) Refusal {
	r := readRefusal(body)
	r.Misconfigured = bytes.Contains(body, []byte("does not support insert"))
	return r
}

// ollamaGenerate speaks Ollama's own POST /api/generate, whose answer is a stream of
// lines of JSON.
type ollamaGenerate struct {
	// fim, if not nil, is put into the prompt, which then goes to the model past
	// Ollama's own template.
	fim       *fillInTheMiddle
	maxTokens int
}

// ollamaOptions are the fields of OpenAI's API that Ollama has among its options.
var ollamaOptions = []string{"temperature", "top_p", "stop", "seed", "frequency_penalty", "presence_penalty"}

func (o *ollamaGenerate) Request(r Request) (Outbound, error) {
	if err := onlyOne.check(r.Body); err != nil {
		return Outbound{}, err
	}
	prompt, suffix := onePrompt(r.Body), jsonedit.Value(r.Body, "suffix")
	e := edit{drop: append([]string{"suffix", "max_tokens", "n", "best_of", "echo", "stream_options", "logprobs", "logit_bias", "user"}, ollamaOptions...)}
	switch {
	case hasText(suffix) && o.fim != nil && !o.fim.none:
		prompt = o.fim.appendPrompt(nil, prompt, suffix)
	case hasText(suffix) && o.fim == nil:
		e.set = append(e.set, jsonedit.Member{Name: "suffix", Value: string(suffix)})
	}
	if !hasText(prompt) {
		return Outbound{}, errEmptyPrompt
	}
	e.set = append(e.set, jsonedit.Set("model", r.Model), jsonedit.Member{Name: "prompt", Value: string(prompt)},
		jsonedit.Member{Name: "options", Value: o.options(r.Body)}, jsonedit.Member{Name: "stream", Value: strconv.FormatBool(r.Stream)})
	if o.fim != nil || !hasText(suffix) {
		// Else Ollama puts the text to be continued into a chat's turn.
		e.set = append(e.set, jsonedit.Member{Name: "raw", Value: "true"})
	}
	e.leaveOut(otherCase(r.Body, e.set)...)
	return Outbound{Body: e.apply(r.Body), Headers: bearer(r.Credential)}, nil
}

// otherCase are the names in the body that are those of set in other letter case. Ollama
// reads either, so that Options would get round what options says.
func otherCase(body []byte, set []jsonedit.Member) (names []string) {
	for name := range jsonedit.Members(body) {
		if slices.ContainsFunc(set, func(m jsonedit.Member) bool {
			return m.Name != string(name) && strings.EqualFold(m.Name, string(name))
		}) {
			names = append(names, string(name))
		}
	}
	return names
}

// errEmptyPrompt: Ollama takes a request without a prompt for one to load the model.
var errEmptyPrompt = cannot("prompt", "must not be empty: the model has nothing to go by")

// options are the request's options with those fields in it that OpenAI's API has
// beside the prompt.
func (o *ollamaGenerate) options(body []byte) string {
	options := jsonedit.Value(body, "options")
	if len(options) == 0 || options[0] != '{' {
		options = []byte("{}")
	}
	var set []jsonedit.Member
	for name, value := range jsonedit.Members(body) {
		if !slices.Contains(ollamaOptions, string(name)) || isNull(value) {
			continue
		}
		if string(name) == "stop" && value[0] == '"' { // only a list will do
			value = []byte(listOf(value))
		}
		set = append(set, jsonedit.Member{Name: string(name), Value: string(value)})
	}
	if most := tokens(body, jsonedit.Value(options, "num_predict"), o.maxTokens); most != "" {
		set = append(set, jsonedit.Member{Name: "num_predict", Value: most})
	}
	return string(jsonedit.Apply(options, set))
}

func (*ollamaGenerate) Framing() sse.Framing { return sse.Lines }

// Event reads {"response":"…","done":false,…}. The last has "done":true and why; the
// stream ends behind it.
func (*ollamaGenerate) Event(head *Head, data []byte) (Event, error) {
	data, err := object(data)
	if err != nil {
		return Event{}, err
	}
	var text, done, reason []byte
	var cost Usage
	for name, value := range jsonedit.Members(data) {
		switch string(name) {
		case "error":
			if !isNull(value) {
				return Event{}, &Error{ollamaRefusal(data)}
			}
		case "response":
			text = value
		case "done":
			done = value
		case "done_reason":
			reason = value
		case "prompt_eval_count":
			cost.PromptTokens = metered(gjson.ParseBytes(value))
		case "eval_count":
			cost.CompletionTokens = metered(gjson.ParseBytes(value))
		}
	}
	switch {
	case text == nil:
		return Event{}, errNoChoice
	case !mayBeText(text):
		return Event{}, errNoText
	case string(done) != "true":
		return head.event(nil, choice{text: text}), nil
	case string(reason) == `"length"`:
		return head.event(cost.kept(), choice{text: text, reason: "length"}), nil
	case reason == nil, string(reason) == `"stop"`:
		return head.event(cost.kept(), choice{text: text, reason: "stop"}), nil
	}
	// "load" and "unload" come without a completion.
	return Event{}, &Error{Refusal{Code: wordOf(gjson.ParseBytes(reason))}}
}

// Answer reads one such object, which is the last too.
func (o *ollamaGenerate) Answer(head *Head, body []byte) (Event, error) {
	event, err := o.Event(head, body)
	if err == nil && event.Finished == 0 {
		return Event{}, errNotWhole
	}
	return event, err
}

func (*ollamaGenerate) Refusal(body []byte) Refusal { return ollamaRefusal(body) }

func (*ollamaGenerate) Worked(textproto.MIMEHeader) (time.Duration, bool) { return 0, false }
