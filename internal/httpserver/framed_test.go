package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framed is an HTTP/2 client that sees each frame.
type framed struct {
	t    *testing.T
	conn net.Conn
	*http2.Framer
}

// newFramed says hello on conn and reads the server's SETTINGS.
func newFramed(t *testing.T, conn net.Conn) *framed {
	t.Helper()
	f := &framed{t, conn, http2.NewFramer(conn, conn)}
	hello := make(chan error, 1)
	go func() { // a pipe needs a reader at its other end
		_, err := io.WriteString(conn, http2.ClientPreface)
		hello <- errors.Join(err, f.WriteSettings())
	}()
	frame, err := f.ReadFrame()
	f.check(err)
	f.check(receive(t, hello))
	if _, ok := frame.(*http2.SettingsFrame); !ok {
		t.Fatalf("the server's first frame is %v", frame)
	}
	return f
}

func (f *framed) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// request sends a GET.
func (f *framed) request(stream uint32, path string) {
	f.t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", path}} {
		f.check(encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	f.check(f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true}))
}

// goAway reads up to a GOAWAY.
func (f *framed) goAway() (*http2.GoAwayFrame, error) {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return nil, err
		}
		switch frame := frame.(type) {
		case *http2.PingFrame:
			if !frame.IsAck() {
				f.check(f.WritePing(true, frame.Data))
			}
		case *http2.GoAwayFrame:
			return frame, nil
		}
	}
}

// end reads up to the connection's end and returns what that looks like.
func (f *framed) end() error {
	for {
		if _, err := f.ReadFrame(); err != nil {
			return err
		}
	}
}
