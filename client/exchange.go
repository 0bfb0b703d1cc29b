package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/internal/oauthhttp"
	"github.com/ghostline-dev/ghostline/internal/oneline"
)

const (
	maxTokenLife = 24 * time.Hour

	grantTypeExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// IssuerError is the issuer's refusal of an exchange (RFC 6749 section 5.2,
// RFC 8693 section 2.2.2).
type IssuerError struct {
	Status      int
	Code        string // the "error" of the body: invalid_request, invalid_target, ...
	Description string
	// Reason is our issuer's word for it, since RFC 8693 has one code for both:
	// unknown, of a credential that is nobody's, denied, of one whose owner may have no
	// token, or another, of which the credential has no part. Other issuers have none.
	Reason     string
	RetryAfter time.Duration
}

// Denied says that the issuer knows who the OAuth token's owner is, and gives them no
// token: another login does not help.
func (e *IssuerError) Denied() bool { return e.Reason == "denied" }

// Refused says whether the issuer refused the OAuth token itself, so that
// another attempt with it is pointless.
func (e *IssuerError) Refused() bool {
	if e.Reason != "" {
		return e.Reason == "unknown" || e.Denied()
	}
	switch e.Code {
	case "invalid_request", "invalid_grant", "invalid_client", "access_denied", "unauthorized_client":
		return true
	}
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// another says whether the issuer did not know the credential, so that another one
// of the same user may do. One that it knows and denies is not helped by that.
func (e *IssuerError) another() bool {
	return e.Refused() && !e.Denied() && (e.Code == "invalid_request" || e.Code == "invalid_grant" || e.Status == http.StatusUnauthorized)
}

func (e *IssuerError) Error() string {
	detail := ""
	if e.Description != "" {
		detail = " (" + e.Description + ")"
	}
	switch {
	case e.Denied():
		return "the issuer gives you no token" + detail + ": ask whoever runs it"
	case e.Refused():
		return "the issuer refused the OAuth token" + detail + ": run `ghostline login`"
	case e.Code == "invalid_target":
		return "the issuer gives no tokens for this audience" + detail + ": check the audience that was asked for"
	case e.Status == http.StatusNotFound:
		return "the issuer answered 404: check the issuer's URL"
	case e.Reason == "bad_request":
		return "the issuer cannot use the request" + detail
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
	endpoint    string
	audience    string
	credentials Credentials
	userAgent   string
	http        *http.Client
}

func newExchanger(o TokenOptions) (*exchanger, error) {
	base, err := parseBaseURL("issuer URL", o.IssuerURL)
	if err != nil {
		return nil, err
	}
	credentials, err := o.credentials()
	if err != nil {
		return nil, err
	}
	if credentials == nil {
		return nil, fmt.Errorf("no OAuth token for the issuer %s: run `ghostline login`", base)
	}
	return &exchanger{
		endpoint:    base.JoinPath("oauth", "token").String(),
		audience:    o.Audience,
		credentials: credentials,
		userAgent:   o.UserAgent,
		http:        oauthhttp.NewClient(o.RootCAs),
	}, nil
}

// exchange does one exchange, and a second one if the credential turns out to be no
// longer good and there is another. No credential is in an error that it returns.
func (e *exchanger) exchange(ctx context.Context) (grant, error) {
	credential, err := e.credentials.Credential(ctx, "")
	if err != nil {
		return grant{}, err
	}
	g, err := e.ask(ctx, credential)
	var refusal *IssuerError
	if !errors.As(err, &refusal) || !refusal.another() {
		return g, err
	}
	other, otherErr := e.credentials.Credential(ctx, credential.Value)
	if otherErr != nil {
		return grant{}, otherErr
	}
	if other.Value == credential.Value {
		return grant{}, err
	}
	return e.ask(ctx, other)
}

// ask sends one credential.
func (e *exchanger) ask(ctx context.Context, credential Credential) (grant, error) {
	form := url.Values{
		"grant_type":         {grantTypeExchange},
		"subject_token":      {credential.Value},
		"subject_token_type": {string(credential.Type)},
	}
	if credential.Type == "" {
		form.Set("subject_token_type", string(TypeAccessToken))
	}
	if e.audience != "" {
		form.Set("audience", e.audience)
	}
	answer, err := oauthhttp.PostForm(ctx, e.http, e.endpoint, e.userAgent, form)
	if err != nil {
		return grant{}, fmt.Errorf("token exchange: %w", err)
	}
	if answer.Status != http.StatusOK {
		return grant{}, issuerError(answer)
	}
	return parseGrant(answer.Body)
}

func issuerError(answer oauthhttp.Answer) *IssuerError {
	var object struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
		Reason      string `json:"reason"`
	}
	// A body that is not JSON (a load balancer's page) has nothing to add.
	_ = json.Unmarshal(answer.Body, &object)
	return &IssuerError{
		Status:      answer.Status,
		Code:        oneline.Clean(object.Error),
		Description: oneline.Clean(object.Description),
		Reason:      oneline.Clean(object.Reason),
		RetryAfter:  answer.RetryAfter,
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
		return grant{}, fmt.Errorf("token exchange: token_type is %q, want Bearer", oneline.Clean(object.TokenType))
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
