package proxy

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/ghostline-dev/ghostline/proxy/sse"
)

// TestPickMirror draws for a variant with two mirrors: each gets its part, and no
// request is mirrored twice.
func TestPickMirror(t *testing.T) {
	const n = 20_000
	for _, percents := range [][]float64{{}, {100}, {.5}, {30, 20}, {60, 40}} {
		v := &variant{}
		for _, percent := range percents {
			v.mirrors = append(v.mirrors, &mirror{Mirror: config.Mirror{Percent: percent}})
		}
		counts, none := map[*mirror]int{}, 0
		for range n {
			x := &exchange{wanted: v}
			if err := new(proxy).pickMirror(x); err != nil {
				t.Fatal(err)
			}
			if (x.mirror == nil) != (x.transcript == nil) {
				t.Fatalf("mirror %v, transcript %v", x.mirror, x.transcript)
			}
			if x.mirror == nil {
				none++
			} else {
				counts[x.mirror]++
			}
		}
		sum := 0.0
		for i, m := range v.mirrors {
			sum += m.Percent
			if !within(counts[m], n, m.Percent/100) {
				t.Errorf("%v: mirror %d got %d of %d", percents, i, counts[m], n)
			}
		}
		if !within(none, n, 1-sum/100) {
			t.Errorf("%v: %d of %d are not mirrored", percents, none, n)
		}
	}
}

// TestMirrorsLeave: of a unit's places copies leave a fifth to users, rounded up,
// unless it has none.
func TestMirrorsLeave(t *testing.T) {
	for limit := 1; limit <= 1000; limit++ {
		for _, tc := range []struct {
			isMirror, onlyMirrored bool
			want                   int
		}{{false, false, 0}, {false, true, 0}, {true, true, 0}, {true, false, (limit + 4) / 5}} {
			x := &exchange{isMirror: tc.isMirror, wanted: &variant{onlyMirrored: tc.onlyMirrored}}
			if got := x.leaves(limit); got != float64(tc.want) {
				t.Fatalf("of %d, with %+v, %v are left, want %d", limit, tc, got, tc.want)
			}
		}
	}
}

// mirrorPlaces takes places for copies until none is left, and says how many.
func mirrorPlaces(p *proxy, s *snapshot, v string) (n int) {
	for p.takeOne(&exchange{isMirror: true, wanted: s.variant(v)}, s.variant(v), fit, time.Now()) {
		n++
	}
	return n
}

func TestMirrorsTakeOnlyWhatIsSpare(t *testing.T) {
	var p proxy
	s := testUnits(
		config.Unit{Name: "a", Region: "here", Serves: "m/stable", Capacity: config.Capacity{InFlight: 10}},
		config.Unit{Name: "b", Region: "here", Serves: "m/next", Capacity: config.Capacity{RequestsPerSecond: 10}},
	)
	s.unit("a").endpoint.inFlight.Store(3)
	if got := mirrorPlaces(&p, s, "stable"); got != 5 {
		t.Errorf("beside three of ten places copies took %d, want 5", got)
	}
	if got := mirrorPlaces(&p, s, "next"); got != 8 {
		t.Errorf("of ten requests a second copies took %d, want 8", got)
	}
	for _, v := range []string{"stable", "next"} {
		for range 2 { // which is what was left to them
			if err := p.pickUnit(&exchange{wanted: s.variant(v)}); err != nil {
				t.Errorf("a user of %s: %v", v, err)
			}
		}
	}
	s.variant("stable").onlyMirrored = true
	s.unit("a").endpoint.inFlight.Store(0)
	if got := mirrorPlaces(&p, s, "stable"); got != 10 {
		t.Errorf("where no user is served copies took %d of 10 places", got)
	}
}

// TestMirrorsAskOnlyFitUnits: nor do they use the fallback.
func TestMirrorsAskOnlyFitUnits(t *testing.T) {
	for name, make := range map[string]func(*unit){
		"ejected": func(u *unit) {
			for range 5 {
				u.endpoint.health.Failed(time.Now())
			}
		},
		"cooling": func(u *unit) { u.endpoint.health.Cool(time.Now(), time.Now().Add(time.Hour)) },
		"slow":    func(u *unit) { u.endpoint.slow.Store(^uint32(0)) },
	} {
		s := testUnits(config.Unit{Name: "a", Region: "here", Serves: "m/stable"}, config.Unit{Name: "b", Region: "here", Serves: "m/next"})
		make(s.unit("b"))
		x := &exchange{isMirror: true, wanted: s.variant("next")}
		if new(proxy).takeOne(x, x.wanted, fit, time.Now()) {
			t.Errorf("%s: %s was taken", name, x.unit.Name)
		}
	}
}

// TestMirrorIsCancelled is what the end of a request means for its copy.
func TestMirrorIsCancelled(t *testing.T) {
	for _, onCancel := range []string{config.OnCancelCancel, config.OnCancelComplete} {
		for _, result := range outcomes {
			c, _ := comparing(t)
			ctx, cancel := context.WithCancel(t.Context())
			c.cancel, c.mirror.OnCancel = cancel, onCancel
			x := &exchange{comparison: c, transcript: &transcript{}}
			x.compare(result)
			typedPast := result == outcomeCancelled || result == outcomeSuperseded
			if want := typedPast && onCancel == config.OnCancelCancel; (ctx.Err() != nil) != want {
				t.Errorf("%s, %s: the copy is cancelled: %t, want %t", onCancel, result, ctx.Err() != nil, want)
			}
			if c.primary.whole != (result == outcomeOK) {
				t.Errorf("%s: the answer counts as whole: %t", result, c.primary.whole)
			}
			cancel()
		}
	}
	(&exchange{}).compare(outcomeOK) // one that is not mirrored
}

