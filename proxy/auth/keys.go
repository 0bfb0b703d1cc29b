package auth

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
)

const (
	// keysEvery is between two fetches, unless the issuer says that its keys may
	// change sooner. It bounds how long a withdrawn key is taken for good.
	keysEvery      = 30 * time.Second
	keysEveryLeast = time.Second
	keysRetryFirst = 100 * time.Millisecond
	keysRetryMost  = 30 * time.Second
	keysTimeout    = 5 * time.Second
)

// KeyFetch is a key set to fetch in the background.
type KeyFetch struct {
	URL string
	// Roots are whom to trust there; nil is the system's.
	Roots *x509.CertPool
	Log   *slog.Logger
	// Got takes each key set that is right and another one than the last.
	Got func(data []byte)
	// Fresh is told whenever the last key set is known to be the issuer's; nil
	// tells nobody.
	Fresh func()
}

// Run fetches the key set again and again, until ctx is done. Failures are logged
// and tried again soon; whoever holds the last good keys keeps them. No request
// ever waits for a fetch.
func (f KeyFetch) Run(ctx context.Context) {
	client := &http.Client{
		Timeout:   keysTimeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.Roots}, ForceAttemptHTTP2: true},
		// Keys come from where the config says and from nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	source := keySource{client: client, url: f.URL}
	f.keepFetching(ctx, func() (keyAnswer, error) { return source.fetch(ctx) })
}

// keyAnswer is an answer of the issuer's that is right.
type keyAnswer struct {
	data  []byte // nil if it is what it was
	every time.Duration
}

func (f KeyFetch) keepFetching(ctx context.Context, fetch func() (keyAnswer, error)) {
	retry := keysRetryFirst
	for {
		answer, err := fetch()
		wait := answer.every
		switch {
		case err == nil:
			if answer.data != nil {
				f.Got(answer.data)
			}
			if f.Fresh != nil {
				f.Fresh()
			}
			retry = keysRetryFirst
		case ctx.Err() != nil:
			return
		default:
			f.Log.Warn("fetching the token issuer's keys; the last good ones stay in use", "error", err, "retry_in", retry.String())
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

// keySource is where a key set is fetched from, and what it was last.
type keySource struct {
	client *http.Client
	url    string
	tag    string // of last; may be ""
	last   []byte
}

func (s *keySource) fetch(ctx context.Context) (keyAnswer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return keyAnswer{}, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	// A cache in between must not keep a withdrawn key alive.
	req.Header.Set("Cache-Control", "no-cache")
	if s.tag != "" {
		req.Header.Set("If-None-Match", s.tag)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return keyAnswer{}, err
	}
	defer resp.Body.Close()
	answer := keyAnswer{every: fetchEvery(resp.Header.Get("Cache-Control"))}
	switch {
	case resp.StatusCode == http.StatusNotModified && s.tag != "":
		return answer, nil
	case resp.StatusCode != http.StatusOK:
		return keyAnswer{}, fmt.Errorf("GET %s: status %d, want 200", s.url, resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, token.MaxKeySetBytes+1))
	if err != nil {
		return keyAnswer{}, fmt.Errorf("GET %s: %w", s.url, err)
	}
	if _, err := token.ParseKeySet(data); err != nil {
		return keyAnswer{}, fmt.Errorf("GET %s: %w", s.url, err)
	}
	s.tag = resp.Header.Get("ETag")
	if !bytes.Equal(data, s.last) {
		s.last, answer.data = data, data
	}
	return answer, nil
}

// maxAge is the directive of Cache-Control (RFC 9111 section 5.2.2.1).
var maxAge = regexp.MustCompile(`(?i)(?:^|[\s,])max-age="?(\d{1,9})`)

// fetchEvery is the time to the next fetch: what the issuer says, but not longer
// than we would wait ourselves.
func fetchEvery(cacheControl string) time.Duration {
	given := maxAge.FindStringSubmatch(cacheControl)
	if given == nil {
		return keysEvery
	}
	seconds, err := strconv.Atoi(given[1])
	if err != nil {
		return keysEvery
	}
	return max(keysEveryLeast, min(keysEvery, time.Duration(seconds)*time.Second))
}
