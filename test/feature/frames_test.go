package feature

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is one end of an HTTP/2 connection, frame by frame.
type peer struct {
	conn   net.Conn
	framer *http2.Framer

	mu      sync.Mutex // over writes
	block   bytes.Buffer
	encoder *hpack.Encoder
}

func newPeer(conn net.Conn) *peer {
	p := &peer{conn: conn, framer: http2.NewFramer(conn, conn)}
	p.encoder = hpack.NewEncoder(&p.block)
	p.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.framer.SetReuseFrames()
	return p
}

// write writes frames. An error means that the other end is gone, which shows
// when it is read from.
func (p *peer) write(frames ...func(*http2.Framer) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, frame := range frames {
		if frame(p.framer) != nil {
			return
		}
	}
}

func (p *peer) headers(stream uint32, end bool, fields ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = p.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = p.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: p.block.Bytes(), EndHeaders: true, EndStream: end,
	})
}

func (p *peer) data(stream uint32, end bool, data string) {
	p.write(func(f *http2.Framer) error { return f.WriteData(stream, end, []byte(data)) })
}

func (p *peer) reset(stream uint32, code http2.ErrCode) {
	p.write(func(f *http2.Framer) error { return f.WriteRSTStream(stream, code) })
}

func (p *peer) goAway(last uint32, code http2.ErrCode) {
	p.write(func(f *http2.Framer) error { return f.WriteGoAway(last, code, nil) })
}

// stream answers a request with a stream's head and these bytes.
func (p *peer) stream(id uint32, end bool, body string) {
	p.headers(id, false, ":status", "200", "content-type", "text/event-stream")
	p.data(id, end, body)
}

// next returns the next frame, after doing what a peer must about it.
func (p *peer) next() (http2.Frame, error) {
	frame, err := p.framer.ReadFrame()
	if err != nil {
		return nil, err
	}
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			p.write((*http2.Framer).WriteSettingsAck)
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			data := f.Data
			p.write(func(f *http2.Framer) error { return f.WritePing(true, data) })
		}
	}
	return frame, nil
}

// framedUnit is an h2c unit that sees every frame.
type framedUnit struct {
	address string
	// answer is called, in the order of their ends, for requests that have come
	// wholly; n counts them from 1 on all connections. It must not block.
	answer   func(p *peer, stream uint32, n int)
	settings []http2.Setting
	// onReset, if set, is told of a stream that the proxy reset.
	onReset func(p *peer, stream uint32)
	// mostResets, if set, is how many resets in a second a connection may see; it
	// is ended with the next one.
	mostResets int

	mu             sync.Mutex
	requests       int
	opened, closed int
	resets         []http2.ErrCode
	goAways        []http2.ErrCode
}

func startFramedUnit(t *testing.T, answer func(p *peer, stream uint32, n int), settings ...http2.Setting) *framedUnit {
	t.Helper()
	listener := listen(t)
	u := &framedUnit{address: listener.Addr().String(), answer: answer, settings: settings}
	var serving sync.WaitGroup
	ended := make(chan struct{})
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				done := make(chan struct{})
				defer close(done)
				go func() { // so that no connection outlives the test
					select {
					case <-ended:
					case <-done:
					}
					conn.Close()
				}()
				u.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		close(ended)
		serving.Wait()
	})
	return u
}

func (u *framedUnit) serve(conn net.Conn) {
	u.count(func() { u.opened++ })
	defer u.count(func() { u.closed++ })
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	p := newPeer(conn)
	p.write(func(f *http2.Framer) error { return f.WriteSettings(u.settings...) })
	var resets []time.Time
	for {
		frame, err := p.next()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.RSTStreamFrame:
			u.count(func() { u.resets = append(u.resets, f.ErrCode) })
			if u.onReset != nil {
				u.onReset(p, f.StreamID)
			}
			now := time.Now()
			resets = append(slices.DeleteFunc(resets, func(at time.Time) bool { return now.Sub(at) > time.Second }), now)
			if u.mostResets > 0 && len(resets) > u.mostResets {
				p.goAway(f.StreamID, http2.ErrCodeEnhanceYourCalm)
				return
			}
		case *http2.GoAwayFrame:
			u.count(func() { u.goAways = append(u.goAways, f.ErrCode) })
		case *http2.DataFrame:
			if f.StreamEnded() {
				n := 0
				u.count(func() { u.requests++; n = u.requests })
				u.answer(p, f.StreamID, n)
			}
		}
	}
}

