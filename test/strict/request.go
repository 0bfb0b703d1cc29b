package strict

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// Request is what arrived, and what the provider made of it.
type Request struct {
	Method, Path, Proto string
	Query               url.Values
	Header              http.Header
	Body                []byte

	Model       string
	Prompts     []string // texts before the cursor; an array of tokens is its JSON
	Suffix      string   // the text behind the cursor
	HasSuffix   bool     // whether it was there, and not null
	MaxTokens   int      // 0: not set
	N           int      // completions of each prompt
	Stop        []string
	Seed        int64
	HasSeed     bool
	Temperature float64
	Stream      bool // with the provider's default applied
	Usage       bool // whether the stream was asked to tell what it cost

	Violations []string // of this request
	Unknown    []string // fields of this request
	Refused    int      // the status it was refused with, or 0
}

// Field is the field of the body at a path, as gjson has it ("options.stop").
func (r *Request) Field(path string) gjson.Result { return gjson.GetBytes(r.Body, path) }

// Echo is the text that a provider answers with if it has no script: what its
// model was given to read before and behind the cursor, for completion i.
func (r *Request) Echo(i int) string {
	prompt := ""
	if len(r.Prompts) > 0 {
		prompt = r.Prompts[i/max(r.N, 1)%len(r.Prompts)]
	}
	return "‹" + prompt + "¦" + r.Suffix + "›"
}

// echoPieces cuts the echo in three, and to the tokens that were asked for.
func (r *Request) echoPieces(i int) (pieces []string, cut bool) {
	runes := []rune(r.Echo(i))
	third := max(len(runes)/3, 1)
	pieces = []string{string(runes[:third]), string(runes[third : 2*third]), string(runes[2*third:])}
	if r.MaxTokens > 0 && r.MaxTokens < len(pieces) {
		return pieces[:r.MaxTokens], true
	}
	return pieces, false
}

// promptTokens takes four bytes for a token.
func (r *Request) promptTokens() int {
	return (len(strings.Join(r.Prompts, "")) + len(r.Suffix) + 3) / 4
}

// read takes from the body what all providers have, by the names that most use.
func (r *Request) read() {
	r.Model = r.Field("model").Str
	r.Prompts = promptsOf(r.Field("prompt"))
	r.Suffix, r.HasSuffix = r.Field("suffix").Str, present(r.Field("suffix"))
	r.MaxTokens = int(r.Field("max_tokens").Int())
	r.N = max(int(r.Field("n").Int()), 1)
	r.Stop = textsOf(r.Field("stop"))
	r.Seed, r.HasSeed = r.Field("seed").Int(), present(r.Field("seed"))
	r.Temperature = r.Field("temperature").Num
	r.Stream = r.Field("stream").Bool()
	r.Usage = r.Field("stream_options.include_usage").Bool()
}

func present(v gjson.Result) bool { return v.Exists() && v.Type != gjson.Null }

func textsOf(v gjson.Result) []string {
	var texts []string
	for _, e := range v.Array() {
		texts = append(texts, e.String())
	}
	return texts
}

// promptsOf has one text for each prompt: an array of tokens is one prompt.
func promptsOf(v gjson.Result) []string {
	if v.IsArray() && isInteger(v.Get("0")) {
		return []string{v.Raw}
	}
	return textsOf(v)
}
