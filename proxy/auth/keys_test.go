package auth

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/internal/localca"
	"github.com/ghostline-dev/ghostline/internal/token"
)

// jwks is a key set on the wire.
func jwks(n byte) string {
	x := base64.RawURLEncoding.EncodeToString(key(n).Public().(ed25519.PublicKey))
	return fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":%q,"x":%q}]}`, signer(n).KeyID, x)
}

// fetcher runs a KeyFetch for the length of a test.
type fetcher struct {
	got  chan string
	stop func() // returns once it has ended
}

func startFetching(t *testing.T, url string, ca *localca.CA) *fetcher {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fetcher{got: make(chan string, 10)}
	ended := make(chan struct{})
	fetch := KeyFetch{URL: url, Roots: ca.Pool(), Log: slog.New(slog.DiscardHandler), Got: func(data []byte) { f.got <- string(data) }}
	go func() {
		defer close(ended)
		fetch.Run(ctx)
	}()
	f.stop = func() { cancel(); receive(t, ended) }
	t.Cleanup(f.stop)
	return f
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("waited in vain")
		panic("unreachable")
	}
}

// issuer answers the nth request for its keys with the nth answer, and then
// with the last.
func issuer(t *testing.T, answers ...http.HandlerFunc) (url string, ca *localca.CA, asked *atomic.Int32) {
	t.Helper()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int32)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(asked.Add(1))
		if r.Method != http.MethodGet || r.Header.Get("Authorization") != "" {
			t.Errorf("the keys were asked for by %s with %v", r.Method, r.Header)
		}
		answers[min(n, len(answers))-1](w, r)
	}))
	if server.TLS, err = ca.ServerTLS(); err != nil {
		t.Fatal(err)
	}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL + "/jwks.json", ca, asked
}

func answer(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
}

// TestFetchKeysUntilRight has the issuer begin with answers that are no key
// set: none of them is handed over, and the fetch is tried again soon.
func TestFetchKeysUntilRight(t *testing.T) {
	for name, bad := range map[string]http.HandlerFunc{
		"an error":          answer(http.StatusInternalServerError, jwks(0)),
		"another success":   answer(http.StatusAccepted, jwks(0)),
		"no JSON":           answer(http.StatusOK, "<html>"),
		"no keys":           answer(http.StatusOK, `{"keys":[]}`),
		"only foreign keys": answer(http.StatusOK, `{"keys":[{"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"}]}`),
		"too long":          answer(http.StatusOK, jwks(0)+strings.Repeat(" ", token.MaxKeySetBytes)),
		"broken off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(jwks(0)[:50]))
		},
		"a connection reset": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, ca, asked := issuer(t, bad, answer(http.StatusOK, jwks(0)))
			f := startFetching(t, url, ca)
			if got := receive(t, f.got); got != jwks(0) {
				t.Errorf("got %q", got)
			}
			if n := asked.Load(); n != 2 {
				t.Errorf("the issuer was asked %d times, want 2", n)
			}
			f.stop()
			if n := len(f.got); n != 0 {
				t.Errorf("%d more key sets were handed over", n)
			}
		})
	}
}

// TestRedirectIsNotFollowed: keys come from where the config says.
func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("the redirect was followed")
		_, _ = w.Write([]byte(jwks(1)))
	}))
	t.Cleanup(elsewhere.Close)
	url, ca, _ := issuer(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
		answer(http.StatusOK, jwks(0)))
	if got := receive(t, startFetching(t, url, ca).got); got != jwks(0) {
		t.Errorf("got %q", got)
	}
}

