package proxy

import (
	"context"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// typist enters requests of one subject and notes which are superseded.
type typist struct {
	t       *testing.T
	subject *subjectState
	ended   []string
}

func newTypist(t *testing.T, inFlight, sessions int) *typist {
	return &typist{t: t, subject: &subjectState{limits: config.SubjectLimits{InFlight: inFlight, Sessions: sessions}}}
}

func (u *typist) enter(session, name string) *place {
	u.t.Helper()
	p := u.subject.enter(sessionKey{name: session}, func() { u.ended = append(u.ended, name) })
	if p == nil {
		u.t.Fatalf("%s has no place", name)
	}
	return p
}

func (u *typist) wantEnded(names ...string) {
	u.t.Helper()
	if !slices.Equal(u.ended, names) {
		u.t.Errorf("superseded %v, want %v", u.ended, names)
	}
}

func TestNewestWins(t *testing.T) {
	u := newTypist(t, 2, 4)
	u.enter("a", "1")
	u.enter("a", "2")
	u.wantEnded()
	u.enter("a", "3")
	u.wantEnded("1")
	u.enter("b", "other session")
	u.wantEnded("1")
	u.enter("a", "4")
	u.wantEnded("1", "2")
}

func TestAnswersThatBeganAreKept(t *testing.T) {
	u := newTypist(t, 2, 4)
	first, second := u.enter("a", "1"), u.enter("a", "2")
	if !first.begin() {
		t.Fatal("the first was superseded for nothing")
	}
	u.enter("a", "3")
	u.wantEnded("2")
	if second.begin() {
		t.Error("a superseded request began")
	}
	second.leave() // must give nothing back twice
	if got := u.subject.running; got != 2 {
		t.Errorf("%d running, want 2", got)
	}
}

func TestNoPlaceWhenAllHaveBegun(t *testing.T) {
	u := newTypist(t, 2, 4)
	first := u.enter("a", "1")
	first.begin()
	u.enter("a", "2").begin()
	if u.subject.enter(sessionKey{name: "a"}, nil) != nil {
		t.Fatal("a third has a place beside two that have begun")
	}
	u.wantEnded()
	first.leave()
	u.enter("a", "3")
}

// TestSessionsAreNoWayRound has a subject pretend to be many editors.
func TestSessionsAreNoWayRound(t *testing.T) {
	u := newTypist(t, 2, 3)
	for i := range 6 {
		u.enter("session "+strconv.Itoa(i), strconv.Itoa(i))
	}
	u.wantEnded()
	u.enter("session 6", "6")
	u.wantEnded("0")
	for range 5 {
		u.enter("session 7", "7")
	}
	if got := u.subject.running; got != 6 {
		t.Errorf("%d running, want 6", got)
	}
}

func TestIdleSessionsAreForgotten(t *testing.T) {
	u := newTypist(t, 2, 3)
	for i := range 1000 {
		u.enter(strconv.Itoa(i), "x").leave()
	}
	if got := len(u.subject.sessions); got != 1 {
		t.Errorf("%d sessions remembered, want 1", got)
	}
	if got := u.subject.sessions[0].key; got != (sessionKey{}) {
		t.Errorf("an idle session keeps its key %v", got)
	}
}

// TestPlacesBalance has many goroutines enter, begin and leave.
func TestPlacesBalance(t *testing.T) {
	s := &subjectState{limits: config.SubjectLimits{InFlight: 3, Sessions: 2}}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 500 {
				p := s.enter(sessionKey{name: strconv.Itoa((i + j) % 4)}, func() {})
				if p == nil {
					continue
				}
				if j%3 == 0 {
					p.begin()
				}
				p.leave()
			}
		})
	}
	wg.Wait()
	if s.running != 0 {
		t.Errorf("%d running in the end", s.running)
	}
}

func TestSessionKey(t *testing.T) {
	connection := &httpserver.Connection{}
	for _, tc := range []struct {
		name   string
		header textproto.MIMEHeader
		want   sessionKey
	}{
		{"none", textproto.MIMEHeader{}, sessionKey{connection: connection}},
		{"ours", textproto.MIMEHeader{"X-Session-Id": {"s-1"}, "Vscode-Sessionid": {"s-2"}}, sessionKey{name: "s-1"}},
		{"Copilot's", textproto.MIMEHeader{"Vscode-Sessionid": {"s-2"}}, sessionKey{name: "s-2"}},
		{"not sane", textproto.MIMEHeader{"X-Session-Id": {"a b"}, "Vscode-Sessionid": {"s-2"}}, sessionKey{name: "s-2"}},
		{"too long", textproto.MIMEHeader{"X-Session-Id": {strings.Repeat("a", maxIdentifier+1)}}, sessionKey{connection: connection}},
	} {
		x := &exchange{header: tc.header, connection: connection}
		if got := x.session(); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestSupersedeEndsTheRead has a request superseded while its body comes.
func TestSupersedeEndsTheRead(t *testing.T) {
	ctx, cut := context.WithCancelCause(t.Context())
	x := &exchange{cut: cut}
	source := &deadlineSource{}
	deadline := startReadDeadline(source, 1<<62)
	x.reading.Store(deadline)
	x.supersede()
	if source.ended != 1 || gone(ctx).(*clientError).outcome != outcomeSuperseded {
		t.Errorf("the read was ended %d times, the request with %v", source.ended, context.Cause(ctx))
	}
	deadline.stop()
	x.supersede() // must not touch a body whose request is over
	if source.ended != 1 {
		t.Error("a read was ended after it was over")
	}
}

// TestSupersededBeforeTheRead: on HTTP/1.1 the server waits for a body that nobody
// has read, for as long as its client likes, unless that is ended too.
func TestSupersededBeforeTheRead(t *testing.T) {
	cfg := &config.Config{}
	cfg.SetDefaults()
	source := &deadlineSource{}
	x := &exchange{snapshot: &snapshot{config: cfg}, source: source, length: 10}
	x.isSuperseded.Store(true)
	if err := x.readBody(100); outcomeOf(err) != outcomeSuperseded || source.ended != 1 {
		t.Errorf("got %v; the read was ended %d times", err, source.ended)
	}
}

// deadlineSource counts how often its reads are ended.
type deadlineSource struct {
	bodySource
	ended int
}

func (s *deadlineSource) SetReadDeadline(time.Time) error { s.ended++; return nil }
