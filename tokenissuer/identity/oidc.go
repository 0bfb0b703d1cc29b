package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// OIDCOptions is an OpenID provider, and what of it is taken.
type OIDCOptions struct {
	// Name is the provider's name in configuration, metrics, audit lines and subjects.
	Name string
	// Issuer is its URL, exactly as it stands in its tokens.
	Issuer string
	// ClientIDs are the clients whose ID tokens are taken. Empty: none are.
	ClientIDs []string
	// Audiences are those of the access tokens (RFC 9068) that are taken. Empty: none are.
	Audiences []string
	// PlainAccessTokens takes access tokens whose typ is JWT, as those of Keycloak and
	// Entra ID are. No audience may then be a client's id, because only aud tells an ID
	// token from such an access token.
	PlainAccessTokens bool
	// Algorithms are those that it may sign with; nil is all of Algorithms.
	Algorithms []string
	Claims     ClaimRules
	// Login is how people log in; with an empty ClientID they do not. Its endpoints are
	// the provider's to tell.
	Login Login
	// RootCAs are trusted for connections to it; nil is the system's.
	RootCAs *x509.CertPool
	Log     *slog.Logger
	// Up is told after each try to fetch the provider's keys; may be nil.
	Up func(up bool)
}

// OIDC takes ID tokens and JWT access tokens of an OpenID provider. It checks them
// itself, with the provider's keys; no credential is sent anywhere.
type OIDC struct {
	options OIDCOptions
	known   *discoverer
	now     func() time.Time
	stop    context.CancelFunc
	running sync.WaitGroup
}

// NewOIDC makes a provider, which is out until its keys have been fetched. They are kept
// fresh until it is closed.
func NewOIDC(o OIDCOptions) *OIDC {
	p := newOIDC(o)
	p.start()
	return p
}

func newOIDC(o OIDCOptions) *OIDC {
	if o.Algorithms == nil {
		o.Algorithms = Algorithms()
	}
	if o.Up == nil {
		o.Up = func(bool) {}
	}
	return &OIDC{options: o, known: newDiscoverer(o), now: time.Now}
}

func (o *OIDC) start() {
	ctx, stop := context.WithCancel(context.Background())
	o.stop = stop
	o.running.Go(func() { o.known.run(ctx) })
}

// Close ends what runs in the background. The keys that are known stay in use.
func (o *OIDC) Close() error {
	o.stop()
	o.running.Wait()
	return nil
}

// Name is the provider's name.
func (o *OIDC) Name() string { return o.options.Name }

// Outage is why the provider's keys are not known; nil if they are. It stays nil while the
// provider is out, because tokens are checked with the last good keys all the same; Up of
// OIDCOptions tells that.
func (o *OIDC) Outage() error {
	if o.known.current() != nil {
		return nil
	}
	_, err := o.known.outcome()
	return err
}

// Login is how people log in, once the provider has told where.
func (o *OIDC) Login() (Login, bool) {
	now, login := o.known.current(), o.options.Login
	if login.ClientID == "" || now == nil || o.known.checkEndpoint(now.DeviceEndpoint) != nil || o.known.checkEndpoint(now.TokenEndpoint) != nil {
		return Login{}, false
	}
	login.DeviceEndpoint, login.TokenEndpoint = now.DeviceEndpoint, now.TokenEndpoint
	return login, true
}

// Identify checks a token and returns who it is about. A reason that stands in the
// error has no part of the token.
func (o *OIDC) Identify(ctx context.Context, credential Credential) (Identity, error) {
	token, ok := o.read(credential)
	if !ok {
		return Identity{}, ErrUnknownCredential
	}
	kind, err := o.kind(credential.Type, &token)
	if err != nil {
		return Identity{}, unknown(err)
	}
	key, err := o.key(ctx, &token.header)
	if err != nil {
		return Identity{}, err
	}
	if err := token.signature(key); err != nil {
		return Identity{}, unknown(err)
	}
	who, err := o.judge(kind, token.claims)
	if err != nil {
		return Identity{}, unknown(err)
	}
	return who, nil
}

// Plausible is false for what is no JWT of this provider.
func (o *OIDC) Plausible(credential Credential) bool {
	_, ok := o.read(credential)
	return ok
}

func (o *OIDC) read(credential Credential) (unverified, bool) {
	token, ok := parseJWT(credential.Value)
	return token, ok && token.issuer == o.options.Issuer
}

func unknown(reason error) error { return fmt.Errorf("%w: %w", ErrUnknownCredential, reason) }

