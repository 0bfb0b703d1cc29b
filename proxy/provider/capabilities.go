package provider

import (
	"fmt"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/tidwall/gjson"
)

// capabilities are what of OpenAI's API a provider can do that changes the answer:
// it cannot be left out unseen.
type capabilities struct {
	answers bool // several for one prompt
	prompts bool // several in one request
	echo    bool // the prompt, before its completion
	bestOf  bool
}

var everything = capabilities{answers: true, prompts: true, echo: true, bestOf: true}

// onlyOne is one answer to one prompt.
var onlyOne = capabilities{}

// check refuses what the provider cannot do.
func (c capabilities) check(body []byte) error {
	if c == everything {
		return nil
	}
	for name, value := range jsonedit.Members(body) {
		switch string(name) {
		case "n":
			if !c.answers && gjson.ParseBytes(value).Num > 1 {
				return cannot("n", "must be 1: the model gives one answer to a request")
			}
		case "best_of":
			if !c.bestOf && gjson.ParseBytes(value).Num > 1 {
				return cannot("best_of", "must be 1: the model gives one answer to a request")
			}
		case "echo":
			if !c.echo && string(value) == "true" {
				return cannot("echo", "must be false: the model does not repeat the prompt")
			}
		case "prompt":
			if !c.prompts && isList(value) && count(jsonedit.Elements(value)) != 1 {
				return cannot("prompt", "must be one text: the model takes one prompt in a request")
			}
		}
	}
	return nil
}

func isList(value []byte) bool { return len(value) > 0 && value[0] == '[' }

func count(elements func(func([]byte) bool)) (n int) {
	for range elements {
		n++
	}
	return n
}

// cannot is an error for the client.
func cannot(field, why string) error { return fmt.Errorf("the field %q %s", field, why) }

// onePrompt is the raw text of the one prompt of a request that was checked.
func onePrompt(body []byte) []byte {
	prompt := jsonedit.Value(body, "prompt")
	if isList(prompt) {
		for text := range jsonedit.Elements(prompt) {
			return text
		}
	}
	return prompt
}
