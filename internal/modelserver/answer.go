package modelserver

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// answer takes completions to the client as they come into being. An error
// means that the client is gone.
type answer interface {
	// begin sends the headers, unless they went already or depend on the answer.
	begin() error
	// text takes the text of one more token of a completion.
	text(index int, text string) error
	// sent is how many events went out.
	sent() int
	// finish says why a completion ended.
	finish(index int, reason string) error
	// fail sends an error in place of what is missing.
	fail(failure *apiError) error
	// end ends the answer; done says whether it is to look complete.
	end(u usage, done bool) error
}

// identity is what all parts of an answer say alike.
type identity struct {
	id      string
	created int64
	model   string
}

func newIdentity(model string) identity {
	return identity{
		id:      "cmpl-" + strconv.FormatUint(rand.Uint64(), 36),
		created: time.Now().Unix(),
		model:   model,
	}
}

// appendJSON appends an object with the identity's fields, left open.
func (i identity) appendJSON(buf []byte) []byte {
	buf = fmt.Appendf(buf, `{"id":"%s","object":"text_completion","created":%d,"model":`, i.id, i.created)
	return gjson.AppendJSONString(buf, i.model)
}

// usage counts the tokens of an exchange.
type usage struct {
	prompt     int
	completion int
}

func (u usage) appendJSON(buf []byte) []byte {
	return fmt.Appendf(buf, `{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`,
		u.prompt, u.completion, u.prompt+u.completion)
}

// timed is an answer that says in its head how long it took to come so far, in
// whole milliseconds, as OpenAI does.
type timed struct {
	http.ResponseWriter
	arrived time.Time
}

func (t *timed) WriteHeader(status int) {
	if status == http.StatusOK {
		t.Header().Set("Openai-Processing-Ms", strconv.FormatInt(time.Since(t.arrived).Milliseconds(), 10))
	}
	t.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (t *timed) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// document is an answer in one piece.
type document struct {
	w       http.ResponseWriter
	id      identity
	choices []choice
	events  int
}

type choice struct {
	Text         string  `json:"text"`
	Index        int     `json:"index"`
	Logprobs     *string `json:"logprobs"` // always null
	FinishReason *string `json:"finish_reason"`
}

func newDocument(w http.ResponseWriter, id identity, completions int) *document {
	d := &document{w: w, id: id, choices: make([]choice, completions)}
	for i := range d.choices {
		d.choices[i].Index = i
	}
	return d
}

func (d *document) begin() error { return nil }

func (d *document) text(index int, text string) error {
	d.choices[index].Text += text
	if text != "" {
		d.events++
	}
	return nil
}

func (d *document) sent() int { return d.events }

func (d *document) finish(index int, reason string) error {
	d.choices[index].FinishReason = &reason
	return nil
}

func (d *document) fail(failure *apiError) error {
	failure.write(d.w)
	return nil
}

func (d *document) end(u usage, _ bool) error {
	choices, err := json.Marshal(d.choices)
	if err != nil {
		return err
	}
	buf := append(d.id.appendJSON(nil), `,"choices":`...)
	buf = append(buf, choices...)
	buf = append(buf, `,"usage":`...)
	buf = append(u.appendJSON(buf), '}')
	d.w.Header().Set("Content-Type", "application/json")
	d.w.WriteHeader(http.StatusOK)
	_, err = d.w.Write(buf)
	return err
}
