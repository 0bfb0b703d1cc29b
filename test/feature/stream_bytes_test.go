package feature

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// mixedEnds are line ends in turn, of which no CR comes before an LF: that would
// be one end.
var mixedEnds = []string{"\r\n", "\n", "\r", "\r", "\r"}

func withMixedEnds(text string) string {
	var out strings.Builder
	for i, line := range strings.SplitAfter(text, "\n") {
		line, ended := strings.CutSuffix(line, "\n")
		out.WriteString(line)
		if ended {
			out.WriteString(mixedEnds[i%len(mixedEnds)])
		}
	}
	return out.String()
}

// spoken is a stream as a unit may say it. It means the same as p.stream(a, b).
type spoken struct {
	name string
	say  func(p speaker) string
}

const (
	spokenA = `a`
	spokenB = `é…🙂\n\"\u00e9` // as it stands in JSON
)

// eachWay says a stream in ways that every framing has.
var eachWay = []spoken{
	{"as it leaves", func(p speaker) string { return p.stream(spokenA, spokenB) }},
	{"CRLF", func(p speaker) string { return strings.ReplaceAll(p.stream(spokenA, spokenB), "\n", "\r\n") }},
	{"CR", func(p speaker) string { return strings.ReplaceAll(p.stream(spokenA, spokenB), "\n", "\r") }},
	{"mixed line ends", func(p speaker) string { return withMixedEnds(p.stream(spokenA, spokenB)) }},
	{"byte order mark", func(p speaker) string { return "\xef\xbb\xbf" + p.stream(spokenA, spokenB) }},
	{"empty lines", func(p speaker) string {
		return "\n\r\n" + p.event(p.text(spokenA)) + "\n\n" + p.event(p.text(spokenB)) + "\r\r" + p.end() + "\n"
	}},
	{"blanks around the data", func(p speaker) string {
		return p.event(" "+p.text(spokenA)+" ") + p.event("\t"+p.text(spokenB)) + p.end()
	}},
	{"no line end behind the end", func(p speaker) string { return strings.TrimRight(p.stream(spokenA, spokenB), "\n") }},
	{"no mark of the end", func(p speaker) string {
		return p.event(p.text(spokenA)) + p.event(p.text(spokenB)) + p.event(p.last)
	}},
	{"no mark, no line end", func(p speaker) string {
		return p.event(p.text(spokenA)) + p.event(p.text(spokenB)) + strings.TrimRight(p.event(p.last), "\n")
	}},
}

// eachWayOfEvents says a stream in ways that server-sent events have.
var eachWayOfEvents = []spoken{
	{"no space", func(p speaker) string { return strings.ReplaceAll(p.stream(spokenA, spokenB), "data: ", "data:") }},
	{"byte order mark and comment", func(p speaker) string { return "\xef\xbb\xbf: hello\n\n" + p.stream(spokenA, spokenB) }},
	{"comments", func(p speaker) string {
		return ": keep-alive\n\n" + p.event(p.text(spokenA)) + ":\n\n: ping\r\n\r\n:data: x\n\n" + ": within\n" + p.event(p.text(spokenB)) +
			"data: " + p.last + "\n: within\n\n" + strings.TrimPrefix(p.end(), p.event(p.last)) + ": bye\n\n"
	}},
	{"other fields", func(p speaker) string {
		return "event: message\nid: 7\nretry: 10\n" + p.event(p.text(spokenA)) + "id\nevent: x\n\nfoo: bar\ndatabase: x\ndata: " + p.text(spokenB) +
			"\nid: 8\n\n" + "event: done\n" + p.end()
	}},
	{"empty data", func(p speaker) string {
		return "data:\n\ndata\n\n" + p.event(p.text(spokenA)) + "data: \n\n" + p.event(p.text(spokenB)) + p.end() + "data:\n\n"
	}},
	{"several data lines", func(p speaker) string {
		return strings.ReplaceAll(p.event(p.text(spokenA)), `,"`, ",\ndata: \"") + strings.ReplaceAll(p.event(p.text(spokenB)), `,"`, ",\r\ndata:\"") + p.end()
	}},
	{"no blank line behind the end", func(p speaker) string { return strings.TrimSuffix(p.stream(spokenA, spokenB), "\n") }},
}

