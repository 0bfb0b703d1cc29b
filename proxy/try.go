package proxy

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

const (
	maxTries = 3
	// warnEvery bounds how often a unit's trouble is warned of: every request
	// may meet it.
	warnEvery = 10 * time.Second
)

// try asks units until one answers, or no other try is allowed: not for a client
// that is gone, and only within the retry budget once a unit may have worked.
func (p *proxy) try(ctx context.Context, x *exchange) (*answer, error) {
	x.size = upstream.SizeOf(len(x.body))
	x.giveUp = func() bool { return p.mayGiveUp(x) }
	p.retries.request(time.Now())
	var failure, cannot error
	for x.tries() < maxTries {
		if ctx.Err() != nil {
			return nil, gone(ctx)
		}
		served, spilled := x.served, x.spill
		if err := p.pickUnit(x); err != nil {
			return nil, x.noneLeft(err, failure, cannot)
		}
		if err := p.prepare(x); err != nil {
			x.unable, x.served, x.spill = append(x.unable, x.unit), served, spilled
			x.leaveUnit()
			cannot = err // unless another unit speaks a dialect that can say it
			continue
		}
		p.traceTry(x)
		a, err := p.attempt(ctx, x)
		if err == nil {
			return a, nil
		}
		p.attempted(x, err)
		x.tellWhenToCome(err)
		p.logTry(x, err)
		x.leaveUnit()
		failure = err
		if !p.mayRetry(x, err) {
			return nil, err
		}
	}
	return nil, failure
}

// noneLeft is the error of a request for which no unit is left: what the last one that
// was asked failed with, which tells more than that; else that all cannot do it, unless
// one can that is only busy now.
func (x *exchange) noneLeft(none, failure, cannot error) error {
	switch {
	case failure != nil:
		return failure
	case cannot != nil && !x.couldBeDone():
		return cannot
	}
	return none
}

// couldBeDone says whether a unit that was not picked could do the request, as the
// mutations of the variant that was tried last have it.
func (x *exchange) couldBeDone() bool {
	request := provider.Request{Body: x.mutated.body, Stream: x.ask.stream}
	for _, v := range x.mayServe() {
		for _, u := range v.units {
			if slices.Contains(x.tried, u) {
				continue
			}
			if _, err := u.dialect.Request(request); err == nil {
				return true
			}
		}
	}
	return false
}

// tries is how many units were asked.
func (x *exchange) tries() int { return len(x.tried) - len(x.unable) }

// gone is why nobody waits for the answer any more.
func gone(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errSuperseded) {
		return superseded()
	}
	return errCancelled
}

// mayRetry says whether another unit may be tried after err. The budget is only
// asked if there is one.
func (p *proxy) mayRetry(x *exchange, err error) bool {
	e, ok := errors.AsType[*clientError](err)
	if !ok || e.again == never || x.tries() == maxTries {
		return false
	}
	return e.again == always || p.hasOther(x, unreachable) && p.takeRetry()
}

// takeRetry takes a retry from the budget.
func (p *proxy) takeRetry() bool {
	allowed := p.retries.take(time.Now())
	p.metrics.retried(allowed)
	return allowed
}

// mayGiveUp says whether the unit, which has not answered in half of the time
// that was left, is to be left for another one: it may hang for good. It runs
// while the request waits.
func (p *proxy) mayGiveUp(x *exchange) bool {
	return x.tries() < maxTries && p.hasOther(x, slow) && p.takeRetry()
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
		"result", resultOf(err), "error", causeOf(err).Error())
}

// causeOf is err without what it says to a client, who may never hear of it.
func causeOf(err error) error {
	if e, ok := errors.AsType[*clientError](err); ok && e.cause != nil {
		return e.cause
	}
	return err
}

// warnings spaces out warnings.
type warnings struct{ last atomic.Int64 }

func (w *warnings) due(now time.Time) bool {
	last := w.last.Load()
	return now.UnixNano()-last >= int64(warnEvery) && w.last.CompareAndSwap(last, now.UnixNano())
}
