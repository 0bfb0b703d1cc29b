package httpserver

import (
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Recycler tells the connections of the servers that share it to go, while these
// go on serving: clients hold a connection all day, so a change of DNS alone does
// not move them. Its zero value is ready.
type Recycler struct {
	mu      sync.Mutex
	engines map[*engine]struct{}
}

// Recycle tells each connection that is open now to go, at some moment within
// over, so that the clients do not all come back at once. It returns at once and
// may be called at any time, also while it is at work already.
//
// An HTTP/2 connection gets a GOAWAY without an error, idle or not; its running
// requests finish, then it is closed. An HTTP/1.1 connection closes after its next
// answer, which says so: closing an idle one could lose a request on its way.
func (r *Recycler) Recycle(over time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := range r.engines {
		e.Log.Info("telling connections to go", "listener", e.Name, "over", over.String())
		e.cohorts.retire(over)
	}
}

// add has Recycle reach e until remove is called.
func (r *Recycler) add(e *engine) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.engines == nil {
		r.engines = map[*engine]struct{}{}
	}
	r.engines[e] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.engines, e)
	}
}

// cohortCount is in how many steps connections are told to go.
const cohortCount = 64

// cohort is some of a server's connections, which are told to go together.
//
// The HTTP/2 engine sends a GOAWAY out of turn only when the http.Server that it
// was configured with shuts down, and then on all of its connections. So each
// cohort has one, which neither accepts connections nor serves HTTP/1.1.
type cohort struct {
	server *http.Server
	told   atomic.Bool
}

func (s *Server) newCohort() (*cohort, error) {
	server, err := s.build(nil)
	if err != nil {
		return nil, err
	}
	c := &cohort{server: server}
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		// A connection that was in its handshake when its cohort was told missed
		// it. It is heard of here after it can be told.
		if state == http.StateIdle && c.told.Load() {
			c.tell()
		}
		if s.ConnState != nil {
			s.ConnState(conn, state)
		}
	}
	return c, nil
}

// tell has the cohort's connections go.
func (c *cohort) tell() {
	c.told.Store(true)
	// It has no connection that net/http knows of, so this waits for none.
	_ = c.server.Shutdown(context.Background())
}

// cohorts are those of one server.
type cohorts struct {
	build func() (*cohort, error)

	mu       sync.Mutex
	current  []*cohort
	retired  map[*cohort]struct{} // to be told later
	draining bool
}

// fill makes the current cohorts, or leaves things as they are.
func (c *cohorts) fill() error {
	fresh := make([]*cohort, cohortCount)
	for i := range fresh {
		var err error
		if fresh[i], err = c.build(); err != nil {
			return err
		}
	}
	c.current = fresh
	return nil
}

// join is the cohort of a new connection.
func (c *cohorts) join() *cohort {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current[rand.N(len(c.current))]
}

// retire tells the current cohorts one after another within over. Connections
// that come meanwhile are in new ones.
func (c *cohorts) retire(over time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.current
	if c.draining || c.fill() != nil {
		return
	}
	step := over / cohortCount
	for i, cohort := range old {
		c.retired[cohort] = struct{}{}
		time.AfterFunc(time.Duration(i)*step+rand.N(max(step, 1)), func() { c.tell(cohort) })
	}
}

func (c *cohorts) tell(retired *cohort) {
	retired.tell()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.retired, retired)
}

// drain tells all cohorts, and thereby all connections yet to join one.
func (c *cohorts) drain() {
	c.mu.Lock()
	c.draining = true
	all := slices.AppendSeq(slices.Clone(c.current), maps.Keys(c.retired))
	clear(c.retired)
	c.mu.Unlock()
	for _, cohort := range all {
		cohort.tell()
	}
}
