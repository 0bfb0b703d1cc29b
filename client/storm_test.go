package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// TestUnauthorizedStorm: a proxy that refuses the token of 1,000 requests in flight
// leads to one exchange, and no request is sent more than twice, whether the next
// token is any better or not.
func TestUnauthorizedStorm(t *testing.T) {
	const requests = 1000
	for name, refuseAll := range map[string]bool{"the next token is good": false, "every token is refused": true} {
		t.Run(name, func(t *testing.T) {
			var exchanges, tries atomic.Int64
			issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":1500}`, exchanges.Add(1))
			}))
			defer issuer.Close()
			var waiting sync.WaitGroup // until all requests are in flight
			waiting.Add(requests)
			proxy := newTestServer(t, serverOptions{cleartext: true, maxStreams: requests}, func(w http.ResponseWriter, r *http.Request) {
				tries.Add(1)
				io.Copy(io.Discard, r.Body)
				old := r.Header.Get("Authorization") == "Bearer token-1"
				if old {
					waiting.Done()
					waiting.Wait()
				}
				if old || refuseAll {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				write(w, text("a"), stop, done)
			})
			tokens, err := NewTokenSource(TokenOptions{IssuerURL: issuer.URL, OAuthToken: testOAuth})
			if err != nil {
				t.Fatal(err)
			}
			defer tokens.Close()
			c := proxy.clientWith(t, tokens)
			var all sync.WaitGroup
			for range requests {
				all.Go(func() {
					answer, err := collect(c, t.Context(), Request{Model: "m"})
					var refusal *Error
					if refuseAll && (!errors.As(err, &refusal) || refusal.Status != http.StatusUnauthorized) || !refuseAll && (err != nil || answer != "a") {
						t.Errorf("answer %q, %v", answer, err)
					}
				})
			}
			all.Wait()
			if n := exchanges.Load(); n != 2 {
				t.Errorf("%d exchanges, want 2: the first, and one for all that were refused", n)
			}
			if n := tries.Load(); n != 2*requests {
				t.Errorf("%d requests at the proxy, want 2 for each", n)
			}
			if !refuseAll {
				return
			}
			// Nor do those that come later ask the issuer, for a while.
			for range 100 {
				if _, err := collect(c, t.Context(), Request{Model: "m"}); err == nil {
					t.Error("answered")
				}
			}
			if n := exchanges.Load(); n != 2 || tries.Load() != 2*requests+100 {
				t.Errorf("%d exchanges and %d requests, want 2 and one for each that comes later", n, tries.Load()-2*requests)
			}
		})
	}
}
