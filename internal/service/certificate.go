package service

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/internal/filewatch"
	"github.com/prometheus/client_golang/prometheus"
)

// pollEvery is how late a change of the certificate's files is seen where the
// system tells of none.
const pollEvery = 10 * time.Second

// certificate is the one of -listen-tls. Its files may change while the service
// runs; a pair that is not good is refused, and the last good one stays.
type certificate struct {
	certFile, keyFile string
	served            atomic.Pointer[tls.Certificate]

	// Of the one goroutine that reloads:
	servedPEM pemPair
	refused   string // why the files were refused last; empty if they are served

	reloaded, expiry prometheus.Gauge
}

// pemPair is what the files hold.
type pemPair struct{ cert, key []byte }

func (p pemPair) equal(q pemPair) bool {
	return bytes.Equal(p.cert, q.cert) && bytes.Equal(p.key, q.key)
}

// loadCertificate reads a certificate chain and its private key (PEM).
func loadCertificate(certFile, keyFile string) (*certificate, error) {
	c := &certificate{
		certFile: certFile, keyFile: keyFile,
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ghostline_tls_last_reload_successful",
			Help: "1 if the files of -tls-cert and -tls-key are what is served, 0 if they were refused."}),
		expiry: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ghostline_tls_certificate_expiry_timestamp_seconds",
			Help: "When the certificate that is served ends (Unix time)."}),
	}
	_, err := c.load()
	return c, err
}

// config is a configuration whose handshakes get the certificate that is served
// at their time.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.served.Load(), nil },
		MinVersion:     tls.VersionTLS12,
	}
}

// watch reloads the certificate when its files change, until ctx is done.
func (c *certificate) watch(ctx context.Context, log *slog.Logger) {
	dirs := []string{filepath.Dir(c.certFile)}
	if dir := filepath.Dir(c.keyFile); dir != dirs[0] {
		dirs = append(dirs, dir)
	}
	filewatch.Watch(ctx, log, dirs, pollEvery, func() { c.reload(log) })
}

// reload serves what the files hold now, if that is good. A cause of refusal is
// logged once, not at every poll.
func (c *certificate) reload(log *slog.Logger) {
	changed, err := c.load()
	if err != nil {
		c.reloaded.Set(0)
		if cause := err.Error(); cause != c.refused {
			c.refused = cause
			log.Error("the new TLS certificate is refused; the last good one stays", "error", err)
		}
		return
	}
	if changed || c.refused != "" {
		log.Info("TLS certificate loaded", "changed", changed, "not_after", c.served.Load().Leaf.NotAfter)
	}
	c.refused = ""
}

// load serves what the files hold, and tells whether that is another pair than
// before.
func (c *certificate) load() (changed bool, err error) {
	var pair pemPair
	if pair.cert, err = os.ReadFile(c.certFile); err != nil {
		return false, err
	}
	if pair.key, err = os.ReadFile(c.keyFile); err != nil {
		return false, err
	}
	if !pair.equal(c.servedPEM) {
		cert, err := tls.X509KeyPair(pair.cert, pair.key)
		if err != nil {
			return false, err
		}
		c.served.Store(&cert)
		c.servedPEM, changed = pair, true
		c.expiry.Set(float64(cert.Leaf.NotAfter.Unix()))
	}
	c.reloaded.Set(1)
	return changed, nil
}
