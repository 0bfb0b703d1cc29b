package feature

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

const (
	// samples are the requests of a bystander on which a p99 stands.
	samples = 100
	// How much slower others may become: no limit of its own, but far below what
	// they would see if they were starved.
	slowerBy, slack = 10, 50 * time.Millisecond
	// rounds is how often it is tried: what else the machine does goes away by
	// itself, starvation does not.
	rounds = 3
	// maxHeap is what an abuse may hold, however long it lasts.
	maxHeap = 64 << 20
)

// abuse is what a bad client does once, on one connection. It ends with ctx or
// the connection, and says whenever it did something.
type abuse func(ctx context.Context, did func())

// besides has a user of good manners ask while a bad client does the same thing
// again and again. The user's answers must be whole and about as fast as without
// it, and nothing may pile up.
func (s *stack) besides(t *testing.T, ask func() error, do abuse) {
	t.Helper()
	quiet, during := s.pace(t, ask), time.Duration(0)
	before := s.footprint()
	for range rounds {
		if during = s.abused(t, ask, do); during <= slowerBy*quiet+slack {
			break
		}
		quiet = max(quiet, s.pace(t, ask))
	}
	t.Logf("the p99 of others is %v, and %v beside the abuse", quiet, during)
	if during > slowerBy*quiet+slack {
		t.Errorf("others waited for %v (p99), and for %v without the abuse", during, quiet)
	}
	s.settled()
	s.eventually("nothing is left of it", func() bool { return s.footprint().goroutines <= before.goroutines+10 })
}

// abused returns a bystander's pace beside the abuse.
func (s *stack) abused(t *testing.T, ask func() error, do abuse) time.Duration {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	before := s.footprint()
	var acts atomic.Int64
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			do(ctx, func() { acts.Add(1) })
		}
	})
	s.eventually("the abuse has begun", func() bool { return acts.Load() > 0 })
	during := s.pace(t, ask)
	now := s.footprint()
	stop()
	running.Wait()
	t.Logf("%d acts of abuse; the heap grew by %d KiB, by %d goroutines", acts.Load(), (int64(now.heap)-int64(before.heap))>>10, now.goroutines-before.goroutines)
	if now.heap > before.heap+maxHeap {
		t.Errorf("the abuse holds %d bytes", now.heap-before.heap)
	}
	return during
}

// footprint leaves out what connections to units take; see the function.
func (s *stack) footprint() size {
	const each = 7 // reading here, three for the network, serving there
	now := footprint(s.model)
	for _, n := range s.networks {
		open, _ := n.connections()
		now.goroutines -= each * open
	}
	return now
}

// pace is the p99 of a user's requests, one after the other.
func (s *stack) pace(t *testing.T, ask func() error) time.Duration {
	t.Helper()
	took := make([]time.Duration, samples)
	for i := range took {
		began := time.Now()
		if err := ask(); err != nil {
			t.Fatalf("a bystander's request: %v", err)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[samples*99/100-1]
}

// bystander asks on a connection of its own and wants whole answers.
func (s *stack) bystander() func() error {
	client := s.h2()
	return func() error {
		body, err := fetch(client, s.request(s.t.Context(), s.tlsURL, "/v1/completions", prompt))
		if err == nil && !strings.HasSuffix(body, event("[DONE]")) {
			err = fmt.Errorf("the answer is not whole: %q", body)
		}
		return err
	}
}

// badly marks a prompt of the abuser, for units that tell the two apart.
const badly = "badly"

var badPrompt = strings.Replace(prompt, "func main", badly, 1)

// forBad is a unit that answers the abuser in its own way.
func forBad(unit http.Handler) http.Handler {
	calm := says(whole("a", "b"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && bytes.Contains(body, []byte(badly)) {
			unit.ServeHTTP(w, r)
			return
		}
		calm(w, r)
	})
}

// beat is how often a flood's frames are sent.
const beat = 5 * time.Millisecond

// flood is an abuse by frames.
type flood struct {
	settings []http2.Setting
	// deaf does not read what comes back.
	deaf bool
	// first is sent at once, if set, then at each beat what batch writes.
	first func(c *framedClient)
	batch func(c *framedClient, f *http2.Framer)
	// turn, if set, is held from the making of a batch until it is sent, so that
	// others can open streams on the same connection.
	turn sync.Locker
}

// by is the flood as an abuse of s. It counts the connections that the proxy
// ended.
func (fl flood) by(s *stack, ends *atomic.Int64) abuse {
	return func(ctx context.Context, did func()) {
		c := s.framed(fl.settings...)
		// The proxy may read no more, so that writing would never end.
		defer context.AfterFunc(ctx, func() { c.conn.Close() })()
		var reading sync.WaitGroup
		defer reading.Wait()
		defer c.conn.Close()
		if !fl.deaf {
			reading.Go(func() {
				if c.skim(func(http2.Frame) {}); ctx.Err() == nil {
					ends.Add(1)
				}
			})
		}
		c.write((*http2.Framer).WriteSettingsAck)
		if fl.first != nil {
			fl.first(c)
		}
		fl.send(ctx, c, did)
	}
}

// skim shows what comes, up to GOAWAY or the connection's end.
func (c *framedClient) skim(show func(http2.Frame)) {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil || frame.Header().Type == http2.FrameGoAway {
			return
		}
		show(frame)
	}
}

// send floods until ctx is done or the connection takes no more.
func (fl flood) send(ctx context.Context, c *framedClient, did func()) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	var out bytes.Buffer
	framer := http2.NewFramer(&out, nil)
	framer.AllowIllegalWrites = true
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !fl.once(c, framer, &out) {
			return
		}
		did()
	}
}

// once makes a batch and sends it.
func (fl flood) once(c *framedClient, framer *http2.Framer, out *bytes.Buffer) bool {
	if fl.turn != nil {
		fl.turn.Lock()
		defer fl.turn.Unlock()
	}
	out.Reset()
	fl.batch(c, framer)
	_, err := c.conn.Write(out.Bytes())
	return err == nil
}
