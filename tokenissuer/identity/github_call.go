package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	strictjson "sigs.k8s.io/json"
)

const (
	// maxAnswer is far above a page of 100 memberships.
	maxAnswer = 1 << 20
	// maxPages of 100 are more organizations or teams than anybody is in. Who is in more
	// cannot be known whole, and half of what somebody is may hide what denies them.
	maxPages = 30
	// gitHubVersion is of the REST API. Enterprise Servers know it since 3.9.
	gitHubVersion = "2022-11-28"
	userAgent     = "ghostline-tokenissuer"
)

func gitHubClient(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			IdleConnTimeout:        90 * time.Second,
			MaxIdleConnsPerHost:    DefaultInFlight,
			MaxResponseHeaderBytes: 64 << 10,
			// A connection that died without a word must not cost lookups their time.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
		},
		// A redirect would carry the token, or the app's secret, to whoever it names.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// call is one call of the REST API.
type call struct {
	method, path, query string
	body                any
	authorize           func(*http.Request)
}

// answered is an answer, whole.
type answered struct {
	call   call
	status int
	header http.Header
	body   []byte
}

// do makes a call. An error is an outage of the whole GitHub; none of its causes quotes
// what GitHub sent, because that may be the token.
func (g *GitHub) do(ctx context.Context, c call) (answered, error) {
	var body io.Reader
	if c.body != nil {
		data, err := json.Marshal(c.body)
		if err != nil {
			return answered{}, fmt.Errorf("GitHub, %s: the request cannot be written", c.path)
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, c.method, g.o.API+c.path, body)
	if err != nil {
		return answered{}, fmt.Errorf("GitHub, %s: the URL cannot be used", c.path)
	}
	r.URL.RawQuery = c.query
	r.Header.Set("Accept", "application/vnd.github+json")
	r.Header.Set("X-GitHub-Api-Version", gitHubVersion)
	r.Header.Set("User-Agent", userAgent)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	c.authorize(r)
	response, err := g.client.Do(r)
	if err != nil {
		return answered{}, fmt.Errorf("GitHub, %s: %w", c.path, quoteless(err))
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return answered{}, fmt.Errorf("GitHub, %s: %w", c.path, quoteless(err))
	}
	a := answered{call: c, status: response.StatusCode, header: response.Header, body: data}
	switch {
	case len(data) > maxAnswer:
		return a, a.outage(fmt.Sprintf("is larger than %d bytes", maxAnswer))
	case a.status >= http.StatusInternalServerError:
		return a, &OutageError{Cause: a.error("is an outage"), RetryAfter: a.retryAfter()}
	case a.status >= 300 && a.status < 400:
		return a, a.outage("is a redirect, which is not followed; is the URL right?")
	}
	return a, nil
}

// quoteless keeps of an error of the HTTP client what it can say without what the server
// sent.
func quoteless(err error) error {
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.As(err, &certificate):
		return errors.New("its certificate is not trusted")
	case errors.As(err, &op):
		return op
	}
	return errors.New("the answer broke off, or is no HTTP")
}

// get is a call with the user's own token, whose refusals are the user's alone: the
// user's quota, the user's account.
func (g *GitHub) get(ctx context.Context, token, path, query string) (answered, error) {
	a, err := g.do(ctx, call{
		method: http.MethodGet, path: path, query: query,
		authorize: func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) },
	})
	switch {
	case err != nil:
		return a, err
	case a.status == http.StatusOK:
		return a, nil
	case a.status == http.StatusUnauthorized && a.isGitHubsError():
		return a, fmt.Errorf("%w: the token was withdrawn meanwhile", ErrUnknownCredential)
	case a.isLimited():
		return a, single(a.refusal())
	case a.status == http.StatusForbidden && a.isGitHubsError() && a.speaksOf("suspended"):
		return a, fmt.Errorf("%w: the account is suspended", ErrUnknownCredential)
	case a.lacksScope():
		return a, fmt.Errorf("%w: the token lacks a scope for %s, read:org; log in again", ErrUnknownCredential, path)
	}
	return a, single(a.refusal())
}

// pages reads a list to its end. Where the next page is, GitHub says; of that, only the
// query counts, so that the token goes nowhere else.
func pages[T any](ctx context.Context, g *GitHub, token string, c call, each func(answered, T) error) error {
	for range maxPages {
		a, err := g.get(ctx, token, c.path, c.query)
		if err != nil {
			return err
		}
		var entries []T
		if !a.decode(&entries) || entries == nil {
			return a.garbage()
		}
		for _, entry := range entries {
			if err := each(a, entry); err != nil {
				return err
			}
		}
		if c.query = a.next(); c.query == "" {
			return nil
		}
	}
	return &OutageError{Cause: fmt.Errorf("GitHub, %s: it has more than %d pages", c.path, maxPages), Single: true}
}

// next is the query of the next page, "" if this is the last (RFC 8288).
func (a answered) next() string {
	for link := range strings.SplitSeq(strings.Join(a.header.Values("Link"), ","), ",") {
		target, parameters, _ := strings.Cut(strings.TrimSpace(link), ">")
		if !strings.HasPrefix(target, "<") || !strings.Contains(parameters, `rel="next"`) {
			continue
		}
		if u, err := url.Parse(target[1:]); err == nil {
			return u.RawQuery
		}
	}
	return ""
}

// decode is false if the answer is not the JSON that is expected. What is wrong with it is
// not told: it may be the token.
func (a answered) decode(into any) bool {
	return strictjson.UnmarshalCaseSensitivePreserveInts(a.body, into) == nil
}
