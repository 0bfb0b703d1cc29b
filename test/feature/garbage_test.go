package feature

import (
	"bufio"
	"net"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// answersRaw answers the first request of a connection with the same bytes, and
// ends it.
func answersRaw(text string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := bufio.NewReader(conn).ReadByte(); err == nil {
			_, _ = conn.Write([]byte(text)) // an error means that the proxy has had enough
		}
	}
}

// TestUnitThatDoesNotSpeakHTTP: its words, which may be those of a completion, go
// neither to the client nor to the log, and the other unit answers.
func TestUnitThatDoesNotSpeakHTTP(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	for name, text := range map[string]string{
		"text":                    secret + "\r\n\r\n",
		"a version":               "HTTP/" + secret + " 200 OK\r\n\r\n",
		"a status":                "HTTP/1.1 " + secret + "\r\n\r\n",
		"a header":                head + secret + " " + secret + "\r\n\r\n",
		"a length":                head + "Content-Length: " + secret + "\r\n\r\n",
		"a coding":                head + "Transfer-Encoding: " + secret + "\r\n\r\n",
		"a chunk":                 head + "Transfer-Encoding: chunked\r\n\r\n" + secret + "\r\n",
		"a trailer":               head + "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\n" + secret + "\r\n\r\n",
		"an answer out of turn":   head + "Content-Length: 0\r\n\r\n" + secret,
		"an answer after its end": "HTTP/1.1 429 Full\r\nContent-Length: 0\r\n\r\n" + secret,
	} {
		for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
			t.Run(name+" over "+protocol, func(t *testing.T) {
				s := spare(t, raw(answersRaw(text))(t))
				s.reconfigure(func(c *config.Config) { c.Units[0].Protocol, c.Units[1].Protocol = protocol, protocol })
				for _, body := range []string{prompt, unaryPrompt} {
					got := s.post("/v1/completions", body)
					if got.status != 200 || got.err != nil {
						t.Errorf("got %d %q, %v; want the other unit's answer", got.status, got.body, got.err)
					}
					s.keepsSecret(got)
				}
				s.settled()
			})
		}
	}
}
