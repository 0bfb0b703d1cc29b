package api

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// requestCounter counts what an operator asks of the API server.
type requestCounter struct{ reads, changes atomic.Int64 }

func (r *requestCounter) count(config *rest.Config) *rest.Config {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			switch {
			case isChange(request):
				r.changes.Add(1)
			case !isWrite(request):
				r.reads.Add(1)
			}
			return next.RoundTrip(request)
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func isWrite(request *http.Request) bool { return request.Method != http.MethodGet }

// isChange says whether a request changes what the operator is there for, rather than
// its Lease or its events.
func isChange(request *http.Request) bool {
	return isWrite(request) && !strings.Contains(request.URL.Path, "/leases") && !strings.Contains(request.URL.Path, "/events") &&
		!strings.Contains(request.URL.Path, "/selfsubject")
}

// killer ends an operator after a number of its changes: that one reaches the API
// server, its answer does not reach the operator, and nothing after it does either. It
// gives its Lease back all the same, as a killed one does not, so that the next one
// need not wait for its end.
type killer struct {
	after int64
	done  atomic.Int64
	// last is the change after which it was killed.
	last atomic.Value
}

var errKilled = errors.New("killed")

func (k *killer) hasKilled() bool { return k.last.Load() != nil }

func (k *killer) through(config *rest.Config) *rest.Config {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if strings.Contains(request.URL.Path, "/leases") {
				return next.RoundTrip(request)
			}
			if k.hasKilled() {
				return nil, errKilled
			}
			response, err := next.RoundTrip(request)
			if err != nil || !isChange(request) || k.done.Add(1) < k.after {
				return response, err
			}
			response.Body.Close()
			k.last.CompareAndSwap(nil, request.Method+" "+request.URL.Path)
			return nil, errKilled
		})
	})
	return config
}
