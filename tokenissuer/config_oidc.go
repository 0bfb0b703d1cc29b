package tokenissuer

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

const (
	maxListed     = 64
	maxClaimRules = 16
)

// OIDCConfig is a provider of type OIDC.
type OIDCConfig struct {
	// Issuer is the provider's URL, to the last character as it is in its tokens.
	Issuer string `json:"issuer"`
	// ClientIDs are the clients whose ID tokens are taken.
	ClientIDs []string `json:"clientIDs"`
	// Audiences are those of the JWT access tokens that are taken.
	Audiences []string `json:"audiences"`
	// PlainAccessTokens takes access tokens whose typ is JWT instead of at+jwt.
	PlainAccessTokens bool `json:"plainAccessTokens"`
	// Algorithms are those that the provider may sign with; default: identity.Algorithms.
	Algorithms []string `json:"algorithms"`
	// CAFile is a PEM file to trust instead of the system's certificates; may be "".
	CAFile string           `json:"caFile"`
	Claims ClaimsConfig     `json:"claims"`
	Login  *OIDCLoginConfig `json:"login"`
}

// OIDCLoginConfig is how people log in at the provider.
type OIDCLoginConfig struct {
	// ClientID is a public client that may use the device flow.
	ClientID string `json:"clientID"`
	// Scope is what it asks for; default: openid.
	Scope string `json:"scope"`
	// Credential is what of the answer is exchanged: IDToken, the default, or AccessToken.
	Credential LoginCredential `json:"credential"`
}

// LoginCredential is one of the tokens that come of a login.
type LoginCredential string

// The tokens that come of a login.
const (
	LoginIDToken     LoginCredential = "IDToken"
	LoginAccessToken LoginCredential = "AccessToken"
)

// ClaimsConfig is what becomes of what a provider says of a user; see
// identity.ClaimRules.
type ClaimsConfig struct {
	Subject       string              `json:"subject"`
	Organizations string              `json:"organizations"`
	Teams         string              `json:"teams"`
	Keep          []string            `json:"keep"`
	Require       map[string][]string `json:"require"`
}

func (o *OIDCConfig) check(field string) error {
	if o == nil {
		return fmt.Errorf("%s.oidc: it is missing; it must have issuer, and clientIDs or audiences", field)
	}
	field += ".oidc."
	problems := []error{
		checkURL(field+"issuer", o.Issuer, anyPath),
		checkListed(field+"clientIDs", o.ClientIDs), checkListed(field+"audiences", o.Audiences),
		o.Claims.check(field + "claims"), o.checkLogin(field),
	}
	if len(o.ClientIDs) == 0 && len(o.Audiences) == 0 {
		problems = append(problems, fmt.Errorf("%sclientIDs: neither it nor audiences has an entry, so no token could be taken", field))
	}
	for i, algorithm := range o.Algorithms {
		if !slices.Contains(identity.Algorithms(), algorithm) {
			problems = append(problems, fmt.Errorf("%salgorithms[%d]: it must be one of %s", field, i, strings.Join(identity.Algorithms(), ", ")))
		}
	}
	if o.PlainAccessTokens {
		problems = append(problems, o.checkPlain(field))
	}
	return errors.Join(problems...)
}

func (o *OIDCConfig) checkPlain(field string) error {
	if len(o.Audiences) == 0 {
		return fmt.Errorf("%splainAccessTokens: audiences must have those of the access tokens", field)
	}
	for i, audience := range o.Audiences {
		if slices.Contains(o.ClientIDs, audience) {
			return fmt.Errorf("%saudiences[%d]: with plainAccessTokens it cannot be one of clientIDs, or an ID token would pass for an access token", field, i)
		}
	}
	return nil
}

