package proxy

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
	"golang.org/x/time/rate"
)

// TestJudgeUnreachable: that a unit cannot be reached is a failure of its own,
// unless this process has no files left.
func TestJudgeUnreachable(t *testing.T) {
	for name, tc := range map[string]struct {
		cause error
		want  upstream.State
	}{
		"nobody there":  {syscall.ECONNREFUSED, upstream.Ejected},
		"no files left": {syscall.EMFILE, upstream.Active},
	} {
		s := testUnits(config.Unit{Name: "u", Region: "here", Serves: "m/stable"})
		p := &proxy{log: slog.New(slog.DiscardHandler)}
		for range 5 {
			err := unitRefused(&upstream.DialError{Err: tc.cause})
			err.attempt = attemptUnreachable
			p.judge(&exchange{unit: s.unit("u"), snapshot: s}, err)
		}
		if got, _ := s.unit("u").endpoint.health.State(time.Now()); got != tc.want {
			t.Errorf("%s: state %d, want %d", name, got, tc.want)
		}
	}
}

// TestOnTrialShows: a unit whose ejection is over is not said to be ejected, for
// the next request asks it.
func TestOnTrialShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := testUnits(config.Unit{Name: "u", Region: "here", Serves: "m/stable"}).unit("u")
		for range 5 {
			u.endpoint.health.Failed(time.Now())
		}
		if got := u.state(time.Now()); got != stateEjected {
			t.Errorf("state %s, want ejected", got)
		}
		time.Sleep(10 * time.Second)
		if got := u.state(time.Now()); got != stateOnTrial {
			t.Errorf("state %s after its time, want on_trial", got)
		}
	})
}

// TestFailuresDoNotFloodTheLog: in an outage every request fails.
func TestFailuresDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := &proxy{log: slog.New(slog.NewJSONHandler(&log, nil)), failureLines: rate.NewLimiter(failureLines, failureLinesBurst)}
		fail := func() int {
			log.Reset()
			for range 1000 {
				p.logFailure(&exchange{}, outcomeNoCapacity, errors.New("full"))
			}
			return strings.Count(log.String(), "\n")
		}
		if got := fail(); got != failureLinesBurst {
			t.Errorf("%d lines at once, want %d", got, failureLinesBurst)
		}
		time.Sleep(2 * time.Second)
		if got := fail(); got != 2*failureLines {
			t.Errorf("%d lines after two seconds, want %d", got, 2*failureLines)
		}
	})
}
