package proxy

import (
	"testing"
	"time"
)

// allowed is how many retries are allowed at a time, as far as most.
func (b *retryBudget) allowed(now time.Time, most int) (n int) {
	for n < most && b.take(now) {
		n++
	}
	return n
}

func TestRetryBudget(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var b retryBudget
	if got := b.allowed(now, 1000); got != retryFloor*retryWindow {
		t.Errorf("%d retries without requests, want %d", got, retryFloor*retryWindow)
	}
	for range 1000 {
		b.request(now)
	}
	if got := b.allowed(now, 1000); got != 100-retryFloor*retryWindow {
		t.Errorf("%d more for 1000 requests, want a tenth in all", got)
	}
	if got := b.allowed(now.Add(9*time.Second), 1000); got != 0 {
		t.Errorf("%d more within the window", got)
	}
	if got := b.allowed(now.Add(10*time.Second), 1000); got != retryFloor*retryWindow {
		t.Errorf("%d after the window, want the floor", got)
	}
	if got := b.allowed(now.Add(5*time.Second), 1000); got != 0 {
		t.Errorf("%d more after the clock was set back", got)
	}
	if got := b.allowed(now.Add(time.Hour), 1000); got != retryFloor*retryWindow {
		t.Errorf("%d after an hour", got)
	}
}
