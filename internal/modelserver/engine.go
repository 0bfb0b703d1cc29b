package modelserver

import (
	"context"
	"time"
)

// plan is how long a request is to work, at most: a time before the first
// token, and a time for each token after it.
type plan struct {
	prefill  time.Duration
	perToken time.Duration
	tokens   int
}

func (p plan) total() time.Duration {
	return p.prefill + time.Duration(p.tokens-1)*p.perToken
}

// engine shares its slots among requests.
type engine struct {
	slots    chan struct{} // nil: as many as are wanted
	step     time.Duration
	counters *counters
}

// begin waits for a slot. If ctx is done first, nothing was spent, and all of
// the plan is saved.
func (e *engine) begin(ctx context.Context, p plan) (*job, error) {
	if err := e.acquire(ctx); err != nil {
		e.counters.saved.Add(int64(p.total()))
		return nil, err
	}
	e.counters.working.Add(1)
	return &job{engine: e, ctx: ctx, plan: p, started: time.Now(), look: e.step}, nil
}

func (e *engine) acquire(ctx context.Context) error {
	if e.slots == nil {
		return ctx.Err()
	}
	select {
	case e.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		<-e.slots
		return err
	}
	return nil
}

// job is a request at work in its slot. Like an inference engine it does not see
// a cancel when it comes, but when it looks, which is between steps.
//
// It keeps a clock of its own: done is the work done so far and follows real
// time, but for a wait that is not the engine's (a slow reader), which the work
// catches up with.
type job struct {
	engine  *engine
	ctx     context.Context
	plan    plan
	started time.Time
	done    time.Duration
	look    time.Duration // when on its clock the job looks at ctx next
	tokens  int
}

// prefill works up to the first token. It returns an error once it sees that
// the client is gone.
func (j *job) prefill() error { return j.work(j.plan.prefill) }

// token works for one token; the first one is there when prefill ends. It
// returns an error once it sees that the client is gone.
func (j *job) token() error {
	if j.tokens > 0 {
		if err := j.work(j.plan.perToken); err != nil {
			return err
		}
	}
	j.tokens++
	j.engine.counters.tokens.Add(1)
	return nil
}

// work spends d.
func (j *job) work(d time.Duration) error {
	if d == 0 {
		return j.ctx.Err()
	}
	for end := j.done + d; j.done < end; {
		next := min(end, j.look)
		time.Sleep(time.Until(j.started.Add(next)))
		j.done = next
		if j.done < j.look {
			continue
		}
		j.look += j.engine.step
		if err := j.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// phase is the outcome of a job whose client left it now.
func (j *job) phase() outcome {
	if j.tokens == 0 {
		return cancelledPrefill
	}
	return cancelledDecode
}

// end gives the slot back and counts the work. What was planned and not done is
// saved if the client left early; a completion that was short saved nothing.
func (j *job) end(left bool) {
	c := j.engine.counters
	c.working.Add(-1)
	c.busy.Add(int64(time.Since(j.started)))
	if left {
		c.saved.Add(int64(j.plan.total() - j.done))
	}
	if j.engine.slots != nil {
		<-j.engine.slots
	}
}
