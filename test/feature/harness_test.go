// Package feature holds one file for each thing that the proxy does: config in,
// wire behaviour out, and the model server is asked what arrived.
package feature

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/localca"
	"github.com/ghostline-dev/ghostline/internal/modelserver"
	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
)

const (
	issuer   = "https://tokens.test"
	audience = "completions.test"
	// unitKey is the unit's credential: no client must ever see it.
	unitKey = "unit-key-7f3a"
)

// setup is what a test may choose before the stack starts.
type setup struct {
	model  modelserver.Options
	config func(*config.Config)
	// unit replaces the model server where a test needs a unit that no model
	// server would be.
	unit http.Handler
	// options changes what the proxy is run with.
	options func(*proxy.Options)
	// before runs once all files are written, before the proxy starts.
	before func(*stack)
	// unready says that the proxy is not to become ready.
	unready bool
}

// stack is a proxy in front of one model server, with all their listeners.
type stack struct {
	t        *testing.T
	ca       *localca.CA
	signer   token.Signer
	model    *modelserver.Server
	arrived  *arrivals
	metrics  *prometheus.Registry
	log      *lockedBuffer // of the proxy
	networks []*network    // before units, if the test has said so
	config   config.Config
	dir      string
	tlsURL   string
	plainURL string
	adminURL string
	stop     context.CancelFunc
	stopped  chan error
}

// start runs a stack for the length of the test.
func start(t *testing.T, o setup) *stack {
	t.Helper()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{
		t: t, ca: ca, signer: token.Signer{KeyID: token.Thumbprint(key.Public().(ed25519.PublicKey)), Key: key},
		arrived: &arrivals{}, metrics: prometheus.NewRegistry(), log: &lockedBuffer{}, dir: t.TempDir(), stopped: make(chan error, 1),
	}
	s.config = s.baseConfig(s.startModel(o))
	if o.config != nil {
		o.config(&s.config)
	}
	s.writeKeys(s.signer)
	s.write("credentials/unit", unitKey+"\n")
	s.writeConfig()
	if o.before != nil {
		o.before(s)
	}
	s.startProxy(o)
	return s
}

// startModel runs the model server, or what stands in its place, and returns
// its address.
func (s *stack) startModel(o setup) string {
	s.t.Helper()
	model, err := modelserver.New(o.model)
	if err != nil {
		s.t.Fatal(err)
	}
	s.model = model
	handler := model.Handler()
	if o.unit != nil {
		handler = o.unit
	}
	listener := listen(s.t)
	server := &httpserver.Server{
		Name: "model", Listener: listener, Handler: s.arrived.record(handler), ConnState: model.ConnState,
		Log: slog.New(slog.DiscardHandler), Drain: func() time.Duration { return time.Nanosecond },
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Run(ctx) // a unit that is cut off at the end of a test is no failure
	}()
	s.t.Cleanup(func() { stop(); <-ended })
	return listener.Addr().String()
}

func (s *stack) baseConfig(unit string) config.Config {
	return config.Config{
		Region: "here",
		Tokens: config.Tokens{Issuer: issuer, Audience: audience, KeySet: config.KeySet{File: "jwks.json"}},
		Models: []config.Model{{Name: "ghost-code", Aliases: []string{"copilot-codex"},
			Variants: []config.Variant{{Name: "stable", Weight: 1}}}},
		Units: []config.Unit{{Name: "unit-1", Region: "here", Serves: "ghost-code/stable", Provider: config.ProviderOpenAI,
			URL: "http://" + unit + "/v1/completions", Protocol: config.ProtocolH2C, Credential: "unit", UpstreamModel: "upstream-model"}},
		Limits: config.Limits{PerSubject: config.SubjectLimits{InFlight: 10_000, RequestsPerSecond: 1e6, Burst: 1_000_000}},
	}
}