// eachWayOfMarks says a stream in ways that a mark of its end has.
var eachWayOfMarks = []spoken{
	{"blanks around the mark", func(p speaker) string {
		return p.event(p.text(spokenA)) + p.event(p.text(spokenB)) + p.event(p.last) + "data:   [DONE] \n\n"
	}},
	{"two marks and more", func(p speaker) string {
		return p.event(p.text(spokenA)) + p.event(p.text(spokenB)) + p.event(p.last) + strings.Repeat(p.event("[DONE]"), 2) + p.event(p.text("x"))
	}},
}

func (p speaker) ways() []spoken {
	switch {
	case p.lines:
		return eachWay
	case p.done == "":
		return slices.Concat(eachWay, eachWayOfEvents)
	}
	return slices.Concat(eachWay, eachWayOfEvents, eachWayOfMarks)
}

// TestReport4OddStreams reads what providers send leniently, and sends one form.
func TestReport4OddStreams(t *testing.T) {
	each(t, forms, overBoth, func(t *testing.T, p speaker, s *stack, unit *switched) {
		want := p.gotStream(spokenA, spokenB)
		client, base := overH2C(s)
		for _, way := range p.ways() {
			sent := way.say(p)
			for how, parts := range map[string][]string{"whole": {sent}, "byte by byte": singleBytes(sent)} {
				unit.is(p.says(parts...))
				got := p.ask(s, client, base, prompt)
				// Several lines of data are one, with blanks where the lines ended.
				if body := strings.ReplaceAll(got.body, `, "`, `,"`); got.status != 200 || got.err != nil || body != want {
					t.Errorf("%s, %s: got %d %q, %v\nwant %q", way.name, how, got.status, got.body, got.err, want)
				}
			}
		}
		s.settled()
		s.quiet()
		if all := s.metric("ghostline_requests_total"); all == 0 || all != s.metric("ghostline_requests_total", "outcome", "ok") {
			t.Errorf("not all of %v requests are counted as ok", all)
		}
	})
}

// singleBytes splits inside runes too, as reads do.
func singleBytes(text string) []string {
	var parts []string
	for _, b := range []byte(text) {
		parts = append(parts, string([]byte{b}))
	}
	return parts
}

// TestReport4SplitText has the unit send every stream in two parts, split at each
// byte: within a rune, an escape, a line end or the byte order mark.
func TestReport4SplitText(t *testing.T) {
	each(t, forms, overOne, func(t *testing.T, p speaker, s *stack, unit *switched) {
		want := p.gotStream(spokenB)
		client, base := overH2C(s)
		sent := "\xef\xbb\xbf" + strings.ReplaceAll(p.stream(spokenB), "\n", "\r\n")
		for at := 1; at < len(sent); at++ {
			unit.is(p.says(sent[:at], sent[at:]))
			if got := p.ask(s, client, base, prompt); got.err != nil || got.body != want {
				t.Fatalf("split at %d, behind %q: got %d %q, %v\nwant %q", at, sent[:at], got.status, got.body, got.err, want)
			}
		}
		s.settled()
	})
}

// TestEventsOfAMebibyte also has text of several bytes at each place.
func TestEventsOfAMebibyte(t *testing.T) {
	each(t, forms, overBoth, func(t *testing.T, p speaker, s *stack, unit *switched) {
		long := strings.Repeat("é…🙂x", 1<<20/10)
		unit.is(p.says(p.stream("a", long, "b")))
		client, base := overH2C(s)
		if got, want := p.ask(s, client, base, prompt), p.gotStream("a", long, "b"); got.err != nil || got.body != want {
			t.Errorf("got %d, %v, %d bytes; want %d", got.status, got.err, len(got.body), len(want))
		}
		s.outcomes("ok", 1)
	})
}

// TestTrailersStayHere: what a unit says behind the body is none of the answer.
func TestTrailersStayHere(t *testing.T) {
	each(t, forms, overBoth, func(t *testing.T, p speaker, s *stack, unit *switched) {
		unit.is(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Announced")
			p.says(p.stream("a"))(w, r)
			w.Header().Set("X-Announced", secret)
			w.Header().Set(http.TrailerPrefix+"X-Not-Announced", secret)
		}))
		for name, how := range map[string]func(*stack) (*http.Client, string){"h2c": overH2C, "h1": overH1} {
			client, base := how(s)
			req := s.request(t.Context(), base, "/v1/completions", prompt)
			req.Header.Set("X-Request-Id", readID)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if got := created.ReplaceAllString(string(body), `"created":1`); err != nil || got != p.gotStream("a") {
				t.Errorf("%s: got %q, %v; want %q", name, got, err, p.gotStream("a"))
			}
			if len(resp.Trailer) > 0 || resp.Header.Get("Trailer") != "" {
				t.Errorf("%s: the client got the trailers %v", name, resp.Trailer)
			}
		}
		s.settled()
	})
}

