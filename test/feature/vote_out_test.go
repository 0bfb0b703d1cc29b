package feature

import (
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// told reads a client's frames until it is told to go, and says with which code.
func (c *framedClient) told(codes chan<- http2.ErrCode) {
	for {
		frame, err := c.next()
		if err != nil {
			return // the end of the test
		}
		if f, ok := frame.(*http2.GoAwayFrame); ok {
			codes <- f.ErrCode
			return
		}
	}
}

// TestVoteOutMovesClients: clients who sit on their connections to a region that
// is voted out are told to go, a few at a time, and whoever comes is served.
func TestVoteOutMovesClients(t *testing.T) {
	s, units := cast(t, setup{config: func(c *config.Config) {
		probing(c)
		c.Failover, c.Units[1].Region = []string{"near"}, "near"
	}}, says(whole("a")), says(whole("b")))
	s.voted("up")
	const clients = 20
	codes := make(chan http2.ErrCode, 2*clients)
	for range clients {
		go s.framed().told(codes)
		go s.framedTLS().told(codes)
	}
	units[0].is(answers(500, nil, ""))
	s.voted("down")
	s.eventually("the first client is told to go", func() bool { return len(codes) > 0 })
	if n := len(codes); n > clients {
		t.Errorf("%d of %d clients were told at once", n, 2*clients)
	}
	if code := <-codes; code != http2.ErrCodeNo {
		t.Errorf("it is told with code %v, want that of no error", code)
	}
	s.complete()
}
