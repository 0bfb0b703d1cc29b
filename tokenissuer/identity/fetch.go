package identity

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// fetchTimeout is for a whole request to a provider, answer and all.
	fetchTimeout = 5 * time.Second
	// maxAnswerBytes is above every key set, discovery document and introspection in use.
	maxAnswerBytes = 256 << 10
)

// newHTTPClient makes a client that trusts roots; nil means the system's.
func newHTTPClient(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout: fetchTimeout,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    16,
			MaxResponseHeaderBytes: 64 << 10,
			IdleConnTimeout:        90 * time.Second,
		},
		// Keys come from where the config says, and secrets go nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask sends a request and returns the body of a 200. Its errors have nothing of what
// the provider sent, which may be a token.
func ask(client *http.Client, req *http.Request) ([]byte, error) {
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", userAgent)
	where := req.Method + " " + req.URL.Redacted()
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, quoteless(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, &statusError{where: where, status: resp.StatusCode, body: body}
	case err != nil:
		return nil, fmt.Errorf("%s: %w", where, quoteless(err))
	case len(body) > maxAnswerBytes:
		return nil, fmt.Errorf("%s: the answer has more than %d KiB", where, maxAnswerBytes>>10)
	}
	return body, nil
}

// statusError is an answer with another status than 200. Its text is without the body.
type statusError struct {
	where  string
	status int
	body   []byte // what of it could be read
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: status %d, want 200", e.where, e.status)
}
