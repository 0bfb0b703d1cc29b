package feature

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// atFault is how much a user of the faulty units does at a time.
const atFault = 8

// The ends that an answer can have beside an error's status.
const (
	isWhole  = "whole"
	isBroken = "broken off, and said so"
)

// fault is something that can be the matter with units.
type fault struct {
	name string
	// unit starts one and returns its address.
	unit func(t *testing.T) string
	// network, if set, is what lies before the unit once it is known.
	network func(*network)
	// ends are what may become of a request that is not cancelled.
	ends []string
}

func served(unit http.Handler) func(*testing.T) string {
	return func(t *testing.T) string { return serveUnit(t, unit) }
}

// raw does the same thing to each connection.
func raw(serve func(net.Conn)) func(*testing.T) string {
	return func(t *testing.T) string {
		listener := listen(t)
		var serving sync.WaitGroup
		serving.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				serving.Go(func() {
					defer conn.Close()
					defer context.AfterFunc(t.Context(), func() { conn.Close() })()
					serve(conn)
				})
			}
		})
		t.Cleanup(func() { listener.Close(); serving.Wait() })
		return listener.Addr().String()
	}
}

func saysRaw(text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = io.WriteString(conn, text) // that nobody listens shows in the next read
		_, _ = io.Copy(io.Discard, conn)
	}
}

// soon is how long a framed unit works.
const soon = 10 * time.Millisecond

// answersSoon answers after a moment, in which it can be cancelled.
func answersSoon(p *peer, stream uint32) {
	time.AfterFunc(soon, func() { p.stream(stream, true, whole("a")) })
}

// goesAway sends its connections away after so many requests.
func goesAway(after int) func(*testing.T) string {
	return func(t *testing.T) string {
		var mu sync.Mutex
		had := map[*peer]int{}
		return startFramedUnit(t, func(p *peer, stream uint32, _ int) {
			mu.Lock()
			defer mu.Unlock()
			if had[p]++; had[p] == after {
				p.goAway(stream, http2.ErrCodeNo)
			}
			if had[p] <= after {
				answersSoon(p, stream)
			}
		}).address
	}
}

// takesOne allows a connection one stream at a time.
func takesOne(t *testing.T) string {
	var mu sync.Mutex
	busy := map[*peer]uint32{} // with which stream
	ends := func(p *peer, stream uint32) bool {
		mu.Lock()
		defer mu.Unlock()
		if busy[p] != stream {
			return false
		}
		busy[p] = 0
		return true
	}
	u := startFramedUnit(t, func(p *peer, stream uint32, _ int) {
		mu.Lock()
		defer mu.Unlock()
		if busy[p] != 0 {
			p.reset(stream, http2.ErrCodeRefusedStream)
			return
		}
		busy[p] = stream
		time.AfterFunc(soon, func() {
			if ends(p, stream) {
				p.stream(stream, true, whole("a"))
			}
		})
	}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	u.onReset = func(p *peer, stream uint32) { ends(p, stream) }
	return u.address
}

// countsResets ends a connection with more than 33 resets in a second, as nghttp2
// does in the long run.
func countsResets(t *testing.T) string {
	u := startFramedUnit(t, func(p *peer, stream uint32, _ int) { answersSoon(p, stream) })
	u.mostResets = 33
	return u.address
}

var faults = []fault{
	{"refuses connections", served(says(whole("a"))), (*network).gone, []string{"status 503", "status 502"}},
	{"black hole", served(says(whole("a"))), (*network).blackhole, []string{"status 503", "status 504"}},
	{"accepts and hangs", served(says(whole("a"))), (*network).hold, []string{"status 504"}},
	{"hangs before the head", served(http.HandlerFunc(never)), nil, []string{"status 504"}},
	{"hangs between events", served(every(event(chunk(0, "a", "null")), "")), nil, []string{isBroken}},
	{"resets mid-stream", served(brokenOff(event(chunk(0, "a", "null")))), nil, []string{isBroken}},
	{"401", served(answers(401, nil, "")), nil, []string{"status 502"}},
	{"429", served(answers(429, nil, "")), nil, []string{"status 503"}},
	{"429 with Retry-After", served(answers(429, http.Header{"Retry-After": {"3"}}, "")), nil, []string{"status 503"}},
	{"500", served(answers(500, nil, "")), nil, []string{"status 502"}},
	{"503", served(answers(503, nil, "")), nil, []string{"status 503"}},
	{"a page of HTML", served(answers(200, http.Header{"Content-Type": {"text/html"}}, "<html>")), nil, []string{"status 502"}},
	{"HTTP/1.1 instead of HTTP/2", raw(saysRaw("HTTP/1.1 400 Bad Request\r\n\r\n")), nil, []string{"status 502", "status 503"}},
	{"noise instead of HTTP/2", raw(saysRaw("\xff" + strings.Repeat("noise", 1000))), nil, []string{"status 502", "status 503"}},
	{"GOAWAY every 100 requests", goesAway(100), nil, []string{isWhole}},
	{"one stream a connection", takesOne, nil, []string{isWhole}},
	{"frames of no size", func(t *testing.T) string {
		return startFramedUnit(t, func(p *peer, stream uint32, _ int) { answersSoon(p, stream) }, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 0}).address
	}, nil, []string{"status 502", "status 503"}},
	{"33 resets a second", countsResets, nil, []string{isWhole}},
}

