package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// window is what we let the peer send before it hears from us, on a stream and
	// on a connection: enough that it never waits.
	window         = 1 << 30
	initialWindow  = 65535 // RFC 9113 section 6.9.2
	frameSize      = 16384 // the least that every peer takes
	headerTable    = 4096
	connectTimeout = 10 * time.Second
)

// Target is where a client connects, and how.
type Target struct {
	Addr string
	TLS  *tls.Config // nil is cleartext
	// Header, if set, is what all requests of the nth connection have beside their
	// own header.
	Header func(n int) []Field
}

// Conn is a client's HTTP/2 connection. Its methods may be used by several
// goroutines.
type Conn struct {
	transport net.Conn
	header    []Field
	out       *bufio.Writer
	framer    *http2.Framer
	fields    bytes.Buffer
	encoder   *hpack.Encoder

	// mu guards what is below, and all writing.
	mu      sync.Mutex
	streams map[uint32]*call
	unsent  []*call // with a rest of their body, in order
	nextID  uint32
	window  int64 // of the connection, for what we send
	initial int64 // of a new stream
	taken   int   // bytes of answers that the peer has not been told of
	err     error // why the connection has ended

	settled chan struct{} // closed when the peer's settings have come
	gone    chan struct{} // closed when the reader has ended
}

// Dial makes the nth connection and waits for the peer's settings.
func (t Target) Dial(ctx context.Context, n int) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	transport, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.Addr)
	if err != nil {
		return nil, err
	}
	if t.TLS != nil {
		secured := tls.Client(transport, t.TLS)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, transport.Close())
		}
		transport = secured
	}
	c := &Conn{
		transport: transport, out: bufio.NewWriterSize(transport, 2*frameSize),
		streams: map[uint32]*call{}, nextID: 1, window: initialWindow, initial: initialWindow,
		settled: make(chan struct{}), gone: make(chan struct{}),
	}
	if t.Header != nil {
		c.header = t.Header(n)
	}
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(transport, frameSize))
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(headerTable, nil)
	c.encoder = hpack.NewEncoder(&c.fields)
	if err := c.greet(); err != nil {
		return nil, errors.Join(err, transport.Close())
	}
	go c.read()
	select {
	case <-c.settled:
		return c, nil
	case <-c.gone:
		return nil, c.err
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), c.Close())
	}
}

// DialAll makes n connections.
func (t Target) DialAll(ctx context.Context, n int) ([]*Conn, error) {
	conns := make([]*Conn, 0, n)
	for i := range n {
		c, err := t.Dial(ctx, i)
		if err != nil {
			CloseAll(conns)
			return nil, fmt.Errorf("connection %d of %d: %w", len(conns)+1, n, err)
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// CloseAll closes the connections.
func CloseAll(conns []*Conn) {
	for _, c := range conns {
		_ = c.Close() // whatever it says, the connection is of no more use
	}
}

// Close closes the connection; requests that run on it end with an error.
func (c *Conn) Close() error {
	err := c.transport.Close()
	<-c.gone
	return err
}

func (c *Conn) greet() error {
	_, err := c.out.WriteString(http2.ClientPreface)
	return errors.Join(err,
		c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}, http2.Setting{ID: http2.SettingEnablePush}),
		c.framer.WriteWindowUpdate(0, window-initialWindow),
		c.out.Flush())
}

// begin sends a request, as much of it as the peer takes now. An error is the
// connection's, and ended is then not called.
func (c *Conn) begin(call *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	call.id, call.window, call.rest = c.nextID, c.initial, call.req.Body
	c.nextID += 2
	c.streams[call.id] = call
	c.writeHeaders(call)
	c.unsent = append(c.unsent, call)
	c.sendBodies()
	_ = c.out.Flush() // the reader hears of a broken connection too
	return nil
}

func (c *Conn) writeHeaders(call *call) {
	c.fields.Reset()
	scheme := "http"
	if _, secured := c.transport.(*tls.Conn); secured {
		scheme = "https"
	}
	for _, f := range [...]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: scheme},
		{Name: ":authority", Value: c.transport.RemoteAddr().String()}, {Name: ":path", Value: call.req.Path},
		{Name: "content-length", Value: strconv.Itoa(len(call.req.Body))},
	} {
		_ = c.encoder.WriteField(f) // into memory
	}
	for _, header := range [][]Field{c.header, call.req.Header} {
		for _, f := range header {
			_ = c.encoder.WriteField(hpack.HeaderField{Name: f.Name, Value: f.Value})
		}
	}
	if name := call.req.IDHeader; name != "" {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: rand.Text()})
	}
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: call.id, BlockFragment: c.fields.Bytes(),
		EndHeaders: true, EndStream: len(call.req.Body) == 0})
}

