package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/internal/oauthhttp"
	"github.com/ghostline-dev/ghostline/internal/oneline"
)

// Error is a provider's refusal.
type Error struct {
	Provider string
	Status   int
	// Code and Description are those of the body (RFC 6749 section 5.2), if it has them.
	Code        string
	Description string
}

func (e *Error) Error() string {
	what := fmt.Sprintf("%s answered %d", e.Provider, e.Status)
	if e.Code != "" {
		what = fmt.Sprintf("%s answered %s", e.Provider, e.Code)
	}
	if e.Description != "" {
		what += " (" + e.Description + ")"
	}
	switch e.Code {
	case "invalid_client", "incorrect_client_credentials":
		return what + ": it does not know the application of the issuer's configuration; tell whoever runs the issuer"
	case "unauthorized_client", "unsupported_grant_type", "device_flow_disabled":
		return what + ": the device flow is not enabled for this application; tell whoever runs the issuer"
	case "invalid_scope":
		return what + ": tell whoever runs the issuer"
	}
	return what
}

// temporary says whether to ask again later. RFC 8628 section 3.5 has a client stop at
// every error code but two. These say that the provider is out, as a timeout does, for
// which the section wants what is done here: ask again, less and less often. A person who
// has entered the code would else have to begin anew.
func (e *Error) temporary() bool {
	switch e.Code {
	case "server_error", "temporarily_unavailable":
		return true
	}
	return e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests
}

// seconds is a number of seconds. Some providers put it in quotes.
type seconds time.Duration

const longest = 24 * time.Hour

func (s *seconds) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if err != nil || n != n {
		return errors.New("not a number of seconds")
	}
	*s = seconds(min(max(n, 0), longest.Seconds()) * float64(time.Second))
	return nil
}

// refusal is the part of an answer that says what went wrong. GitHub sends it with
// status 200.
type refusal struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
	// Interval comes from GitHub with slow_down.
	Interval seconds `json:"interval"`
}

// decode reads an answer into to; the error is *Error if it is a refusal. The rest of
// the refusal is returned too.
func decode(p Provider, answer oauthhttp.Answer, to any) (refusal, error) {
	var r refusal
	// The cause is left out: a JSON error may quote the answer, and so a token.
	refusedJSON := json.Unmarshal(answer.Body, &r) != nil
	if answer.Status != http.StatusOK || !refusedJSON && r.Code != "" {
		if refusedJSON {
			r = refusal{} // a load balancer's page has nothing to add
		}
		return r, &Error{Provider: p.Name, Status: answer.Status, Code: oneline.Clean(r.Code), Description: oneline.Clean(r.Description)}
	}
	if refusedJSON || json.Unmarshal(answer.Body, to) != nil {
		return r, fmt.Errorf("%s's answer is not the JSON object that OAuth wants", p.Name)
	}
	return r, nil
}

// tokens is a token endpoint's answer (RFC 6749 section 5.1, OpenID Connect Core
// section 3.1.3.3).
type tokens struct {
	AccessToken  string  `json:"access_token"`
	TokenType    string  `json:"token_type"`
	IDToken      string  `json:"id_token"`
	RefreshToken string  `json:"refresh_token"`
	ExpiresIn    seconds `json:"expires_in"`
}

// login makes a login of what p has answered at a moment.
func (t tokens) login(p Provider, now time.Time) (Login, error) {
	token, life := t.AccessToken, time.Duration(t.ExpiresIn)
	if p.Type == client.TypeIDToken {
		token, life = t.IDToken, 0 // expires_in is the access token's
	}
	switch {
	case token == "" && p.Type == client.TypeIDToken:
		return Login{}, fmt.Errorf("%s gave no ID token: the scope of the login must have openid in it; tell whoever runs the issuer", p.Name)
	case token == "" || !printable(token):
		return Login{}, fmt.Errorf("%s gave no token, or one that is not printable ASCII", p.Name)
	case p.Type != client.TypeIDToken && !strings.EqualFold(t.TokenType, "Bearer"):
		return Login{}, fmt.Errorf("%s gave a token of type %q, want Bearer", p.Name, oneline.Clean(t.TokenType))
	}
	if own := lifeOfJWT(token); own > 0 {
		life = own
	}
	l := Login{Token: token, Obtained: now, RefreshToken: t.RefreshToken, Provider: p}
	if life > 0 {
		l.Expires = now.Add(life)
	}
	return l, nil
}
