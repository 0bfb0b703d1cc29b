package feature

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/modelserver"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// fate is what became of a request, by its id: where there is none, it was
// never there.
type fate int

const (
	absent fate = iota
	unfinished
	cancelled
	finished
)

// ledger is one side's book: the fate of each request that it saw.
type ledger struct {
	mu    sync.Mutex
	fates map[string]fate
	twice []string // ids that came again
}

func newLedger(size int) *ledger { return &ledger{fates: make(map[string]fate, size)} }

func (l *ledger) set(id string, f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f == unfinished && l.fates[id] != absent {
		l.twice = append(l.twice, id)
	}
	l.fates[id] = f
}

func (l *ledger) of(id string) fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fates[id]
}

func (l *ledger) count(f fate) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, have := range l.fates {
		if have == f {
			n++
		}
	}
	return n
}

// keep books what becomes of requests at a unit. The model server ends a
// request that was cancelled with http.ErrAbortHandler.
func (l *ledger) keep(unit http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		l.set(id, unfinished)
		defer func() {
			if cause := recover(); cause != nil {
				l.set(id, cancelled)
				panic(cause)
			}
			l.set(id, finished)
		}()
		unit.ServeHTTP(w, r)
	})
}

// cancelAfter are the moments at which typists type on, spread over an answer of
// about half a second.
var cancelAfter = []time.Duration{0, 10 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond}

// typing is many streams on one connection, of which every second one is
// cancelled.
type typing struct {
	s      *stack
	client *http.Client
	book   *ledger // by id, as the client saw it
	cut    []string
	mu     sync.Mutex
}

// run sends n requests, at most width of them at a time.
func (ty *typing) run(prefix string, n, width int) {
	places := make(chan struct{}, width)
	var all sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			ty.one(fmt.Sprintf("%s-%d", prefix, i), i)
		})
	}
	all.Wait()
}

func (ty *typing) one(id string, i int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req := ty.s.request(ctx, ty.s.tlsURL, "/v1/completions", booksPrompt)
	req.Header.Set("X-Request-Id", id)
	if i%2 == 1 {
		defer time.AfterFunc(cancelAfter[i/2%len(cancelAfter)], cancel).Stop()
	}
	body, err := fetch(ty.client, req)
	switch {
	case err == nil && strings.HasSuffix(body, event("[DONE]")):
		ty.book.set(id, finished)
	case i%2 == 1 && errors.Is(err, context.Canceled):
		ty.book.set(id, cancelled)
	default:
		ty.mu.Lock()
		defer ty.mu.Unlock()
		ty.cut = append(ty.cut, fmt.Sprintf("%s: %v after %d bytes", id, err, len(body)))
	}
}

