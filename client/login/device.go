package login

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/ghostline-dev/ghostline/internal/oauthhttp"
)

const (
	grantDevice = "urn:ietf:params:oauth:grant-type:device_code"
	// defaultInterval is section 3.2's, slower is how much slow_down adds (section 3.5).
	defaultInterval = 5 * time.Second
	slower          = 5 * time.Second
	// maxWait bounds the backoff of a provider that does not answer.
	maxWait     = time.Minute
	maxUserCode = 64
	maxPageURL  = 2 << 10
)

var (
	// ErrDenied is a login that the person, or the provider, refused.
	ErrDenied = errors.New("the login was refused at the provider")
	// ErrExpired is a login whose code was not entered in time.
	ErrExpired = errors.New("the code has expired before the login was done")
)

// Code is a login under way. What is shown of it is printable ASCII.
type Code struct {
	// UserCode is what the person enters at URL.
	UserCode string
	URL      string
	// CompleteURL has the code in it; empty if the provider gives none. The person
	// should still compare the codes (section 3.3.1).
	CompleteURL string
	// Life is how long there is to enter the code, from the start.
	Life time.Duration

	provider   Provider
	deviceCode string
	interval   time.Duration
	started    time.Time
}

// Start asks a provider for a code (RFC 8628 sections 3.1 and 3.2).
func (c *Client) Start(ctx context.Context, p Provider) (*Code, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	form := url.Values{"client_id": {p.ClientID}}
	if p.Scope != "" {
		form.Set("scope", p.Scope)
	}
	started := time.Now()
	answer, err := oauthhttp.PostForm(ctx, c.http, p.DeviceEndpoint, c.userAgent, form)
	if err != nil {
		return nil, fmt.Errorf("ask %s for a code: %w", p.Name, err)
	}
	var a authorization
	if _, err := decode(p, answer, &a); err != nil {
		return nil, fmt.Errorf("ask for a code: %w", err)
	}
	code, err := a.code(p)
	if err != nil {
		return nil, fmt.Errorf("%s's answer to a request for a code: %w", p.Name, err)
	}
	code.started = started
	return code, nil
}

// authorization is the answer of section 3.2.
type authorization struct {
	DeviceCode  string  `json:"device_code"`
	UserCode    string  `json:"user_code"`
	URL         string  `json:"verification_uri"`
	CompleteURL string  `json:"verification_uri_complete"`
	ExpiresIn   seconds `json:"expires_in"`
	Interval    seconds `json:"interval"`
}

func (a authorization) code(p Provider) (*Code, error) {
	switch {
	case a.DeviceCode == "":
		return nil, errors.New("device_code is missing")
	case a.UserCode == "" || len(a.UserCode) > maxUserCode || !printable(a.UserCode):
		return nil, errors.New("user_code is missing, too long or not printable ASCII")
	case a.ExpiresIn <= 0:
		return nil, errors.New("expires_in is missing or nothing")
	case a.Interval <= 0:
		a.Interval = seconds(defaultInterval)
	}
	if err := checkPage("verification_uri", a.URL); err != nil {
		return nil, err
	}
	if a.CompleteURL != "" {
		if err := checkPage("verification_uri_complete", a.CompleteURL); err != nil {
			return nil, err
		}
	}
	return &Code{
		UserCode: a.UserCode, URL: a.URL, CompleteURL: a.CompleteURL, Life: time.Duration(a.ExpiresIn),
		provider: p, deviceCode: a.DeviceCode, interval: time.Duration(a.Interval),
	}, nil
}

// checkPage holds that a page is one to show, and to open in a browser: no other
// scheme, and nothing that a terminal would obey.
func checkPage(what, page string) error {
	if len(page) > maxPageURL || !printable(page) {
		return fmt.Errorf("%s is too long or not printable ASCII", what)
	}
	_, err := oauthhttp.ParseURL(what, page, "https://login.example.com/device")
	return err
}

// Wait polls until the person has entered the code (RFC 8628 sections 3.4 and 3.5).
// The error is ErrDenied, ErrExpired, *Error, or ctx's. Call it once for a code.
func (c *Client) Wait(ctx context.Context, code *Code) (Login, error) {
	pace := pace{interval: code.interval}
	for {
		if err := sleep(ctx, pace.next()); err != nil {
			return Login{}, err
		}
		l, err := c.poll(ctx, code, &pace)
		var again *waiting
		if !errors.As(err, &again) {
			return l, err
		}
		// A code may be asked for once more after its end: who asks no more often
		// than the interval may else miss a login of the last moment.
		if time.Since(code.started) >= code.Life {
			return Login{}, again.expired()
		}
	}
}

// waiting is the outcome of a poll after which to poll again; cause may be nil.
type waiting struct{ cause error }

func (w *waiting) Error() string { return "the login is not done yet" }

func (w *waiting) expired() error {
	if w.cause == nil {
		return ErrExpired
	}
	return fmt.Errorf("%w: %w", ErrExpired, w.cause)
}

// poll asks once, and sets the pace by what comes of it.
func (c *Client) poll(ctx context.Context, code *Code, pace *pace) (Login, error) {
	p := code.provider
	answer, err := oauthhttp.PostForm(ctx, c.http, p.TokenEndpoint, c.userAgent, url.Values{
		"grant_type": {grantDevice}, "device_code": {code.deviceCode}, "client_id": {p.ClientID},
	})
	var untrusted *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil:
		return Login{}, ctx.Err()
	case errors.As(err, &untrusted):
		return Login{}, fmt.Errorf("ask %s for the token: %w", p.Name, err)
	case err != nil:
		pace.failed(0)
		return Login{}, &waiting{fmt.Errorf("%s could not be asked: %w", p.Name, err)}
	}
	var t tokens
	r, err := decode(p, answer, &t)
	var refused *Error
	switch {
	case err == nil:
		return t.login(p, time.Now())
	case !errors.As(err, &refused):
		return Login{}, err
	}
	switch refused.Code {
	case "authorization_pending":
		pace.answered()
		return Login{}, &waiting{}
	case "slow_down":
		pace.answered()
		pace.slowDown(time.Duration(r.Interval))
		return Login{}, &waiting{}
	case "access_denied":
		return Login{}, fmt.Errorf("%w: %w", ErrDenied, refused)
	case "expired_token":
		return Login{}, ErrExpired
	}
	if refused.temporary() {
		pace.failed(answer.RetryAfter)
		return Login{}, &waiting{refused}
	}
	return Login{}, fmt.Errorf("ask for the token: %w", refused)
}

// pace is when to poll next.
type pace struct {
	interval time.Duration
	failures int // in a row, to be answered
	asked    time.Duration
}

// next is doubled for each time in a row that the provider could not be asked
// (section 3.5).
func (p *pace) next() time.Duration {
	wait := p.interval
	for range p.failures {
		wait = min(2*wait, max(maxWait, p.interval))
	}
	return max(wait, p.asked)
}

func (p *pace) answered() { p.failures, p.asked = 0, 0 }

func (p *pace) failed(retryAfter time.Duration) {
	p.failures++
	p.asked = retryAfter
}

// slowDown makes all polls from now on slower. GitHub says itself by how much.
func (p *pace) slowDown(interval time.Duration) {
	p.interval = max(p.interval+slower, interval)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
