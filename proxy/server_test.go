package proxy

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestDrainEndsConnections tells HTTP/1.1 clients, answer by answer, to come
// back on another connection. Over HTTP/2 that would be a GOAWAY too early.
func TestDrainEndsConnections(t *testing.T) {
	for _, tc := range []struct {
		major    int
		draining bool
		want     string
	}{{1, false, ""}, {1, true, "close"}, {2, false, ""}, {2, true, ""}} {
		p := new(proxy)
		p.draining.Store(tc.draining)
		r, w := httptest.NewRequest(http.MethodGet, "/none", nil), httptest.NewRecorder()
		r.ProtoMajor = tc.major
		p.ServeHTTP(w, r)
		if got := w.Header().Get("Connection"); got != tc.want || w.Code != http.StatusNotFound {
			t.Errorf("HTTP/%d, draining %v: Connection %q, status %d; want %q, 404", tc.major, tc.draining, got, w.Code, tc.want)
		}
	}
}
