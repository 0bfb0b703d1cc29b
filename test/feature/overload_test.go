package feature

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/modelserver"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/net/http2"
)

// slots is what the model serves at a time.
const slots = 8

// tempo is how long the model works for an answer, from which all other times of a
// load follow.
type tempo time.Duration

// tempo is one at which this machine, as busy as it is, has little to do.
func (s *stack) tempo() tempo {
	s.t.Helper()
	s.setFault("")
	e := s.editor(overH2C)
	var took []time.Duration
	for range 20 {
		began := time.Now()
		s.wantWhole(e.ask(prompt))
		took = append(took, time.Since(began))
	}
	return tempo(max(50*time.Millisecond, 40*median(took)))
}

// at has the model work so long from now on.
func (s *stack) at(work tempo) {
	s.t.Helper()
	s.setFault("slow-start=" + time.Duration(work).String())
}

// holds says whether answers took about as long as the model did: else it is the
// machine that is too busy, and nothing can be learned of the proxy.
func (work tempo) holds(k *takings) bool { return median(k.whole) <= time.Duration(work)*3/2 }

// takings are what users got, and how long it took.
type takings struct {
	mu              sync.Mutex
	whole, refused  []time.Duration
	wrong           []string
	noTimeToComeFor int // refusals without Retry-After
}

func (k *takings) take(status int, header http.Header, body string, err error, took time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil && status == http.StatusOK && strings.HasSuffix(body, event("[DONE]")):
		k.whole = append(k.whole, took)
	case err == nil && status == http.StatusServiceUnavailable && strings.Contains(body, `"no_capacity"`):
		k.refused = append(k.refused, took)
		if header.Get("Retry-After") == "" {
			k.noTimeToComeFor++
		}
	default:
		k.wrong = append(k.wrong, fmt.Sprintf("%d %v %.200q", status, err, body))
	}
}

