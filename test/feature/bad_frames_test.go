package feature

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestFramesThatNoLibrarySends breaks the rules of HTTP/2 in a request. It must
// end in an error status or a reset, or with the connection, which is how x/net
// refuses headers that are far too large; and the unit must not see it.
func TestFramesThatNoLibrarySends(t *testing.T) {
	s := start(t, setup{})
	large := strings.Repeat("x", 1<<20)
	for _, tc := range []struct {
		name   string
		fields []string // name, value, …
		body   string
	}{
		{"a header of 1 MiB", []string{"x-large", large}, goodBody},
		{"a header of 100 KiB", []string{"x-large", large[:100<<10]}, goodBody},
		{"a body shorter than it says", []string{"content-length", "100"}, goodBody},
		{"a body longer than it says", []string{"content-length", "3"}, goodBody},
		{"a length that is no number", []string{"content-length", "x"}, goodBody},
		{"a field of the connection", []string{"transfer-encoding", "chunked"}, goodBody},
		{"capitals in a field's name", []string{"X-Capital", "x"}, goodBody},
		{"a line end in a field", []string{"x-split", "a\r\nauthorization: b"}, goodBody},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, cut := s.frames(t, append([]string{
				":method", "POST", ":scheme", "http", ":authority", "x", ":path", "/v1/completions", "authorization", "Bearer " + s.token(),
			}, tc.fields...), tc.body)
			if status < "400" && (status != "" || !cut) {
				t.Errorf("got status %q, cut off: %v; want an error or the end", status, cut)
			}
			if got := s.post("/v1/models", ""); got.status != http.StatusMethodNotAllowed {
				t.Errorf("another connection got %d", got.status)
			}
		})
	}
	s.wantArrivals(0)
}

// frames sends one request and returns the answer's status, and whether the
// stream was reset or the connection ended, rather than that the answer did.
func (s *stack) frames(t *testing.T, fields []string, body string) (status string, cut bool) {
	t.Helper()
	conn := s.dial(t)
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	go func() { // an error means that the proxy has had enough
		if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
			return
		}
		_ = errors.Join(framer.WriteSettings(), writeHead(framer, fields), framer.WriteData(1, true, []byte(body)))
	}()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return status, true
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			status = f.PseudoValue("status")
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return status, true
		}
		if frame.Header().StreamID == 1 && frame.Header().Flags.Has(http2.FlagDataEndStream) {
			return status, false
		}
	}
}

// writeHead writes a head in as many frames as it needs.
func writeHead(framer *http2.Framer, fields []string) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			return err
		}
	}
	first := block.Next(16 << 10)
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndHeaders: block.Len() == 0}); err != nil {
		return err
	}
	for block.Len() > 0 {
		next := block.Next(16 << 10)
		if err := framer.WriteContinuation(1, block.Len() == 0, next); err != nil {
			return err
		}
	}
	return nil
}
