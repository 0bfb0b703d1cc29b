package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFeedback(t *testing.T) {
	t.Parallel()
	var sessions []string
	var got map[string]string
	s := newTestServer(t, serverOptions{}, func(w http.ResponseWriter, r *http.Request) {
		sessions = append(sessions, r.Header.Get("X-Session-Id"))
		if r.URL.Path == "/v1/completions" {
			w.Header().Set("X-Ghostline-Variant", "next")
			write(w, text("a"), stop, done)
			return
		}
		if r.URL.Path != "/v1/feedback" || r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer token-1" {
			t.Errorf("%s %s with %q", r.Method, r.URL.Path, r.Header.Get("Authorization"))
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	c := s.client(t)
	variant := ""
	for e, err := range c.Complete(t.Context(), Request{Model: "ghost-code", RequestID: "id-1"}) {
		if err != nil {
			t.Fatal(err)
		}
		variant = e.Variant
	}
	if err := c.Feedback(t.Context(), Feedback{RequestID: "id-1", Event: Accepted, Model: "ghost-code", Variant: variant}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"request_id": "id-1", "event": "accepted", "model": "ghost-code", "variant": "next"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(sessions) != 2 || sessions[0] == "" || sessions[0] != sessions[1] {
		t.Errorf("sessions %q, want the same twice", sessions)
	}
	if s.accepted.Load() != 1 || c.Connections() != 1 {
		t.Errorf("%d connections, want 1", s.accepted.Load())
	}
	if other := s.client(t); other.session == c.session {
		t.Error("two clients have one session")
	}
}

func TestFeedbackRefused(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, serverOptions{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":{"message":"no such completion","type":"invalid_request_error","code":"request_not_found"}}`))
	})
	tokens := &fixedToken{token: "old", renewed: "good"}
	err := s.clientWith(t, tokens).Feedback(t.Context(), Feedback{RequestID: "id-1", Event: Shown})
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Status != 404 || refusal.Code != "request_not_found" || tokens.invalidated != 1 {
		t.Errorf("error %v after %d invalidations, want a 404 with the second token", err, tokens.invalidated)
	}
}
