package modelserver

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// outcome is how a request ended.
type outcome int

const (
	outcomeOK outcome = iota
	outcomeError
	outcomeFault
	cancelledQueued
	cancelledPrefill
	cancelledDecode
	outcomes
)

// counters are what the server knows of its work.
type counters struct {
	requests [outcomes]atomic.Int64
	tokens   atomic.Int64
	busy     atomic.Int64 // nanoseconds
	saved    atomic.Int64 // nanoseconds
	inflight atomic.Int64
	working  atomic.Int64
	open     atomic.Int64
	opened   atomic.Int64
}

// Stats is a reading of the counters that GET /metrics shows. All but the last
// group only grow.
type Stats struct {
	// OK counts requests that were answered as asked, Error those that were
	// refused for what they asked or could not be answered, Fault those that a
	// fault spoilt (see [Server.SetFault]).
	OK, Error, Fault int64
	// The cancelled requests, by what they were doing: waiting for a slot,
	// working before the first token, or working on tokens. A client that leaves
	// after the last token's work was done is counted under OK.
	CancelledQueued, CancelledPrefill, CancelledDecode int64
	// Tokens is the number of tokens generated.
	Tokens int64
	// Busy is how long slots were held by requests that have ended, Saved how
	// much longer the cancelled ones were to work, had they used all of their
	// max_tokens.
	Busy, Saved time.Duration
	// ConnectionsOpened counts connections accepted.
	ConnectionsOpened int64

	// Inflight is the number of requests being served, Working the number of
	// those that hold a slot, Connections the number of open connections.
	Inflight, Working, Connections int64
}

// Cancelled is the number of cancelled requests, whatever they were doing.
func (s Stats) Cancelled() int64 {
	return s.CancelledQueued + s.CancelledPrefill + s.CancelledDecode
}

// Stats reads the counters. A request is counted when its handler is through,
// which may be a moment after its client has the whole answer.
func (s *Server) Stats() Stats { return s.counters.read() }

// ConnState keeps the books of connections. It is for [http.Server.ConnState] of
// a server that the caller runs around [Server.Handler]; [Run] sets it itself.
func (s *Server) ConnState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.counters.open.Add(1)
		s.counters.opened.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.counters.open.Add(-1)
	}
}

func (c *counters) read() Stats {
	return Stats{
		OK:                c.requests[outcomeOK].Load(),
		Error:             c.requests[outcomeError].Load(),
		Fault:             c.requests[outcomeFault].Load(),
		CancelledQueued:   c.requests[cancelledQueued].Load(),
		CancelledPrefill:  c.requests[cancelledPrefill].Load(),
		CancelledDecode:   c.requests[cancelledDecode].Load(),
		Tokens:            c.tokens.Load(),
		Busy:              time.Duration(c.busy.Load()),
		Saved:             time.Duration(c.saved.Load()),
		ConnectionsOpened: c.opened.Load(),
		Inflight:          c.inflight.Load(),
		Working:           c.working.Load(),
		Connections:       c.open.Load(),
	}
}

// register shows the counters on a registry. Every label value that there can
// be is there from the start.
func (c *counters) register(registry *prometheus.Registry) error {
	counter := func(name, help string, labels prometheus.Labels, read func(Stats) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(
			prometheus.CounterOpts{Namespace: "modelserver", Name: name, Help: help, ConstLabels: labels},
			func() float64 { return read(c.read()) })
	}
	gauge := func(name, help string, value *atomic.Int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "modelserver", Name: name, Help: help},
			func() float64 { return float64(value.Load()) })
	}
	requests := func(outcome string, read func(Stats) float64) prometheus.Collector {
		return counter("requests_total", "Requests by how they ended.", prometheus.Labels{"outcome": outcome}, read)
	}
	cancelled := func(phase string, read func(Stats) float64) prometheus.Collector {
		return counter("cancelled_total", "Cancelled requests by what they were doing.", prometheus.Labels{"phase": phase}, read)
	}
	for _, collector := range []prometheus.Collector{
		requests("ok", func(s Stats) float64 { return float64(s.OK) }),
		requests("cancelled", func(s Stats) float64 { return float64(s.Cancelled()) }),
		requests("error", func(s Stats) float64 { return float64(s.Error) }),
		requests("fault", func(s Stats) float64 { return float64(s.Fault) }),
		cancelled("queued", func(s Stats) float64 { return float64(s.CancelledQueued) }),
		cancelled("prefill", func(s Stats) float64 { return float64(s.CancelledPrefill) }),
		cancelled("decode", func(s Stats) float64 { return float64(s.CancelledDecode) }),
		counter("tokens_generated_total", "Tokens generated.", nil, func(s Stats) float64 { return float64(s.Tokens) }),
		counter("busy_seconds_total", "Time that slots were held.", nil, func(s Stats) float64 { return s.Busy.Seconds() }),
		counter("saved_seconds_total", "Planned work that cancels saved.", nil, func(s Stats) float64 { return s.Saved.Seconds() }),
		counter("connections_opened_total", "Connections accepted.", nil, func(s Stats) float64 { return float64(s.ConnectionsOpened) }),
		gauge("connections", "Open connections.", &c.open),
		gauge("inflight", "Requests being served.", &c.inflight),
		gauge("working", "Requests that hold a slot.", &c.working),
	} {
		if err := registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
}
