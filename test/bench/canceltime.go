package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ghostline-dev/ghostline/test/bench/load"
)

// cancelTime times how long a client's reset takes to the unit's handler, one at a
// time.
func (m *measurement) cancelTime(ctx context.Context) error {
	if !m.cell.timeCancels {
		return nil
	}
	req := m.cell.request(unitPath, modelUnit)
	for _, at := range []phase{phaseWait, phaseStream} {
		m.rig.unit.phase.Store(at)
		for round := range m.plan.cancels {
			err := m.each(ctx, round, func(l *lane) error {
				took, err := m.timeCancel(ctx, l.unitConns[round%len(l.unitConns)], req, at)
				if err != nil {
					return fmt.Errorf("phase %s: %w", at, err)
				}
				l.cancels = append(l.cancels, took)
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// timeCancel cancels one completion.
func (m *measurement) timeCancel(ctx context.Context, conn *load.Conn, req *load.Request, at phase) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, cancelWithin)
	defer cancel()
	unit := m.rig.unit
	unit.forget()
	pending, err := conn.Start(req)
	if err != nil {
		return 0, err
	}
	if err := await(ctx, unit.begun, pending); err != nil {
		return 0, fmt.Errorf("the unit got no request: %w", err)
	}
	if at == phaseStream {
		if err := await(ctx, pending.First(), pending); err != nil {
			return 0, fmt.Errorf("no first event: %w", err)
		}
	}
	begun := pending.Cancel()
	select {
	case gone := <-unit.gone:
		return gone.Sub(begun), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("the unit did not hear of a cancel: %w", ctx.Err())
	}
}

// await waits for something that happens while a request is pending.
func await(ctx context.Context, happened <-chan struct{}, pending *load.Pending) error {
	select {
	case <-happened:
		return nil
	case err := <-pending.Ended():
		return errors.Join(errors.New("it was answered to the end"), err)
	case <-ctx.Done():
		return ctx.Err()
	}
}
