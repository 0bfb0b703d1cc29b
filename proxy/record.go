package proxy

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// record gives the request its one outcome: counts it, logs what needs
// somebody's attention, and gives back all that the request held. It runs on
// every path.
func (p *proxy) record(x *exchange, err error) {
	x.leaveUnit()
	if x.place != nil {
		x.place.leave()
	}
	p.inFlight.Add(-1)
	result, now := outcomeOf(err), time.Now()
	p.metrics.record(x, result, now)
	var e *clientError // what the client is answered with
	if err != nil && result != outcomeCancelled {
		e = asClientError(err)
	}
	if p.accessLog != nil {
		p.accessLog.add(x, e, result, now)
	}
	x.traceRecorded(result, e, now)
	x.compare(result)
	p.logFailure(x, result, err)
}

func outcomeOf(err error) outcome {
	if err == nil {
		return outcomeOK
	}
	if e := asClientError(err); e != nil {
		return e.outcome
	}
	return outcomeCancelled
}

// asClientError is what to tell the client: nil if it is gone.
func asClientError(err error) *clientError {
	if errors.Is(err, errCancelled) {
		return nil
	}
	if e, ok := errors.AsType[*clientError](err); ok {
		return e
	}
	return internalError(err)
}

// Failures are logged so many a second, and at once. In an outage every request
// fails: more lines would bury those that tell why. The rest is for debugging.
const (
	failureLines      = 10
	failureLinesBurst = 50
)

// logFailure logs a request that failed through no fault of its client's, with
// the cause that the client is not told. Never a token, prompt or completion.
func (p *proxy) logFailure(x *exchange, result outcome, err error) {
	level := slog.LevelDebug
	switch result {
	case outcomeOK, outcomeCancelled, outcomeSuperseded:
		return
	case outcomeUpstreamError, outcomeTimeout, outcomeNoCapacity:
		level = slog.LevelWarn
	case outcomeInternal:
		level = slog.LevelError
	}
	if level == slog.LevelWarn && !p.failureLines.Allow() {
		level = slog.LevelDebug
	}
	if !p.log.Enabled(context.Background(), level) {
		return
	}
	p.log.Log(context.Background(), level, "request failed", "request_id", x.id, "outcome", string(result), "phase", string(x.phase),
		"model", x.modelName(), "variant", x.variantName(), "unit", x.unitName(),
		"client", x.client.name, "client_version", x.client.version, "tries", x.tries(), "error", err.Error())
}

// The names that an exchange goes by in metrics and logs: configured names
// only, "none" before the stage that finds them.
const noName = "none"

func (x *exchange) modelName() string {
	if x.model == nil {
		return noName
	}
	return x.model.Name
}

func (x *exchange) variantName() string {
	if x.variant == nil {
		return noName
	}
	return x.variant.Name
}

func (x *exchange) unitName() string {
	if x.served == nil {
		return noName
	}
	return x.served.Name
}
