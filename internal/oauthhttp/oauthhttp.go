// Package oauthhttp asks OAuth endpoints: what is sent there and what comes back are
// secrets.
package oauthhttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/internal/loopback"
)

const (
	// timeout is for a whole request, answer and all.
	timeout = 10 * time.Second
	// maxBody is above what any token needs.
	maxBody       = 64 << 10
	maxRetryAfter = 10 * time.Minute
)

// NewClient makes a client that trusts roots; nil means the system's.
func NewClient(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy:             http.ProxyFromEnvironment,
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
			IdleConnTimeout:   timeout,
		},
		// A redirect would carry the secret to whoever it names.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Answer is a whole answer.
type Answer struct {
	Status     int
	Body       []byte
	RetryAfter time.Duration
}

// PostForm sends a form. Neither the form nor the answer is in an error.
func PostForm(ctx context.Context, client *http.Client, endpoint, userAgent string, form url.Values) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return ask(client, req, userAgent)
}

// Get fetches a document.
func Get(ctx context.Context, client *http.Client, address, userAgent string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Answer{}, err
	}
	return ask(client, req, userAgent)
}

func ask(client *http.Client, req *http.Request, userAgent string) (Answer, error) {
	// Without this, GitHub answers with a form.
	req.Header.Set("Accept", "application/json")
	if userAgent != "" {
		req.Header.Set("User-Agent", userAgent)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("the answer broke off: %w", err)
	case len(body) > maxBody:
		return Answer{}, fmt.Errorf("the answer has more than %d KiB", maxBody>>10)
	}
	return Answer{Status: resp.StatusCode, Body: body, RetryAfter: RetryAfter(resp.Header)}, nil
}

// ParseURL reads a URL that secrets may be sent to: https, or http on this machine.
// what names it in the error, and example is what it should look like.
func ParseURL(what, raw, example string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		// url.Error repeats the URL, which may hold a password.
		return nil, fmt.Errorf("%s cannot be parsed; it should look like %s", what, example)
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return nil, fmt.Errorf("%s %q should look like %s", what, u.Redacted(), example)
	case u.User != nil, u.Fragment != "":
		return nil, fmt.Errorf("%s %q must have no user and no fragment", what, u.Redacted())
	case u.Scheme == "http" && !loopback.Is(u.Hostname()):
		return nil, fmt.Errorf("%s %q would send tokens over the network in clear text: use https://; http:// is only for localhost, 127.0.0.1 and ::1",
			what, u.Redacted())
	}
	return u, nil
}

// RetryAfter reads Retry-After (RFC 9110 section 10.2.3), at most ten minutes.
// A date counts from the server's own Date, because our clock may be wrong.
func RetryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
