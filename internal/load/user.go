package load

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/ghostline-dev/ghostline/proxy/sse"
)

// user is one who types.
type user struct {
	run     *run
	link    *link
	source  *source // nil: without a token
	typist  *typist
	header  http.Header // of every request; copied for each
	name    string
	asked   int
	running sync.WaitGroup
}

func (r *run) newUser(i int) *user {
	u := &user{
		run:    r,
		link:   newLink(r.target, &r.connections),
		typist: newTypist(&r.options, r.text, i),
		name:   r.name + "-" + strconv.Itoa(i),
	}
	if len(r.sources) > 0 {
		u.source = r.sources[i%len(r.sources)]
	}
	u.header = http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"text/event-stream"},
		"X-Session-Id": {u.name},
	}
	if plugin := r.options.Plugin; plugin.Name != "" {
		u.header.Set("User-Agent", plugin.String())
		u.header.Set("Editor-Plugin-Version", plugin.String())
	}
	return u
}

// warm gets a token and opens the connection, as an editor does that gains the
// focus.
func (u *user) warm(ctx context.Context) error {
	if u.source != nil {
		if _, err := u.source.token(ctx); err != nil {
			return fmt.Errorf("token of the first user: %w", err)
		}
	}
	w, err := u.link.acquire(ctx)
	if err != nil {
		return err
	}
	u.link.release(w)
	return nil
}

// live types until sending is done, and stays for the answers. Requests are cut
// off when ctx is done.
func (u *user) live(ctx, sending context.Context) {
	u.run.users.Add(1)
	defer u.run.users.Add(-1)
	defer u.link.close()
	// What goes wrong here does so again for the first request, and is counted.
	_ = u.warm(ctx)
	if u.run.options.Rate > 0 {
		u.typeByRate(sending)
	} else {
		u.typeAndWait(sending)
	}
	u.running.Wait()
}

// typeByRate sends each request when it is due, whatever became of others.
func (u *user) typeByRate(sending context.Context) {
	due := time.Now()
	for {
		next := u.typist.next()
		due = due.Add(next.pause)
		if !sleepUntil(sending, due) {
			return
		}
		t, more := u.run.claim(due)
		if !more {
			return
		}
		ask := u.newAsk(t, next, due)
		ask.began = due
		u.running.Go(func() { ask.run() })
	}
}

// typeAndWait sends a request after the other. The user is at the next one when
// the answer was typed through, or has come and been thought about.
func (u *user) typeAndWait(sending context.Context) {
	end := time.Now()
	for {
		next := u.typist.next()
		due := end.Add(next.pause)
		if !sleepUntil(sending, due) {
			return
		}
		t, more := u.run.claim(due)
		if !more {
			return
		}
		ask := u.newAsk(t, next, due)
		ask.run()
		end = time.Now()
		if through := ask.began.Add(next.lifetime); next.lifetime > 0 && through.After(end) {
			end = through // it was answered first, but the key comes when it comes
		}
	}
}

// newAsk numbers a request that was due then. Its latency counts from now.
func (u *user) newAsk(t *tally, next turn, due time.Time) *ask {
	u.asked++
	now := time.Now()
	return &ask{user: u, tally: t, turn: next, began: now, lag: now.Sub(due), id: u.name + "-" + strconv.Itoa(u.asked)}
}

// reader takes an event reader from the run's stock.
func (r *run) reader() *sse.Reader { return r.readers.Get().(*sse.Reader) }
