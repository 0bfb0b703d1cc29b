package proxy

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

// probeUnits asks every unit of this region for a small completion, and returns
// once each has answered or failed. A unit that asked to be left alone is.
func (p *proxy) probeUnits(ctx context.Context, s *snapshot) {
	var probes sync.WaitGroup
	for _, u := range s.units {
		if !u.probed || u.problem != "" {
			continue
		}
		if state, _ := u.endpoint.health.State(time.Now()); state != upstream.Cooling {
			probes.Go(func() { p.probe(ctx, s, u) })
		}
	}
	probes.Wait()
}

// probe sends a unit a completion the way a client's is sent, only that it takes
// no place on it: a unit that is full must not seem dead for it.
func (p *proxy) probe(ctx context.Context, s *snapshot, u *unit) {
	now := time.Now()
	x := &exchange{
		isProbe: true, id: "probe-" + requestID(""), start: now, received: now, snapshot: s, form: openAIForm{}, variant: u.variant,
		ask: ask{prompts: 1, stream: true}, body: probeBody(s.config.HealthProbe), unit: u, served: u,
	}
	x.size = upstream.SizeOf(len(x.body))
	err := p.protect(func() error { return p.askWhole(ctx, x) })
	if ctx.Err() != nil {
		return
	}
	u.metrics.probes[resultOf(err)].Inc()
	if err != nil {
		p.logTry(x, err)
	}
	p.judge(x, err)
}

// askWhole asks the unit and reads its answer to the end. An answer that is no
// stream is read by attempt.
func (p *proxy) askWhole(ctx context.Context, x *exchange) error {
	if err := p.prepare(x); err != nil {
		return err
	}
	a, err := p.attempt(ctx, x)
	if err != nil {
		return err
	}
	defer p.close(a)
	for x.ask.stream {
		if x.isMirror { // a probe's answer is short and has the time for its first byte
			a.clock.gotEvent()
			a.clock.reading()
		}
		event, err := a.next()
		if err != nil {
			return a.broken(err)
		}
		if event.Done {
			a.end() // else each probe would cost a unit of HTTP/1.1 a connection
			return nil
		}
	}
	return nil
}

func probeBody(probe *config.HealthProbe) []byte {
	body, err := json.Marshal(struct {
		Prompt      string  `json:"prompt"`
		MaxTokens   int     `json:"max_tokens"`
		Temperature float64 `json:"temperature"`
		Stream      bool    `json:"stream"`
	}{probe.Prompt, probe.MaxTokens, 0, true})
	if err != nil {
		panic(err) // never: text and numbers
	}
	return body
}
