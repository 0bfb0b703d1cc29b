package proxy

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/auth"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestRegionProblem is how a region's only unit decides for it.
func TestRegionProblem(t *testing.T) {
	fail := func(u *unit) {
		for range 5 {
			u.endpoint.health.Failed(time.Now())
		}
	}
	cool := func(u *unit) { u.endpoint.health.Cool(time.Now(), time.Now().Add(time.Hour)) }
	for name, tc := range map[string]struct {
		probed bool
		before func(*unit)
		after  time.Duration
		ok     bool
	}{
		"nothing is known":                     {false, func(*unit) {}, 0, true},
		"ejected":                              {false, fail, 0, false},
		"ejected, its time is over":            {false, fail, 10 * time.Second, true},
		"ejected, and full":                    {false, func(u *unit) { fail(u); cool(u) }, 0, true},
		"out of use":                           {false, func(u *unit) { u.problem = "no credential" }, 0, false},
		"of another region":                    {false, func(u *unit) { u.Region = "near" }, 0, false},
		"probed, never heard of":               {true, func(*unit) {}, 0, false},
		"probed, heard of lately":              {true, func(u *unit) { u.endpoint.health.Answered(time.Now(), time.Now()) }, time.Second, true},
		"probed, heard of long ago":            {true, func(u *unit) { u.endpoint.health.Answered(time.Now(), time.Now()) }, time.Minute, false},
		"probed, cooling":                      {true, cool, time.Minute, true},
		"probed, ejected and its time is over": {true, fail, 10 * time.Second, false},
		"probed, ejected and answered a probe": {true, func(u *unit) { fail(u); u.endpoint.health.Probed(time.Now()) }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testUnits(config.Unit{Name: "u", Region: "here", Serves: "m/stable"})
				s.auth = new(auth.Authenticator)
				s.units[0].probed = tc.probed
				tc.before(s.units[0])
				s.variants = nil
				s.link() // for a unit that is out of use now
				time.Sleep(tc.after)
				now := time.Now()
				if err := s.regionProblem(now, now.Add(-10*time.Second)); (err == nil) != tc.ok {
					t.Errorf("got %v; want none: %t", err, tc.ok)
				}
			})
		})
	}
}

// TestRegionOfMirrors: units that answer only copies of requests do not make up
// for those that would answer users.
func TestRegionOfMirrors(t *testing.T) {
	s := testUnits(
		config.Unit{Name: "u", Region: "here", Serves: "m/stable"}, config.Unit{Name: "judged", Region: "here", Serves: "m/candidate"},
	)
	s.auth = new(auth.Authenticator)
	s.config.Models[0].Variants = []config.Variant{{Name: "stable", Weight: 1}, {Name: "candidate"}}
	s.variants = nil
	s.link()
	now := time.Now()
	if err := s.regionProblem(now, now); err != nil {
		t.Errorf("while both answer: %v", err)
	}
	for range 5 {
		s.units[0].endpoint.health.Failed(now)
	}
	if err := s.regionProblem(now, now); err == nil || err.Error() != "none of the region's 1 units answers" {
		t.Errorf("while only the judged one answers: %v", err)
	}
}

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

// TestAwaitCheck: a reload that changes the interval is heeded soon.
func TestAwaitCheck(t *testing.T) {
	every := func(interval time.Duration) *snapshot {
		return &snapshot{config: &config.Config{HealthProbe: &config.HealthProbe{Interval: config.Duration(interval)}}}
	}
	for name, tc := range map[string]struct {
		before, after *snapshot // a reload 3 s after the check
		want          time.Duration
	}{
		"no reload":   {every(42 * time.Second), every(42 * time.Second), 42 * time.Second},
		"not probed":  {&snapshot{config: &config.Config{}}, &snapshot{config: &config.Config{}}, voteEvery},
		"more often":  {every(10 * time.Minute), every(time.Second), voteEvery},
		"less often":  {every(5 * time.Second), every(time.Minute), time.Minute},
		"no more":     {every(10 * time.Minute), &snapshot{config: &config.Config{}}, voteEvery},
		"from now on": {&snapshot{config: &config.Config{}}, every(time.Minute), time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &proxy{loader: &loader{}}
				p.loader.current.Store(tc.before)
				time.AfterFunc(3*time.Second, func() { p.loader.current.Store(tc.after) })
				began := time.Now()
				p.awaitCheck(t.Context(), began)
				if got := time.Since(began); got != tc.want {
					t.Errorf("waited for %s, want %s", got, tc.want)
				}
			})
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
