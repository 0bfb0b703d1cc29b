package load

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/modelserver"
)

// TestBooks: what a population reports is what the model server saw, over one
// connection for each user.
func TestBooks(t *testing.T) {
	t.Parallel()
	model, url := startModel(t, busyModel())
	o := quick(url)
	o.Users, o.Requests = 8, 600
	r := report(t, o)
	q := r.Requests
	var stats modelserver.Stats
	// A request counts when its handler is through, and may not have begun when
	// its user is.
	settled := func() bool {
		stats = model.Stats()
		return stats.OK+stats.Error+stats.Cancelled() == q.Sent-q.NeverLeft
	}
	eventually(t, "the model server has seen each request that left", settled)
	if q.Sent != 600 || q.Errors != 0 || r.Protocol != "HTTP/2.0" {
		t.Errorf("want 600 requests over HTTP/2 without an error:\n%s", r.text())
	}
	if stats.OK < q.Whole || stats.Cancelled() > q.Cancelled {
		t.Errorf("the model server finished %d of the %d whole, and saw %d of the %d cancels", stats.OK, q.Whole, stats.Cancelled(), q.Cancelled)
	}
	if through := r.TypedThrough; through.Drawn != q.Cancelled+through.AnsweredFirst || q.Cancelled == 0 {
		t.Errorf("of %+v, %d were cancelled", through, q.Cancelled)
	}
	if stats.ConnectionsOpened != 8 || r.Connections != (Connections{Opened: 8}) {
		t.Errorf("the model server saw %d connections, reported are %+v; want one for each of 8 users", stats.ConnectionsOpened, r.Connections)
	}
	if r.FirstByte.Count != r.WholeAnswer.Count || r.FirstByte.Min > r.WholeAnswer.Min || r.FirstByte.Min < 5 {
		t.Errorf("times of 5 ms to the first token: %+v and %+v", r.FirstByte, r.WholeAnswer)
	}
}

// TestPhases: requests are typed through before the first byte, mid-stream, and
// too late.
func TestPhases(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) % 3 {
		case 0:
			events(w, wholeAnswer)
			return
		case 1:
			events(w, textEvent)
		}
		<-r.Context().Done()
	})
	o := quick(s.URL)
	o.Requests, o.Typing.CancelPercent = 60, 100
	o.Typing.Keystroke, o.Typing.Debounce = 300*time.Millisecond, 100*time.Millisecond
	r := report(t, o)
	through := r.TypedThrough
	if through.Drawn != 60 || through.Drawn != through.BeforeFirstByte+through.MidStream+through.AnsweredFirst {
		t.Errorf("of 60 requests: %+v", through)
	}
	if through.BeforeFirstByte < 20 || through.MidStream == 0 || through.AnsweredFirst == 0 {
		t.Errorf("want each of the phases: %+v", through)
	}
	if r.FirstByte.Count != 0 || r.FirstByteAll.Count != through.MidStream+through.AnsweredFirst {
		t.Errorf("first bytes: %d and %d", r.FirstByte.Count, r.FirstByteAll.Count)
	}
}

// TestThroughProxy: the same with TLS, a proxy and tokens of a real issuer that
// live so short that they are refreshed.
func TestThroughProxy(t *testing.T) {
	t.Parallel()
	const subjects = 3
	s := startService(t, subjects, 10*time.Second)
	o := quick(s.proxy)
	o.Target.RootCAs = s.ca.Pool()
	o.Tokens = s.tokens(t, subjects)
	o.Users, o.Requests, o.Duration = 6, 0, 11*time.Second
	o.Typing.Think = 100 * time.Millisecond
	r := report(t, o)
	var all, cancelled int64
	eventually(t, "all requests have ended everywhere", func() bool {
		all, cancelled = s.served(t)
		return s.model.Stats().Inflight == 0 && all == r.Requests.Sent-r.Requests.NeverLeft
	})
	stats, q := s.model.Stats(), r.Requests
	if q.Errors != 0 || q.Whole == 0 || q.Cancelled == 0 {
		t.Errorf("want whole and cancelled requests and no errors:\n%s", r.text())
	}
	if cancelled > q.Cancelled || stats.OK < q.Whole || stats.OK+stats.Cancelled() > all {
		t.Errorf("reported: %+v; the proxy has %d, %d cancelled; the model server %+v", q, all, cancelled, stats)
	}
	if r.Connections != (Connections{Opened: 6}) {
		t.Errorf("connections: %+v, want one for each of 6 users", r.Connections)
	}
	if r.Tokens.Sources != subjects || r.Tokens.Refreshed < subjects {
		t.Errorf("tokens: %+v, want each of %d refreshed", r.Tokens, subjects)
	}
}

