package load

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/localca"
	"github.com/ghostline-dev/ghostline/internal/localstack"
	"github.com/ghostline-dev/ghostline/internal/modelserver"
	"github.com/ghostline-dev/ghostline/proxy"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/tokenissuer"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick are users who type far too fast, at a URL.
func quick(url string) Options {
	return Options{
		Target: Target{URL: url}, Users: 4, Requests: 100, Timeout: 20 * time.Second, Model: "ghost-code", MaxTokens: 16, Seed: 1,
		Typing: Typing{CancelPercent: 45, Debounce: time.Millisecond, Keystroke: 6 * time.Millisecond, Think: time.Millisecond},
	}
}

// report runs a population that must get a report.
func report(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if q := r.Requests; q.Sent != q.Whole+q.Cancelled+q.Superseded+q.Errors+q.CutOff {
		t.Errorf("the books do not balance: %+v", q)
	}
	return r
}

// text is the report as a user sees it.
func (r *Report) text() string {
	var b strings.Builder
	_ = r.Write(&b) // a strings.Builder takes everything
	return b.String()
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// background runs a service for the length of the test.
func background(t *testing.T, service func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// startModel runs a model server in clear text: h2c and HTTP/1.1.
func startModel(t *testing.T, o modelserver.Options) (model *modelserver.Server, url string) {
	t.Helper()
	o.Listeners = httpserver.Listeners{Cleartext: listen(t)}
	model, err := modelserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	background(t, model.Run)
	return model, "http://" + o.Listeners.Cleartext.Addr().String()
}

// busyModel is an answer of about 20 ms.
func busyModel() modelserver.Options {
	return modelserver.Options{FirstToken: 5 * time.Millisecond, TokensPerSecond: 1000, Step: time.Millisecond}
}

// serve runs a handler in clear text: h2c and HTTP/1.1.
func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// To the end: only then does an HTTP/1.1 server see its client leave.
		_, _ = io.Copy(io.Discard, r.Body)
		handler(w, r)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// connKey is where a request's connection is.
type connKey struct{}

// sever cuts the connection that a request came over.
func sever(r *http.Request) { r.Context().Value(connKey{}).(net.Conn).Close() }

const (
	textEvent   = `data: {"choices":[{"index":0,"text":"x","finish_reason":null}]}` + "\n\n"
	finishEvent = `data: {"choices":[{"index":0,"text":"","finish_reason":"stop"}]}` + "\n\n"
	doneEvent   = "data: [DONE]\n\n"
	wholeAnswer = textEvent + finishEvent + doneEvent
)

// events answers with a stream.
func events(w http.ResponseWriter, stream string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, stream) // the client may have left
	_ = http.NewResponseController(w).Flush()
}

// service is a token issuer and a proxy in front of a model server.
type service struct {
	model   *modelserver.Server
	ca      *localca.CA
	metrics *prometheus.Registry // of the proxy
	proxy   string
	issuer  string
}

const audience = "completions.test"

// startService runs a service for so many subjects, whose OAuth tokens are those
// of oauth.
func startService(t *testing.T, subjects int, tokenLife time.Duration) *service {
	t.Helper()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := ca.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	s := &service{ca: ca, metrics: prometheus.NewRegistry()}
	var unit string
	s.model, unit = startModel(t, busyModel())
	at := httpserver.Listeners{TLS: listen(t), Admin: listen(t), Certificate: certificate}
	issuer := httpserver.Listeners{TLS: listen(t), Certificate: certificate}
	s.proxy, s.issuer = "https://"+at.TLS.Addr().String(), "https://"+issuer.TLS.Addr().String()
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	write("ca.pem", ca.PEM())
	identities := "tokens:\n"
	for i := range subjects {
		identities += fmt.Sprintf("- {sha256: %x, subject: user-%d, clientID: editor}\n", sha256.Sum256([]byte(oauth(i))), i)
	}
	background(t, func(ctx context.Context) error {
		return tokenissuer.Run(ctx, tokenissuer.Options{Listeners: issuer, Log: slog.New(slog.DiscardHandler), Config: tokenissuer.Config{
			Issuer: s.issuer, Audiences: []string{audience}, TokenLife: tokenissuer.Duration(tokenLife),
			Keys: tokenissuer.KeysConfig{Directory: filepath.Join(dir, "keys")},
			IdentityProviders: []tokenissuer.ProviderConfig{{Name: "local", Type: tokenissuer.ProviderStatic,
				Static: &tokenissuer.StaticConfig{File: write("identities.yaml", []byte(identities))}}},
			Endpoints: tokenissuer.EndpointsConfig{Proxy: s.proxy, API: s.proxy}, SKU: "test",
		}})
	})
	content, err := json.Marshal(s.config(unit))
	if err != nil {
		t.Fatal(err)
	}
	file := write("proxy.json", content)
	background(t, func(ctx context.Context) error {
		return proxy.Run(ctx, proxy.Options{ConfigFile: file, Listeners: at, Log: slog.New(slog.DiscardHandler), Metrics: s.metrics})
	})
	if err := localstack.WaitReady(t.Context(), "http://"+at.Admin.Addr().String()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *service) config(unit string) config.Config {
	return config.Config{
		Region: "here",
		Tokens: config.Tokens{Issuer: s.issuer, Audience: audience,
			KeySet: config.KeySet{URL: s.issuer + "/.well-known/jwks.json", CAFile: "ca.pem"}},
		Models: []config.Model{{Name: "ghost-code", Variants: []config.Variant{{Name: "stable", Weight: 1}}}},
		Units: []config.Unit{{Name: "unit-1", Region: "here", Serves: "ghost-code/stable", Provider: config.ProviderOpenAI,
			URL: unit + "/v1/completions", Protocol: config.ProtocolH2C}},
		Limits: config.Limits{PerSubject: config.SubjectLimits{InFlight: 1000, RequestsPerSecond: 10_000, Burst: 10_000}},
	}
}

// oauth is the OAuth token of a subject.
func oauth(subject int) string { return fmt.Sprintf("oauth-%d", subject) }

// tokens are sources for so many subjects.
func (s *service) tokens(t *testing.T, subjects int) (list []client.Tokens) {
	t.Helper()
	for i := range subjects {
		source, err := client.NewTokenSource(client.TokenOptions{IssuerURL: s.issuer, OAuthToken: oauth(i), RootCAs: s.ca.Pool()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { source.Close() })
		list = append(list, source)
	}
	return list
}

// served is how many completions the proxy has recorded, and how many of them as
// cancelled.
func (s *service) served(t *testing.T) (all, cancelled int64) {
	t.Helper()
	families, err := s.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "ghostline_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			n := int64(metric.GetCounter().GetValue())
			all += n
			for _, label := range metric.GetLabel() {
				if label.GetName() == "outcome" && label.GetValue() == "cancelled" {
					cancelled += n
				}
			}
		}
	}
	return all, cancelled
}