// TestFaultyUnits has all units of a model suffer from the same, while their
// users type on, and another model's user goes unharmed.
func TestFaultyUnits(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			var networks []*network
			s := start(t, setup{unit: says(whole("well")), config: func(c *config.Config) {
				c.Models = append(c.Models, config.Model{Name: "faulty", Variants: []config.Variant{{Name: "stable", Weight: 1}}})
				for _, name := range []string{"faulty-1", "faulty-2"} {
					n := newNetwork(t, f.unit(t))
					networks = append(networks, n)
					u := unitAt(c, name, n.address)
					u.Serves = "faulty/stable"
					c.Units = append(c.Units, u)
				}
				c.Timeouts.Connect, c.Timeouts.Idle = 3*shortly, 3*shortly
				c.Timeouts.FirstByte = config.Duration(time.Second) // the bystander must live with it too
			}})
			s.networks = networks
			if f.network != nil {
				for _, n := range networks {
					f.network(n)
				}
			}
			ends := &tally{counts: map[string]int{}}
			client := s.h2()
			s.besides(t, s.bystander(), func(ctx context.Context, did func()) {
				var all sync.WaitGroup
				for i := range atFault {
					all.Go(func() { ends.count(s.typeAt("faulty", client, i%2 == 1)); did() })
				}
				all.Wait()
			})
			t.Log(ends.counts)
			for end := range ends.counts {
				if !slices.Contains(f.ends, end) {
					t.Errorf("requests ended with %v; want only %v", ends.counts, f.ends)
					break
				}
			}
			if len(ends.counts) == 0 {
				t.Error("no request ended by itself")
			}
		})
	}
}

// tally counts how requests ended that were not cancelled.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) count(end string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if end != "" {
		t.counts[end]++
	}
}

// typeAt asks a model and says how that ended; nothing if it was cancelled, which
// a user who types on does after a moment.
func (s *stack) typeAt(model string, client *http.Client, on bool) string {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if on {
		defer time.AfterFunc(rand.N(2*soon), cancel).Stop()
	}
	body, err := fetch(client, s.request(ctx, s.tlsURL, "/v1/completions", strings.Replace(prompt, "ghost-code", model, 1)))
	switch {
	case errors.Is(err, context.Canceled):
		return ""
	case err == nil && strings.HasSuffix(body, event("[DONE]")):
		return isWhole
	case err != nil && strings.Contains(body, `"code":"broken_off"`) && !strings.Contains(body, "[DONE]"):
		return isBroken
	case err != nil:
		return err.Error()
	}
	return "part of an answer that looks whole"
}
