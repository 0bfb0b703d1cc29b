package feature

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"
)

// arrivals are the requests that reached the unit.
type arrivals struct {
	mu   sync.Mutex
	list []arrival
}

type arrival struct {
	path   string
	header http.Header
	body   string
}

func (a *arrivals) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			a.mu.Lock()
			a.list = append(a.list, arrival{path: r.URL.RequestURI(), header: r.Header.Clone(), body: string(body)})
			a.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.list)
}

// last is the request that arrived last.
func (a *arrivals) last(t *testing.T) arrival {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.list) == 0 {
		t.Fatal("nothing arrived at the unit")
	}
	return a.list[len(a.list)-1]
}

// lockedBuffer is a log that is written and read at once.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
