package feature

import (
	"compress/gzip"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// packer packs what a unit answers by gzip, as a hop does that does not mind
// Accept-Encoding.
type packer struct {
	http.ResponseWriter
	coding string
	gzip   *gzip.Writer
	// cut takes as many bytes off the end of the packed body.
	held []byte
	cut  int
}

// packs has a unit's answers go through a packer. The last bytes of the body, cut of
// them, are lost.
func packs(coding string, cut int, unit http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := &packer{ResponseWriter: w, coding: coding, cut: cut}
		p.gzip = gzip.NewWriter(writerFunc(p.pass))
		unit.ServeHTTP(p, r)
		_ = p.gzip.Close() // an error means that the proxy has had enough
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// pass sends packed bytes, but for those that may be cut off.
func (p *packer) pass(b []byte) (int, error) {
	p.held = append(p.held, b...)
	n := max(0, len(p.held)-p.cut)
	_, err := p.ResponseWriter.Write(p.held[:n])
	p.held = append(p.held[:0], p.held[n:]...)
	return len(b), err
}

func (p *packer) WriteHeader(status int) {
	p.Header().Set("Content-Encoding", p.coding)
	p.ResponseWriter.WriteHeader(status)
}

func (p *packer) Write(b []byte) (int, error) { return p.gzip.Write(b) }

func (p *packer) FlushError() error {
	if err := p.gzip.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// TestReport3PackedEventsArriveOneByOne: a stream that was packed although the unit
// was asked not to is unpacked, and each event leaves as it comes.
func TestReport3PackedEventsArriveOneByOne(t *testing.T) {
	each(t, forms, overBoth, func(t *testing.T, p speaker, s *stack, unit *switched) {
		read := make(chan struct{})
		texts := []string{"a", spokenB, "c"}
		unit.is(packs("gzip", 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.says()(w, r)
			for _, text := range texts {
				send(w, p.event(p.text(text)))
				select {
				case <-read:
				case <-r.Context().Done():
					return
				}
			}
			send(w, p.end())
		})))
		client, base := overTLS(s)
		req := s.request(t.Context(), base, "/v1/completions", prompt)
		req.Header.Set("X-Request-Id", readID)
		req.Header.Set("Accept-Encoding", "gzip, br")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		for _, text := range texts {
			want := p.got(text)
			got := make([]byte, readAhead(want))
			if _, err := io.ReadFull(resp.Body, got); err != nil || created.ReplaceAllString(string(got), `"created":1`) != want {
				t.Fatalf("got %q, %v; want %q", got, err, want)
			}
			read <- struct{}{}
		}
		rest, err := io.ReadAll(resp.Body)
		if got := created.ReplaceAllString(string(rest), `"created":1`); err != nil || got != p.gotEnd() {
			t.Errorf("the rest is %q, %v; want %q", got, err, p.gotEnd())
		}
		if coding := resp.Header.Get("Content-Encoding"); coding != "" {
			t.Errorf("the answer has the coding %q", coding)
		}
		if asked := s.arrived.last(t).header["Accept-Encoding"]; len(asked) != 1 || asked[0] != "identity" {
			t.Errorf("the unit was asked for %q, want identity", asked)
		}
	})
}

// readAhead is how long an event is with the time of today in it.
func readAhead(event string) int {
	if strings.Contains(event, readID) {
		return len(event) + len("1700000000") - len("1")
	}
	return len(event)
}

// TestPackedAnswers unpacks whatever a hop has packed.
func TestPackedAnswers(t *testing.T) {
	each(t, forms, overBoth, func(t *testing.T, p speaker, s *stack, unit *switched) {
		client, base := overH2C(s)
		for _, coding := range []string{"gzip", "x-gzip", "GZip"} {
			unit.is(packs(coding, 0, p.says(p.stream("a", spokenB))))
			if got := p.ask(s, client, base, prompt); got.err != nil || got.body != p.gotStream("a", spokenB) {
				t.Errorf("%s, streamed: got %d %q, %v", coding, got.status, got.body, got.err)
			}
			unit.is(packs(coding, 0, answers(200, jsonHeader(), p.answer)))
			if got := p.ask(s, client, base, unaryPrompt); got.err != nil || got.body != p.gotAnswer() {
				t.Errorf("%s, unary: got %d %q, %v; want %q", coding, got.status, got.body, got.err, p.gotAnswer())
			}
		}
		s.outcomes("ok", 6)
	})
}

// TestPackedAnswersThatBreakOff: what is left of a packed body never looks whole.
func TestPackedAnswersThatBreakOff(t *testing.T) {
	each(t, forms, overBoth, func(t *testing.T, p speaker, s *stack, unit *switched) {
		client, base := overH2C(s)
		begun, sum := p.event(p.text("a"))+p.event(p.text("b")), 8 // bytes of length and checksum behind the packed ones
		for name, cut := range map[string]http.Handler{
			"cut off": packs("gzip", sum+100, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				p.says(begun)(w, r)
				_, _ = io.WriteString(w, p.stream(incompressible))
			})),
			"without its sum":         packs("gzip", sum, p.says(begun, p.event(p.last))),
			"whole, without a reason": packs("gzip", 0, p.says(begun)),
			"the connection breaks": packs("gzip", 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				p.says(begun)(w, r)
				panic(http.ErrAbortHandler)
			})),
			"no longer packed": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				packs("gzip", 0, p.says(begun))(w, r)
				send(w, secret)
			}),
		} {
			unit.is(cut)
			got := p.ask(s, client, base, prompt)
			switch {
			case name == "without its sum" && p.done == "": // its last event proves that all is there
				if got.err != nil || got.body != p.gotStream("a", "b") {
					t.Errorf("got %q, %v; want all of it", got.body, got.err)
				}
				continue
			case name == "without its sum": // all is there but the proof that it is
				s.wantBroken(got, p.got("a")+p.got("b")+strings.TrimSuffix(p.gotEnd(), event("[DONE]")))
				continue
			}
			s.wantBroken(got, p.got("a")+p.got("b"))
		}
		s.settled()
	})
}

