package proxy

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"golang.org/x/time/rate"
)

// errSuperseded ends a request whose editor session has sent newer ones.
var errSuperseded = errors.New("superseded by a newer request")

// sessionHeaders name an editor session, the first that is sent counts. VS Code's
// Copilot sends the second.
var sessionHeaders = []string{"X-Session-Id", "Vscode-Sessionid"}

// sessionKey tells a subject's editor sessions apart: by a header, else by the
// connection, which an edge may share between them.
type sessionKey struct {
	name       string
	connection *httpserver.Connection
}

// session is the editor session that the request belongs to.
func (x *exchange) session() sessionKey {
	for _, header := range sessionHeaders {
		if name := x.header.Get(header); isWord(name) {
			return sessionKey{name: name}
		}
	}
	return sessionKey{connection: x.connection}
}

// enterSession takes a place in the request's editor session.
func (p *proxy) enterSession(x *exchange) error {
	if x.place = x.subject.enter(x.session(), x.supersede); x.place == nil {
		return limited("too_many_requests_in_flight", fmt.Sprintf("this user has %d answers running already in this editor session, "+
			"or %d in all of them, which is the limit of this service; cancel some",
			x.subject.limits.InFlight, x.subject.limits.InFlight*x.subject.limits.Sessions), time.Second)
	}
	return nil
}

// subjectState is what a subject is doing on this proxy.
type subjectState struct {
	limits config.SubjectLimits
	// Of completions, and of feedback.
	bucket, feedback *rate.Limiter

	mu       sync.Mutex
	sessions []*session // one that runs nothing is used for another key
	running  int
	arrivals int64
}

// session is a subject's requests from one editor, the oldest first.
type session struct {
	key     sessionKey
	running []*place
}

// place is a request's place in its session.
type place struct {
	subject *subjectState
	session *session
	arrival int64
	others  int // requests that the subject had running
	cut     func()

	// Guarded by subject.mu.
	begun      bool // the first byte of the answer has come
	superseded bool
}

// enter takes a place for a request, which cut ends from any goroutine. Where
// none is free the newest wins: the oldest request that still waits for its first
// byte is superseded, since the user has typed past it. It is nil if there is no
// such request.
func (s *subjectState) enter(key sessionKey, cut func()) *place {
	p, oldest := s.takePlace(key, cut)
	if oldest != nil {
		oldest.cut()
	}
	return p
}

func (s *subjectState) takePlace(key sessionKey, cut func()) (taken, oldest *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.session(key)
	switch {
	case len(in.running) >= s.limits.InFlight:
		oldest = in.oldestWaiting()
	case s.running >= s.limits.InFlight*s.limits.Sessions:
		oldest = s.oldestWaiting()
	default:
		return s.add(in, key, cut), nil
	}
	if oldest == nil {
		return nil, nil
	}
	oldest.superseded = true
	s.remove(oldest)
	return s.add(in, key, cut), oldest
}

// session returns the session with that key, or one that runs nothing, for it.
func (s *subjectState) session(key sessionKey) *session {
	var idle *session
	for _, in := range s.sessions {
		if in.key == key {
			return in
		}
		if len(in.running) == 0 {
			idle = in
		}
	}
	if idle == nil {
		idle = &session{}
		s.sessions = append(s.sessions, idle)
	}
	return idle
}

func (s *subjectState) add(in *session, key sessionKey, cut func()) *place {
	in.key = key
	s.arrivals++
	s.running++
	p := &place{subject: s, session: in, arrival: s.arrivals, others: s.running - 1, cut: cut}
	in.running = append(in.running, p)
	return p
}

func (s *subjectState) remove(p *place) {
	s.running--
	in := p.session
	in.running = slices.DeleteFunc(in.running, func(other *place) bool { return other == p })
	if len(in.running) == 0 {
		in.key = sessionKey{} // so that it does not keep a connection that is gone
	}
}

func (s *subjectState) oldestWaiting() (oldest *place) {
	for _, in := range s.sessions {
		if p := in.oldestWaiting(); p != nil && (oldest == nil || p.arrival < oldest.arrival) {
			oldest = p
		}
	}
	return oldest
}

func (in *session) oldestWaiting() *place {
	for _, p := range in.running {
		if !p.begun {
			return p
		}
	}
	return nil
}

// begin notes that the answer begins: it is not superseded from now on. It is
// false if it is already.
func (p *place) begin() bool {
	p.subject.mu.Lock()
	defer p.subject.mu.Unlock()
	p.begun = true
	return !p.superseded
}

// leave gives the place back.
func (p *place) leave() {
	p.subject.mu.Lock()
	defer p.subject.mu.Unlock()
	if !p.superseded {
		p.subject.remove(p)
	}
}

// supersede ends the request, from another request's goroutine.
func (x *exchange) supersede() {
	x.isSuperseded.Store(true)
	x.cut(errSuperseded)
	if reading := x.reading.Load(); reading != nil {
		reading.expire()
	}
}
