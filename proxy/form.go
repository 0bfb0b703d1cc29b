package proxy

import (
	"strings"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/ghostline-dev/ghostline/proxy/sse"
	"github.com/tidwall/gjson"
)

// form is the API that a path speaks. Inside, everything has OpenAI's form.
type form interface {
	// request turns a client's body into OpenAI's form.
	request(body []byte) []byte
	// appendEvent appends an event of a stream to dst, as it goes out.
	appendEvent(dst []byte, e provider.Event) []byte
	// answer is a unary answer's body.
	answer(e provider.Event) []byte
}

// completionForm tells which form a path speaks, and the model that it names.
func completionForm(path string) (f form, engine string, ok bool) {
	switch path {
	case "/v1/completions":
		return openAIForm{}, "", true
	case "/v1/fim/completions":
		return mistralForm{}, "", true
	}
	engine, ok = strings.CutPrefix(path, "/v1/engines/")
	if ok {
		engine, ok = strings.CutSuffix(engine, "/completions")
	}
	if !ok || engine == "" || strings.Contains(engine, "/") {
		return nil, "", false
	}
	return openAIForm{}, engine, true
}

// openAIForm is OpenAI's completions API, which Copilot's clients speak too.
type openAIForm struct{}

func (openAIForm) request(body []byte) []byte { return body }

func (openAIForm) appendEvent(dst []byte, e provider.Event) []byte { return sse.Append(dst, e.Data) }

func (openAIForm) answer(e provider.Event) []byte { return e.Data }

// mistralForm is Mistral's fill-in-the-middle API: the request is nearly
// OpenAI's, the answer has the shape of a chat.
type mistralForm struct{}

func (mistralForm) request(body []byte) []byte {
	if seed := jsonedit.Value(body, "random_seed"); seed != nil {
		return jsonedit.Apply(body, []jsonedit.Member{{Name: "seed", Value: string(seed)}}, "random_seed")
	}
	return body
}

func (mistralForm) appendEvent(dst []byte, e provider.Event) []byte {
	return sse.Append(dst, chatShaped(e, "chat.completion.chunk", "delta"))
}

func (mistralForm) answer(e provider.Event) []byte {
	return chatShaped(e, "chat.completion", "message")
}

// chatShaped moves each choice's text to content in a message of the given name.
func chatShaped(e provider.Event, object, message string) []byte {
	choices := []byte{'['}
	gjson.GetBytes(e.Data, "choices").ForEach(func(_, choice gjson.Result) bool {
		text := choice.Get("text").Raw
		if text == "" || text == "null" {
			text = `""`
		}
		content := `{"role":"assistant","content":` + text + `}`
		if len(choices) > 1 {
			choices = append(choices, ',')
		}
		choices = append(choices, jsonedit.Apply([]byte(choice.Raw), []jsonedit.Member{{Name: message, Value: content}}, "text", "logprobs")...)
		return true
	})
	choices = append(choices, ']')
	return jsonedit.Apply(e.Data, []jsonedit.Member{jsonedit.Set("object", object), {Name: "choices", Value: string(choices)}})
}
