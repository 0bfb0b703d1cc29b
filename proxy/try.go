package proxy

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	maxTries = 3
	// warnEvery bounds how often a unit's trouble is warned of: every request
	// may meet it.
	warnEvery = 10 * time.Second
)

// try asks units until one answers, or no other try is allowed: not once a
// unit has done work, and not for a client that is gone.
func (p *proxy) try(ctx context.Context, x *exchange) (*answer, error) {
	var failure error
	for range maxTries {
		if ctx.Err() != nil {
			return nil, errCancelled
		}
		if err := p.pickUnit(x); err != nil {
			if failure != nil {
				return nil, failure // tells more than that nobody is left
			}
			return nil, err
		}
		if err := p.prepare(x); err != nil {
			return nil, err
		}
		a, err := p.attempt(ctx, x)
		if err == nil {
			return a, nil
		}
		p.logTry(x, err)
		x.leaveUnit()
		failure = err
		if e, ok := errors.AsType[*clientError](err); !ok || !e.again {
			return nil, err
		}
	}
	return nil, failure
}

// logTry logs a try that failed, although another one may yet answer: a unit
// that nobody can use must not go unseen because others serve in its place.
func (p *proxy) logTry(x *exchange, err error) {
	e := asClientError(err)
	if e == nil {
		return
	}
	level := slog.LevelDebug
	needsSomebody := e.attempt == attemptMisconfigured || e.attempt == attemptUnreachable
	if needsSomebody && x.unit.endpoint.warnings.due(time.Now()) {
		level = slog.LevelWarn
	}
	p.log.Log(context.Background(), level, "a unit did not answer", "request_id", x.id, "unit", x.unit.Name,
		"result", resultOf(err), "error", err.Error())
}

// warnings spaces out warnings.
type warnings struct{ last atomic.Int64 }

func (w *warnings) due(now time.Time) bool {
	last := w.last.Load()
	return now.UnixNano()-last >= int64(warnEvery) && w.last.CompareAndSwap(last, now.UnixNano())
}
