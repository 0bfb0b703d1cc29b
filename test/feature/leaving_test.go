package feature

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy"
	"golang.org/x/net/http2"
)

// leaver is a way for a client to leave before its answer is whole.
type leaver struct {
	name string
	// client makes the client and the base URL to use with it.
	client func(*stack) (*http.Client, string)
	// cut, if set, ends the connection; else the request's context is cancelled.
	cut func(net.Conn)
	// keeps says that the client's connection stays.
	keeps bool
}

func overTLS(s *stack) (*http.Client, string) { return s.h2(), s.tlsURL }
func overH2C(s *stack) (*http.Client, string) { return s.h2c(), s.plainURL }
func overH1(s *stack) (*http.Client, string)  { return s.h1(), s.plainURL }

func hangUp(conn net.Conn) { conn.Close() }

// abort ends the connection with a TCP reset, as a crashed program's kernel does.
func abort(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

var leavers = []leaver{
	{name: "h2 reset", client: overTLS, keeps: true},
	{name: "h2c reset", client: overH2C, keeps: true},
	{name: "h1 cancel", client: overH1},
	{name: "h1 hang up", client: overH1, cut: hangUp},
	{name: "h1 abort", client: overH1, cut: abort},
	{name: "h2c hang up", client: overH2C, cut: hangUp},
	{name: "h2c abort", client: overH2C, cut: abort},
}

// visitor is a client that will leave.
type visitor struct {
	s      *stack
	how    leaver
	client *http.Client
	base   string

	mu    sync.Mutex
	conns []net.Conn
}

func (s *stack) visitor(how leaver) *visitor {
	v := &visitor{s: s, how: how}
	v.client, v.base = how.client(s)
	v.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			v.mu.Lock()
			v.conns = append(v.conns, conn)
			v.mu.Unlock()
		}
		return conn, err
	}
	return v
}

// visit is one request that will be left.
type visit struct {
	v      *visitor
	cancel context.CancelFunc
	begun  chan struct{} // closed once a byte of the answer's body has come
	ended  chan visitEnd
	upload *io.PipeWriter // not nil if the body is not finished
}

type visitEnd struct {
	body string
	err  error
}

// start sends a request. With unfinished, the body lacks its end.
func (v *visitor) start(body string, unfinished bool) *visit {
	ctx, cancel := context.WithCancel(v.s.t.Context())
	req := v.s.request(ctx, v.base, "/v1/completions", body)
	visit := &visit{v: v, cancel: cancel, begun: make(chan struct{}), ended: make(chan visitEnd, 1)}
	if unfinished {
		var reader *io.PipeReader
		reader, visit.upload = io.Pipe()
		req.Body, req.GetBody, req.ContentLength = reader, nil, -1
		go func() { _, _ = io.WriteString(visit.upload, body) }() // an error means that the request was left
	}
	go func() { visit.ended <- visit.read(req) }()
	return visit
}

func (v *visit) read(req *http.Request) visitEnd {
	resp, err := v.v.client.Do(req)
	if err != nil {
		return visitEnd{err: err}
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := io.CopyN(&body, resp.Body, 1); err == nil {
		close(v.begun)
		_, err = io.Copy(&body, resp.Body)
		return visitEnd{body.String(), err}
	}
	return visitEnd{body.String(), err}
}

// leave ends the request in its visitor's way and waits for its client to know.
func (v *visit) leave() {
	v.v.s.t.Helper()
	if v.v.how.cut == nil {
		v.cancel()
	} else {
		v.v.mu.Lock()
		for _, conn := range v.v.conns {
			v.v.how.cut(conn)
		}
		v.v.conns = nil
		v.v.mu.Unlock()
	}
	if v.upload != nil {
		v.upload.CloseWithError(context.Canceled)
	}
	end := <-v.ended
	v.cancel()
	if end.err == nil {
		v.v.s.t.Errorf("the client left, and yet had the whole answer: %.200q", end.body)
	}
}

// again sends a request that is answered, and checks that it is.
func (v *visitor) again() {
	v.s.t.Helper()
	v.s.wantWhole(v.s.do(v.client, v.s.request(v.s.t.Context(), v.base, "/v1/completions", prompt)))
}

// wantWhole checks that a streamed answer is complete.
func (s *stack) wantWhole(got reply) {
	s.t.Helper()
	events := got.events()
	if got.status != http.StatusOK || got.err != nil || len(events) < 2 || events[len(events)-1] != "[DONE]" {
		s.t.Errorf("got %d, %v, %.400q; want a whole stream", got.status, got.err, got.body)
	}
}

// settled waits until nothing is held for any request: in the proxy, on a unit
// or in the model server.
func (s *stack) settled() {
	s.t.Helper()
	s.eventually("nothing is in flight", func() bool {
		if s.metric("ghostline_inflight") != 0 || s.model.Stats().Inflight != 0 {
			return false
		}
		for _, unit := range s.status().Units {
			if unit.InFlight != 0 {
				return false
			}
		}
		return true
	})
}

// status is what the admin port says.
func (s *stack) status() proxy.Status {
	s.t.Helper()
	resp, err := http.Get(s.adminURL + "/statusz")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var status proxy.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		s.t.Fatal(err)
	}
	return status
}

// quiet checks that the log has nothing that would wake anybody.
func (s *stack) quiet() {
	s.t.Helper()
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
			s.t.Errorf("the log has %s", line)
		}
	}
}

// wantResets checks the codes with which a framed unit's streams were reset.
func (u *framedUnit) wantResets(t *testing.T, s *stack, want ...http2.ErrCode) {
	t.Helper()
	s.eventually("the unit saw every reset", func() bool { return len(u.seen().resets) >= len(want) })
	got := u.seen()
	if len(got.resets) != len(want) {
		t.Fatalf("the unit saw %d resets %v, want %v", len(got.resets), got.resets, want)
	}
	for i := range want {
		if got.resets[i] != want[i] {
			t.Errorf("reset %d has code %v, want %v", i, got.resets[i], want[i])
		}
	}
	if len(got.goAways) > 0 || got.closed > 0 {
		t.Errorf("the proxy sent the unit GOAWAY %v and closed %d of its connections", got.goAways, got.closed)
	}
}
