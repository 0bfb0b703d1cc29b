package service

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/internal/localca"
	"github.com/prometheus/client_golang/prometheus"
)

// mount is a Secret as kubelet mounts it: tls.crt -> ..data/tls.crt, ..data ->
// the directory of one version.
type mount struct {
	t   *testing.T
	ca  *localca.CA
	dir string
}

func newMount(t *testing.T) *mount {
	t.Helper()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	m := &mount{t, ca, t.TempDir()}
	for _, name := range []string{"tls.crt", "tls.key"} {
		m.check(os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
	}
	return m
}

func (m *mount) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// swap replaces what is mounted by a version with these files, at once; a nil
// file is not there.
func (m *mount) swap(cert, key []byte) {
	m.t.Helper()
	version, err := os.MkdirTemp(m.dir, "..version-")
	m.check(err)
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		if content != nil {
			m.check(os.WriteFile(filepath.Join(version, name), content, 0o600))
		}
	}
	link := filepath.Join(m.dir, "..data_tmp")
	m.check(os.Symlink(filepath.Base(version), link))
	m.check(os.Rename(link, filepath.Join(m.dir, "..data")))
}

// issue makes a pair; serial is its certificate's.
func (m *mount) issue() (cert, key []byte, serial *big.Int) {
	m.t.Helper()
	cert, key, err := m.ca.Issue()
	m.check(err)
	pair, err := tls.X509KeyPair(cert, key)
	m.check(err)
	return cert, key, pair.Leaf.SerialNumber
}

// started is a service that serves TLS until stop.
type started struct {
	*mount
	addr    string
	metrics *prometheus.Registry
	log     *lockedBuffer
	stop    func()
}

// start runs a service on the mount's files, whose handler says hello.
func (m *mount) start() *started {
	m.t.Helper()
	s := &started{mount: m, log: new(lockedBuffer)}
	envs, code := make(chan Env, 1), make(chan int, 1)
	c := Command{Name: "thing", Run: func(ctx context.Context, env Env) error {
		envs <- env
		return httpserver.RunAll(ctx, env.Listeners.Traffic(httpserver.Server{
			Log:     slog.New(slog.DiscardHandler),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }),
		})...)
	}}
	ctx, cancel := context.WithCancel(m.t.Context())
	go func() {
		code <- c.Exec(ctx, []string{"-listen-tls", "127.0.0.1:0",
			"-tls-cert", filepath.Join(m.dir, "tls.crt"), "-tls-key", filepath.Join(m.dir, "tls.key")}, io.Discard, s.log)
	}()
	select {
	case env := <-envs:
		s.addr, s.metrics = env.Listeners.TLS.Addr().String(), env.Metrics
	case got := <-code:
		m.t.Fatalf("it exited with %d: %s", got, s.log)
	}
	s.stop = sync.OnceFunc(func() {
		cancel()
		if got := <-code; got != exitOK {
			m.t.Errorf("exit %d: %s", got, s.log)
		}
	})
	m.t.Cleanup(s.stop)
	return s
}

// serial is that of the certificate that a new connection gets.
func (s *started) serial() *big.Int {
	s.t.Helper()
	conn, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: s.ca.Pool()})
	s.check(err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber
}

// gauges are the values of the TLS metrics.
func (s *started) gauges() (reloaded, expiry float64) {
	s.t.Helper()
	families, err := s.metrics.Gather()
	s.check(err)
	values := map[string]float64{}
	for _, family := range families {
		values[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
	}
	return values["ghostline_tls_last_reload_successful"], values["ghostline_tls_certificate_expiry_timestamp_seconds"]
}

func (s *started) eventually(what string, so func() bool) {
	s.t.Helper()
	giveUp := time.After(20 * time.Second)
	for tick := time.Tick(2 * time.Millisecond); !so(); {
		select {
		case <-tick:
		case <-giveUp:
			s.t.Fatalf("%s: waited in vain; the log is %s", what, s.log)
		}
	}
}

// lockedBuffer is a log that is read while it is written.
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

func TestCertificateReload(t *testing.T) {
	m := newMount(t)
	cert, key, first := m.issue()
	m.swap(cert, key)
	s := m.start()
	if got := s.serial(); got.Cmp(first) != 0 {
		t.Fatalf("the first certificate is %x, want %x", got, first)
	}
	opened := 0
	client := &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: m.ca.Pool()},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			opened++
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}}
	defer client.CloseIdleConnections()
	hello := func() {
		t.Helper()
		resp, err := client.Get("https://" + s.addr)
		m.check(err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != "hello" {
			t.Errorf("got %q, %v", body, err)
		}
		if got := resp.TLS.PeerCertificates[0].SerialNumber; got.Cmp(first) != 0 {
			t.Errorf("the old connection has certificate %x, want %x", got, first)
		}
	}
	hello()
	cert, key, second := m.issue()
	m.swap(cert, key)
	s.eventually("the new certificate", func() bool { return s.serial().Cmp(second) == 0 })
	hello()
	if opened != 1 {
		t.Errorf("the client opened %d connections, want 1", opened)
	}
	pair, err := tls.X509KeyPair(cert, key)
	m.check(err)
	if reloaded, expiry := s.gauges(); reloaded != 1 || expiry != float64(pair.Leaf.NotAfter.Unix()) {
		t.Errorf("the metrics are %v and %v", reloaded, expiry)
	}
}