// TestNothingIsKeptOfWhatIsNotMirrored: to read each event of an answer for its
// text is for those alone that are compared.
func TestNothingIsKeptOfWhatIsNotMirrored(t *testing.T) {
	s := testUnits(config.Unit{Name: "b", Region: "here", Serves: "m/next"})
	stable, next := s.variant("stable"), s.variant("next")
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, tc := range map[string]struct {
		ctx     context.Context
		variant *variant
		size    int
		want    bool
	}{
		"it is":                  {t.Context(), stable, 1, true},
		"the queue is full":      {t.Context(), stable, maxMirrorBytes + 1, false},
		"the fallback served it": {t.Context(), next, 1, false},
		"it is cancelled":        {gone, stable, 1, false},
	} {
		p := &proxy{log: slog.New(slog.DiscardHandler), mirrors: mirrors{ctx: gone}}
		c, _ := comparing(t)
		m := &mirror{of: stable, to: next, queue: &mirrorQueue{}, metrics: c.mirror.metrics}
		x := &exchange{snapshot: s, variant: tc.variant, mirror: m, transcript: &transcript{}, body: make([]byte, tc.size)}
		p.mirror(tc.ctx, x)
		if kept := x.transcript != nil; kept != tc.want || (x.comparison != nil) != tc.want {
			t.Errorf("%s: its text is kept: %t, its comparison: %t; want %t", name, kept, x.comparison != nil, tc.want)
		}
		p.mirrors.wait()
	}
}

// hanging is an answer that brings nothing and does not end.
type hanging struct{ ctx context.Context }

func (h hanging) Read([]byte) (int, error) {
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

func (hanging) Close() error { return nil }

// TestMirrorsDoNotWaitForTheEnd: a unit that does not end its stream after the last
// event keeps a copy, or a probe, no longer than it would a user.
func TestMirrorsDoNotWaitForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := &config.Config{}
		cfg.SetDefaults()
		ctx, cancel := context.WithCancelCause(t.Context())
		x := &exchange{isMirror: true, ask: ask{stream: true}, snapshot: &snapshot{config: cfg}, received: time.Now()}
		a := &answer{x: x, ctx: ctx, cancel: cancel, clock: startClock(x, nil, cancel), body: hanging{ctx}, reading: &reading{events: sse.NewReader(nil)}}
		a.events.Reset(a, sse.Events)
		begun := time.Now()
		a.end()
		if took := time.Since(begun); took != endWithin {
			t.Errorf("the end took %s, want %s", took, endWithin)
		}
		a.clock.stop()
	})
}

// TestMirrorPanics: a mistake in what becomes of a copy ends neither the process
// nor its queue, and the place on the unit is given back.
func TestMirrorPanics(t *testing.T) {
	p := &proxy{log: slog.New(slog.DiscardHandler), mirrors: mirrors{ctx: t.Context()}}
	s := testUnits(config.Unit{Name: "b", Region: "here", Serves: "m/next"})
	s.unit("b").dialect = picky{}
	stable := s.variant("stable")
	m := &mirror{of: stable, to: s.variant("next"), queue: &mirrorQueue{}} // without metrics
	p.mirror(t.Context(), &exchange{snapshot: s, form: openAIForm{}, variant: stable, mirror: m, body: []byte("{}")})
	p.mirrors.wait()
	if in := s.unit("b").endpoint.inFlight.Load(); in != 0 || m.queue.running != 0 || m.queue.bytes != 0 {
		t.Errorf("%d on the unit; %d running with %d bytes", in, m.queue.running, m.queue.bytes)
	}
}

// picky is a dialect into which nothing can be put.
type picky struct{ provider.Dialect }

func (picky) Request(provider.Request) (provider.Outbound, error) {
	return provider.Outbound{}, errors.New("it takes no suffix")
}

// TestMirrorThatCannotBeAsked: a request that the judged variant's dialect cannot
// express says nothing of its units.
func TestMirrorThatCannotBeAsked(t *testing.T) {
	p := &proxy{log: slog.New(slog.DiscardHandler), mirrors: mirrors{ctx: t.Context()}}
	s := testUnits(config.Unit{Name: "b", Region: "here", Serves: "m/next"})
	s.unit("b").dialect = picky{}
	c, registry := comparing(t)
	for range 6 {
		x := &exchange{isMirror: true, snapshot: s, form: openAIForm{}, wanted: s.variant("next"), variant: s.variant("next"), body: []byte("{}"), transcript: &transcript{}}
		p.runMirror(t.Context(), x, c)
	}
	e := s.unit("b").endpoint
	if state, _ := e.health.State(time.Now()); state != 0 || e.inFlight.Load() != 0 {
		t.Errorf("the unit's state is %v, %d in flight", state, e.inFlight.Load())
	}
	if got := sums(t, registry)["total invalid"]; got != 6 {
		t.Errorf("%v counted as invalid, want 6", got)
	}
}
