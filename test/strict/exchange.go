package strict

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// answer is the form in which a provider answers.
type answer interface {
	// header is what a successful answer has, with the stream's Content-Type.
	header() http.Header
	// early says whether a stream's status goes out before there is a token, so
	// that a failure then is one under status 200.
	early() bool
	// begin sends what comes before the first token of a stream.
	begin() error
	alive() error // a sign of life before the answer
	piece(i int, text string) error
	finish(i int, reason string) error
	end() error
	fail(f Failure) error // in a stream
	whole() any           // the answer as one JSON value
}

// exchange is one request being answered.
type exchange struct {
	got     *Request
	options Options
	script  Script
	w       http.ResponseWriter
	control *http.ResponseController

	answer  answer
	streams bool       // the answer is a stream
	pieces  [][]string // of each completion
	reasons []string   // why each ended
	begun   bool       // the status is out
	sent    int        // rounds of pieces that are out
}

func (x *exchange) phase() Phase {
	if x.sent > 0 {
		return MidStream
	}
	return BeforeFirstByte
}

// run answers. Its errors mean that the client left.
func (x *exchange) run(ctx context.Context, a api) error {
	x.streams = x.got.Stream
	x.plan()
	x.answer = a.answer(x)
	if x.script.Fail != nil && x.script.Fail.Status != 0 {
		if err := x.pause(ctx, 0); err != nil {
			return err
		}
		return x.reply(a.failure(*x.script.Fail, x.got))
	}
	if x.streams {
		return x.stream(ctx, a)
	}
	return x.object(ctx, a)
}

// plan lays out what each completion says.
func (x *exchange) plan() {
	for i := range max(len(x.got.Prompts), 1) * max(x.got.N, 1) {
		pieces, cut := x.got.echoPieces(i)
		reason := "stop"
		if cut {
			reason = "length"
		}
		if texts := x.script.Texts; len(texts) > 0 {
			pieces, reason = texts[i%len(texts)], "stop"
		}
		if x.script.Finish != "" {
			reason = x.script.Finish
		}
		x.pieces = append(x.pieces, pieces)
		x.reasons = append(x.reasons, reason)
	}
}

// object answers with one JSON value, behind every silence that is asked for.
func (x *exchange) object(ctx context.Context, a api) error {
	if err := x.signs(); err != nil {
		return err
	}
	if hang := x.script.Hang; hang != nil {
		if err := x.wait(ctx); err != nil {
			return err
		}
	}
	if f := x.script.Fail; f != nil {
		return x.failEarly(*f, a)
	}
	if x.begun { // signs of life went before it
		return x.write(marshal(x.answer.whole()))
	}
	header := x.answer.header()
	header.Set("Content-Type", "application/json")
	return x.reply(&reply{status: http.StatusOK, header: header, body: marshal(x.answer.whole())})
}

// stream answers in rounds: in each, every completion has its next piece, so
// that their events come interleaved.
func (x *exchange) stream(ctx context.Context, a api) error {
	if err := x.signs(); err != nil {
		return err
	}
	for round := 0; ; round++ {
		if err := x.pause(ctx, round); err != nil {
			return err
		}
		if f := x.script.Fail; f != nil && (f.After == round || round == x.rounds()) {
			if f.Cut || !x.begun && !x.answer.early() {
				return x.failEarly(*f, a)
			}
			if err := x.begin(); err != nil {
				return err
			}
			return x.answer.fail(*f)
		}
		if err := x.begin(); err != nil {
			return err
		}
		if round == x.rounds() {
			return x.close()
		}
		if err := x.say(round); err != nil {
			return err
		}
	}
}

func (x *exchange) say(round int) error {
	for i, pieces := range x.pieces {
		if round < len(pieces) {
			if err := x.answer.piece(i, pieces[round]); err != nil {
				return err
			}
		}
	}
	x.sent++
	return nil
}

