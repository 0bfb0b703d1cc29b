package proxy

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// startMirrors is what mirror queues run on, until end.
func startMirrors() (m *mirrors, end func()) {
	ctx, stop := context.WithCancel(context.Background())
	m = &mirrors{ctx: ctx}
	return m, func() { stop(); m.wait() }
}

// TestMirrorQueue fills a queue whose copies all hang: so many run, so many wait,
// in their order, and no more are taken until one ends.
func TestMirrorQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, end := startMirrors()
		var q mirrorQueue
		release := make(chan struct{})
		var mu sync.Mutex
		var ran []int
		offer := func(i int) bool {
			return q.offer(m, 1, func() {
				mu.Lock()
				ran = append(ran, i)
				mu.Unlock()
				<-release
			})
		}
		for i := range maxMirrored + maxMirrorWaiting {
			if !offer(i) {
				t.Fatalf("copy %d is not taken", i)
			}
			synctest.Wait() // so that those that run at once do so in order too
		}
		if offer(-1) {
			t.Error("one too many is taken")
		}
		if len(ran) != maxMirrored {
			t.Errorf("%d run, want %d", len(ran), maxMirrored)
		}
		release <- struct{}{}
		synctest.Wait()
		if !offer(maxMirrored + maxMirrorWaiting) {
			t.Error("none is taken although one has ended")
		}
		for range maxMirrored + maxMirrorWaiting {
			release <- struct{}{}
			synctest.Wait()
		}
		if !slices.IsSorted(ran) || len(ran) != maxMirrored+maxMirrorWaiting+1 {
			t.Errorf("%d ran, in the order %v", len(ran), ran)
		}
		if q.running != 0 || q.bytes != 0 || len(q.waiting) != 0 {
			t.Errorf("in the end %d run, %d bytes and %d wait", q.running, q.bytes, len(q.waiting))
		}
		end()
	})
}

// TestMirrorQueueBytes: large bodies fill a queue before their number does, and
// those that run count.
func TestMirrorQueueBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, end := startMirrors()
		var q mirrorQueue
		release := make(chan struct{})
		hang := func() { <-release }
		if q.offer(m, maxMirrorBytes+1, hang) {
			t.Error("a body larger than all may be is taken")
		}
		for i := range 4 {
			if !q.offer(m, maxMirrorBytes/4, hang) {
				t.Fatalf("quarter %d is not taken", i)
			}
		}
		if q.offer(m, 1, hang) {
			t.Error("a byte too many is taken")
		}
		release <- struct{}{}
		synctest.Wait()
		if !q.offer(m, maxMirrorBytes/4, hang) {
			t.Error("what has ended is still counted")
		}
		close(release)
		end()
	})
}

// TestMirrorQueueEnds: when the proxy ends, copies that run and wait do too, and
// none is taken any more.
func TestMirrorQueueEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, end := startMirrors()
		var q mirrorQueue
		var ran atomic.Int64
		for range maxMirrored + maxMirrorWaiting {
			q.offer(m, 1, func() { ran.Add(1); <-m.ctx.Done() })
		}
		end()
		if ran.Load() != maxMirrored+maxMirrorWaiting {
			t.Errorf("%d copies were told of the end, want all", ran.Load())
		}
		if q.offer(m, 1, func() { t.Error("a copy runs after the end") }) {
			t.Error("a copy is taken after the end")
		}
		if q.running != 0 || q.bytes != 0 {
			t.Errorf("%d running, %d bytes after the end", q.running, q.bytes)
		}
	})
}

// TestMirrorQueuesBalance has many offer to two queues while the proxy ends: what
// was taken runs, once, and the books balance.
func TestMirrorQueuesBalance(t *testing.T) {
	m, end := startMirrors()
	var queues [2]mirrorQueue
	var taken, ran, running, most atomic.Int64
	var offering sync.WaitGroup
	for i := range 8 {
		offering.Go(func() {
			for j := range 2000 {
				if queues[(i+j)%2].offer(m, 1000, func() {
					now := running.Add(1)
					for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
					}
					ran.Add(1)
					running.Add(-1)
				}) {
					taken.Add(1)
				}
				if i == 0 && j == 1500 {
					end()
				}
			}
		})
	}
	offering.Wait()
	if taken.Load() != ran.Load() || taken.Load() == 0 || most.Load() > 2*maxMirrored {
		t.Errorf("%d were taken, %d ran, up to %d at once", taken.Load(), ran.Load(), most.Load())
	}
	for i := range queues {
		if q := &queues[i]; q.running != 0 || q.bytes != 0 || len(q.waiting) != 0 {
			t.Errorf("queue %d has %d running, %d bytes, %d waiting", i, q.running, q.bytes, len(q.waiting))
		}
	}
}
