package httpserver

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestLeaveBody sends heads whose bodies come late or never.
func TestLeaveBody(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		LeaveBody(w, r)
		_, _ = io.WriteString(w, "answered")
	}))
	defer server.Close()
	for _, tc := range []struct {
		name, request string
		kept          bool // the connection
	}{
		{"no body", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", true},
		{"a body that is there", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", true},
		{"a body that never comes", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n", false},
		{"half a body", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbo", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.WriteString(conn, tc.request); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "answered" || resp.Close == tc.kept {
				t.Errorf("got %q, %v, and the connection closes: %v", body, err, resp.Close)
			}
		})
	}
}
