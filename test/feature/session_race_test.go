package feature

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestSupersededAsItsBodyEnds has bodies end while newer requests come, on
// HTTP/1.1 connections: whatever wins, the connection takes another request, or
// its answer said that it would not.
func TestSupersededAsItsBodyEnds(t *testing.T) {
	s := start(t, setup{unit: says(whole("a")), config: narrow(1, 4)})
	e := s.editor(overH2C, "X-Session-Id", "s-1")
	head := s.head("Content-Type: application/json", "X-Session-Id: s-1", "Content-Length: "+strconv.Itoa(len(prompt)))
	ends := map[string]int{}
	var conn *rawConn
	for range 200 {
		if conn == nil {
			conn = s.dial(t)
		}
		conn.send(head + prompt[:10])
		s.eventually("its body is read", running(readsBody))
		newer := e.send(prompt)
		conn.send(prompt[10:])
		got, closes := conn.last()
		other := <-newer.ended
		switch {
		case got.status != http.StatusOK:
			ends["superseded"]++
			got.wantError(t, 499, "superseded")
			s.wantWhole(other)
		case other.status == http.StatusOK:
			ends["answered before"]++
			s.wantWhole(got)
		default:
			ends["had begun"]++
			s.wantWhole(got)
			other.wantError(t, 429, "too_many_requests_in_flight")
		}
		if closes {
			conn.Close()
			conn = nil
			continue
		}
		ends["kept"]++
		got, _ = conn.send(head + prompt).last()
		s.wantWhole(got)
	}
	t.Logf("%v", ends)
	s.settled()
	s.quiet()
}

// last is the next answer, and whether it says that the connection closes.
func (c *rawConn) last() (got reply, closes bool) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body), err: err}, resp.Close
}

// TestLeavesAsItIsSuperseded has clients reset requests at the moment at which
// newer ones supersede them: each is counted once, and all is given back.
func TestLeavesAsItIsSuperseded(t *testing.T) {
	for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
		t.Run("unit "+protocol, func(t *testing.T) {
			unit := &counted{next: http.HandlerFunc(never)}
			s := start(t, setup{unit: unit, config: func(c *config.Config) {
				narrow(1, 4)(c)
				c.Units[0].Protocol = protocol
			}})
			const n = 300
			e := s.editor(overH2C)
			last := e.send(prompt)
			for i := range n {
				s.eventually("it is at the unit", unit.begunIs(i+1))
				next := make(chan *sent)
				go func() { next <- e.send(prompt) }()
				last.cancel()
				got := <-last.ended
				if got.err == nil {
					got.wantError(t, 499, "superseded")
				} else if !errors.Is(got.err, context.Canceled) {
					t.Errorf("the client got %v", got.err)
				}
				last = <-next
			}
			s.eventually("the last is at the unit", unit.begunIs(n+1))
			last.cancel()
			s.settled()
			s.eventually("the unit works for nobody", func() bool { _, gone, running := unit.counts(); return gone == n+1 && running == 0 })
			all, superseded, cancelled := s.metric("ghostline_requests_total"), s.metric("ghostline_requests_total", "outcome", "superseded"), s.metric("ghostline_cancelled_total")
			t.Logf("%v superseded, %v cancelled", superseded, cancelled)
			if all != n+1 || superseded+cancelled != all || s.metric("ghostline_unit_attempts_total", "result", "cancelled") != all {
				t.Errorf("%v counted, %v as superseded, %v as cancelled; want %d in all", all, superseded, cancelled, n+1)
			}
			s.quiet()
		})
	}
}