// load has users ask without a pause for a while, those who are refused after the
// time of an answer.
func (s *stack) load(users int, work tempo) *takings {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), 25*time.Duration(work))
	defer stop()
	k := &takings{}
	e := s.editor(overH2C)
	var all sync.WaitGroup
	for i := range users {
		mine := e.of(fmt.Sprintf("subject-%d", i))
		all.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				r := mine.send(prompt)
				got := <-r.ended
				if ctx.Err() != nil {
					return // not in time
				}
				k.take(got.status, got.header, got.body, got.err, time.Since(began))
				if got.status == http.StatusServiceUnavailable {
					select {
					case <-time.After(time.Duration(work)):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	all.Wait()
	if len(k.wrong) > 0 {
		s.t.Errorf("%d answers are neither whole nor refused, such as %s", len(k.wrong), k.wrong[0])
	}
	return k
}

func median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	times = slices.Sorted(slices.Values(times))
	return times[len(times)/2]
}

// TestGoodputUnderOverload: with twice the users that the model can serve, as
// many answers come out as with just enough of them. The others are refused at
// once.
func TestGoodputUnderOverload(t *testing.T) {
	s := start(t, setup{
		model:  modelserver.Options{Slots: slots},
		config: func(c *config.Config) { c.Units[0].Capacity.InFlight = slots },
	})
	enough, told := false, false
	for round, work := 0, s.tempo(); round < 2*rounds && !enough; round, work = round+1, work*3/2 {
		s.at(work)
		at := s.load(slots, work)
		s.settled()
		if !work.holds(at) {
			continue
		}
		told = true
		beyond := s.load(2*slots, work)
		s.settled()
		t.Logf("of %v each: at capacity %d whole, %d refused; at twice that %d whole, %d refused; a refusal takes %v, an answer %v",
			time.Duration(work), len(at.whole), len(at.refused), len(beyond.whole), len(beyond.refused), median(beyond.refused), median(beyond.whole))
		enough = 10*len(beyond.whole) >= 9*len(at.whole) && 2*median(beyond.refused) < median(beyond.whole)
		if len(beyond.refused) == 0 || beyond.noTimeToComeFor > 0 {
			t.Errorf("%d are refused, %d without Retry-After", len(beyond.refused), beyond.noTimeToComeFor)
		}
	}
	switch {
	case !told:
		t.Skip("this machine is too busy to tell")
	case !enough:
		t.Error("the goodput fell by more than a tenth, or those who were refused had to wait")
	}
	if got := s.model.Stats(); got.CancelledQueued != 0 || got.Error != 0 {
		t.Errorf("the model server counted %+v", got)
	}
}

// TestGreedySubject: a user with many sessions, who asks ten times as often as
// others, gets no more than one user may have.
func TestGreedySubject(t *testing.T) {
	const others, inFlight, sessions = 4, 2, 2
	s := start(t, setup{
		config: func(c *config.Config) {
			narrow(inFlight, sessions)(c)
			// As many as all of them may have, and what a superseded one keeps until
			// it knows.
			c.Units[0].Capacity.InFlight = (others + 1) * inFlight * sessions
		},
	})
	fair, told := false, false
	for round, work := 0, s.tempo(); round < 2*rounds && !fair; round, work = round+1, work*3/2 {
		s.at(work)
		alone := s.load(others, work)
		s.settled()
		if !work.holds(alone) {
			continue
		}
		told = true
		beside := s.besideGreedy(others, work)
		t.Logf("of %v each: others' answers take %v, and %v beside a greedy user; they got %d and %d",
			time.Duration(work), median(alone.whole), median(beside.whole), len(alone.whole), len(beside.whole))
		if len(alone.refused)+len(beside.refused) > 0 {
			t.Errorf("%d and %d of the others' requests were refused", len(alone.refused), len(beside.refused))
		}
		fair = 2*median(beside.whole) <= 3*median(alone.whole)
	}
	switch {
	case !told:
		t.Skip("this machine is too busy to tell")
	case !fair:
		t.Error("a greedy user slows the others down")
	}
	if got := s.metric("ghostline_requests_total", "outcome", "superseded"); got == 0 {
		t.Error("the greedy user was not held back")
	}
}

// besideGreedy is what users get beside one who asks ten times as often.
func (s *stack) besideGreedy(users int, work tempo) *takings {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	var greedy sync.WaitGroup
	greedy.Go(func() { s.beGreedy(ctx, time.Duration(work)/10) })
	beside := s.load(users, work)
	stop()
	greedy.Wait()
	s.settled()
	return beside
}

// beGreedy asks at each tick, in another of many sessions each time, until ctx is
// done.
func (s *stack) beGreedy(ctx context.Context, every time.Duration) {
	e := s.editor(overH2C).of("greedy")
	tick := time.NewTicker(every)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r := e.with("X-Session-Id", fmt.Sprintf("s-%d", i%20)).send(prompt)
		all.Go(func() { <-r.ended })
	}
}

// full is a stack whose unit's only place is taken until release is called.
func full(t *testing.T, change func(*config.Config)) (s *stack, release func()) {
	t.Helper()
	hold := make(chan struct{})
	s, units := cast(t, setup{config: func(c *config.Config) {
		c.Units[0].Capacity.InFlight = 1
		c.Models = append(c.Models, config.Model{Name: "other", Variants: []config.Variant{{Name: "only", Weight: 1}}})
		c.Units[1].Serves = "other/only"
		if change != nil {
			change(c)
		}
	}}, held(hold), says(whole("b")))
	holder := s.editor(overH2C).send(prompt)
	s.eventually("the unit is full", units[0].begunIs(1))
	return s, func() {
		t.Helper()
		close(hold)
		s.wantWhole(<-holder.ended)
		s.settled()
	}
}

// oneModel leaves only the model that is full.
func oneModel(c *config.Config) { c.Models, c.Units = c.Models[:1], c.Units[:1] }

const enginePath = "/v1/engines/copilot-codex/completions"

