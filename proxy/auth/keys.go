package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
)

const (
	keysEvery      = 5 * time.Minute
	keysRetryFirst = 100 * time.Millisecond
	keysRetryMost  = 30 * time.Second
	keysTimeout    = 5 * time.Second
)

// FetchKeys fetches the key set at url in the background, again and again,
// until ctx is done, and hands over each one that is right. Failures are logged
// and tried again soon; whoever holds the last good keys keeps them. No request
// ever waits for a fetch. roots is nil for the system's.
func FetchKeys(ctx context.Context, log *slog.Logger, url string, roots *x509.CertPool, got func(data []byte)) {
	client := &http.Client{
		Timeout:   keysTimeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true},
		// Keys come from where the config says and from nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	keepFetching(ctx, log, func() ([]byte, error) { return fetch(ctx, client, url) }, got)
}

func keepFetching(ctx context.Context, log *slog.Logger, fetch func() ([]byte, error), got func(data []byte)) {
	retry := keysRetryFirst
	for {
		data, err := fetch()
		wait := keysEvery
		switch {
		case err == nil:
			got(data)
			retry = keysRetryFirst
		case ctx.Err() != nil:
			return
		default:
			log.Warn("fetching the token issuer's keys; the last good ones stay in use", "error", err, "retry_in", retry.String())
			wait = retry
			retry = min(2*retry, keysRetryMost)
		}
		// Many proxies started together should not ask together for ever.
		wait += rand.N(wait / 10)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func fetch(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: status %d, want 200", url, resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, token.MaxKeySetBytes+1))
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", url, err)
	}
	if _, err := token.ParseKeySet(data); err != nil {
		return nil, fmt.Errorf("GET %s: %w", url, err)
	}
	return data, nil
}
