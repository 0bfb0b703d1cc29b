package tokenissuer

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/google/uuid"
)

// headerRequestID names a request. Copilot clients blame a firewall for an
// error without its twin.
const (
	headerRequestID     = "X-Request-Id"
	headerRequestIDTwin = "X-GitHub-Request-Id"
)

// afterOutage is when to ask again while an identity provider is out.
const afterOutage = 5 * time.Second

// spread adds up to 5 s, so that those who were refused together do not come back
// together.
func spread(wait time.Duration) time.Duration {
	return wait + time.Duration(rand.Int64N(int64(5*time.Second)))
}

// requestIDPattern is an id that is safe to repeat and to log.
var requestIDPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// withRequestID gives every answer the client's request id, or a new one.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(headerRequestID)
		if !requestIDPattern.MatchString(id) {
			id = uuid.NewString()
		}
		w.Header().Set(headerRequestID, id)
		w.Header().Set(headerRequestIDTwin, id)
		next.ServeHTTP(w, r)
	})
}

// withBoundedBody bounds the wait for bodies that no handler reads; one that does
// sets a limit of its own.
func withBoundedBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpserver.LeaveBody(w, r)
		next.ServeHTTP(w, r)
	})
}

// methods lets only the given methods through to next.
func methods(next http.HandlerFunc, allowed ...string) http.HandlerFunc {
	list := strings.Join(allowed, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(allowed, r.Method) {
			w.Header().Set("Allow", list)
			writeError(w, http.StatusMethodNotAllowed, "invalid_request", "the method must be "+list)
			return
		}
		next(w, r)
	}
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	writeError(w, http.StatusNotFound, "invalid_request", "no such path; there are "+
		strings.Join([]string{"POST " + pathOAuth, "GET " + pathCopilot, "GET " + pathKeys, "GET " + pathMetadata}, ", "))
}

// writeError writes RFC 6749's error object (section 5.2). A description has no
// quotes and no backslashes.
func writeError(w http.ResponseWriter, status int, code, description string) {
	writeJSON(w, status, map[string]string{"error": code, "error_description": description})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A failed write is a client that went away; the types all marshal.
	_ = json.NewEncoder(w).Encode(body)
}