// TestBooksBalanceBesideSuperseded has an editor type far beyond its places: what
// became of each request is the same in the client's book, the unit's and the
// proxy's.
func TestBooksBalanceBesideSuperseded(t *testing.T) {
	const streams, width = 2000, 100
	unit, mine := newLedger(streams), newLedger(streams)
	model, s := startBooked(t, unit)
	s.reconfigure(narrow(20, 2))
	e := s.editor(overTLS)
	s.wantWhole(e.with("X-Request-Id", "first").ask(booksPrompt)) // net/http opens a connection for each request that finds none
	mine.set("first", finished)
	places := make(chan struct{}, width)
	var all sync.WaitGroup
	var refused typedPast
	for i := range streams {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			id := "r-" + strconv.Itoa(i)
			r := e.with("X-Request-Id", id).send(booksPrompt)
			if i%2 == 1 {
				defer time.AfterFunc(cancelAfter[i/2%len(cancelAfter)], r.cancel).Stop()
			}
			refused.book(t, mine, id, <-r.ended)
		})
	}
	all.Wait()
	s.settledAt(model)
	refused.balance(s, mine, unit)
	if len(unit.twice) > 0 || model.Stats().Cancelled() != int64(unit.count(cancelled)) {
		t.Errorf("%d requests came twice; the model server counted %+v", len(unit.twice), model.Stats())
	}
	if got := s.metric("ghostline_client_connections"); got != 1 {
		t.Errorf("%v client connections are open, want 1", got)
	}
	s.quiet()
}

// typedPast counts what the client was told of requests that had no place.
type typedPast struct{ limited, superseded atomic.Int64 }

// book enters what a client got. One that was superseded is cancelled to a unit.
func (p *typedPast) book(t *testing.T, mine *ledger, id string, got reply) {
	switch {
	case got.err == nil && got.status == 499:
		p.superseded.Add(1)
		mine.set(id, cancelled)
	case got.err == nil && got.status == 429:
		p.limited.Add(1)
		mine.set(id, absent)
	case got.err == nil && strings.HasSuffix(got.body, event("[DONE]")):
		mine.set(id, finished)
	case errors.Is(got.err, context.Canceled):
		mine.set(id, cancelled)
	default:
		t.Errorf("%s: %d %v %.200q", id, got.status, got.err, got.body)
	}
}

// balance holds the client's and the unit's books and the proxy's counters against
// each other.
func (p *typedPast) balance(s *stack, mine, unit *ledger) {
	t := s.t
	t.Helper()
	for id, saw := range mine.fates {
		there := unit.of(id)
		if saw == finished && there != finished || saw == absent && there != absent || there == unfinished {
			t.Errorf("%s: the client's book says %v, the unit's %v", id, saw, there)
		}
	}
	count := func(outcome string) int64 { return int64(s.metric("ghostline_requests_total", "outcome", outcome)) }
	ok, left, gone, limited := count("ok"), count("cancelled"), count("superseded"), count("limited")
	t.Logf("%d whole, %d superseded, %d refused at the client; the proxy counted %d ok, %d cancelled, %d superseded, %d limited; at the unit %d were cancelled",
		mine.count(finished), p.superseded.Load(), p.limited.Load(), ok, left, gone, limited, unit.count(cancelled))
	if all := int64(s.metric("ghostline_requests_total")); ok+left+gone+limited != all || all > int64(len(mine.fates)) {
		t.Errorf("the outcomes are %d of %d requests, of which the client sent %d", ok+left+gone+limited, all, len(mine.fates))
	}
	// A reset may cross the answer.
	if gone < p.superseded.Load() || gone > int64(mine.count(cancelled)) || gone == 0 || limited < p.limited.Load() {
		t.Errorf("the proxy counted %d superseded, %d limited; the client %d and %d", gone, limited, p.superseded.Load(), p.limited.Load())
	}
	attempts := func(result string) int64 { return int64(s.metric("ghostline_unit_attempts_total", "result", result)) }
	if cancels := attempts("cancelled"); cancels > left+gone || int64(unit.count(cancelled)) > cancels || attempts("ok") != ok {
		t.Errorf("%d attempts were cancelled, %d at the unit; %d requests", cancels, unit.count(cancelled), left+gone)
	}
}
