package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ghostline-dev/ghostline/test/bench/load"
)

// plan is how long and how often a run measures.
type plan struct {
	cells []cell
	// rounds of samples under a closed load, in each of which all take turns.
	rounds int
	sample time.Duration
	// pacedRounds of samples at a set rate, of paced or what leastFirsts takes.
	pacedRounds int
	paced       time.Duration
	leastFirsts float64 // as long as that is not above maxPaced
	cancels     int     // timed, for each competitor and phase
}

// fullPlan takes 8 to 11 minutes, by the number of its samples and how long they are.
func fullPlan() plan {
	return plan{
		cells: cells(), rounds: 7, sample: 700 * time.Millisecond,
		pacedRounds: 9, paced: 450 * time.Millisecond, leastFirsts: 300, cancels: 1000,
	}
}

// quickPlan takes less than a minute.
func quickPlan() plan {
	return plan{
		cells: quickCells(), rounds: 3, sample: 250 * time.Millisecond,
		pacedRounds: 5, paced: 150 * time.Millisecond, leastFirsts: 100, cancels: 200,
	}
}

const (
	// share is which part of what direct can do the paced loads are.
	share = 0.3
	// maxWaiting is how many requests of a paced load may be unanswered before it
	// counts as too much.
	maxWaiting = 1000
	maxPaced   = 800 * time.Millisecond
	// maxResets is what a client's connection may bring in one sample: see nghttpx.
	maxResets = 900
	// cancelWithin bounds each step of a timed cancel.
	cancelWithin = 5 * time.Second
)

// measurement is a cell at work.
type measurement struct {
	rig   *rig
	plan  plan
	cell  cell
	lanes []*lane
	say   func(string)
}

// lane is a competitor in a cell, and what was measured of it.
type lane struct {
	*competitor
	conns     []*load.Conn // nil if each sample has its own, for the resets in it
	unitConns []*load.Conn // the same, unless there is no proxy

	costs, rates []float64 // a round each; microseconds of processor time, requests a second
	firsts       []quantiles
	cancels      []time.Duration
	resident     float64 // MiB
	// failure is why the competitor was left out, slow why its first bytes were.
	failure, slow error
}

// measure takes a cell's figures. An error is one of Ghostline, of direct or of the
// bench; what befalls a peer is in its lane.
func measure(ctx context.Context, r *rig, p plan, c cell, say func(string)) ([]*lane, error) {
	m := &measurement{rig: r, plan: p, cell: c, say: say}
	defer m.stop()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"start", m.start},
		{"processor time", m.processorTime},
		{"first byte", m.firstByte},
		{"cancels", m.cancelTime},
		{"memory", m.memory},
	} {
		say(c.name + ": " + step.name)
		if err := step.run(ctx); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.name, step.name, err)
		}
	}
	return m.lanes, nil
}

// start starts the competitors and connects the clients.
func (m *measurement) start(ctx context.Context) error {
	for _, starter := range starters() {
		c, err := starter.start(ctx, m.rig)
		l := &lane{competitor: c}
		if err != nil {
			l.competitor = &competitor{name: starter.name}
		} else {
			err = m.connect(ctx, l)
		}
		m.lanes = append(m.lanes, l)
		if err := m.failed(ctx, l, err); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) connect(ctx context.Context, l *lane) (err error) {
	if m.cell.cancels == 0 || l.process == nil {
		if l.conns, err = l.connect(ctx, m.rig, m.cell, false); err != nil {
			return err
		}
	}
	if !m.cell.timeCancels {
		return nil
	}
	l.unitConns = l.conns
	if l.process == nil {
		l.unitConns, err = l.connect(ctx, m.rig, m.cell, true)
	}
	return err
}

func (m *measurement) stop() {
	for _, l := range m.lanes {
		l.stop()
	}
}

func (l *lane) stop() {
	load.CloseAll(l.conns)
	if l.process == nil {
		load.CloseAll(l.unitConns)
	}
	l.process.stop()
	l.conns, l.unitConns, l.process = nil, nil, nil
}

// failed notes why a lane is left out, or returns err if there can be no going on.
func (m *measurement) failed(ctx context.Context, l *lane, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case l.name == nameGhostline || l.name == nameDirect:
		if l.process != nil {
			return fmt.Errorf("%s: %w\n%s", l.name, err, l.process.said)
		}
		return fmt.Errorf("%s: %w", l.name, err)
	}
	l.failure = err
	l.stop()
	return nil
}

