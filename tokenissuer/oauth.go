package tokenissuer

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

// Names of RFC 8693.
const (
	grantTokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccessToken    = "urn:ietf:params:oauth:token-type:access_token"
)

// subjectTypes are the types of credentials that are taken (RFC 8693 section 3).
var subjectTypes = map[string]identity.CredentialType{
	typeAccessToken: identity.AccessToken,
	"urn:ietf:params:oauth:token-type:id_token": identity.IDToken,
	"urn:ietf:params:oauth:token-type:jwt":      identity.JWT,
}

const (
	// maxFormBytes is well above the longest access or id token in use.
	maxFormBytes = 32 << 10
	readBody     = 5 * time.Second
)

// oauthForm is RFC 8693 token exchange, POST /oauth/token.
func (s *server) oauthForm() form {
	return form{endpoint: "oauth", read: readExchangeForm, grant: s.grantOAuth, refuse: refuseOAuth}
}

// oauthGrant is RFC 8693's answer (section 2.2.1). refresh_in and expires_at
// are ours; expires_at is for clients whose clock is right.
type oauthGrant struct {
	AccessToken     string `json:"access_token"`
	IssuedTokenType string `json:"issued_token_type"`
	TokenType       string `json:"token_type"`
	ExpiresIn       int64  `json:"expires_in"`
	RefreshIn       int64  `json:"refresh_in"`
	ExpiresAt       int64  `json:"expires_at"`
}

func (s *server) grantOAuth(w http.ResponseWriter, d decision) {
	writeJSON(w, http.StatusOK, oauthGrant{
		AccessToken: d.token, IssuedTokenType: typeAccessToken, TokenType: "Bearer",
		ExpiresIn: seconds(d.life), RefreshIn: seconds(d.refresh), ExpiresAt: d.claims.Expires.Unix(),
	})
}

// refuseOAuth answers a refused credential with 400, as RFC 8693 section 2.2.2
// wants, where other forms of exchange say 403.
func refuseOAuth(w http.ResponseWriter, refused *refusal) {
	status := refused.status
	if refused.result == resultDenied || refused.result == resultUnknown {
		status = http.StatusBadRequest
	}
	writeJSON(w, status, oauthRefusal{Code: refused.code, Description: refused.message, Reason: refused.result})
}

// oauthRefusal is RFC 6749's error object (section 5.2), with a reason more: RFC 8693
// section 2.2.2 has one code for a credential that is nobody's and for one whose owner is
// denied a token, and only the first is helped by another login.
type oauthRefusal struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
	Reason      result `json:"reason"`
}

func readExchangeForm(w http.ResponseWriter, r *http.Request) (ask, *refusal) {
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		return ask{}, badRequest("invalid_request", "parameters belong in the body; the URL must have no query")
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/x-www-form-urlencoded" {
		return ask{}, badRequest("invalid_request", "Content-Type must be application/x-www-form-urlencoded")
	}
	body, refused := readBounded(w, r)
	if refused != nil {
		return ask{}, refused
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return ask{}, badRequest("invalid_request", "the body is not application/x-www-form-urlencoded")
	}
	return parseExchange(values)
}

// readBounded reads the body, which may be neither too long nor too slow.
func readBounded(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(readBody)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, badRequest("invalid_request", "the connection is gone")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFormBytes))
	if err != nil {
		return nil, refusedBody(err)
	}
	// Without this, HTTP/1's watch for a client that goes away would run into
	// the deadline and cancel a long look-up.
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, badRequest("invalid_request", "the connection is gone")
	}
	return body, nil
}

func refusedBody(err error) *refusal {
	var tooLarge *http.MaxBytesError
	refused := badRequest("invalid_request", "the body broke off")
	switch {
	case errors.As(err, &tooLarge):
		refused.status, refused.message = http.StatusRequestEntityTooLarge, "the body has more than 32 KiB"
	case errors.Is(err, os.ErrDeadlineExceeded):
		refused.status, refused.message = http.StatusRequestTimeout, "the body was not sent within 5 s"
	}
	return refused
}

// parseExchange holds RFC 8693 section 2.1. Parameters that it does not know
// are ignored (RFC 6749 section 3.2).
func parseExchange(values url.Values) (ask, *refusal) {
	if refused := checkRepeats(values); refused != nil {
		return ask{}, refused
	}
	switch grant := values.Get("grant_type"); grant {
	case grantTokenExchange:
	case "":
		return ask{}, badRequest("invalid_request", "grant_type is missing; it must be "+grantTokenExchange)
	default:
		return ask{}, badRequest("unsupported_grant_type", "grant_type must be "+grantTokenExchange)
	}
	requested := values.Get("requested_token_type")
	switch {
	case values.Get("subject_token") == "":
		return ask{}, badRequest("invalid_request", "subject_token is missing")
	case subjectTypes[values.Get("subject_token_type")] == "":
		return ask{}, badRequest("invalid_request", "subject_token_type must be "+typeAccessToken+", or that of an id_token or a jwt")
	case requested != "" && requested != typeAccessToken:
		return ask{}, badRequest("invalid_request", "requested_token_type must be "+typeAccessToken+" or left out")
	case values.Get("actor_token") != "" || values.Get("actor_token_type") != "":
		return ask{}, badRequest("invalid_request", "this issuer knows no delegation; leave actor_token and actor_token_type out")
	case values.Get("resource") != "":
		return ask{}, badRequest("invalid_target", "this issuer names its targets by audience; leave resource out")
	case values.Get("scope") != "":
		return ask{}, badRequest("invalid_scope", "tokens of this issuer have no scope; leave scope out")
	}
	return ask{
		credential: identity.Credential{Value: values.Get("subject_token"), Type: subjectTypes[values.Get("subject_token_type")]},
		audience:   values.Get("audience"),
	}, nil
}

// checkRepeats refuses what comes twice (RFC 6749 section 3.2). RFC 8693 lets
// audience and resource repeat, for a token with several targets; ours have one.
func checkRepeats(values url.Values) *refusal {
	if len(values["audience"]) > 1 || len(values["resource"]) > 1 {
		return badRequest("invalid_target", "ask for one audience at a time, and for no resource")
	}
	for _, given := range values {
		if len(given) > 1 {
			return badRequest("invalid_request", "a parameter comes more than once")
		}
	}
	return nil
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
