package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	exchangeTimeout = 10 * time.Second
	maxGrantBody    = 64 << 10
	maxTokenLife    = 24 * time.Hour

	grantTypeExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccessToken   = "urn:ietf:params:oauth:token-type:access_token"
)

// IssuerError is the issuer's refusal of an exchange (RFC 6749 section 5.2,
// RFC 8693 section 2.2.2).
type IssuerError struct {
	Status      int
	Code        string // the "error" of the body: invalid_request, invalid_target, ...
	Description string
	RetryAfter  time.Duration
}

// Refused says whether the issuer refused the OAuth token itself, so that
// another attempt with it is pointless.
func (e *IssuerError) Refused() bool {
	switch e.Code {
	case "invalid_request", "invalid_grant", "invalid_client", "access_denied", "unauthorized_client":
		return true
	}
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

func (e *IssuerError) Error() string {
	detail := ""
	if e.Description != "" {
		detail = " (" + e.Description + ")"
	}
	switch {
	case e.Refused():
		return "the issuer refused the OAuth token" + detail + ": run `ghostline login`"
	case e.Code == "invalid_target":
		return "the issuer gives no tokens for this audience" + detail + ": check the audience that was asked for"
	case e.Status == http.StatusNotFound:
		return "the issuer answered 404: check the issuer's URL"
	case e.RetryAfter > 0:
		return fmt.Sprintf("the issuer answered %d%s: try again in %s", e.Status, detail, e.RetryAfter)
	}
	return fmt.Sprintf("the issuer answered %d%s: try again later", e.Status, detail)
}

// grant is what one exchange yields.
type grant struct {
	token     string
	life      time.Duration
	refreshIn time.Duration // as the issuer asked, or 0
}

// exchanger asks an issuer for completion tokens.
type exchanger struct {
	endpoint  string
	form      url.Values
	userAgent string
	http      *http.Client
}

func newExchanger(o TokenOptions) (*exchanger, error) {
	base, err := parseBaseURL("issuer URL", o.IssuerURL)
	if err != nil {
		return nil, err
	}
	if o.OAuthToken == "" {
		return nil, fmt.Errorf("no OAuth token for the issuer %s: run `ghostline login`", base)
	}
	form := url.Values{
		"grant_type":         {grantTypeExchange},
		"subject_token":      {o.OAuthToken},
		"subject_token_type": {typeAccessToken},
	}
	if o.Audience != "" {
		form.Set("audience", o.Audience)
	}
	return &exchanger{
		endpoint:  base.JoinPath("oauth", "token").String(),
		form:      form,
		userAgent: o.UserAgent,
		http:      issuerHTTP(o.RootCAs),
	}, nil
}

func issuerHTTP(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout: exchangeTimeout,
		Transport: &http.Transport{
			Proxy:             http.ProxyFromEnvironment,
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
			IdleConnTimeout:   exchangeTimeout,
		},
		// A redirect would carry the OAuth token to whoever it names.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// exchange does one exchange. The OAuth token is in no error that it returns.
func (e *exchanger) exchange(ctx context.Context) (grant, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, strings.NewReader(e.form.Encode()))
	if err != nil {
		return grant{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if e.userAgent != "" {
		req.Header.Set("User-Agent", e.userAgent)
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return grant{}, fmt.Errorf("token exchange: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxGrantBody))
	if err != nil {
		return grant{}, fmt.Errorf("token exchange: the issuer's answer broke off: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return grant{}, issuerError(resp, body)
	}
	return parseGrant(body)
}

func issuerError(resp *http.Response, body []byte) *IssuerError {
	var object struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	// A body that is not JSON (a load balancer's page) has nothing to add.
	_ = json.Unmarshal(body, &object)
	return &IssuerError{
		Status:      resp.StatusCode,
		Code:        clean(object.Error),
		Description: clean(object.Description),
		RetryAfter:  retryAfter(resp.Header),
	}
}

func parseGrant(body []byte) (grant, error) {
	var object struct {
		AccessToken string  `json:"access_token"`
		TokenType   string  `json:"token_type"`
		ExpiresIn   float64 `json:"expires_in"`
		RefreshIn   float64 `json:"refresh_in"`
	}
	// The cause is left out: a JSON error may quote the body, and so the token.
	if err := json.Unmarshal(body, &object); err != nil {
		return grant{}, fmt.Errorf("token exchange: the answer is not the JSON object of RFC 8693 section 2.2.1: check the issuer's URL")
	}
	switch {
	case object.AccessToken == "" || !headerSafe(object.AccessToken):
		return grant{}, fmt.Errorf("token exchange: the answer's access_token is missing or not printable ASCII")
	case !strings.EqualFold(object.TokenType, "Bearer"):
		return grant{}, fmt.Errorf("token exchange: token_type is %q, want Bearer", clean(object.TokenType))
	case object.ExpiresIn < 1:
		return grant{}, fmt.Errorf("token exchange: expires_in is missing or less than a second")
	}
	return grant{
		token:     object.AccessToken,
		life:      seconds(object.ExpiresIn),
		refreshIn: seconds(object.RefreshIn),
	}, nil
}

// seconds is n seconds, between none and a day.
func seconds(n float64) time.Duration {
	return time.Duration(min(max(n, 0), maxTokenLife.Seconds()) * float64(time.Second))
}