// each has all lanes take their turn, a different one first in each round.
func (m *measurement) each(ctx context.Context, round int, do func(*lane) error) error {
	for i := range m.lanes {
		l := m.lanes[(round+i)%len(m.lanes)]
		if l.failure != nil {
			continue
		}
		if err := m.failed(ctx, l, do(l)); err != nil {
			return err
		}
	}
	return nil
}

// withConns runs do with the lane's connections, or with new ones.
func (m *measurement) withConns(ctx context.Context, l *lane, do func([]*load.Conn) error) error {
	if l.conns != nil {
		return do(l.conns)
	}
	conns, err := l.connect(ctx, m.rig, m.cell, false)
	if err != nil {
		return err
	}
	defer load.CloseAll(conns)
	return do(conns)
}

// processorTime samples what a completion costs each, and how many a second go
// through it.
func (m *measurement) processorTime(ctx context.Context) error {
	req := m.cell.request(completionsPath, modelServed)
	closed := load.Closed{InFlight: inFlight, For: m.plan.sample, Most: m.most(), Cancels: m.cell.cancels > 0}
	for round := range m.plan.rounds + 1 {
		err := m.each(ctx, round, func(l *lane) error {
			return m.withConns(ctx, l, func(conns []*load.Conn) error {
				cost, result, err := l.sample(ctx, closed, conns, req)
				if err == nil && round > 0 { // the first round warms up
					l.costs = append(l.costs, cost)
					l.rates = append(l.rates, result.Rate())
				}
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// most is how many requests a sample may have, every other one cancelled; 0 is no limit.
func (m *measurement) most() int {
	if m.cell.cancels == 0 {
		return 0
	}
	return 2 * maxResets * m.cell.connections
}

// sample is a closed load and the processor time that each of its requests took.
func (l *lane) sample(ctx context.Context, closed load.Closed, conns []*load.Conn, req *load.Request) (float64, load.Result, error) {
	if l.process == nil {
		result, err := closed.Run(ctx, conns, req)
		return 0, result, err
	}
	used, err := l.process.meter()
	if err != nil {
		return 0, load.Result{}, err
	}
	result, err := closed.Run(ctx, conns, req)
	if err != nil {
		return 0, result, err
	}
	took, err := used()
	return float64(took.Nanoseconds()) / 1e3 / float64(result.Requests), result, err
}

// firstByte samples how long first bytes take at a set rate, and how much of that
// is not direct's in the same round.
func (m *measurement) firstByte(ctx context.Context) error {
	req := m.cell.request(completionsPath, modelServed)
	open := load.Open{Rate: share * median(m.direct().rates), Cancels: m.cell.cancels > 0, MaxInFlight: maxWaiting}
	seconds := max(m.plan.paced.Seconds(), m.plan.leastFirsts/open.Rate)
	if most := m.most(); most > 0 {
		seconds = min(seconds, float64(most)/open.Rate)
	}
	open.For = min(time.Duration(seconds*float64(time.Second)), maxPaced)
	for round := range m.plan.pacedRounds {
		taken := map[*lane]quantiles{}
		err := m.each(ctx, round, func(l *lane) error {
			if l.slow != nil {
				return nil
			}
			return m.withConns(ctx, l, func(conns []*load.Conn) error {
				times, err := open.Run(ctx, conns, req)
				if errors.Is(err, load.ErrOverloaded) {
					l.slow = err
					return nil
				}
				if err == nil {
					taken[l] = quantilesOf(times)
				}
				return err
			})
		})
		if err != nil {
			return err
		}
		direct := taken[m.direct()]
		for l, q := range taken {
			l.firsts = append(l.firsts, quantiles{P50: q.P50 - direct.P50, P99: q.P99 - direct.P99})
		}
	}
	return nil
}

func (m *measurement) direct() *lane { return m.lanes[0] }

// memory reads how much each occupies after all that.
func (m *measurement) memory(ctx context.Context) error {
	return m.each(ctx, 0, func(l *lane) (err error) {
		if l.process != nil {
			l.resident, err = l.process.residentMiB()
		}
		return err
	})
}
