package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	askWithin = 10 * time.Second
	maxBody   = 4 << 20
)

// page is an answer that was read to its end.
type page struct {
	status int
	proto  string
	header http.Header
	body   []byte
}

// newHTTPClient makes a client that trusts roots and speaks only the protocols
// that choose sets, with connections of its own.
func newHTTPClient(roots *x509.CertPool, choose func(*http.Protocols)) *http.Client {
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, Protocols: new(http.Protocols)}
	choose(t.Protocols)
	return &http.Client{Transport: t}
}

func get(ctx context.Context, c *http.Client, url string) (*page, error) {
	return fetch(ctx, c, http.MethodGet, url, nil, nil)
}

func fetch(ctx context.Context, c *http.Client, method, url string, header http.Header, body []byte) (*page, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	return &page{status: resp.StatusCode, proto: resp.Proto, header: resp.Header, body: data}, nil
}

// readRoots reads a CA certificate.
func readRoots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return pool, nil
}

// metrics are a service's at one moment.
type metrics map[string]*dto.MetricFamily

// scrape reads the metrics of the service with that admin URL.
func scrape(ctx context.Context, admin string) (metrics, error) {
	resp, err := get(ctx, http.DefaultClient, admin+"/metrics")
	if err != nil {
		return nil, err
	}
	if resp.status != http.StatusOK {
		return nil, fmt.Errorf("%s/metrics: status %d", admin, resp.status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(resp.body))
}

// sum adds up the counters and gauges of that name which have all of the labels,
// given as name, value, name, value.
func (m metrics) sum(name string, labels ...string) float64 {
	total := 0.0
	for _, metric := range m[name].GetMetric() {
		have := map[string]string{}
		for _, l := range metric.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		matches := true
		for i := 0; i < len(labels); i += 2 {
			matches = matches && have[labels[i]] == labels[i+1]
		}
		if matches {
			total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return total
}