func (o *OIDCConfig) checkLogin(field string) error {
	if o.Login == nil {
		return nil
	}
	field += "login."
	switch {
	case o.Login.ClientID == "":
		return fmt.Errorf("%sclientID: it is missing; name a public client that may use the device flow", field)
	case o.Login.Credential != "" && o.Login.Credential != LoginIDToken && o.Login.Credential != LoginAccessToken:
		return fmt.Errorf("%scredential: it must be %s or %s", field, LoginIDToken, LoginAccessToken)
	case o.Login.credential() == identity.IDToken && !slices.Contains(o.ClientIDs, o.Login.ClientID):
		return fmt.Errorf("%sclientID: clientIDs must have it too, or its ID tokens would not be taken", field)
	case o.Login.credential() == identity.AccessToken && len(o.Audiences) == 0:
		return fmt.Errorf("%scredential: audiences must have those of the access tokens", field)
	case o.Login.credential() == identity.IDToken && !slices.Contains(strings.Fields(o.Login.scope()), "openid"):
		return fmt.Errorf("%sscope: it must have openid, or there is no ID token", field)
	}
	return nil
}

func (l *OIDCLoginConfig) credential() identity.CredentialType {
	if l.Credential == LoginAccessToken {
		return identity.AccessToken
	}
	return identity.IDToken
}

func (l *OIDCLoginConfig) scope() string {
	if l.Scope == "" {
		return "openid"
	}
	return l.Scope
}

// checkListed is of what stands in tokens, letter by letter.
func checkListed(field string, values []string) error {
	if len(values) > maxListed {
		return fmt.Errorf("%s: there are %d, more than %d", field, len(values), maxListed)
	}
	for i, value := range values {
		if value == "" || len(value) > 255 || strings.ContainsFunc(value, func(r rune) bool { return r < '!' || r > '~' }) {
			return fmt.Errorf("%s[%d]: it must be 1 to 255 visible ASCII characters", field, i)
		}
	}
	return nil
}

func (c *ClaimsConfig) check(field string) error {
	if len(c.Keep) > maxClaimRules || len(c.Require) > maxClaimRules {
		return fmt.Errorf("%s: keep and require may have %d entries each at most", field, maxClaimRules)
	}
	var problems []error
	if c.Subject == "email" {
		problems = append(problems, fmt.Errorf("%s.subject: it must be an opaque id that never changes, such as sub, and no e-mail address", field))
	}
	for i, name := range c.Keep {
		problems = append(problems, checkClaim(fmt.Sprintf("%s.keep[%d]", field, i), name))
	}
	for name, values := range c.Require {
		problems = append(problems, checkClaim(field+".require", name))
		if len(values) == 0 || len(values) > maxListed {
			problems = append(problems, fmt.Errorf("%s.require: %q must have 1 to %d values, of which the claim must have one", field, name, maxListed))
		}
	}
	for _, one := range []struct{ field, name string }{
		{".subject", c.Subject}, {".organizations", c.Organizations}, {".teams", c.Teams},
	} {
		if one.name != "" {
			problems = append(problems, checkClaim(field+one.field, one.name))
		}
	}
	return errors.Join(problems...)
}

func checkClaim(field, name string) error {
	if name == "" || len(name) > 255 || name == "/" {
		return fmt.Errorf("%s: it must be the name of a claim, or a pointer to it, such as /realm_access/roles", field)
	}
	return nil
}

func (c *ClaimsConfig) rules() identity.ClaimRules { return identity.ClaimRules(*c) }

// roots reads a CA file; nil is the system's.
func roots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("caFile: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("caFile: %s holds no PEM certificate", file)
	}
	return pool, nil
}

func newOIDC(name string, c *OIDCConfig, log *slog.Logger, m *providerMetrics) (*identity.OIDC, error) {
	pool, err := roots(c.CAFile)
	if err != nil {
		return nil, err
	}
	o := identity.OIDCOptions{
		Name: name, Issuer: c.Issuer, ClientIDs: c.ClientIDs, Audiences: c.Audiences, PlainAccessTokens: c.PlainAccessTokens,
		Algorithms: c.Algorithms, Claims: c.Claims.rules(), RootCAs: pool, Log: log, Up: m.of(name).Up,
	}
	if c.Login != nil {
		o.Login = identity.Login{ClientID: c.Login.ClientID, Scope: c.Login.scope(), Type: c.Login.credential()}
	}
	return identity.NewOIDC(o), nil
}