// TestBadCertificateIsRefused: whatever is wrong with new files, the last good
// ones are served, and good ones are taken up again.
func TestBadCertificateIsRefused(t *testing.T) {
	m := newMount(t)
	cert, key, first := m.issue()
	m.swap(cert, key)
	s := m.start()
	otherCert, otherKey, second := m.issue()
	for _, tc := range []struct {
		name      string
		cert, key []byte
		want      string // in the log
	}{
		{"a key that does not match", otherCert, key, "private key does not match public key"},
		{"half a certificate", otherCert[:len(otherCert)/2], otherKey, "failed to find any PEM data in certificate"},
		{"half a key", otherCert, otherKey[:len(otherKey)/2], "failed to find any PEM data in key"},
		{"no key", otherCert, nil, "tls.key: no such file"},
		{"no certificate", nil, otherKey, "tls.crt: no such file"},
	} {
		m.swap(tc.cert, tc.key)
		s.eventually(tc.name, func() bool { return strings.Contains(s.log.String(), tc.want) })
		if reloaded, _ := s.gauges(); reloaded != 0 {
			t.Errorf("%s: the reload counts as successful", tc.name)
		}
		if got := s.serial(); got.Cmp(first) != 0 {
			t.Errorf("%s: %x is served, want %x", tc.name, got, first)
		}
	}
	m.swap(cert, key)
	s.eventually("the first certificate again", func() bool { reloaded, _ := s.gauges(); return reloaded == 1 })
	m.swap(otherCert, otherKey)
	s.eventually("the second certificate", func() bool { return s.serial().Cmp(second) == 0 })
	s.stop()
	if log := s.log.String(); strings.Contains(log, "PRIVATE") || strings.Contains(log, string(key[30:60])) {
		t.Errorf("the log has a key: %s", log)
	}
}

// TestRefusalIsLoggedOnce: a poll that finds the same mistake again says nothing,
// and one that finds nothing new changes nothing.
func TestRefusalIsLoggedOnce(t *testing.T) {
	m := newMount(t)
	good, key, _ := m.issue()
	wrong, _, _ := m.issue()
	m.swap(good, key)
	c, err := loadCertificate(filepath.Join(m.dir, "tls.crt"), filepath.Join(m.dir, "tls.key"))
	m.check(err)
	var log bytes.Buffer
	poll := func() string {
		defer log.Reset()
		for range 3 {
			c.reload(slog.New(slog.NewTextHandler(&log, nil)))
		}
		return log.String()
	}
	served := c.served.Load()
	for _, step := range []struct {
		name      string
		cert, key []byte
		want      int // lines of the log
	}{
		{"nothing changes", good, key, 0},
		{"a wrong certificate", wrong, key, 1},
		{"another mistake", nil, key, 1},
		{"the first mistake again", wrong, key, 1},
		{"mended", good, key, 1},
	} {
		m.swap(step.cert, step.key)
		if lines := poll(); strings.Count(lines, "\n") != step.want {
			t.Errorf("%s: want %d lines in the log, got %s", step.name, step.want, lines)
		}
		if c.served.Load() != served {
			t.Errorf("%s: the certificate was swapped", step.name)
		}
	}
	if _, err := loadCertificate(filepath.Join(m.dir, "absent"), "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
