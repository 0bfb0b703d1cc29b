package load

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// closeWait is how long the end of a link waits until the server has seen the
// resets of cancelled requests (the engine sends a PING behind most of them). Closing
// earlier may take from the server what it has not read yet.
const closeWait = 2 * time.Second

// connectionBooks count the connections of all users.
type connectionBooks struct{ opened, reopened, afterCancel, failed atomic.Int64 }

// link is the one connection of a user, opened again only when it can take no
// more requests.
type link struct {
	target  *target
	books   *connectionBooks
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	current *wire
	dialing *dialCall
	opened  bool // at least once
}

// wire is a connection and the requests on it.
type wire struct {
	conn    *http.ClientConn
	users   int
	retired bool
}

// dialCall is a dial that requests wait for. wire and err are set before done is
// closed.
type dialCall struct {
	done chan struct{}
	wire *wire
	err  error
}

func newLink(t *target, books *connectionBooks) *link {
	l := &link{target: t, books: books}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// acquire returns the connection for one request, which gives it back by release.
func (l *link) acquire(ctx context.Context) (*wire, error) {
	w, call := l.wireOrDial()
	if w != nil {
		return w, nil
	}
	select {
	case <-call.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if call.err != nil {
		return nil, call.err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	call.wire.users++
	return call.wire, nil
}

func (l *link) wireOrDial() (*wire, *dialCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.current; w != nil {
		if w.usableLocked() {
			w.users++
			return w, nil
		}
		l.retireLocked(w)
	}
	if l.dialing == nil {
		call := &dialCall{done: make(chan struct{})}
		l.dialing = call
		l.running.Go(func() { l.dial(call) })
	}
	return nil, l.dialing
}

// usableLocked says whether the connection takes requests. One without any has
// room for them, unless the server said GOAWAY.
func (w *wire) usableLocked() bool {
	idle := w.users == 0 && w.conn.InFlight() == 0
	return w.conn.Err() == nil && !(idle && w.conn.Available() == 0)
}

// dial runs apart from the request that wanted it first: being typed through must
// not keep a user from ever being connected.
func (l *link) dial(call *dialCall) {
	conn, err := l.target.connect(l.ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(call.done)
	l.dialing = nil
	if err != nil {
		if l.ctx.Err() == nil {
			l.books.failed.Add(1)
		}
		call.err = err
		return
	}
	if l.opened {
		l.books.reopened.Add(1)
	}
	l.opened = true
	l.books.opened.Add(1)
	call.wire = &wire{conn: conn}
	l.current = call.wire
}

// release gives w back. A retired one is closed when its last request is done.
func (l *link) release(w *wire) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.users--
	l.closeIfDrainedLocked(w)
}

// lost takes note of err, of a request on w that got no answer. unsent says that
// the request never left, because the connection takes no more, and may go to
// another connection as if this one had never been.
func (l *link) lost(w *wire, err error) (unsent bool) {
	unsent = strings.HasPrefix(err.Error(), "http2: client conn not usable")
	if unsent || saysGoAway(err) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.retireLocked(w)
	}
	return unsent
}

// saysGoAway says whether err is of a request that the server did not look at,
// because it sent the connection away. Such a connection stays open for others,
// so it has no Err. The engine does not export these errors.
func saysGoAway(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		for _, text := range []string{
			"http2: Transport received Server's graceful shutdown GOAWAY",
			"http2: Transport received GOAWAY from server ErrCode:",
		} {
			if strings.HasPrefix(err.Error(), text) {
				return true
			}
		}
	}
	return false
}

func (l *link) retireLocked(w *wire) {
	if w.retired {
		return
	}
	if l.current == w {
		l.current = nil
	}
	w.retired = true
	// The error that net/http closes an HTTP/1.1 connection with if it is the
	// client that gave a request up. It is not exported; a test provokes it.
	if err := w.conn.Err(); err != nil && err.Error() == "net/http: request canceled" {
		l.books.afterCancel.Add(1)
	}
	l.closeIfDrainedLocked(w)
}

func (l *link) closeIfDrainedLocked(w *wire) {
	if w.retired && w.users == 0 {
		l.running.Go(func() { w.conn.Close() })
	}
}

// close ends a dial under way, and closes the connection once the server has seen
// the resets of cancelled requests. No request may be running.
func (l *link) close() {
	l.cancel()
	l.mu.Lock()
	w := l.current
	l.current = nil
	l.mu.Unlock()
	if w != nil {
		w.finish()
	}
	l.running.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != nil { // dialled meanwhile
		l.current.conn.Close()
	}
}

// finish closes the connection once no stream is on it, or after closeWait.
func (w *wire) finish() {
	idle := make(chan struct{}, 1)
	w.conn.SetStateHook(func(conn *http.ClientConn) {
		if conn.InFlight() == 0 {
			select {
			case idle <- struct{}{}:
			default: // told already
			}
		}
	})
	if w.conn.InFlight() > 0 {
		select {
		case <-idle:
		case <-time.After(closeWait):
		}
	}
	w.conn.SetStateHook(nil)
	w.conn.Close()
}