func TestIssuerMustBeTrusted(t *testing.T) {
	url, _, asked := issuer(t, answer(http.StatusOK, jwks(0)))
	other, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	KeyFetch{
		URL: url, Roots: other.Pool(),
		Log: slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) { cancel(); return log.Write(p) }), nil)),
		Got: func([]byte) { t.Error("keys of an issuer that is not trusted were handed over") },
	}.Run(ctx)
	if asked.Load() != 0 || !strings.Contains(log.String(), "certificate") {
		t.Errorf("asked %d times; log %s", asked.Load(), log.String())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestStopsWhileFetching ends the context during a fetch that hangs.
func TestStopsWhileFetching(t *testing.T) {
	arrived := make(chan struct{}, 1)
	url, ca, _ := issuer(t, func(_ http.ResponseWriter, r *http.Request) { arrived <- struct{}{}; <-r.Context().Done() })
	f := startFetching(t, url, ca)
	receive(t, arrived)
	f.stop()
	if len(f.got) != 0 {
		t.Error("keys were handed over")
	}
}

// TestRhythm has the clock of a bubble: good keys every 30 seconds, failures
// again soon, ever less often, and what was good last is not taken back.
func TestRhythm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		bad := errors.New("bad")
		start := time.Now()
		var asked []time.Duration
		var got []string
		fresh := 0
		answers := []error{nil, bad, bad, bad, bad, bad, bad, bad, bad, bad, bad, bad, nil, bad, nil}
		fetch := KeyFetch{Log: slog.New(slog.DiscardHandler), Got: func(data []byte) { got = append(got, string(data)) }, Fresh: func() { fresh++ }}
		go fetch.keepFetching(ctx, func() (keyAnswer, error) {
			asked = append(asked, time.Since(start))
			if len(asked) > len(answers) {
				cancel()
				return keyAnswer{}, ctx.Err()
			}
			return keyAnswer{data: fmt.Append(nil, len(asked)), every: keysEvery}, answers[len(asked)-1]
		})
		<-ctx.Done()
		synctest.Wait()

		if want := []string{"1", "13", "15"}; strings.Join(got, " ") != strings.Join(want, " ") || fresh != len(want) {
			t.Errorf("handed over %v, fresh %d times; want %v", got, fresh, want)
		}
		retry := 100 * time.Millisecond
		for i, err := range answers {
			want := 30 * time.Second
			if err != nil {
				want, retry = retry, min(2*retry, 30*time.Second)
			} else {
				retry = 100 * time.Millisecond
			}
			if wait := asked[i+1] - asked[i]; wait < want || wait > want+want/10 {
				t.Errorf("%s passed after answer %d, want %s and up to a tenth more", wait, i+1, want)
			}
		}
	})
}

// TestOnlyChangesAreHandedOver: what is not new costs its proxy nothing, and an
// issuer that knows tags is not asked to send it again.
func TestOnlyChangesAreHandedOver(t *testing.T) {
	var tags []string
	tagged := func(n byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			tags = append(tags, r.Header.Get("If-None-Match"))
			if r.Header.Get("Cache-Control") != "no-cache" {
				t.Error("a cache in between may answer")
			}
			tag := fmt.Sprintf(`"%d"`, n)
			w.Header().Set("ETag", tag)
			if r.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			_, _ = w.Write([]byte(jwks(n)))
		}
	}
	url, ca, _ := issuer(t, answer(http.StatusNotModified, ""), tagged(0), tagged(0), answer(http.StatusOK, jwks(0)), tagged(1), tagged(1), tagged(0))
	source := keySource{client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}}, url: url}
	t.Cleanup(source.client.CloseIdleConnections)
	for i, want := range []string{"error", jwks(0), "", "", jwks(1), "", jwks(0)} {
		got, err := source.fetch(t.Context())
		if (err != nil) != (want == "error") || err == nil && string(got.data) != want {
			t.Errorf("fetch %d: %q, %v; want %q", i, got.data, err, want)
		}
	}
	if want := []string{"", `"0"`, "", `"1"`, `"1"`}; !slices.Equal(tags, want) {
		t.Errorf("it had the tags %q, want %q", tags, want)
	}
}

func TestFetchEvery(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": keysEvery, "no-store": keysEvery, "public, max-age=300": keysEvery, "max-age=999999999": keysEvery, "max-age=99999999999999999999": keysEvery,
		"public, max-age=7": 7 * time.Second, "Max-Age=7": 7 * time.Second, "s-maxage=5": keysEvery, "x-max-age=5": keysEvery,
		"max-age=0": keysEveryLeast, "max-age=-5": keysEvery, "max-age=x": keysEvery,
	} {
		if got := fetchEvery(header); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}
