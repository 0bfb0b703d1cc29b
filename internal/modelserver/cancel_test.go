package modelserver

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// start posts in the background. Its answer, once the headers are there, is read
// to the end; done is closed after that.
func start(t *testing.T, c client, body string, faults ...string) (cancel context.CancelFunc, done <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	finished := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-finished
	})
	go func() {
		defer close(finished)
		response, err := c.post(ctx, strings.NewReader(body), faults...)
		if err != nil {
			return
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
	}()
	return cancel, finished
}

func TestCancelInTheQueue(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			s := serve(t, Options{Slots: 1})
			c := s.clients[protocol]
			leaveSlot, _ := start(t, c, `{"prompt":"a"}`, "hang=headers")
			s.until(t, "a busy slot", func(got Stats) bool { return got.Working == 1 })

			cancel, done := start(t, c, `{"prompt":"a"}`)
			s.until(t, "a second request", func(got Stats) bool { return got.Inflight == 2 })
			cancel()
			<-done
			s.until(t, "a cancel in the queue", func(got Stats) bool {
				return got.CancelledQueued == 1 && got.Inflight == 1 && got.Working == 1
			})
			leaveSlot()
			if response, body := c.get(t, `{"prompt":"a"}`); response.StatusCode != http.StatusOK {
				t.Errorf("once the slot is free: %s %s", response.Status, body)
			}
		})
	}
}

func TestCancelInPrefill(t *testing.T) {
	for _, protocol := range protocols {
		for _, body := range []string{`{"prompt":"a"}`, `{"prompt":"a","stream":true}`} {
			t.Run(protocol+body, func(t *testing.T) {
				s := serve(t, Options{FirstToken: time.Hour, Step: time.Millisecond})
				cancel, _ := start(t, s.clients[protocol], body)
				s.until(t, "work", func(got Stats) bool { return got.Working == 1 })
				cancel()
				s.until(t, "a cancel in prefill", func(got Stats) bool { return got.CancelledPrefill == 1 && got.Inflight == 0 })
				if got := s.Stats(); got.Tokens != 0 || got.Busy == 0 || got.Saved < time.Hour-time.Minute || got.Cancelled() != 1 {
					t.Errorf("got %+v; want no token and most of an hour saved", got)
				}
			})
		}
	}
}

func TestCancelInDecode(t *testing.T) {
	for _, protocol := range protocols {
		for _, body := range []string{`{"prompt":"a","max_tokens":10}`, `{"prompt":"a","max_tokens":10,"stream":true}`} {
			t.Run(protocol+body, func(t *testing.T) {
				s := serve(t, Options{TokensPerSecond: minRate, Step: time.Millisecond})
				cancel, _ := start(t, s.clients[protocol], body)
				s.until(t, "a token", func(got Stats) bool { return got.Tokens == 1 })
				cancel()
				s.until(t, "a cancel in decode", func(got Stats) bool { return got.CancelledDecode == 1 && got.Inflight == 0 })
				planned := 9 * 100 * time.Second
				if got := s.Stats(); got.Tokens != 1 || got.Saved < planned-time.Minute || got.Saved > planned || got.Cancelled() != 1 {
					t.Errorf("got %+v; want one token and most of %s saved", got, planned)
				}
			})
		}
	}
}

// A stream that is reset leaves its connection to the others.
func TestCancelKeepsTheConnection(t *testing.T) {
	for _, protocol := range []string{"h2", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			s := serve(t, Options{FirstToken: time.Hour, Step: time.Millisecond})
			const streams = 50
			for i := range streams {
				cancel, done := start(t, s.clients[protocol], `{"prompt":"a","stream":true}`)
				s.until(t, "work", func(got Stats) bool { return got.Working == 1 })
				cancel()
				<-done
				s.until(t, "a cancel", func(got Stats) bool { return got.CancelledPrefill == int64(i+1) && got.Inflight == 0 })
			}
			if got := s.Stats(); got.ConnectionsOpened != 1 || got.Connections != 1 {
				t.Errorf("after %d cancels: %+v; want one connection, still open", streams, got)
			}
		})
	}
}