func fetch(client *http.Client, req *http.Request) (string, error) {
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

const booksPrompt = `{"prompt":"func main() {\n\t","max_tokens":10,"stream":true,"model":"ghost-code"}`

// TestBooksBalance is the contract's sum: what clients cancelled was never
// forwarded, or was cancelled at the model, or had finished before the reset
// arrived. It is drawn up request by request from the client's and the unit's
// books, and then held against the counters of the proxy and the model server.
func TestBooksBalance(t *testing.T) {
	streams := 10_000
	if testing.Short() {
		streams = 1_000
	}
	unit := newLedger(2 * streams)
	model, s := startBooked(t, unit)
	ty := &typing{s: s, client: s.h2(), book: newLedger(2 * streams)}
	ty.run("first", 1, 1) // net/http opens a connection for each request that finds none
	ty.run("warm", 400, 200)
	s.settledAt(model)
	before := footprint(model)

	ty.run("typed", streams, 200)
	s.settledAt(model)
	if len(ty.cut) > 0 {
		t.Errorf("%d answers were not whole, such as %s", len(ty.cut), ty.cut[0])
	}
	s.balance(ty.book, unit, model.Stats())
	if got := s.metric("ghostline_client_connections_opened_total"); got != 1 {
		t.Errorf("the client opened %v connections, want 1", got)
	}
	if got := s.metric("ghostline_client_connections"); got != 1 {
		t.Errorf("%v client connections are open, want 1", got)
	}
	if opened, open := model.Stats().ConnectionsOpened, model.Stats().Connections; opened != open {
		t.Errorf("%d of %d connections to the unit were closed, want none", opened-open, opened)
	}
	s.quiet()
	s.eventually("goroutines and memory are back", func() bool {
		now := footprint(model)
		return now.goroutines <= before.goroutines+20 && now.heap <= before.heap+before.heap/2+4<<20
	})
	t.Logf("before %+v, after %+v", before, footprint(model))
}

// startBooked runs a stack whose unit keeps a book.
func startBooked(t *testing.T, book *ledger) (*modelserver.Server, *stack) {
	t.Helper()
	model, err := modelserver.New(modelserver.Options{FirstToken: 60 * time.Millisecond, TokensPerSecond: 20})
	if err != nil {
		t.Fatal(err)
	}
	address := serveUnit(t, book.keep(model.Handler()), func(s *httpserver.Server) { s.ConnState = model.ConnState })
	return model, start(t, setup{config: func(c *config.Config) {
		c.Units[0] = unitAt(c, "unit-1", address)
		// However slow this machine is, only an answer that is lost takes so long.
		c.Timeouts.FirstByte, c.Timeouts.Idle = config.Duration(time.Minute), config.Duration(time.Minute)
	}})
}

// settledAt is settled for a model server other than the stack's.
func (s *stack) settledAt(model *modelserver.Server) {
	s.t.Helper()
	s.settled()
	s.eventually("the model has nothing in flight", func() bool { return model.Stats().Inflight == 0 })
}

// balance holds the books against each other.
func (s *stack) balance(client, unit *ledger, model modelserver.Stats) {
	t := s.t
	t.Helper()
	var notForwarded, cancelledThere, finishedFirst int
	for id, saw := range client.fates {
		switch there := unit.fates[id]; {
		case saw == finished && there == finished:
		case saw == finished:
			t.Errorf("%s: the client had the whole answer, and yet it did not finish at the model", id)
		case there == absent:
			notForwarded++
		case there == cancelled:
			cancelledThere++
		case there == finished:
			finishedFirst++
		default:
			t.Errorf("%s is still at the model", id)
		}
	}
	asked, done := len(client.fates), client.count(finished)
	t.Logf("%d asked, %d whole; cancelled %d = never forwarded %d + cancelled at the model %d + finished before the reset %d; proxy: receive %v, queue %v, wait %v, stream %v",
		asked, done, client.count(cancelled), notForwarded, cancelledThere, finishedFirst, s.metric("ghostline_cancelled_total", "phase", "receive"),
		s.metric("ghostline_cancelled_total", "phase", "queue"), s.metric("ghostline_cancelled_total", "phase", "wait"), s.metric("ghostline_cancelled_total", "phase", "stream"))
	if sum := notForwarded + cancelledThere + finishedFirst; sum != client.count(cancelled) {
		t.Errorf("the parts are %d, the client cancelled %d", sum, client.count(cancelled))
	}
	if len(unit.twice) > 0 {
		t.Errorf("%d requests were sent to the unit twice, such as %s", len(unit.twice), unit.twice[0])
	}
	if int(model.Cancelled()) != cancelledThere || int(model.OK) != done+finishedFirst || model.Error != 0 || model.Fault != 0 {
		t.Errorf("the model server counted %+v, want %d cancelled and %d ok", model, cancelledThere, done+finishedFirst)
	}
	s.balanceProxy(asked, done, finishedFirst, len(unit.fates))
}

// balanceProxy holds the proxy's counters against the books.
func (s *stack) balanceProxy(asked, done, finishedFirst, forwarded int) {
	t := s.t
	t.Helper()
	phase := func(p string) int { return int(s.metric("ghostline_cancelled_total", "phase", p)) }
	all := int(s.metric("ghostline_requests_total"))
	ok, gone := int(s.metric("ghostline_requests_total", "outcome", "ok")), int(s.metric("ghostline_requests_total", "outcome", "cancelled"))
	if ok+gone != all || gone != phase("receive")+phase("queue")+phase("wait")+phase("stream") {
		t.Errorf("the proxy counted %d requests, %d ok and %d cancelled", all, ok, gone)
	}
	if all > asked || ok < done || ok > done+finishedFirst {
		t.Errorf("the proxy counted %d requests and %d ok; the client asked %d and has %d whole, %d more finished", all, ok, asked, done, finishedFirst)
	}
	// Of those that had a connection, some were cancelled before they used it.
	if least, most := ok+phase("stream"), all-phase("receive")-phase("queue"); forwarded < least || forwarded > most {
		t.Errorf("%d requests came to the unit, want %d to %d", forwarded, least, most)
	}
	attempts := func(result string) int { return int(s.metric("ghostline_unit_attempts_total", "result", result)) }
	cancelled := phase("queue") + phase("wait") + phase("stream")
	if attempts("ok") != ok || attempts("cancelled") != cancelled ||
		attempts("ok")+attempts("cancelled") != int(s.metric("ghostline_unit_attempts_total")) {
		t.Errorf("%d attempts ok and %d cancelled, want %d and %d", attempts("ok"), attempts("cancelled"), ok, cancelled)
	}
}

// size is what a process holds.
type size struct {
	connections int // to the unit
	goroutines  int // but for those of these connections
	heap        uint64
}

// footprint leaves out the goroutines of the connections to the unit: a burst
// has the proxy open more, which stay for a while.
func footprint(unit *modelserver.Server) size {
	const each = 3 // reading here, reading and serving there
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	connections := int(unit.Stats().Connections)
	return size{connections, runtime.NumGoroutine() - each*connections, m.HeapAlloc}
}
