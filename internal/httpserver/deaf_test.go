package httpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestConnectionThatIsNotRead: a client that sends but takes nothing must not
// keep its requests for as long as it likes. PINGs do not find it, because
// whatever it sends proves that it is there.
func TestConnectionThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, written := newPipes(), make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			err := http.NewResponseController(w).Flush()
			for err == nil {
				_, err = w.Write(make([]byte, 4096))
			}
			written <- err
		})
		go func() {
			ended <- (&Server{Listener: l, Handler: handler, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
		}()
		here := l.dial()
		framer := http2.NewFramer(here, here)
		var asking sync.WaitGroup
		asking.Go(func() { askAndPing(framer, here) })
		defer asking.Wait()
		defer here.Close()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if frame.Header().Type == http2.FrameHeaders {
				break // and read no more
			}
		}
		began := time.Now()
		if err := <-written; err == nil || time.Since(began) > 2*unreadConnection {
			t.Errorf("the handler could go on for %v, %v", time.Since(began), err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// askAndPing sends a request and then PINGs until the connection ends.
func askAndPing(framer *http2.Framer, conn net.Conn) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/"}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // into a buffer
	}
	_, err := io.WriteString(conn, http2.ClientPreface)
	err = errors.Join(err, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true}))
	for err == nil {
		time.Sleep(time.Second)
		err = framer.WritePing(false, [8]byte{})
	}
}
