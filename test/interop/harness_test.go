// Package interop holds Ghostline between programs that others have made: editors' and
// SDKs' clients in front of it, llama.cpp's server behind it. `make test-interop`
// installs them and runs these tests; without it they skip themselves.
package interop

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/localstack"
	"github.com/ghostline-dev/ghostline/internal/modelserver"
	"github.com/ghostline-dev/ghostline/proxy"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/tokenissuer"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// The variables that hack/test-interop.sh sets: llama.cpp's server, and the folder of
// what npm has installed.
const engineVariable, clientsVariable = "GHOSTLINE_LLAMA_SERVER", "GHOSTLINE_CLIENTS"

// installed is where that script has put what a test needs.
func installed(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s is not set: make test-interop installs what this needs, and sets it", variable)
	}
	return path
}

// stack is a token issuer, a proxy and a model server, set up as by `ghostline up`.
type stack struct {
	t     *testing.T
	files *localstack.Files
	model *modelserver.Server
	roots *x509.CertPool
}

// setup is what a test may choose before the stack starts.
type setup struct {
	model  modelserver.Options
	config func(*config.Config)      // may have other units serve
	issuer func(*tokenissuer.Config) // may have people log in elsewhere
}

// start runs a stack for the length of the test.
func start(t *testing.T, o setup) *stack {
	t.Helper()
	issuer, traffic, admin, unit := listen(t), listen(t), listen(t), listen(t)
	dir := filepath.Join(t.TempDir(), "stack")
	files, err := localstack.WriteFiles(dir, localstack.Addresses{
		Issuer: issuer.Addr().String(), Proxy: traffic.Addr().String(), Admin: admin.Addr().String(), Model: unit.Addr().String(),
	})
	check(t, err)
	s := &stack{t: t, files: files, roots: x509.NewCertPool()}
	ca, err := os.ReadFile(files.CA())
	check(t, err)
	s.roots.AppendCertsFromPEM(ca)
	check(t, os.WriteFile(filepath.Join(dir, engineCredential), []byte(engineKey), 0o600))
	if o.config != nil {
		s.configure(o.config)
	}
	certificate, err := tls.LoadX509KeyPair(files.Certificate(), files.Key())
	check(t, err)
	serverTLS := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	quiet := slog.New(slog.DiscardHandler)

	o.model.Log, o.model.Listeners = quiet, httpserver.Listeners{TLS: unit, Certificate: serverTLS}
	s.model, err = modelserver.New(o.model)
	check(t, err)
	s.run("model server", s.model.Run)
	issuerConfig, err := tokenissuer.LoadConfig(files.IssuerConfig())
	check(t, err)
	if o.issuer != nil {
		o.issuer(&issuerConfig)
	}
	s.run("token issuer", func(ctx context.Context) error {
		return tokenissuer.Run(ctx, tokenissuer.Options{
			Config: issuerConfig, Log: quiet, Listeners: httpserver.Listeners{TLS: issuer, Certificate: serverTLS},
		})
	})
	s.run("proxy", func(ctx context.Context) error {
		return proxy.Run(ctx, proxy.Options{
			ConfigFile: files.ProxyConfig(), CredentialsDir: dir, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Listeners: httpserver.Listeners{TLS: traffic, Admin: admin, Certificate: serverTLS},
		})
	})
	check(t, localstack.WaitReady(t.Context(), files.AdminURL()))
	return s
}

// configure changes the proxy's config.
func (s *stack) configure(change func(*config.Config)) {
	s.t.Helper()
	data, err := os.ReadFile(s.files.ProxyConfig())
	check(s.t, err)
	var c config.Config
	check(s.t, json.Unmarshal(data, &c))
	change(&c)
	data, err = json.Marshal(c)
	check(s.t, err)
	check(s.t, os.WriteFile(s.files.ProxyConfig(), data, 0o600))
}

// run runs a service until the test ends.
func (s *stack) run(name string, service func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
	})
}

// token is a completion token from the issuer.
func (s *stack) token() string {
	s.t.Helper()
	source, err := client.NewTokenSource(client.TokenOptions{
		IssuerURL: s.files.IssuerURL(), OAuthToken: s.files.OAuthToken, RootCAs: s.roots, UserAgent: "ghostline-interop",
	})
	check(s.t, err)
	defer source.Close()
	token, err := source.Token(s.t.Context())
	check(s.t, err)
	return token
}

// outcomes is how many requests the proxy says ended so.
func (s *stack) outcomes(outcome string) float64 {
	s.t.Helper()
	return metric(s.t, s.files.AdminURL(), "ghostline_requests_total", `outcome="`+outcome+`"`)
}

// metric adds up the samples of a metric that have all these labels, as they stand in
// the text that the server at base shows.
func metric(t *testing.T, base, name string, labels ...string) float64 {
	t.Helper()
	sum := 0.0
	for line := range bytes.Lines(get(t, base+"/metrics")) {
		if value, ok := sample(string(line), name, labels); ok {
			sum += value
		}
	}
	return sum
}

// get fetches what is there for anybody to see.
func get(t *testing.T, url string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	check(t, err)
	resp, err := http.DefaultClient.Do(req)
	check(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d: %s", url, resp.StatusCode, body)
	}
	return body
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	return listener
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	looking(t, 5*time.Millisecond, what, is)
}

// looking is eventually that looks only so often.
func looking(t *testing.T, every time.Duration, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("not so in %s: %s", patience, what)
		}
		time.Sleep(every)
	}
}