func (s *stack) startProxy(o setup) {
	s.t.Helper()
	opts := s.options()
	if o.options != nil {
		o.options(&opts)
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	go func() { s.stopped <- proxy.Run(ctx, opts) }()
	s.t.Cleanup(func() {
		s.stop()
		if err := <-s.stopped; err != nil {
			s.t.Errorf("the proxy ended with: %v", err)
		}
		if s.t.Failed() {
			s.t.Logf("the proxy's log:\n%s", s.log)
		}
	})
	page := "/readyz"
	if o.unready {
		page = "/healthz"
	}
	s.eventually("the proxy answers", func() bool {
		resp, err := http.Get(s.adminURL + page)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// options are what the proxy is run with, listeners and all.
func (s *stack) options() proxy.Options {
	s.t.Helper()
	certificate, err := s.ca.ServerTLS()
	if err != nil {
		s.t.Fatal(err)
	}
	listeners := httpserver.Listeners{TLS: listen(s.t), Cleartext: listen(s.t), Admin: listen(s.t), Certificate: certificate}
	s.tlsURL = "https://" + listeners.TLS.Addr().String()
	s.plainURL = "http://" + listeners.Cleartext.Addr().String()
	s.adminURL = "http://" + listeners.Admin.Addr().String()
	return proxy.Options{
		ConfigFile: filepath.Join(s.dir, "config.json"), CredentialsDir: filepath.Join(s.dir, "credentials"),
		Listeners: listeners, Metrics: s.metrics,
		Log: slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
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

// write puts a file into the stack's directory, atomically, as a mount does.
func (s *stack) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		s.t.Fatal(err)
	}
}

// writeConfig writes the config as it now stands.
func (s *stack) writeConfig() {
	s.t.Helper()
	data, err := json.Marshal(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("config.json", string(data))
}

func (s *stack) writeKeys(signers ...token.Signer) {
	s.t.Helper()
	var keys []ed25519.PublicKey
	for _, signer := range signers {
		keys = append(keys, signer.Key.Public().(ed25519.PublicKey))
	}
	data, err := json.Marshal(token.NewKeySet(keys...))
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("jwks.json", string(data))
}

// token signs a token for a subject, with claims changed as the test wants.
func (s *stack) token(change ...func(*token.Claims)) string {
	s.t.Helper()
	now := time.Now()
	claims := token.Claims{
		Issuer: issuer, Audience: audience, Subject: "subject-1", IssuedAt: now, Expires: now.Add(25 * time.Minute),
		ID: "token-1", ClientID: "editor",
	}
	for _, c := range change {
		c(&claims)
	}
	signed, err := s.signer.Sign(claims)
	if err != nil {
		s.t.Fatal(err)
	}
	return signed
}

// Clients of the proxy, each with connections of its own.

func (s *stack) h2() *http.Client {
	return s.client(func(p *http.Protocols) { p.SetHTTP2(true) })
}

func (s *stack) h2c() *http.Client {
	return s.client(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })
}

func (s *stack) h1() *http.Client {
	return s.client(func(p *http.Protocols) { p.SetHTTP1(true) })
}

func (s *stack) client(choose func(*http.Protocols)) *http.Client {
	transport := &http.Transport{
		Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool()}, DisableCompression: true,
	}
	choose(transport.Protocols)
	//lint:ignore SA1019 deprecated only from Go 1.27, where net/http follows x/net
	if _, err := http2.ConfigureTransports(transport); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// request is a completion request with a good token.
func (s *stack) request(ctx context.Context, base, path, body string) *http.Request {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token())
	req.Header.Set("Content-Type", "application/json")
	return req
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// post sends a completion request over h2c and reads the whole answer.
func (s *stack) post(path, body string) reply {
	s.t.Helper()
	return s.do(s.h2c(), s.request(s.t.Context(), s.plainURL, path, body))
}

func (s *stack) do(client *http.Client, req *http.Request) reply {
	s.t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(data), err: err}
}

// events are the data of a stream's events.
func (r reply) events() []string {
	var events []string
	for _, event := range strings.SplitAfter(r.body, "\n\n") {
		if data, ok := strings.CutPrefix(event, "data: "); ok {
			events = append(events, strings.TrimSuffix(data, "\n\n"))
		}
	}
	return events
}

// wantError checks an error answer's status and code.
func (r reply) wantError(t *testing.T, status int, code string) {
	t.Helper()
	var body struct {
		Error struct{ Message, Type, Code string }
	}
	if err := json.Unmarshal([]byte(r.body), &body); err != nil {
		t.Errorf("status %d with body %.200q: %v; want JSON", r.status, r.body, err)
		return
	}
	if r.status != status || body.Error.Code != code || body.Error.Message == "" || body.Error.Type == "" {
		t.Errorf("got %d %+v; want %d with code %s, a type and a message", r.status, body.Error, status, code)
	}
	if r.header.Get("X-Request-Id") == "" || r.header.Get("X-Request-Id") != r.header.Get("X-GitHub-Request-Id") {
		t.Errorf("request ids %q and %q; want two alike", r.header.Get("X-Request-Id"), r.header.Get("X-GitHub-Request-Id"))
	}
}

// eventually waits until something is so.
func (s *stack) eventually(what string, is func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !is() {
		if time.Now().After(deadline) {
			s.t.Fatalf("not so in 20s: %s\nmodel server: %+v\nproxy's log:\n%s", what, s.model.Stats(), s.log)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
