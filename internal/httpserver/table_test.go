package httpserver

import (
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestHeaderTable has clients with dynamic tables of all sizes, which they change
// between two requests: they can read each answer, and are told the table's size
// before the first header that depends on it (RFC 7541 section 4.2).
func TestHeaderTable(t *testing.T) {
	r := run(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Answer", "the same") })})
	for _, sizes := range [][]uint32{{}, {0}, {1}, {100}, {4096}, {65536}, {0, 4096}, {4096, 0}, {100, 0, 65536}} {
		f := newFramed(t, r.dial(t))
		decoder := hpack.NewDecoder(4096, nil)
		for i, size := range append(sizes, 4096) {
			stream := uint32(2*i + 1)
			if i < len(sizes) {
				decoder.SetAllowedMaxDynamicTableSize(size)
				f.check(f.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: size}))
			}
			f.request(stream, "/")
			block := f.headers(stream)
			if i == 0 && (block[0]&0xe0 != 0x20 || block[0]&0x1f > 1) {
				t.Errorf("%v: the first answer begins with %#x, want a table of at most one byte", sizes, block[0])
			}
			fields, err := decoder.DecodeFull(block)
			if err != nil {
				t.Fatalf("%v: answer %d: %v", sizes, i, err)
			}
			if got := fields[1]; got.Name != "x-answer" || got.Value != "the same" {
				t.Errorf("%v: answer %d has %v", sizes, i, fields)
			}
		}
	}
}

// headers reads up to a stream's headers and returns their block.
func (f *framed) headers(stream uint32) []byte {
	f.t.Helper()
	for {
		frame, err := f.ReadFrame()
		f.check(err)
		if headers, ok := frame.(*http2.HeadersFrame); ok && headers.StreamID == stream {
			return headers.HeaderBlockFragment()
		}
	}
}
