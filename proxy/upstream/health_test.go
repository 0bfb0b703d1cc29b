package upstream

import (
	"testing"
	"time"
)

// TestEjection walks a unit through failures and answers.
func TestEjection(t *testing.T) {
	now := time.Now()
	var h Health
	is := func(want State) {
		t.Helper()
		if got, _ := h.State(now); got != want {
			t.Errorf("state %d, want %d", got, want)
		}
	}
	fail := func(n int) (ejected time.Duration) {
		for range n {
			ejected = max(ejected, h.Failed(now))
		}
		return ejected
	}
	if fail(4) != 0 || h.Answered(now, now) || fail(4) != 0 {
		t.Error("ejected although an answer came between the failures")
	}
	is(Active)
	if got := fail(1); got != 10*time.Second {
		t.Errorf("the first ejection lasts %s, want 10s", got)
	}
	is(Ejected)
	if fail(10) != 0 {
		t.Error("requests that were out already made the ejection longer")
	}
	for n := 2; n <= 40; n++ {
		now = now.Add(lastsFor(n - 1))
		is(OnTrial)
		if n%2 == 0 {
			now = now.Add(time.Hour) // that nobody asks it does not speak for it
		}
		if got, want := fail(1), min(time.Duration(n)*10*time.Second, 5*time.Minute); got != want {
			t.Errorf("ejection %d lasts %s, want %s", n, got, want)
		}
	}
	now = now.Add(5 * time.Minute)
	if !h.Answered(now, now) || h.Answered(now, now) {
		t.Error("the first answer, and no other, brings the unit back")
	}
	is(Active)
	now = now.Add(4 * time.Minute)
	if got := fail(5); got != 5*time.Minute {
		t.Errorf("soon after, an ejection lasts %s, want as long as the last", got)
	}
	h.Answered(now, now) // all others were out, so it was asked before its time
	is(Active)
	now = now.Add(5*time.Minute + 1)
	if got := fail(5); got != 10*time.Second {
		t.Errorf("long after, an ejection lasts %s, want 10s", got)
	}
}

func TestCooling(t *testing.T) {
	now := time.Now()
	var h Health
	h.Cool(now, now.Add(2*time.Second))
	h.Cool(now, now.Add(time.Second)) // shorter: another request heard it earlier
	if state, until := h.State(now.Add(1999 * time.Millisecond)); state != Cooling || !until.Equal(now.Add(2*time.Second)) {
		t.Errorf("state %d until %s", state, until)
	}
	if state, _ := h.State(now.Add(2 * time.Second)); state != Active {
		t.Errorf("state %d after its time", state)
	}
	if !h.Heard().Equal(now) {
		t.Error("a unit that asks to be left alone was not heard")
	}
	for range maxFailures {
		h.Failed(now)
	}
	if state, _ := h.State(now); state != Cooling {
		t.Errorf("state %d of an ejected unit that wants to be left alone", state)
	}
	if state, _ := h.State(now.Add(2 * time.Second)); state != Ejected {
		t.Errorf("state %d after it cooled, want ejected", state)
	}
}

// TestLongAnswer: an answer that began before what ejected the unit speaks for
// nothing.
func TestLongAnswer(t *testing.T) {
	began := time.Now()
	now := began.Add(time.Second)
	var h Health
	for range 5 {
		h.Failed(now)
	}
	if h.Answered(began, now.Add(time.Second)) {
		t.Error("the unit is back by an answer that began before")
	}
	if state, _ := h.State(now); state != Ejected {
		t.Errorf("state %d, want ejected", state)
	}
	if !h.Answered(now.Add(time.Second), now.Add(2*time.Second)) {
		t.Error("the unit is not back by an answer that began since")
	}
}

// TestRefused: a unit that only refuses cools, one that answers now and then
// does not.
func TestRefused(t *testing.T) {
	now := time.Now()
	var h Health
	for range 4 {
		h.Refused(now)
	}
	h.Answered(now, now)
	for range 4 {
		h.Refused(now)
	}
	if state, _ := h.State(now); state != Active {
		t.Errorf("state %d although it answered between", state)
	}
	h.Refused(now)
	if state, until := h.State(now); state != Cooling || !until.Equal(now.Add(time.Second)) {
		t.Errorf("state %d until %v, want cooling for a second", state, until)
	}
	h.Cool(now, now.Add(time.Minute))
	h.Refused(now)
	if _, until := h.State(now); !until.Equal(now.Add(time.Minute)) {
		t.Errorf("cooling until %v: a refusal made it shorter", until)
	}
}

