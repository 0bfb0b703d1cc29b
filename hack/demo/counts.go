package main

import (
	"context"
	"errors"
	"time"
)

const settleWithin = 10 * time.Second

// counts are what the proxy and the model server counted. Each is a whole number,
// but for the seconds.
type counts struct {
	// At the proxy: requests by outcome, and cancelled ones by phase.
	ok, cancelled, otherOutcomes   float64
	receive, queue, wait, stream   float64
	clientConnections, connections float64 // that were opened: by clients, and to the unit

	// At the model server.
	modelOK, modelCancelled, modelOther float64
	queued, prefill, decode             float64
	modelConnections                    float64
	busySeconds, savedSeconds           float64

	// running is the requests that are being served, by any of them.
	running float64
}

// settled reads the counters once nothing is running and is holds. If that does
// not come to be, the counters are returned as they are, for the checks to find
// out what is wrong.
func (d *demo) settled(ctx context.Context, is func(counts) bool) (c counts, err error) {
	errUnsettled := errors.New("unsettled")
	err = await(ctx, settleWithin, func(ctx context.Context) (err error) {
		if c, err = d.readCounts(ctx); err != nil {
			return err
		}
		if c.running != 0 || is != nil && !is(c) {
			return errUnsettled
		}
		return nil
	})
	if errors.Is(err, errUnsettled) {
		err = nil
	}
	return c, err
}

func (d *demo) readCounts(ctx context.Context) (counts, error) {
	proxy, err := scrape(ctx, d.stack.proxy.admin)
	if err != nil {
		return counts{}, err
	}
	model, err := scrape(ctx, d.stack.model.admin)
	if err != nil {
		return counts{}, err
	}
	phase := func(name string) float64 { return proxy.sum("ghostline_cancelled_total", "phase", name) }
	c := counts{
		ok:        proxy.sum("ghostline_requests_total", "outcome", "ok"),
		cancelled: proxy.sum("ghostline_requests_total", "outcome", "cancelled"),
		receive:   phase("receive"), queue: phase("queue"), wait: phase("wait"), stream: phase("stream"),
		clientConnections: proxy.sum("ghostline_client_connections_opened_total"),
		connections:       proxy.sum("ghostline_upstream_connections_opened_total"),

		modelOK:          model.sum("modelserver_requests_total", "outcome", "ok"),
		modelCancelled:   model.sum("modelserver_requests_total", "outcome", "cancelled"),
		queued:           model.sum("modelserver_cancelled_total", "phase", "queued"),
		prefill:          model.sum("modelserver_cancelled_total", "phase", "prefill"),
		decode:           model.sum("modelserver_cancelled_total", "phase", "decode"),
		modelConnections: model.sum("modelserver_connections_opened_total"),
		busySeconds:      model.sum("modelserver_busy_seconds_total"),
		savedSeconds:     model.sum("modelserver_saved_seconds_total"),

		running: proxy.sum("ghostline_inflight") + model.sum("modelserver_inflight") + model.sum("modelserver_working"),
	}
	c.otherOutcomes = proxy.sum("ghostline_requests_total") - c.ok - c.cancelled
	c.modelOther = model.sum("modelserver_requests_total") - c.modelOK - c.modelCancelled
	return c, nil
}

// minus is what was counted since earlier. Connections are not of one time, and
// stay as they are.
func (c counts) minus(earlier counts) counts {
	c.ok -= earlier.ok
	c.cancelled -= earlier.cancelled
	c.otherOutcomes -= earlier.otherOutcomes
	c.receive -= earlier.receive
	c.queue -= earlier.queue
	c.wait -= earlier.wait
	c.stream -= earlier.stream
	c.modelOK -= earlier.modelOK
	c.modelCancelled -= earlier.modelCancelled
	c.modelOther -= earlier.modelOther
	c.queued -= earlier.queued
	c.prefill -= earlier.prefill
	c.decode -= earlier.decode
	c.busySeconds -= earlier.busySeconds
	c.savedSeconds -= earlier.savedSeconds
	return c
}

// books is where the client's cancels ended up: each at one place on the way to
// the proxy, and at one on the way to the model server.
type books struct {
	cancels  int // at the client
	unsent   int // reset before they had left the client
	atProxy  int // cancelled, as the proxy counted
	finished int // whole at the proxy before the reset came

	unforwarded   int // never at the model server
	surely        int // of those, the ones that the proxy knows it did not send on
	perhaps       int // and those that it had in hand when the reset came
	atModel       int // cancelled, as the model server counted
	modelFinished int // whole at the model server before the reset came
}

func (c counts) books(typed []result) books {
	done := number(typed, whole)
	b := books{
		cancels: number(typed, leftBefore, leftDuring),
		atProxy: int(c.cancelled), finished: int(c.ok) - done,
		unforwarded: len(typed) - int(c.modelOK+c.modelCancelled+c.modelOther),
		atModel:     int(c.modelCancelled), modelFinished: int(c.modelOK) - done,
	}
	for _, r := range typed {
		if !r.sent.Load() {
			b.unsent++
		}
	}
	b.surely = b.unsent + int(c.receive+c.queue)
	b.perhaps = int(c.wait)
	return b
}

func (b books) balanceAtProxy() bool {
	return b.finished >= 0 && b.cancels == b.unsent+b.atProxy+b.finished
}

func (b books) balanceAtModel() bool {
	return b.modelFinished >= 0 && b.cancels == b.unforwarded+b.atModel+b.modelFinished &&
		b.surely <= b.unforwarded && b.unforwarded <= b.surely+b.perhaps
}

func (b books) balance() bool { return b.balanceAtProxy() && b.balanceAtModel() }

// table shows what was counted, and by whom.
func (d *demo) table(context.Context) error {
	d.section("Count", "What the typist's requests came to, as the client, the proxy and the model server saw it.")
	c, typed := d.counts, d.typed
	through := 0
	for _, r := range typed {
		if r.left {
			through++
		}
	}
	cancelled := number(typed, leftBefore, leftDuring)
	d.row("requests", "%4d", len(typed))
	d.row("typed through", "%4d, of which %d had their answer already", through, through-cancelled)
	d.row("completed", "%4d", number(typed, whole))
	d.row("cancelled", "%4d", cancelled)
	d.row("  by the client", "%4d: %d before the first byte, %d mid-stream", cancelled, number(typed, leftBefore), number(typed, leftDuring))
	d.row("  by the proxy", "%4.0f: %.0f receiving, %.0f queued, %.0f waiting for the first byte, %.0f mid-stream",
		c.cancelled, c.receive, c.queue, c.wait, c.stream)
	d.row("  by the model server", "%4.0f: %.0f queued, %.0f before the first token, %.0f mid-stream",
		c.modelCancelled, c.queued, c.prefill, c.decode)
	d.row("first byte", "p50 %s, p99 %s, as the client saw it", milliseconds(percentile(typed, 50)), milliseconds(percentile(typed, 99)))
	d.row("model seconds", "%4.0f spent, %.0f saved by cancels, as the model server counted", c.busySeconds, c.savedSeconds)
	d.row("connections", "%4d opened by the client, %.0f by the proxy to its unit", d.client.Connections(), c.connections)
	return nil
}