// TestHTTP1: a cancel costs the connection, and that is told.
func TestHTTP1(t *testing.T) {
	t.Parallel()
	model, url := startModel(t, busyModel())
	o := quick(url)
	o.Target.Protocol = ProtocolH1
	r := report(t, o)
	if r.Protocol != "HTTP/1.1" || r.Requests.Errors != 0 || r.Requests.Cancelled == 0 {
		t.Errorf("want cancels over HTTP/1.1 and no errors:\n%s", r.text())
	}
	c := r.Connections
	if c.Opened != 4+c.Reopened || c.Reopened == 0 || c.ClosedByCancel < c.Reopened || c.ClosedByCancel > r.Requests.Cancelled {
		t.Errorf("%d cancels and these connections: %+v", r.Requests.Cancelled, c)
	}
	// A user may be opening another one when the run ends.
	eventually(t, "the model server has seen the connections", func() bool { return model.Stats().ConnectionsOpened >= c.Opened })
	if seen := model.Stats().ConnectionsOpened; seen > c.Opened+4 {
		t.Errorf("%d connections at the model server, reported: %+v", seen, c)
	}
}

// TestDistantServer: nothing is there before a round trip.
func TestDistantServer(t *testing.T) {
	t.Parallel()
	for _, protocol := range []Protocol{ProtocolAuto, ProtocolH1} {
		_, url := startModel(t, modelserver.Options{})
		o := quick(url)
		o.Target.Protocol = protocol
		o.RTT, o.Requests = 60*time.Millisecond, 20
		o.Typing.Keystroke, o.Typing.Debounce = 100*time.Millisecond, 50*time.Millisecond
		r := report(t, o)
		// Times are exact to 0.1 %.
		if r.Requests.Errors != 0 || r.FirstByteAll.Count == 0 || r.FirstByteAll.Min < 59.9 || r.RTT != 60 {
			t.Errorf("%s: first bytes from %g ms on, want none within 60:\n%s", protocol, r.FirstByteAll.Min, r.text())
		}
	}
}

// TestOpenLoop: requests are sent when they are due, and latency counts from
// then, also of those that had to wait for the connection.
func TestOpenLoop(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(20 * time.Millisecond) // the time that an answer takes
		events(w, wholeAnswer)
	})
	o := quick(s.URL)
	o.Target.Protocol = ProtocolH1
	o.Users, o.Requests, o.Rate, o.Typing.CancelPercent = 1, 30, 500, 0
	r := report(t, o)
	// One at a time they take 600 ms, and all are due within a tenth of that.
	if r.Requests.Whole != 30 || r.WholeAnswer.Max < 400 || r.Connections.Opened != 1 {
		t.Errorf("the last answer came after %g ms, want at least 400:\n%s", r.WholeAnswer.Max, r.text())
	}
}

// TestOpenLoopDoesNotWait: a server that answers nothing gets requests all the same.
func TestOpenLoopDoesNotWait(t *testing.T) {
	t.Parallel()
	all := make(chan struct{})
	var arrived atomic.Int64
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if arrived.Add(1) == 20 {
			close(all)
		}
		<-all
		events(w, wholeAnswer)
	})
	o := quick(s.URL)
	o.Users, o.Requests, o.Rate, o.Typing.CancelPercent = 2, 20, 1000, 0
	if r := report(t, o); r.Requests.Whole != 20 || r.Connections.Opened != 2 {
		t.Errorf("want 20 whole answers over 2 connections:\n%s", r.text())
	}
}

func TestWarmup(t *testing.T) {
	t.Parallel()
	_, url := startModel(t, modelserver.Options{})
	o := quick(url)
	o.Warmup, o.Ramp, o.Requests = time.Second, 500*time.Millisecond, 50
	var seen []Progress
	o.Progress, o.ProgressEvery = func(p Progress) { seen = append(seen, p) }, 10*time.Millisecond
	r := report(t, o)
	if r.Requests.Warmup == 0 || r.Requests.Sent != 50 || r.SentLate.Count != 50 {
		t.Errorf("want 50 requests, and others before:\n%s", r.text())
	}
	var warming, rate, firstByte bool
	for _, p := range seen {
		warming = warming || p.WarmingUp && p.Elapsed > 0
		rate = rate || p.PerSecond > 0
		firstByte = firstByte || p.FirstByteP50 > 0 && p.FirstByteP99 >= p.FirstByteP50
	}
	if !warming || !rate || !firstByte {
		t.Errorf("progress without a warm-up, a rate or a first byte: %+v", seen)
	}
}