// key is the key that must have signed, which may have to be fetched first.
func (o *OIDC) key(ctx context.Context, h *jwtHeader) (verifyingKey, error) {
	if now := o.known.current(); now != nil {
		if key, ok := now.keys.find(h); ok {
			return key, nil
		}
	}
	now, err := o.known.fresh(ctx)
	if err != nil {
		return verifyingKey{}, fmt.Errorf("the key that the token names is not known, and the provider cannot be asked: %w", err)
	}
	key, ok := now.keys.find(h)
	if !ok {
		return verifyingKey{}, unknown(errors.New("kid names no key of the provider"))
	}
	return key, nil
}

// kind is what the token is by its header: an ID token, an access token, or "" if only
// its aud can tell.
func (o *OIDC) kind(claimed CredentialType, t *unverified) (CredentialType, error) {
	h := &t.header
	if h.Critical != nil || h.Base64 != nil {
		return "", errors.New("the header has crit or b64, and no extension is known here")
	}
	if !slices.Contains(o.options.Algorithms, h.Algorithm) {
		return "", errors.New("alg is not an allowed one")
	}
	if len(h.KeyID) > maxKeyIDBytes {
		return "", errors.New("kid is too long")
	}
	var kind CredentialType
	switch typ := h.kind(); {
	case typ == "at+jwt":
		kind = AccessToken
	case typ != "" && typ != "jwt":
		return "", errors.New("typ is that of no ID token and no access token")
	case !o.options.PlainAccessTokens:
		kind = IDToken
	}
	switch {
	case claimed == JWT || claimed == kind:
		return kind, nil
	case kind == "":
		return claimed, nil
	}
	return "", fmt.Errorf("it was sent as an %s and typ says that it is none", claimed)
}

// judge holds the claims of a token whose signature is right against the rules.
func (o *OIDC) judge(kind CredentialType, claims claimSet) (Identity, error) {
	audiences, err := claims.audiences()
	if err != nil {
		return Identity{}, err
	}
	if kind == "" {
		kind = IDToken
		if meet(audiences, o.options.Audiences) {
			kind = AccessToken
		}
	}
	expires, err := claims.times(o.now())
	if err != nil {
		return Identity{}, err
	}
	if expires.IsZero() || claims["iat"] == nil {
		return Identity{}, errors.New("exp or iat is missing")
	}
	if claims["cnf"] != nil {
		return Identity{}, errors.New("it is bound to a key (cnf) that nobody here can ask its sender for")
	}
	check := o.idToken
	if kind == AccessToken {
		check = o.accessToken
	}
	clientID, err := check(claims, audiences)
	if err != nil {
		return Identity{}, err
	}
	who, err := o.options.Claims.identity(o.options.Name, claims)
	who.ClientID, who.Expires = clientID, expires
	return who, err
}

// idToken holds section 3.1.3.7 of OpenID Connect Core and returns the client. There
// is no nonce to compare: it belongs to whoever asked for the token.
func (o *OIDC) idToken(claims claimSet, audiences []string) (string, error) {
	clientID, err := claims.text("azp")
	if err != nil {
		return "", err
	}
	if claims["events"] != nil {
		return "", errors.New("it is an event, as a logout token is, and no ID token")
	}
	for _, audience := range audiences {
		if !slices.Contains(o.options.ClientIDs, audience) && !slices.Contains(o.options.Audiences, audience) {
			return "", errors.New("aud has one that is no configured client")
		}
	}
	switch {
	case !meet(audiences, o.options.ClientIDs):
		return "", errors.New("aud is no configured client")
	case clientID == "" && len(audiences) > 1:
		return "", errors.New("aud has several, and azp does not say which client it is for")
	case clientID == "":
		return audiences[0], nil
	case !slices.Contains(o.options.ClientIDs, clientID):
		return "", errors.New("azp is no configured client")
	}
	return clientID, nil
}

// accessToken holds section 4 of RFC 9068 and returns the client.
func (o *OIDC) accessToken(claims claimSet, audiences []string) (string, error) {
	if !meet(audiences, o.options.Audiences) {
		return "", errors.New("aud is no configured audience")
	}
	return clientOf(claims)
}

// clientOf is the client that an access token was given to. azp is where Keycloak and
// Entra ID have it.
func clientOf(claims claimSet) (string, error) {
	for _, name := range []string{"client_id", "azp"} {
		clientID, err := claims.text(name)
		if err != nil {
			return "", err
		}
		if clientID != "" {
			if !idPattern.MatchString(clientID) {
				return "", fmt.Errorf("%s is not 1 to 255 visible ASCII characters", name)
			}
			return clientID, nil
		}
	}
	return "", errors.New("neither client_id nor azp says which client it was given to")
}
