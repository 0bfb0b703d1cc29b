package modelserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The engine's time is tested in a bubble of testing/synctest, where it is
// exact.

func TestJobNoticesACancelBetweenSteps(t *testing.T) {
	p := plan{prefill: 100 * time.Millisecond, perToken: 25 * time.Millisecond, tokens: 9}
	for _, test := range []struct {
		name           string
		cancel         time.Duration
		ended, working time.Duration
		phase          outcome
		tokens         int
	}{
		{"in prefill", 41 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond, cancelledPrefill, 0},
		{"as prefill ends", 95 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond, cancelledPrefill, 0},
		{"between tokens", 131 * time.Millisecond, 140 * time.Millisecond, 140 * time.Millisecond, cancelledDecode, 2},
		{"too late", time.Second, 300 * time.Millisecond, 300 * time.Millisecond, outcomeOK, 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &engine{step: 10 * time.Millisecond, counters: &counters{}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(test.cancel, cancel)
				start := time.Now()
				ended := workOff(ctx, e, p)
				stats := e.counters.read()
				if took := time.Since(start); ended != test.phase || took != test.ended || stats.Tokens != int64(test.tokens) {
					t.Errorf("ended as %d after %s with %d tokens; want %d after %s with %d",
						ended, took, stats.Tokens, test.phase, test.ended, test.tokens)
				}
				saved := time.Duration(0)
				if test.phase != outcomeOK {
					saved = p.total() - test.working
				}
				if stats.Busy != test.working || stats.Saved != saved || stats.Working != 0 {
					t.Errorf("busy %s, saved %s, working %d; want %s, %s, 0", stats.Busy, stats.Saved, stats.Working, test.working, saved)
				}
			})
		})
	}
}

// workOff does all that p plans, and returns how that ended.
func workOff(ctx context.Context, e *engine, p plan) outcome {
	job, err := e.begin(ctx, p)
	if err != nil {
		return cancelledQueued
	}
	err = job.prefill()
	for range p.tokens {
		if err == nil {
			err = job.token()
		}
	}
	job.end(err != nil)
	if err != nil {
		return job.phase()
	}
	return outcomeOK
}

func TestCancelInTheQueueCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{step: 10 * time.Millisecond, counters: &counters{}, slots: make(chan struct{}, 1)}
		p := plan{prefill: time.Second, tokens: 1}
		var group sync.WaitGroup
		group.Go(func() { workOff(t.Context(), e, p) })
		synctest.Wait()

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(333*time.Microsecond, cancel)
		start := time.Now()
		if ended := workOff(ctx, e, p); ended != cancelledQueued || time.Since(start) != 333*time.Microsecond {
			t.Errorf("ended as %d after %s; want at once, as cancelled in the queue", ended, time.Since(start))
		}
		group.Wait()
		if stats := e.counters.read(); stats.Busy != time.Second || stats.Saved != time.Second {
			t.Errorf("busy %s, saved %s; want the first request's second and the second's", stats.Busy, stats.Saved)
		}
		// The slot is free, but not for one who has already left.
		if ended := workOff(ctx, e, p); ended != cancelledQueued {
			t.Errorf("ended as %d; want cancelled in the queue", ended)
		}
	})
}

// A slow reader holds the work up; the work catches up with its own clock.
func TestJobKeepsItsOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{step: 10 * time.Millisecond, counters: &counters{}}
		start := time.Now()
		job, err := e.begin(t.Context(), plan{perToken: 20 * time.Millisecond, tokens: 5})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if err := job.token(); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				time.Sleep(50 * time.Millisecond)
			}
		}
		job.end(false)
		if took := time.Since(start); took != 80*time.Millisecond {
			t.Errorf("five tokens took %s; want 80ms, the slow reader's wait included", took)
		}
	})
}

// Time that cancels save shows as answers to others.
func TestCancelledWorkFreesItsSlot(t *testing.T) {
	const pairs = 20
	served := func(t *testing.T, patience time.Duration) (stats Stats, took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s, err := New(Options{FirstToken: 200 * time.Millisecond, TokensPerSecond: 100, Slots: 2})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			var group sync.WaitGroup
			for range pairs {
				leaving, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				group.Go(func() { ask(leaving, s) })
				synctest.Wait() // so that they queue in this order
				group.Go(func() { ask(t.Context(), s) })
				synctest.Wait()
			}
			group.Wait()
			stats, took = s.Stats(), time.Since(start)
		})
		return stats, took
	}
	patient, long := served(t, time.Hour)
	hasty, short := served(t, 50*time.Millisecond)
	if patient.OK != 2*pairs || patient.Saved != 0 {
		t.Errorf("without cancels: %+v", patient)
	}
	if hasty.OK != pairs || hasty.Cancelled() != pairs || hasty.CancelledQueued == 0 || hasty.CancelledPrefill == 0 {
		t.Errorf("with cancels: %+v", hasty)
	}
	if short > long*6/10 {
		t.Errorf("half of the work cancelled took %s instead of %s; want little more than half", short, long)
	}
	// What was planned was either worked or saved.
	planned := 2 * pairs * (200 + 5*10) * time.Millisecond
	if patient.Busy != planned || hasty.Busy+hasty.Saved != planned {
		t.Errorf("planned %s; without cancels worked %s, with them worked %s and saved %s", planned, patient.Busy, hasty.Busy, hasty.Saved)
	}
}

// ask asks for six tokens without a network, and survives the abort of a
// cancelled answer as a server does.
func ask(ctx context.Context, s *Server) {
	defer func() {
		if aborted := recover(); aborted != nil && aborted != http.ErrAbortHandler {
			panic(aborted)
		}
	}()
	body := strings.NewReader(`{"prompt":"func ","temperature":0,"max_tokens":6}`)
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/completions", body)
	s.Handler().ServeHTTP(httptest.NewRecorder(), r)
}