// TestInterrupted: what runs is cut off and reset, and what was measured is told.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	var arrived, gone atomic.Int64
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == 4 {
			interrupt()
		}
		<-r.Context().Done()
		gone.Add(1)
	})
	o := quick(s.URL)
	o.Typing.CancelPercent = 0
	r, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Interrupted || r.Requests.CutOff == 0 || r.Requests.CutOff != r.Requests.Sent {
		t.Errorf("want all requests cut off:\n%s", r.text())
	}
	eventually(t, "the server has seen all of them go", func() bool { return gone.Load() == arrived.Load() })
}

// TestHeaders: what a proxy can tell users and requests by.
func TestHeaders(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ids, sessions := map[string]int{}, map[string]map[string]bool{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		ids[r.Header.Get("X-Request-Id")]++
		session := r.Header.Get("X-Session-Id")
		if sessions[session] == nil {
			sessions[session] = map[string]bool{}
		}
		sessions[session][r.RemoteAddr] = true
		if r.Header.Get("Authorization") != "Bearer key" || r.Header.Get("Editor-Plugin-Version") != "test/1" || r.URL.Path != "/v1/completions" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		events(w, wholeAnswer)
	})
	o := quick(s.URL)
	o.Tokens = append(o.Tokens, StaticKey("key"))
	o.Plugin.Name, o.Plugin.Version = "test", "1"
	o.Typing.CancelPercent = 0
	if r := report(t, o); r.Requests.Whole != 100 {
		t.Errorf("want 100 whole answers:\n%s", r.text())
	}
	if len(ids) != 100 || len(sessions) != 4 {
		t.Errorf("%d request ids and %d sessions, want 100 and 4", len(ids), len(sessions))
	}
	for session, addresses := range sessions {
		if len(addresses) != 1 {
			t.Errorf("session %s came over %d connections", session, len(addresses))
		}
	}
}

// TestNothingThere: a run without its first user is an error and no report.
func TestNothingThere(t *testing.T) {
	t.Parallel()
	closed := listen(t)
	closed.Close()
	_, err := Run(t.Context(), quick("http://"+closed.Addr().String()))
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v, want that the connection is refused", err)
	}
	o := quick("http://" + closed.Addr().String())
	o.Tokens = append(o.Tokens, &failingTokens{})
	if _, err = Run(t.Context(), o); !errors.Is(err, errNoToken) {
		t.Errorf("%v, want the error of the token", err)
	}
}

// TestProtocols: what a server speaks, and what is said if it is not what was
// asked for.
func TestProtocols(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, _ *http.Request) { events(w, wholeAnswer) }
	old := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(old.Close)
	oldTLS := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	newTLS := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	newTLS.EnableHTTP2 = true
	for _, s := range []*httptest.Server{oldTLS, newTLS} {
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.StartTLS()
		t.Cleanup(s.Close)
	}
	for _, test := range []struct {
		name     string
		server   *httptest.Server
		protocol Protocol
		want     string // the protocol of the report, or of an error
	}{
		{"auto over TLS", newTLS, ProtocolAuto, "HTTP/2.0"},
		{"h1 over TLS", newTLS, ProtocolH1, "HTTP/1.1"},
		{"h2", newTLS, ProtocolH2, "HTTP/2.0"},
		{"auto at an old server", oldTLS, ProtocolAuto, "HTTP/1.1"},
		{"h2 at an old server", oldTLS, ProtocolH2, "does not speak HTTP/2 (ALPN h2)"},
		{"auto without TLS at an old server", old, ProtocolAuto, "ask for protocol h1"},
		{"h1 without TLS", old, ProtocolH1, "HTTP/1.1"},
	} {
		o := quick(test.server.URL)
		o.Users, o.Requests, o.Typing.CancelPercent, o.Target.Protocol = 1, 5, 0, test.protocol
		if test.server != old {
			o.Target.RootCAs = x509.NewCertPool()
			o.Target.RootCAs.AddCert(test.server.Certificate())
		}
		r, err := Run(t.Context(), o)
		if err == nil && strings.HasPrefix(test.want, "HTTP/") && r.Requests.Whole != 5 {
			t.Errorf("%s:\n%s", test.name, r.text())
		}
		said := ""
		if err != nil {
			said = err.Error()
		} else {
			said = r.text()
		}
		if !strings.Contains(said, test.want) {
			t.Errorf("%s: %q is not said in %s", test.name, test.want, said)
		}
	}
}