// sendBodies sends what the windows allow of the bodies that wait. c.mu is held.
func (c *Conn) sendBodies() {
	waiting := c.unsent[:0]
	for _, call := range c.unsent {
		for len(call.rest) > 0 && c.streams[call.id] == call {
			n := min(int64(len(call.rest)), c.window, call.window, frameSize)
			if n <= 0 {
				waiting = append(waiting, call)
				break
			}
			_ = c.framer.WriteData(call.id, n == int64(len(call.rest)), call.rest[:n])
			call.rest = call.rest[n:]
			c.window -= n
			call.window -= n
		}
	}
	c.unsent = waiting
}

// read handles what comes, until the connection ends.
func (c *Conn) read() {
	defer close(c.gone)
	for {
		frame, err := c.framer.ReadFrame()
		if err == nil {
			err = c.handle(frame)
		}
		if err != nil {
			c.end(fmt.Errorf("the connection ended: %w", err))
			return
		}
	}
}

// end closes the connection and ends its calls.
func (c *Conn) end(err error) {
	_ = c.transport.Close() // it may be closed already
	c.mu.Lock()
	c.err = err
	left := c.streams
	c.streams = map[uint32]*call{}
	c.mu.Unlock()
	for _, call := range left {
		call.ended(err)
	}
}

func (c *Conn) handle(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.DataFrame:
		c.data(f)
	case *http2.MetaHeadersFrame:
		c.headers(f)
	case *http2.RSTStreamFrame:
		// A server that has answered before it read all may say so with NO_ERROR.
		c.finish(f.StreamID, fmt.Errorf("the stream was reset: %s", f.ErrCode))
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.WindowUpdateFrame:
		c.windowUpdate(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.locked(func() error { return c.framer.WritePing(true, f.Data) })
		}
	case *http2.GoAwayFrame:
		return fmt.Errorf("GOAWAY %s %q", f.ErrCode, f.DebugData())
	}
	return nil
}

// locked has write use the framer, and sends what it wrote.
func (c *Conn) locked(write func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(write(), c.out.Flush())
}

func (c *Conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	return c.locked(func() error {
		err := f.ForeachSetting(func(s http2.Setting) error {
			switch s.ID {
			case http2.SettingInitialWindowSize:
				for _, call := range c.streams {
					call.window += int64(s.Val) - c.initial
				}
				c.initial = int64(s.Val)
			case http2.SettingHeaderTableSize:
				c.encoder.SetMaxDynamicTableSizeLimit(s.Val)
			}
			return nil
		})
		c.sendBodies()
		select {
		case <-c.settled:
		default:
			close(c.settled)
		}
		return errors.Join(err, c.framer.WriteSettingsAck())
	})
}

func (c *Conn) windowUpdate(f *http2.WindowUpdateFrame) {
	_ = c.locked(func() error { // the reader hears of a broken connection too
		if f.StreamID == 0 {
			c.window += int64(f.Increment)
		} else if call := c.streams[f.StreamID]; call != nil {
			call.window += int64(f.Increment)
		}
		c.sendBodies()
		return nil
	})
}
