package proxy

import (
	"context"
	"sync"
)

// What one mirror may run, and have waiting, at once.
const (
	maxMirrored      = 32
	maxMirrorWaiting = 64
	maxMirrorBytes   = 16 << 20 // of bodies
)

// mirrors are the mirrored requests of a proxy, which outlive those that they
// copy.
type mirrors struct {
	ctx context.Context // of all; it ends with the proxy

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// run runs something in the background, unless the proxy has ended.
func (m *mirrors) run(do func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.wg.Go(do)
	}
	return !m.closed
}

// wait returns once all have ended; ctx must be done.
func (m *mirrors) wait() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.wg.Wait()
}

// mirrorQueue is what waits for one mirror: a slow or hanging variant must cost
// neither memory nor other mirrors' turns. The zero value is empty.
type mirrorQueue struct {
	mu      sync.Mutex
	running int
	bytes   int
	waiting []copied
}

// copied is a copy of a request, and the bytes that it holds.
type copied struct {
	size int
	run  func()
}

// offer has a copy run, now or later; false if there is no room for it.
func (q *mirrorQueue) offer(m *mirrors, size int, run func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+size > maxMirrorBytes || len(q.waiting) == maxMirrorWaiting {
		return false
	}
	c := copied{size, run}
	if q.running == maxMirrored {
		q.waiting = append(q.waiting, c)
	} else if m.run(func() { q.work(c) }) {
		q.running++
	} else {
		return false
	}
	q.bytes += size
	return true
}

// work runs a copy, and then those that wait, until none is left.
func (q *mirrorQueue) work(c copied) {
	for more := true; more; {
		c.run()
		c, more = q.next(c)
	}
}

func (q *mirrorQueue) next(last copied) (next copied, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= last.size
	if len(q.waiting) == 0 {
		q.running--
		return copied{}, false
	}
	next = q.waiting[0]
	q.waiting[0] = copied{} // else the array would hold its body
	q.waiting = q.waiting[1:]
	return next, true
}
