package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ClientAuth is how this issuer shows the introspection endpoint who it is.
type ClientAuth string

// The ways of RFC 7662 section 2.1.
const (
	ClientSecretBasic ClientAuth = "client_secret_basic"
	ClientSecretPost  ClientAuth = "client_secret_post"
	ClientBearer      ClientAuth = "bearer"
)

// IntrospectionOptions is an authorization server that is asked about each token.
type IntrospectionOptions struct {
	// Name is the provider's name in configuration, metrics, audit lines and subjects.
	Name string
	// URL is the introspection endpoint.
	URL string
	// Issuer is what iss must be, of a JWT and of an answer that has one; "" is any.
	Issuer string
	// Auth, ClientID and SecretFile are what this issuer shows. The file is read for
	// each look-up, so that the secret in it may change.
	Auth       ClientAuth
	ClientID   string
	SecretFile string
	// Pattern is what a token must match to be sent there; nil is everything.
	Pattern *regexp.Regexp
	// ClientIDs are the clients whose tokens are taken, Audiences the audiences, of which
	// a token must have one. An empty list asks for none; one of the two must not be.
	ClientIDs, Audiences []string
	// Untyped takes tokens of which the answer does not say that they are bearer access
	// tokens, so that a refresh token may pass for one.
	Untyped bool
	Claims  ClaimRules
	// RootCAs are trusted for connections to it; nil is the system's.
	RootCAs *x509.CertPool
	Log     *slog.Logger
}

// Introspection asks an authorization server about access tokens (RFC 7662).
type Introspection struct {
	options IntrospectionOptions
	secret  *secretFile
	client  *http.Client
	now     func() time.Time
}

// NewIntrospection makes a provider. The error is that of a secret that cannot be read.
func NewIntrospection(o IntrospectionOptions) (*Introspection, error) {
	secret, err := openSecret(o.SecretFile, o.Log)
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	return &Introspection{options: o, secret: secret, client: newHTTPClient(o.RootCAs), now: time.Now}, nil
}

// Close closes the connections to the server.
func (i *Introspection) Close() error {
	i.client.CloseIdleConnections()
	return nil
}

// Name is the provider's name.
func (i *Introspection) Name() string { return i.options.Name }

// sentPattern is what a token may consist of (RFC 6749 appendix A.12).
var sentPattern = regexp.MustCompile(`^[ -~]+$`)

// Identify asks the server. Nothing is sent that cannot be one of its access tokens.
func (i *Introspection) Identify(ctx context.Context, credential Credential) (Identity, error) {
	if !i.Plausible(credential) {
		return Identity{}, ErrUnknownCredential
	}
	answer, err := i.ask(ctx, credential.Value)
	if err != nil {
		return Identity{}, fmt.Errorf("introspection: %w", err)
	}
	active, err := answer.raw("active")
	switch {
	case err != nil || string(active) != "true" && string(active) != "false":
		return Identity{}, errors.New("introspection: the answer does not say whether the token is active")
	case string(active) == "false":
		return Identity{}, ErrUnknownCredential
	}
	who, err := i.judge(answer)
	if err != nil {
		return Identity{}, unknown(err)
	}
	return who, nil
}

// Plausible is false for what is never sent to the server: it would see the tokens of
// other providers.
func (i *Introspection) Plausible(credential Credential) bool {
	token := credential.Value
	switch {
	case credential.Type == IDToken || len(token) > maxJWTBytes || !sentPattern.MatchString(token):
		return false
	case i.options.Pattern != nil && !i.options.Pattern.MatchString(token):
		return false
	}
	t, isJWT := parseJWT(token)
	return !isJWT || i.options.Issuer == "" || t.issuer == i.options.Issuer
}

func (i *Introspection) ask(ctx context.Context, token string) (claimSet, error) {
	secret, form := i.secret.read(), url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	if i.options.Auth == ClientSecretPost {
		form.Set("client_id", i.options.ClientID)
		form.Set("client_secret", secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.options.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	switch i.options.Auth {
	case ClientSecretBasic:
		// RFC 6749 section 2.3.1 has both encoded as in a form.
		req.SetBasicAuth(url.QueryEscape(i.options.ClientID), url.QueryEscape(secret))
	case ClientBearer:
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	data, err := ask(i.client, req)
	if err != nil {
		return nil, refusedToken(err)
	}
	answer, err := parseClaims(data)
	if err != nil {
		return nil, errors.New("the answer is no JSON object with each name once")
	}
	return answer, nil
}

// refusedToken reads a 400: the server may not like this token's form, and others may be
// asked about all the same. Of a kind that it never knows (RFC 7009 section 2.2.1) it
// knows none.
func refusedToken(err error) error {
	refused := (*statusError)(nil)
	if !errors.As(err, &refused) || refused.status != http.StatusBadRequest {
		return err
	}
	body, parseErr := parseClaims(refused.body)
	if code, codeErr := body.text("error"); parseErr == nil && codeErr == nil && code == "unsupported_token_type" {
		return unknown(errors.New("the server introspects no tokens of this kind"))
	}
	return &OutageError{Cause: err, Single: true}
}

// judge holds an answer about an active token against the rules.
func (i *Introspection) judge(answer claimSet) (Identity, error) {
	expires, err := answer.times(i.now())
	if err != nil {
		return Identity{}, err
	}
	if err := i.isAccessToken(answer); err != nil {
		return Identity{}, err
	}
	audiences, err := answer.audiences()
	if err != nil {
		return Identity{}, err
	}
	if len(i.options.Audiences) > 0 && !meet(audiences, i.options.Audiences) {
		return Identity{}, errors.New("aud is no configured audience")
	}
	clientID, err := clientOf(answer)
	if err != nil {
		return Identity{}, err
	}
	if len(i.options.ClientIDs) > 0 && !slices.Contains(i.options.ClientIDs, clientID) {
		return Identity{}, errors.New("it was given to no configured client")
	}
	who, err := i.options.Claims.identity(i.options.Name, answer)
	who.ClientID, who.Expires = clientID, expires
	return who, err
}

// isAccessToken holds what the answer says of the token's kind: servers answer for
// refresh tokens too. token_type is the standard's, token_use is Hydra's.
func (i *Introspection) isAccessToken(answer claimSet) error {
	if answer["cnf"] != nil {
		return errors.New("it is bound to a key (cnf) that nobody here can ask its sender for")
	}
	kind, err := answer.text("token_type")
	if err != nil {
		return err
	}
	use, err := answer.text("token_use")
	if err != nil {
		return err
	}
	issuer, err := answer.text("iss")
	if err != nil {
		return err
	}
	switch {
	case kind == "" && !i.options.Untyped:
		return errors.New("token_type does not say that it is a bearer token; see untyped")
	case kind != "" && !strings.EqualFold(kind, "Bearer"), use != "" && use != "access_token":
		return errors.New("token_type or token_use says that it is no bearer access token")
	case i.options.Issuer != "" && issuer != "" && issuer != i.options.Issuer:
		return errors.New("iss is another issuer")
	}
	return nil
}
