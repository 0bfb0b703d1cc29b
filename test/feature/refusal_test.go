package feature

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/tidwall/gjson"
)

// refusal is an error answer as a client must see it.
type refusal struct {
	status  int
	code    string
	message string // a part of it: what names the fault
	retry   bool   // the same request may do better later
}

func (r reply) wantRefusal(t *testing.T, want refusal) {
	t.Helper()
	r.wantError(t, want.status, want.code)
	if message := gjson.Get(r.body, "error.message").Str; !strings.Contains(message, want.message) {
		t.Errorf("message %q; want one with %q", message, want.message)
	}
	if retry := r.header.Get("X-Should-Retry") != "false"; retry != want.retry {
		t.Errorf("X-Should-Retry %q; want it to be false: %v", r.header.Get("X-Should-Retry"), !want.retry)
	}
	challenge := r.header.Get("WWW-Authenticate") // RFC 6750 section 3
	if want.status == http.StatusForbidden && !strings.HasPrefix(challenge, `Bearer error="insufficient_scope"`) || want.status == http.StatusUnauthorized && !strings.HasPrefix(challenge, "Bearer") {
		t.Errorf("WWW-Authenticate %q; want a challenge that says why", challenge)
	}
	if ct := r.header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("content type %q; want application/json", ct)
	}
}

// wantArrivals checks how many requests the unit has seen.
func (s *stack) wantArrivals(n int) {
	s.t.Helper()
	if got := s.arrived.count(); got != n {
		s.t.Errorf("%d requests arrived at the unit, want %d", got, n)
	}
}

// wantNoLeak searches everything that the proxy says of itself, and the answers
// given, for what must never leave it.
func (s *stack) wantNoLeak(answers []reply, secrets ...string) {
	s.t.Helper()
	said := map[string]string{"the log": s.log.String()}
	for _, page := range []string{"/statusz", "/metrics"} {
		said[page] = s.admin(page)
	}
	for place, text := range said {
		for _, secret := range append(secrets, unitKey) {
			if strings.Contains(text, secret) {
				s.t.Errorf("%s holds %.40q", place, secret)
			}
		}
	}
	for _, answer := range answers {
		for _, secret := range append(secrets, unitKey) {
			if strings.Contains(answer.body, secret) {
				s.t.Errorf("the answer %d %.200q holds %.40q", answer.status, answer.body, secret)
			}
			for name, values := range answer.header {
				if strings.Contains(strings.Join(values, ","), secret) {
					s.t.Errorf("the header %s of an answer %d holds %.40q", name, answer.status, secret)
				}
			}
		}
	}
}

// admin is the body of a page of the admin port.
func (s *stack) admin(page string) string {
	s.t.Helper()
	resp, err := http.Get(s.adminURL + page)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: status %d, %v", page, resp.StatusCode, err)
	}
	return string(body)
}

// configHash is the hash of the config file as it now stands.
func (s *stack) configHash() string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "config.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	return config.Hash(data)
}
