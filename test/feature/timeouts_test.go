package feature

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

const shortly = config.Duration(100 * time.Millisecond)

// every sends a part of a stream again and again, until its client is gone.
func every(first, part string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begin(w)
		send(w, first)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
				send(w, part)
			}
		}
	}
}

// never answers nothing, not even a head.
func never(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// TestTimeouts has units be silent at each step. Each is told to stop.
func TestTimeouts(t *testing.T) {
	first := event(chunk(0, "a", "null"))
	for _, tc := range []struct {
		name, body string
		unit       http.HandlerFunc
		limit      func(*config.Timeouts)
		after      string // what the client gets before the end; empty is 504
	}{
		{"no head", prompt, never, func(t *config.Timeouts) { t.FirstByte = shortly }, ""},
		{"no event", prompt, every("", ""), func(t *config.Timeouts) { t.FirstByte = shortly }, ""},
		{"only comments", prompt, every("", ": keep-alive\n\n"), func(t *config.Timeouts) { t.FirstByte = shortly }, ""},
		{"only filters", prompt, every("", event(`{"choices":[]}`)), func(t *config.Timeouts) { t.FirstByte = shortly }, ""},
		{"silence mid-stream", prompt, every(first, ""), func(t *config.Timeouts) { t.Idle = shortly }, first},
		{"comments mid-stream", prompt, every(first, ": keep-alive\n\n"), func(t *config.Timeouts) { t.Idle = shortly }, first},
		{"no end", prompt, every(first, first), func(t *config.Timeouts) { t.Total, t.FirstByte = shortly, shortly }, first},
		{"unary", unaryPrompt, never, func(t *config.Timeouts) { t.Total, t.FirstByte = shortly, shortly }, ""},
		{"unary, a slow body", unaryPrompt, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			send(w, `{"choices":`)
			never(w, r)
		}, func(t *config.Timeouts) { t.Total, t.FirstByte = shortly, shortly }, ""},
	} {
		for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
			t.Run(tc.name+", unit "+protocol, func(t *testing.T) {
				unit := &counted{next: tc.unit}
				s := start(t, setup{unit: unit, config: func(c *config.Config) {
					c.Units[0].Protocol = protocol
					tc.limit(&c.Timeouts)
				}})
				got := s.do(s.h2(), s.request(t.Context(), s.tlsURL, "/v1/completions", tc.body))
				if tc.after == "" {
					got.wantError(t, 504, "timeout")
				} else {
					for strings.HasPrefix(got.body, tc.after+tc.after) {
						got.body = strings.TrimPrefix(got.body, tc.after)
					}
					s.wantBroken(got, tc.after)
				}
				s.outcomes("timeout", 1)
				s.eventually("the unit is told", func() bool { _, gone, running := unit.counts(); return gone == 1 && running == 0 })
				s.settled()
			})
		}
	}
}

// TestEventsKeepAStreamAlive: the limit is between events, not of the stream.
func TestEventsKeepAStreamAlive(t *testing.T) {
	s := start(t, setup{
		unit: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			begin(w)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for range 100 {
				<-tick.C
				send(w, event(chunk(0, "a", "null")))
			}
			send(w, event(chunk(0, "", `"stop"`))+event("[DONE]"))
		}),
		config: func(c *config.Config) { c.Timeouts.Idle = config.Duration(time.Second) },
	})
	s.wantWhole(s.post("/v1/completions", prompt))
}