// TestTheEndIsNotWaitedFor has units hold their stream open after they have said all:
// the client gets the end with the last event.
func TestTheEndIsNotWaitedFor(t *testing.T) {
	each(t, forms, overBoth, func(t *testing.T, p speaker, s *stack, unit *switched) {
		ended := make(chan struct{})
		unit.is(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.says(p.stream("a"))(w, r)
			<-ended
		}))
		resp, err := s.h2c().Do(s.request(t.Context(), s.plainURL, "/v1/completions", prompt))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body := bufio.NewReader(resp.Body)
		for line := ""; line != "data: [DONE]\n"; {
			if line, err = body.ReadString('\n'); err != nil {
				t.Fatalf("the stream ended: %v", err)
			}
		}
		close(ended)
		s.outcomes("ok", 1)
		s.settled()
	})
}

// chunked writes a body in chunks of odd sizes, and odd forms of them.
func chunked(body, trailers string) string {
	var out strings.Builder
	for size, n := 1, 0; len(body) > 0; size, n = size%7+2, n+1 {
		part := body[:min(size, len(body))]
		body = body[len(part):]
		fmt.Fprintf(&out, []string{"%x\r\n", "%X\r\n", "000%x\r\n", "%x;name=value\r\n", "%x;name=\"a b\"\r\n"}[n%5], len(part))
		out.WriteString(part + "\r\n")
	}
	return out.String() + "0\r\n" + trailers + "\r\n"
}

// TestChunksOfHTTP1 has the unit cut its body into chunks as it likes, and end it
// in each way that HTTP/1.1 has.
func TestChunksOfHTTP1(t *testing.T) {
	for _, p := range forms {
		t.Run(p.name, func(t *testing.T) {
			var says atomic.Value
			address := raw(readsThenSays(&says))(t)
			s := start(t, setup{config: func(c *config.Config) {
				c.Units[0] = unitAt(c, "raw", address)
				p.configure(&c.Units[0], config.ProtocolHTTP1)
			}})
			client, base := overH2C(s)
			for _, tc := range p.bodies() {
				says.Store("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " + p.contentType() + "\r\n" + tc.sent)
				got := p.ask(s, client, base, prompt)
				switch {
				case !tc.whole:
					s.wantBroken(got, p.got(spokenA)+p.got(spokenB))
				case got.err != nil || got.body != p.gotStream(spokenA, spokenB):
					t.Errorf("%s: got %d %q, %v\nwant %q", tc.name, got.status, got.body, got.err, p.gotStream(spokenA, spokenB))
				}
				s.keepsSecret(got)
			}
		})
	}
}

// rawBody is a body of HTTP/1.1, with the header that goes before it.
type rawBody struct {
	name, sent string
	whole      bool
}

func (p speaker) bodies() []rawBody {
	const inChunks = "Transfer-Encoding: chunked\r\n"
	stream, part := p.stream(spokenA, spokenB), p.event(p.text(spokenA))+p.event(p.text(spokenB))
	return []rawBody{
		{"odd chunks", inChunks + "\r\n" + chunked(stream, ""), true},
		{"odd chunks and trailers", inChunks + "Trailer: X-A\r\n\r\n" + chunked(stream, "X-A: "+secret+"\r\nX-B: b\r\n"), true},
		{"a length", fmt.Sprintf("Content-Length: %d\r\n\r\n", len(stream)) + stream, true},
		{"the connection's end", "\r\n" + stream, true},
		{"an end in a chunk", inChunks + "\r\nffff\r\n" + part, false},
		{"an end without the last chunk", inChunks + fmt.Sprintf("\r\n%x\r\n%s\r\n", len(part), part), false},
		{"an end before the length", "Content-Length: 9999\r\n\r\n" + part, false},
		{"the connection's end too soon", "\r\n" + part, false},
		{"a chunk that is none", inChunks + fmt.Sprintf("\r\n%x\r\n%s\r\n%s\r\n", len(part), part, secret), false},
	}
}

// readsThenSays answers the one request of a connection, once it is all there, and
// hangs up.
func readsThenSays(text *atomic.Value) func(net.Conn) {
	return func(conn net.Conn) {
		if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(conn, text.Load().(string)) // an error means that the proxy has had enough
		}
	}
}
