package feature

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy"
)

// accessLines are the lines of the access log so far.
func accessLines(t *testing.T, log *lockedBuffer) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		lines = append(lines, fields)
	}
	return lines
}

// startLogged runs a stack with an access log.
func startLogged(t *testing.T, o setup) (*stack, *lockedBuffer) {
	t.Helper()
	log := &lockedBuffer{}
	o.options = func(opts *proxy.Options) { opts.AccessLog = log }
	return start(t, o), log
}

// TestAccessLog has a line for each completion request, and in none what was
// asked or answered.
func TestAccessLog(t *testing.T) {
	unit := newSwitched(says(whole("SECRETANSWER")))
	s, log := startLogged(t, setup{unit: unit})
	const body = `{"prompt":"SECRETPROMPT","suffix":"SECRETSUFFIX","stream":true,"model":"ghost-code","user":"SECRETUSER"}`
	send := func(change func(*http.Request)) {
		req := s.request(t.Context(), s.plainURL, "/v1/completions", body)
		req.Header.Set("X-Request-Id", "r-1")
		req.Header.Set("Editor-Plugin-Version", "copilot/1.300.0")
		change(req)
		s.do(s.h2c(), req)
	}
	n := 0
	want := func(what string, fields map[string]any, timings ...string) {
		t.Helper()
		n++
		s.eventually("the line of "+what+" is written", func() bool { return len(accessLines(t, log)) == n })
		got := accessLines(t, log)[n-1]
		for name, value := range fields {
			if got[name] != value {
				t.Errorf("%s: %s is %v, want %v", what, name, got[name], value)
			}
		}
		for _, name := range append(timings, "total_ms") {
			if ms, ok := got[name].(float64); !ok || ms < 0 {
				t.Errorf("%s: %s is %v", what, name, got[name])
			}
		}
		if _, ok := got["first_byte_ms"]; ok != (len(timings) > 0) {
			t.Errorf("%s: first_byte_ms is %v", what, got["first_byte_ms"])
		}
	}
	send(func(*http.Request) {})
	want("a whole answer", map[string]any{
		"level": "INFO", "msg": "request", "request_id": "r-1", "outcome": "ok", "status": 200.0, "model": "ghost-code", "variant": "stable", "unit": "unit-1",
		"region": "here", "tries": 1.0, "subject": "subject-1", "client": "copilot", "client_version": "1.300.0", "bytes_in": float64(len(body)), "events_out": 1.0,
	}, "body_ms", "asked_ms", "first_byte_ms", "upstream_first_byte_ms")
	send(func(r *http.Request) { r.Header.Set("Authorization", "Bearer SECRETTOKEN") })
	want("a bad token", map[string]any{"outcome": "denied", "status": 401.0, "code": "invalid_token", "subject": nil, "unit": nil, "model": nil})
	send(func(r *http.Request) { r.URL.Path = "/v1/engines/nothing/completions" })
	want("an unknown model", map[string]any{"outcome": "bad_request", "status": 404.0, "code": "model_not_found", "subject": "subject-1"})
	send(func(r *http.Request) { r.Header.Set("Editor-Plugin-Version", "copilot/1\",\"outcome\":\"x") })
	want("an odd version", map[string]any{"outcome": "ok", "client": "Go-http-client"}, "first_byte_ms")
	unit.is(answers(500, nil, "SECRETANSWER"))
	send(func(*http.Request) {})
	want("a failure", map[string]any{"outcome": "upstream_error", "status": 502.0, "unit": "unit-1"})
	unit.is(brokenOff(event(chunk(0, "SECRETANSWER", "null"))))
	send(func(*http.Request) {})
	want("an answer that breaks off", map[string]any{"outcome": "upstream_error", "status": 200.0, "code": "broken_off"}, "first_byte_ms")
	unit.is(http.HandlerFunc(never))
	before := s.arrived.count()
	visit := s.visitor(leavers[0]).start(body, false)
	s.eventually("it is at the unit", func() bool { return s.arrived.count() > before })
	visit.leave()
	want("a cancel", map[string]any{"outcome": "cancelled", "status": nil, "phase": "wait", "code": nil})
	if strings.Contains(log.String(), "SECRET") {
		t.Errorf("the access log has content:\n%s", log)
	}
	if got := s.metric("ghostline_requests_total"); got != float64(n) {
		t.Errorf("%d lines for %v requests", n, got)
	}
}

// TestAccessLogIsWholeAfterDrain: the lines of the last requests are there once
// the proxy has ended.
func TestAccessLogIsWholeAfterDrain(t *testing.T) {
	release := make(chan struct{})
	s, log := startLogged(t, setup{unit: held(release)})
	visit := s.visitor(leavers[0]).start(prompt, false)
	s.eventually("it is at the unit", func() bool { return s.arrived.count() == 1 })
	s.stop()
	close(release)
	<-visit.ended
	s.stopped <- <-s.stopped // for the stack's own end
	if lines := accessLines(t, log); len(lines) != 1 || lines[0]["outcome"] != "ok" {
		t.Errorf("the log has %v", lines)
	}
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// countsDroppedLines has an access log that cannot be written; users notice
// nothing. One that is not taken fast enough is tested in proxy.
func countsDroppedLines(t *testing.T) {
	s := start(t, setup{options: func(o *proxy.Options) { o.AccessLog = fullDisk{} }})
	s.complete()
	s.complete()
	s.wantMetric(2, "ghostline_access_log_dropped_total")
	s.wantLog(`"level":"WARN"`, "the access log cannot be written", "no space left on device")
}