// TestProbed: a probe that is answered shows that a unit lives, and ends an
// ejection only when its time is over.
func TestProbed(t *testing.T) {
	now := time.Now()
	var h Health
	for range 5 {
		h.Failed(now)
	}
	if h.Probed(now) || !h.Heard().Equal(now) {
		t.Error("a probe ended the ejection, or was not heard")
	}
	if state, _ := h.State(now); state != Ejected {
		t.Errorf("state %d after the probe, want ejected", state)
	}
	now = now.Add(10 * time.Second)
	if !h.Probed(now) {
		t.Error("a probe after the ejection's time does not bring the unit back")
	}
	if state, _ := h.State(now); state != Active {
		t.Errorf("state %d at last, want active", state)
	}
}

func TestSizeOf(t *testing.T) {
	for bytes, want := range map[int]Size{0: 0, 2047: 0, 2048: 1, 8191: 1, 8192: 2, 32767: 2, 32768: 3, 1 << 30: 3} {
		if got := SizeOf(bytes); got != want {
			t.Errorf("%d bytes are of size %d, want %d", bytes, got, want)
		}
	}
}

// times are n first-byte times of a unit.
func times(n int, took time.Duration, at time.Time) *FirstBytes {
	f := &FirstBytes{}
	for range n {
		f.Add(0, took, at)
	}
	return f
}

func TestHangs(t *testing.T) {
	now := time.Now()
	f := &FirstBytes{}
	for i := range 100 {
		if i < minFirstBytes && f.Hangs(0, now, now.Add(time.Hour)) {
			t.Fatalf("known to hang after %d times", i)
		}
		f.Add(0, time.Duration(i)*time.Millisecond, now)
	}
	for waited, want := range map[time.Duration]bool{
		50 * time.Millisecond: false, 99 * time.Millisecond: false, 100 * time.Millisecond: true,
	} {
		if got := f.Hangs(0, now, now.Add(waited)); got != want {
			t.Errorf("after %s it hangs: %t", waited, got)
		}
	}
	if f.Hangs(1, now, now.Add(time.Hour)) {
		t.Error("it hangs with prompts of another size")
	}
	if f.Hangs(0, now.Add(-time.Nanosecond), now.Add(time.Hour)) {
		t.Error("it hangs although another answer has begun since")
	}
	for range firstBytes {
		f.Add(0, time.Millisecond, now)
	}
	if !f.Hangs(0, now, now.Add(2*time.Millisecond)) {
		t.Error("old times still count")
	}
}

func TestSlowUnits(t *testing.T) {
	now := time.Now()
	ms := func(n int) *FirstBytes { return times(minFirstBytes, time.Duration(n)*time.Millisecond, now) }
	for name, tc := range map[string]struct {
		units []*FirstBytes
		slow  []uint32
	}{
		"one of four":            {[]*FirstBytes{ms(10), ms(11), ms(31), ms(10)}, []uint32{0, 0, 1, 0}},
		"not slow enough":        {[]*FirstBytes{ms(10), ms(10), ms(30), ms(10)}, []uint32{0, 0, 0, 0}},
		"too few peers":          {[]*FirstBytes{ms(10), ms(10), ms(90)}, []uint32{0, 0, 0}},
		"too few times":          {[]*FirstBytes{ms(10), ms(10), times(minFirstBytes-1, time.Second, now), ms(10)}, []uint32{0, 0, 0, 0}},
		"peers with too few":     {[]*FirstBytes{ms(10), ms(10), ms(90), times(minFirstBytes-1, 1, now)}, []uint32{0, 0, 0, 0}},
		"old times":              {[]*FirstBytes{ms(10), ms(10), times(firstBytes, time.Second, now.Add(-freshFor)), ms(10)}, []uint32{0, 0, 0, 0}},
		"half of them are slow":  {[]*FirstBytes{ms(10), ms(10), ms(10), ms(90), ms(90)}, []uint32{0, 0, 0, 1, 1}},
		"nobody is asked at all": {[]*FirstBytes{{}, {}, {}, {}}, []uint32{0, 0, 0, 0}},
	} {
		got := SlowUnits(tc.units, now)
		for i := range tc.slow {
			if got[i] != tc.slow[i] {
				t.Errorf("%s: unit %d is %b, want %b", name, i, got[i], tc.slow[i])
			}
		}
	}
	other := ms(10)
	for range minFirstBytes {
		other.Add(2, time.Second, now)
	}
	peers := []*FirstBytes{other, ms(10), ms(10), ms(10)}
	for _, peer := range peers[1:] {
		for range minFirstBytes {
			peer.Add(2, time.Millisecond, now)
		}
	}
	if got := SlowUnits(peers, now)[0]; got != 1<<2 {
		t.Errorf("slow with one size of prompts is %b, want that size alone", got)
	}
}