// TestClientThatReadsNothing opens no window for one stream. It is ended, the
// unit is told, and the other stream of the connection does not notice.
func TestClientThatReadsNothing(t *testing.T) {
	for name, body := range map[string]string{"streamed": prompt, "unary": unaryPrompt} {
		t.Run(name, func(t *testing.T) {
			s := start(t, setup{config: func(c *config.Config) { c.Timeouts.Write = shortly }})
			c := s.framed(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			stuck := c.post(body)
			other := c.post(prompt)
			c.write(func(f *http2.Framer) error { return f.WriteWindowUpdate(other, 1<<20) })
			if got := c.read(other, nil); got.reset != nil || !strings.HasSuffix(got.body(), event("[DONE]")) {
				t.Errorf("the other stream got %+v", got)
			}
			s.outcomes("timeout", 1)
			s.outcomes("ok", 1)
			s.settled()
			c.wantReset(stuck)
			if got := s.metric("ghostline_client_connections"); got != 1 {
				t.Errorf("%v client connections are open, want 1", got)
			}
		})
	}
}

// wantReset reads until a stream is reset, which may have happened before.
func (c *framedClient) wantReset(stream uint32) {
	c.s.t.Helper()
	again := c.post(prompt)
	c.write(func(f *http2.Framer) error { return f.WriteWindowUpdate(again, 1<<20) })
	if got := c.read(again, nil); got.status != "200" {
		c.s.t.Errorf("the next answer on the connection is %+v", got)
	}
	if !c.resets[stream] {
		c.s.t.Errorf("stream %d was not reset", stream)
	}
}

// TestClientThatReadsNothingOverHTTP1 fills the connection's buffers.
func TestClientThatReadsNothingOverHTTP1(t *testing.T) {
	filler := event(chunk(0, strings.Repeat("x", 64<<10), "null"))
	unit := &counted{next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begin(w)
		for r.Context().Err() == nil {
			send(w, filler)
		}
	})}
	s := start(t, setup{unit: unit, config: func(c *config.Config) { c.Timeouts.Write = shortly }})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.plainURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := s.request(t.Context(), s.plainURL, "/v1/completions", prompt).Write(conn); err != nil {
		t.Fatal(err)
	}
	s.outcomes("timeout", 1)
	s.eventually("the unit is told", func() bool { _, gone, running := unit.counts(); return gone == 1 && running == 0 })
	s.settled()
	s.eventually("the connection is closed", func() bool { return s.metric("ghostline_client_connections") == 0 })
}

// TestBodyThatNeverEnds is told so, on a connection that works on where the
// protocol allows that.
func TestBodyThatNeverEnds(t *testing.T) {
	for _, how := range []leaver{leavers[0], leavers[1], leavers[2]} {
		t.Run(how.name, func(t *testing.T) {
			s := start(t, setup{config: func(c *config.Config) { c.Timeouts.ReadBody = shortly }})
			body, upload := io.Pipe()
			defer upload.Close()
			client, base := how.client(s)
			req := s.request(t.Context(), base, "/v1/completions", "")
			req.Body, req.GetBody, req.ContentLength = body, nil, 100
			go func() { _, _ = io.WriteString(upload, `{"prompt":`) }() // an error means that the proxy had enough
			s.do(client, req).wantError(t, http.StatusRequestTimeout, "body_timeout")
			s.outcomes("timeout", 1)
			s.settled()
			if s.arrived.count() != 0 {
				t.Error("the request was forwarded")
			}
			s.wantWhole(s.do(client, s.request(t.Context(), base, "/v1/completions", prompt)))
		})
	}
}

// TestClientThatReadsNothingOfABatch has the whole answer come together, so
// that the last flush is the only one: a client that lets it wait too long, or
// leaves meanwhile, has no answer.
func TestClientThatReadsNothingOfABatch(t *testing.T) {
	for outcome, write := range map[string]config.Duration{"timeout": shortly, "cancelled": config.Duration(time.Minute)} {
		t.Run(outcome, func(t *testing.T) {
			s := start(t, setup{unit: says(whole("a", "b")), config: func(c *config.Config) { c.Timeouts.Write = write }})
			c := s.framed(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			stuck := c.post(prompt)
			if outcome == "cancelled" {
				c.read(stuck, func(r framedReply) bool { return r.status == "200" }) // its head needs no window
				c.reset(stuck, http2.ErrCodeCancel)
			}
			s.outcomes(outcome, 1)
			if outcome == "timeout" {
				c.wantReset(stuck)
			}
			s.settled()
		})
	}
}