// TestRefusedBeforeTheBody: a model that is full is known before the body is, if
// the path names it or there is no other.
func TestRefusedBeforeTheBody(t *testing.T) {
	for _, tc := range []struct {
		name, path string
		config     func(*config.Config)
	}{
		{"the path names it", enginePath, nil},
		{"the only one", "/v1/completions", oneModel},
		{"the only one, Mistral's path", "/v1/fim/completions", oneModel},
		{"a candidate for mirrors is free", "/v1/completions", func(c *config.Config) {
			c.Models = c.Models[:1]
			c.Models[0].Variants = append(c.Models[0].Variants, config.Variant{Name: "candidate"})
			c.Units[1].Serves = "ghost-code/candidate"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, release := full(t, tc.config)
			for name, connect := range map[string]func(...http2.Setting) *framedClient{"h2c": s.framed, "h2": s.framedTLS} {
				c := connect()
				stream := c.fresh
				c.fresh += 2
				c.headers(stream, false, ":method", "POST", ":scheme", "http", ":authority", "proxy.test", ":path", tc.path,
					"content-type", "application/json", "content-length", "100", "authorization", "Bearer "+s.token())
				got := c.read(stream, func(r framedReply) bool { return strings.HasSuffix(r.body(), "}}") })
				if got.status != "503" || !strings.Contains(got.body(), `"no_capacity"`) {
					t.Errorf("%s: got %+v, want 503", name, got)
				}
				if again := c.read(c.post(prompt), nil); again.status != "503" { // the connection works on
					t.Errorf("%s: the next request got %+v", name, again)
				}
			}
			head := strings.Replace(s.head("Content-Type: application/json", "Content-Length: 100"), "/v1/completions", tc.path, 1)
			got := s.dial(t).send(head).answer()
			got.wantRefusal(t, refusal{status: 503, code: "no_capacity", message: "at the moment", retry: true})
			if got.header.Get("Retry-After") == "" {
				t.Error("the 503 has no Retry-After")
			}
			s.outcomes("no_capacity", 5)
			if got := s.metric("ghostline_requests_total", "outcome", "no_capacity", "model", "ghost-code"); got != 5 {
				t.Errorf("%v are counted for the model, want 5", got)
			}
			release()
			s.wantWhole(s.post("/v1/completions", prompt))
		})
	}
}

// TestRefusedBeforeAnOlderOneIs: when the model is full, nobody's older request
// makes way for one that cannot be served.
func TestRefusedBeforeAnOlderOneIs(t *testing.T) {
	hold := make(chan struct{})
	s, units := cast(t, setup{config: func(c *config.Config) {
		narrow(1, 1)(c)
		c.Units[0].Capacity.InFlight = 1
	}}, held(hold))
	e := s.editor(overH2C)
	first := e.send(prompt)
	s.eventually("the unit is full", units[0].begunIs(1))
	e.ask(prompt).wantError(t, 503, "no_capacity")
	close(hold)
	s.wantWhole(<-first.ended)
	s.outcomes("superseded", 0)
	s.settled()
}

// TestReadWhereSomebodyHasRoom: a body is read, if a unit could serve what it may
// ask for.
func TestReadWhereSomebodyHasRoom(t *testing.T) {
	for _, tc := range []struct {
		name, path string
		config     func(*config.Config)
		status     int
	}{
		{"the body may name another model", "/v1/completions", nil, 200},
		{"another model's path", "/v1/engines/other/completions", nil, 200},
		{"another variant has room", enginePath, func(c *config.Config) {
			c.Models[0].Variants = append(c.Models[0].Variants, config.Variant{Name: "next"})
			c.Models[0].Variants[0].Fallback = "next"
			c.Units[1].Serves = "ghost-code/next"
		}, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, release := full(t, tc.config)
			body := strings.Replace(prompt, "ghost-code", "other", 1)
			conn := s.dial(t).send(strings.Replace(s.head("Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body))), "/v1/completions", tc.path, 1))
			s.eventually("the body is read", running(readsBody))
			if got := conn.send(body).answer(); got.status != tc.status {
				t.Errorf("got %d %q, want %d", got.status, got.body, tc.status)
			}
			release()
		})
	}
}
