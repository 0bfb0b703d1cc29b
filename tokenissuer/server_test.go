package tokenissuer

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/localca"
	"github.com/ghostline-dev/ghostline/internal/service"
	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMetadata(t *testing.T) {
	answer := newIssuer(t).do(httptest.NewRequest(http.MethodGet, pathMetadata, nil))
	wantAnswer(t, answer, http.StatusOK, "no-cache", "application/json")
	var got map[string]any
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"issuer":                                testIssuer,
		"token_endpoint":                        testIssuer + "/oauth/token",
		"jwks_uri":                              testIssuer + "/.well-known/jwks.json",
		"grant_types_supported":                 []any{"urn:ietf:params:oauth:grant-type:token-exchange"},
		"token_endpoint_auth_methods_supported": []any{"none"},
		"response_types_supported":              []any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestKeySetCanBeKeptForAWhile(t *testing.T) {
	answer := newIssuer(t).do(httptest.NewRequest(http.MethodGet, pathKeys, nil))
	wantAnswer(t, answer, http.StatusOK, "public, max-age=30", "application/jwk-set+json")
}

func TestWrongMethods(t *testing.T) {
	i := newIssuer(t)
	for _, tc := range []struct{ method, path, allow string }{
		{"GET", pathOAuth, "POST"}, {"HEAD", pathOAuth, "POST"}, {"PUT", pathOAuth, "POST"}, {"OPTIONS", pathOAuth, "POST"},
		{"POST", pathCopilot, "GET"}, {"HEAD", pathCopilot, "GET"},
		{"POST", pathKeys, "GET, HEAD"}, {"DELETE", pathMetadata, "GET, HEAD"},
	} {
		answer := i.do(httptest.NewRequest(tc.method, tc.path, nil))
		if answer.Code != http.StatusMethodNotAllowed || answer.Header().Get("Allow") != tc.allow || answer.Header().Get("X-Request-Id") == "" {
			t.Errorf("%s %s: status %d, headers %v", tc.method, tc.path, answer.Code, answer.Header())
		}
	}
	if i.log.Len() > 0 {
		t.Errorf("a wrong method is no decision, but there is an audit line: %s", i.log)
	}
}

func TestUnknownPathNamesThoseThatAre(t *testing.T) {
	for _, path := range []string{"/", "/oauth", "/oauth/token/x", "/metrics", "/readyz"} {
		answer := newIssuer(t).do(httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != http.StatusNotFound || !strings.Contains(answer.Body.String(), "POST /oauth/token") {
			t.Errorf("%s: status %d: %s", path, answer.Code, answer.Body)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	i := newIssuer(t)
	for given, kept := range map[string]bool{
		"0d5e1c1c-1.a_B": true, "": false, "a b": false, "a\"b": false, "é": false, strings.Repeat("x", 129): false,
	} {
		r := httptest.NewRequest(http.MethodGet, pathKeys, nil)
		r.Header.Set("X-Request-Id", given)
		if id := i.do(r).Header().Get("X-Request-Id"); id == "" || (id == given) != kept {
			t.Errorf("request id %q answered with %q, kept should be %v", given, id, kept)
		}
	}
}

func TestReadyOnlyIfItCanSign(t *testing.T) {
	i := newIssuer(t)
	ask := func() (int, string) {
		answer := httptest.NewRecorder()
		i.adminHandler(prometheus.NewRegistry()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return answer.Code, answer.Body.String()
	}
	if code, body := ask(); code != http.StatusOK || body != "ok\nprovider local: ok\n" {
		t.Errorf("ready: %d %q", code, body)
	}
	// A signer whose key is not the published one makes tokens that nobody takes.
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	ring := *i.ring()
	ring.Signer.Key = other
	i.ring = func() *keys.Ring { return &ring }
	if code, body := ask(); code != http.StatusServiceUnavailable || body != "cannot sign\n" {
		t.Errorf("with a key that is not published: %d %q", code, body)
	}
}

// running is an issuer with all its listeners.
type running struct {
	tls, cleartext, admin string
	client                *http.Client
	stop                  func()
}

func start(t *testing.T, config Config) running {
	t.Helper()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	serverTLS, err := ca.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Config: config, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Listeners: httpserver.Listeners{TLS: listen(t), Cleartext: listen(t), Admin: listen(t), Certificate: serverTLS},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}, ForceAttemptHTTP2: true}
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return running{
		tls: "https://" + o.Listeners.TLS.Addr().String(), cleartext: "http://" + o.Listeners.Cleartext.Addr().String(),
		admin: "http://" + o.Listeners.Admin.Addr().String(), client: &http.Client{Transport: transport}, stop: stop,
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (r running) get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	response, err := r.client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return response, body(t, response)
}

func body(t *testing.T, response *http.Response) string {
	t.Helper()
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestRun is the whole service on sockets, twice on one key directory: what the
// first signed, the second's key set still verifies.
func TestRun(t *testing.T) {
	config := testConfig(t)
	first := start(t, config)
	var granted oauthGrant
	for _, base := range []string{first.tls, first.cleartext} {
		response, err := first.client.PostForm(base+pathOAuth, goodForm())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(body(t, response)), &granted); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %v", response.StatusCode, err)
		}
		if want := map[string]int{first.tls: 2, first.cleartext: 1}[base]; response.ProtoMajor != want {
			t.Errorf("%s answers in HTTP/%d, want HTTP/%d", base, response.ProtoMajor, want)
		}
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ok\nprovider local: ok\n"} {
		if response, text := first.get(t, first.admin+path); response.StatusCode != http.StatusOK || text != want {
			t.Errorf("%s: %d %q", path, response.StatusCode, text)
		}
	}
	_, metrics := first.get(t, first.admin+"/metrics")
	for _, want := range []string{
		`ghostline_issuer_exchanges_total{endpoint="oauth",provider="local",result="granted"} 2`,
		`ghostline_issuer_exchange_duration_seconds_count{endpoint="oauth",provider="local",result="granted"} 2`,
		"ghostline_issuer_keys 1",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	first.stop()

	second := start(t, config)
	_, document := second.get(t, second.tls+pathKeys)
	keys, err := token.ParseKeySet([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	verifier := token.Verifier{Issuer: testIssuer, Audience: testAudience}
	if _, err := verifier.Verify(granted.AccessToken, keys, time.Unix(granted.ExpiresAt, 0).Add(-time.Minute)); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// TestBodyThatNeverEnds breaks off in the middle of the body.
func TestBodyThatNeverEnds(t *testing.T) {
	r := start(t, testConfig(t))
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.cleartext, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ngrant_type=", pathOAuth)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	status, err := textproto.NewReader(bufio.NewReader(conn)).ReadLine()
	if err != nil || !strings.Contains(status, "400") {
		t.Errorf("answer %q, %v", status, err)
	}
}

func TestHeaderTooLarge(t *testing.T) {
	r := start(t, testConfig(t))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.cleartext+pathCopilot, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "token "+strings.Repeat("x", 1<<20))
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if body(t, response); response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d, want 431", response.StatusCode)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no listener":        {func(o *Options) { _ = o.Listeners.Cleartext.Close(); o.Listeners.Cleartext = nil }, "no listener for traffic"},
		"TLS without a cert": {func(o *Options) { o.Listeners.TLS, o.Listeners.Cleartext = o.Listeners.Cleartext, nil }, "needs a certificate"},
		"a bad config":       {func(o *Options) { o.Config.Issuer = "" }, "issuer: it is missing"},
		"no credentials":     {func(o *Options) { _ = os.Remove(o.Config.IdentityProviders[0].Static.File) }, "identity provider local"},
		"a file as key directory": {
			func(o *Options) { o.Config.Keys.Directory = o.Config.IdentityProviders[0].Static.File }, "signing keys"},
		"a Secret without Kubernetes": {
			func(o *Options) { o.Config.Keys = KeysConfig{Secret: "signing-keys"} }, "keys.secret: this program does not know Kubernetes"},
		"metrics taken": {func(o *Options) {
			if _, err := newMetrics(o.Metrics); err != nil {
				panic(err)
			}
		}, "duplicate metrics"},
	} {
		t.Run(name, func(t *testing.T) {
			listener := listen(t)
			o := Options{
				Config: testConfig(t), Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Listeners: httpserver.Listeners{Cleartext: listener},
			}
			tc.change(&o)
			err := Run(t.Context(), o)
			if !errors.Is(err, service.ErrConfig) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want ErrConfig with %q", err, tc.want)
			}
			if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the listener is still open: %v", err)
			}
		})
	}
}