func (u *framedUnit) count(change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
}

// seen is what a framedUnit saw up to now.
type seen struct {
	requests, opened, closed int
	resets, goAways          []http2.ErrCode
}

func (u *framedUnit) seen() seen {
	u.mu.Lock()
	defer u.mu.Unlock()
	return seen{
		requests: u.requests, opened: u.opened, closed: u.closed,
		resets: append([]http2.ErrCode(nil), u.resets...), goAways: append([]http2.ErrCode(nil), u.goAways...),
	}
}

// framedClient is a client of the proxy that sees every frame.
type framedClient struct {
	*peer
	s      *stack
	fresh  uint32          // the next stream's id
	resets map[uint32]bool // the streams that the proxy reset
}

// framed connects to the proxy in the clear.
func (s *stack) framed(settings ...http2.Setting) *framedClient {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.plainURL, "http://"))
	return s.framedOn(conn, err, settings...)
}

// framedTLS connects to the proxy over TLS.
func (s *stack) framedTLS(settings ...http2.Setting) *framedClient {
	s.t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.tlsURL, "https://"), &tls.Config{RootCAs: s.ca.Pool(), NextProtos: []string{"h2"}})
	return s.framedOn(conn, err, settings...)
}

// framedOn begins HTTP/2 on a connection, if there is one.
func (s *stack) framedOn(conn net.Conn, err error, settings ...http2.Setting) *framedClient {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	// Not a limit that a test is about, only so that none hangs.
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		s.t.Fatal(err)
	}
	c := &framedClient{peer: newPeer(conn), s: s, fresh: 1, resets: map[uint32]bool{}}
	c.write(func(f *http2.Framer) error { return f.WriteSettings(settings...) })
	return c
}

// open opens a stream for a completion without sending any of its body.
func (c *framedClient) open() uint32 {
	stream := c.fresh
	c.fresh += 2
	c.headers(stream, false, ":method", "POST", ":scheme", "http", ":authority", "proxy.test", ":path", "/v1/completions",
		"content-type", "application/json", "authorization", "Bearer "+c.s.token())
	return stream
}

// post opens a stream and sends the whole of a small body.
func (c *framedClient) post(body string) uint32 {
	stream := c.open()
	c.data(stream, true, body)
	return stream
}

// framedReply is a stream's answer.
type framedReply struct {
	status string
	data   []string // by DATA frame
	reset  *http2.ErrCode
}

func (r framedReply) body() string { return strings.Join(r.data, "") }

var errGoAway = errors.New("the proxy sent GOAWAY")

// read reads a stream's answer until enough says so, or its end; enough may be
// nil. Frames of other streams are passed over.
func (c *framedClient) read(stream uint32, enough func(framedReply) bool) framedReply {
	c.s.t.Helper()
	var r framedReply
	for {
		frame, err := c.next()
		if _, ok := frame.(*http2.GoAwayFrame); ok {
			err = errGoAway
		}
		if err != nil {
			c.s.t.Fatalf("reading stream %d, which has %+v up to now: %v", stream, r, err)
		}
		if _, ok := frame.(*http2.RSTStreamFrame); ok {
			c.resets[frame.Header().StreamID] = true
		}
		if frame.Header().StreamID != stream {
			continue
		}
		ended := false
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			r.status, ended = f.PseudoValue("status"), f.StreamEnded()
		case *http2.DataFrame:
			if len(f.Data()) > 0 {
				r.data = append(r.data, string(f.Data()))
			}
			ended = f.StreamEnded()
		case *http2.RSTStreamFrame:
			code := f.ErrCode
			r.reset, ended = &code, true
		}
		if ended || enough != nil && enough(r) {
			return r
		}
	}
}
