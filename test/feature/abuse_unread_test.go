package feature

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// TestManyStreamsThatAreNotRead has a client open no window for many streams at
// a time. Each is ended for want of a reader: its place is given back and the
// unit stops.
func TestManyStreamsThatAreNotRead(t *testing.T) {
	const each = 30
	first := event(chunk(0, strings.Repeat("x", 8<<10), "null"))
	unit := &counted{next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin(w)
		send(w, first)
		<-r.Context().Done()
	})}
	s := start(t, setup{unit: forBad(unit), config: func(c *config.Config) { c.Timeouts.Write = 3 * shortly }})
	opened := 0
	s.besides(t, s.bystander(), func(_ context.Context, did func()) {
		c := s.framed(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		defer c.conn.Close()
		for range each {
			c.post(badPrompt)
			opened++
			did()
		}
		c.awaitResets(each)
	})
	s.outcomes("timeout", float64(opened))
	s.eventually("the unit is told of each", func() bool {
		begun, gone, running := unit.counts()
		return begun == opened && gone == opened && running == 0
	})
}

// awaitResets reads until so many streams were reset.
func (c *framedClient) awaitResets(n int) {
	for len(c.resets) < n {
		frame, err := c.next()
		if err != nil {
			c.s.t.Errorf("%d streams were reset, want %d: %v", len(c.resets), n, err)
			return
		}
		if _, ok := frame.(*http2.RSTStreamFrame); ok {
			c.resets[frame.Header().StreamID] = true
		}
	}
}
