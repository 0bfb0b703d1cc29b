package proxy

import (
	"errors"
	"testing"
	"time"
)

func TestVote(t *testing.T) {
	bad := errors.New("bad")
	type step struct {
		after   time.Duration
		problem error
		want    voteState
	}
	for name, steps := range map[string][]step{
		"up at the first good check": {{0, nil, voteUp}},
		"unknown, then down":         {{0, bad, voteUnknown}, {0, bad, voteUnknown}, {0, bad, voteDown}},
		"unknown, then up":           {{0, bad, voteUnknown}, {0, bad, voteUnknown}, {0, nil, voteUp}},
		"two failures are forgiven":  {{0, nil, voteUp}, {0, bad, voteUp}, {0, bad, voteUp}, {0, nil, voteUp}, {0, bad, voteUp}, {0, bad, voteUp}},
		"down after three":           {{0, nil, voteUp}, {0, bad, voteUp}, {0, bad, voteUp}, {0, bad, voteDown}, {0, bad, voteDown}},
		"up after a good minute": {
			{0, bad, voteUnknown}, {0, bad, voteUnknown}, {0, bad, voteDown},
			{time.Second, nil, voteDown}, {59 * time.Second, nil, voteDown}, {time.Second, nil, voteUp},
		},
		"a failure starts the minute anew": {
			{0, bad, voteUnknown}, {0, bad, voteUnknown}, {0, bad, voteDown},
			{0, nil, voteDown}, {59 * time.Second, bad, voteDown}, {time.Second, nil, voteDown},
			{59 * time.Second, nil, voteDown}, {time.Second, nil, voteUp},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var v vote
			now, last := time.Now(), voteUnknown
			for i, s := range steps {
				now = now.Add(s.after)
				changed := v.check(now, s.problem)
				if got := voteState(v.status().Vote); got != s.want || changed != (got != last) {
					t.Errorf("step %d: %s (changed: %t), want %s", i, got, changed, s.want)
				}
				if (v.status().Problem == "") != (s.problem == nil) {
					t.Errorf("step %d: the problem is %q", i, v.status().Problem)
				}
				last = s.want
			}
		})
	}
}

// TestSendsAway: clients are told to go when the region is voted out, and again
// while it stays out.
func TestSendsAway(t *testing.T) {
	var v vote
	now := time.Now()
	step := func(after time.Duration, problem error, want bool) {
		t.Helper()
		now = now.Add(after)
		v.check(now, problem)
		if got := v.sendsAway(now); got != want {
			t.Errorf("sends away: %t, want %t", got, want)
		}
	}
	bad := errors.New("bad")
	step(0, nil, false)
	step(time.Second, bad, false)
	step(time.Second, bad, false)
	step(time.Second, bad, true)
	step(leaveAgain-1, bad, false)
	step(1, bad, true)
	step(time.Second, nil, false)
	step(upAfter, nil, false)
	for range downAfter - 1 {
		step(time.Second, bad, false)
	}
	step(time.Second, bad, true) // voted out anew
}
