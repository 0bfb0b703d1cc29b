package feature

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// times makes a batch of a frame that is sent again and again.
func times(n int, frame func(f *http2.Framer) error) func(*framedClient, *http2.Framer) {
	return func(_ *framedClient, f *http2.Framer) {
		for range n {
			_ = frame(f) // into a buffer
		}
	}
}

// fields encodes a header block that leaves the connection's table as it is.
func fields(pairs ...string) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(pairs); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1], Sensitive: true})
	}
	return block.Bytes()
}

func requestFields(more ...string) []byte {
	return fields(append([]string{":method", "POST", ":scheme", "http", ":authority", "x", ":path", "/v1/completions"}, more...)...)
}

// nextHeaders opens a stream with this block.
func nextHeaders(c *framedClient, f *http2.Framer, p http2.HeadersFrameParam) {
	p.StreamID = c.fresh
	c.fresh += 2
	_ = f.WriteHeaders(p) // into a buffer
}

// bomb is a header block of 16 KiB that stands for 16,000 fields of 4 KiB.
func bomb() []byte {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 4000)})
	block.Write(bytes.Repeat([]byte{0x80 | 62}, 16<<10-block.Len())) // the newest field of the table
	return block.Bytes()
}

// TestFloods has a client send 40,000 frames a second that cost it nothing. Its
// connection may be ended; others do not notice.
func TestFloods(t *testing.T) {
	large := requestFields("x-large", strings.Repeat("x", 8<<10))
	filler := fields("x-filler", strings.Repeat("x", 900))
	anonymous := requestFields()
	exploding := bomb()
	ping := func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) }
	settings := func(f *http2.Framer) error { return f.WriteSettings() }
	for name, fl := range map[string]flood{
		"SETTINGS":                {batch: times(200, settings)},
		"SETTINGS, acks not read": {batch: times(200, settings), deaf: true},
		"PING":                    {batch: times(200, ping)},
		"PING, acks not read":     {batch: times(200, ping), deaf: true},
		"WINDOW_UPDATE":           {batch: times(200, func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1) })},
		"PRIORITY":                {batch: times(200, func(f *http2.Framer) error { return f.WritePriority(1, http2.PriorityParam{Weight: 1}) })},
		"empty DATA": {
			first: func(c *framedClient) { c.open() },
			batch: times(200, func(f *http2.Framer) error { return f.WriteData(1, false, nil) }),
		},
		// CVE-2023-45288
		"CONTINUATION": {
			first: func(c *framedClient) {
				c.write(func(f *http2.Framer) error {
					return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: anonymous})
				})
			},
			batch: times(200, func(f *http2.Framer) error { return f.WriteContinuation(1, false, filler) }),
		},
		"HEADERS": {batch: func(c *framedClient, f *http2.Framer) {
			for range 50 {
				nextHeaders(c, f, http2.HeadersFrameParam{BlockFragment: anonymous, EndHeaders: true})
			}
		}},
		// Its answers cannot be sent, so that more streams are open than may be.
		"HEADERS beyond the limit": {
			settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}},
			batch: func(c *framedClient, f *http2.Framer) {
				for range 50 {
					nextHeaders(c, f, http2.HeadersFrameParam{BlockFragment: anonymous, EndHeaders: true, EndStream: true})
				}
			},
		},
		"large HEADERS": {batch: func(c *framedClient, f *http2.Framer) {
			for range 10 {
				nextHeaders(c, f, http2.HeadersFrameParam{BlockFragment: large, EndHeaders: true, EndStream: true})
			}
		}},
		"a header bomb": {batch: func(c *framedClient, f *http2.Framer) {
			nextHeaders(c, f, http2.HeadersFrameParam{BlockFragment: append(requestFields(), exploding...), EndHeaders: true, EndStream: true})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, setup{config: func(c *config.Config) { c.Timeouts.ReadBody = shortly }})
			var ends atomic.Int64
			s.besides(t, s.bystander(), fl.by(s, &ends))
			t.Logf("%d connections were ended", ends.Load())
		})
	}
}