func (x *exchange) close() error {
	for i, reason := range x.reasons {
		if err := x.answer.finish(i, reason); err != nil {
			return err
		}
	}
	return x.answer.end()
}

// failEarly fails with a status, or breaks the connection off.
func (x *exchange) failEarly(f Failure, a api) error {
	if f.Cut {
		panic(http.ErrAbortHandler)
	}
	f.Status = http.StatusInternalServerError
	if x.begun { // signs of life have sent another status
		return x.write(a.failure(f, x.got).body)
	}
	return x.reply(a.failure(f, x.got))
}

func (x *exchange) rounds() int {
	rounds := 0
	for _, pieces := range x.pieces {
		rounds = max(rounds, len(pieces))
	}
	return rounds
}

// pause falls silent if it is time to, and finds out whether the client is there.
func (x *exchange) pause(ctx context.Context, round int) error {
	hang := x.script.Hang
	if hang == nil || hang.After != round {
		return ctx.Err()
	}
	if hang.Headers {
		if err := x.begin(); err != nil {
			return err
		}
	}
	return x.wait(ctx)
}

func (x *exchange) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-x.script.Hang.Until:
		return nil
	}
}

func (x *exchange) signs() error {
	for range x.script.KeepAlives {
		if err := x.answer.alive(); err != nil {
			return err
		}
	}
	return nil
}

// begin sends the status of a stream, once.
func (x *exchange) begin() error {
	if x.begun {
		return nil
	}
	if err := x.status(x.answer.header()); err != nil {
		return err
	}
	return x.answer.begin()
}

func (x *exchange) status(header http.Header) error {
	x.begun = true
	for name, values := range header {
		x.w.Header()[name] = values
	}
	for name, values := range x.script.Header {
		x.w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	x.w.WriteHeader(http.StatusOK)
	return x.control.Flush()
}

// usage is what the request cost.
func (x *exchange) usage() Usage {
	if x.script.Usage != nil {
		return *x.script.Usage
	}
	total := Usage{Prompt: x.got.promptTokens()}
	for _, pieces := range x.pieces {
		total.Completion += len(pieces)
	}
	return total
}

// said is the whole text of completion i.
func (x *exchange) said(i int) string { return strings.Join(x.pieces[i], "") }

// write sends bytes at once.
func (x *exchange) write(b []byte) error {
	if _, err := x.w.Write(b); err != nil {
		return err
	}
	return x.control.Flush()
}

// data sends a value as a server-sent event.
func (x *exchange) data(v any) error {
	return x.write(append(append([]byte("data: "), marshal(v)...), "\n\n"...))
}

func (x *exchange) done() error { return x.write([]byte("data: [DONE]\n\n")) }

// reply is an answer in one piece.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// refuse is a reply in JSON.
func refuse(status int, v any) *reply {
	return &reply{status: status, header: http.Header{"Content-Type": {"application/json"}}, body: marshal(v)}
}

// ingress is what stands in the place of a limit before engines that have none
// of their own: an nginx that limits requests, whose body is HTML.
func ingress(f Failure) *reply {
	text := http.StatusText(f.Status)
	r := &reply{status: f.Status, header: http.Header{"Content-Type": {"text/html"}}}
	r.body = []byte("<html>\r\n<head><title>" + text + "</title></head>\r\n<body>\r\n<center><h1>" + text + "</h1></center>\r\n</body>\r\n</html>\r\n")
	if !f.Bare {
		r.header.Set("Retry-After", seconds(f.wait()))
	}
	return r
}

func (x *exchange) reply(r *reply) error {
	for name, values := range r.header {
		x.w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	for name, values := range x.script.Header {
		x.w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	x.w.Header().Set("Content-Length", strconv.Itoa(len(r.body)))
	x.w.WriteHeader(r.status)
	return x.write(r.body)
}

// marshal renders v as the providers do: without Go's escapes for HTML.
func marshal(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // the values are this package's own
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