// TestPackedAnswersThatAreNone: the client gets a real status, whatever is wrong with
// the packing.
func TestPackedAnswersThatAreNone(t *testing.T) {
	each(t, forms, overBoth, func(t *testing.T, p speaker, s *stack, unit *switched) {
		client, base := overH2C(s)
		for name, bad := range map[string]http.Handler{
			"cut off":           packs("gzip", 11, answers(200, jsonHeader(), p.answer)),
			"without its sum":   packs("gzip", 8, answers(200, jsonHeader(), p.answer)),
			"not packed":        answers(200, jsonHeader("Content-Encoding", "gzip"), p.answer),
			"packed, not said":  dropsCoding(packs("gzip", 0, answers(200, jsonHeader(), p.answer))),
			"another coding":    answers(200, jsonHeader("Content-Encoding", "br"), secret),
			"a coding of today": answers(200, jsonHeader("Content-Encoding", "zstd"), secret),
			"two codings":       packs("gzip, gzip", 0, answers(200, jsonHeader(), p.answer)),
			"nothing":           answers(200, jsonHeader("Content-Encoding", "gzip"), ""),
		} {
			for how, body := range map[string]string{"unary": unaryPrompt, "streamed": prompt} {
				t.Run(name+", "+how, func(t *testing.T) {
					s.in(t)
					unit.is(bad)
					if how == "streamed" {
						unit.is(streams(p, bad))
					}
					got := p.ask(s, client, base, body)
					got.wantError(t, 502, "upstream_error")
					s.keepsSecret(got)
				})
			}
		}
		s.settled()
	})
}

// incompressible is text that takes nearly as many bytes packed.
var incompressible = func() string {
	var random [200]byte
	_, _ = rand.NewChaCha8([32]byte{}).Read(random[:]) // never an error
	return base64.StdEncoding.EncodeToString(random[:])
}()

// dropsCoding has the header not say that the body is packed.
func dropsCoding(unit http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		unit.ServeHTTP(&header{w, func(h http.Header) { h.Del("Content-Encoding") }}, r)
	}
}

// streams has the header say that the body is a stream.
func streams(p speaker, unit http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		unit.ServeHTTP(&header{w, func(h http.Header) { h.Set("Content-Type", p.contentType()) }}, r)
	}
}

// header changes the header of an answer before it leaves.
type header struct {
	http.ResponseWriter
	change func(http.Header)
}

func (h *header) WriteHeader(status int) {
	h.change(h.Header())
	h.ResponseWriter.WriteHeader(status)
}
