package feature

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// resetsPerBeat makes 10,000 a second.
const resetsPerBeat = 50

var unlimited = config.SubjectLimits{InFlight: 10_000, RequestsPerSecond: 1e6, Burst: 1_000_000}

// resets is a flood of requests with a good token that are reset as soon as they
// are sent.
func resets(s *stack, sent *atomic.Int64) flood {
	token := s.token(func(c *token.Claims) { c.Subject = "typist" })
	block := requestFields("content-type", "application/json", "authorization", "Bearer "+token)
	return flood{batch: func(c *framedClient, f *http2.Framer) {
		for range resetsPerBeat {
			stream := c.fresh
			nextHeaders(c, f, http2.HeadersFrameParam{BlockFragment: block, EndHeaders: true})
			_ = f.WriteData(stream, true, []byte(badPrompt)) // into a buffer
			_ = f.WriteRSTStream(stream, http2.ErrCodeCancel)
			sent.Add(1)
		}
	}}
}

// TestResetsOfAUser resets 10,000 requests a second that have a good token. They
// draw on the user's bucket, and no connection is ended for them.
func TestResetsOfAUser(t *testing.T) {
	for name, limits := range map[string]config.SubjectLimits{
		"without limits": unlimited,
		"within limits":  {InFlight: 8, RequestsPerSecond: 1000, Burst: 200},
	} {
		t.Run(name, func(t *testing.T) {
			unit := &counted{next: held(nil)}
			s := start(t, setup{unit: forBad(unit), config: func(c *config.Config) { c.Limits.PerSubject = limits }})
			var sent, ends atomic.Int64
			s.besides(t, s.bystander(), resets(s, &sent).by(s, &ends))
			s.wantResetsLetBe(sent.Load(), ends.Load(), limits == unlimited)
			s.eventually("the unit is told of each", func() bool {
				begun, gone, running := unit.counts()
				return begun == gone && running == 0
			})
		})
	}
}

// wantResetsLetBe checks what became of requests that were reset: nothing, if
// that was before they were looked at.
func (s *stack) wantResetsLetBe(sent, ends int64, free bool) {
	s.t.Helper()
	outcome := func(name string) float64 { return s.metric("ghostline_requests_total", "outcome", name) }
	var cancelled, limited float64
	s.eventually("every request is ok, cancelled, superseded or limited", func() bool {
		all := s.metric("ghostline_requests_total")
		cancelled, limited = outcome("cancelled")+outcome("superseded"), outcome("limited")
		return all == outcome("ok")+cancelled+limited
	})
	s.t.Logf("%d resets: %v cancelled, %v limited", sent, cancelled, limited)
	if cancelled == 0 || cancelled+limited > float64(sent) || free && limited > 0 {
		s.t.Errorf("%v requests were cancelled and %v limited; the user reset %d", cancelled, limited, sent)
	}
	if ends > 0 {
		s.t.Errorf("%d connections were ended", ends)
	}
	s.quiet()
}

// sharedClient is a connection on which a user asks while others flood it, as
// behind an edge.
type sharedClient struct {
	*framedClient
	turn sync.Mutex
	ends atomic.Int64
	// pings are batches sent, acks those that were read: an edge that has more
	// to send than is read would have all its users wait.
	pings, acks atomic.Int64

	mu     sync.Mutex // over the user's answer
	stream uint32
	body   strings.Builder
	ended  chan error
}

// share connects.
func (s *stack) share(t *testing.T) *sharedClient {
	t.Helper()
	c := &sharedClient{framedClient: s.framed(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})}
	c.write((*http2.Framer).WriteSettingsAck, func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1<<30) })
	var reading sync.WaitGroup
	reading.Go(func() { c.skim(c.show); c.ends.Add(1) })
	t.Cleanup(func() { c.conn.Close(); reading.Wait() })
	return c
}

// clocked is a flood on this connection that sends a batch once the one before
// was read.
func (c *sharedClient) clocked(fl flood) flood {
	batch := fl.batch
	fl.turn = &c.turn
	fl.batch = func(fc *framedClient, f *http2.Framer) {
		if c.pings.Load() == c.acks.Load() {
			batch(fc, f)
			_ = f.WritePing(false, [8]byte{}) // into a buffer
			c.pings.Add(1)
		}
	}
	return fl
}

// show takes what comes for the user's request.
func (c *sharedClient) show(frame http2.Frame) {
	if f, ok := frame.(*http2.PingFrame); ok && f.IsAck() {
		c.acks.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := frame.Header().StreamID; id == 0 || id != c.stream {
		return
	}
	switch f := frame.(type) {
	case *http2.DataFrame:
		c.body.Write(f.Data())
		if !f.StreamEnded() {
			return
		}
		var err error
		if !strings.HasSuffix(c.body.String(), event("[DONE]")) {
			err = fmt.Errorf("the answer is not whole: %q", c.body.String())
		}
		c.ended <- err
	case *http2.RSTStreamFrame:
		c.ended <- fmt.Errorf("the request was reset: %v", f.ErrCode)
	}
}

// ask sends one good request and waits for its answer.
func (c *sharedClient) ask() error {
	c.turn.Lock()
	c.mu.Lock()
	c.stream, c.ended = c.fresh, make(chan error, 2)
	c.body.Reset()
	c.mu.Unlock()
	c.post(prompt)
	c.turn.Unlock()
	ctx, stop := context.WithTimeout(c.s.t.Context(), hangs)
	defer stop()
	select {
	case err := <-c.ended:
		return err
	case <-ctx.Done():
		return errors.New("no answer")
	}
}

// TestResetsOnASharedConnection has another user of the same connection reset
// 10,000 requests a second, as behind an edge.
func TestResetsOnASharedConnection(t *testing.T) {
	s := start(t, setup{unit: forBad(held(nil)), config: func(c *config.Config) { c.Limits.PerSubject = unlimited }})
	c := s.share(t)
	var sent atomic.Int64
	fl := c.clocked(resets(s, &sent))
	s.besides(t, c.ask, func(ctx context.Context, did func()) { fl.send(ctx, c.framedClient, did) })
	s.wantResetsLetBe(sent.Load(), c.ends.Load(), true)
	if got := s.metric("ghostline_client_connections_opened_total"); got != 1 {
		t.Errorf("%v connections were opened, want 1", got)
	}
}
