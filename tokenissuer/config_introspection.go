package tokenissuer

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

// IntrospectionConfig is a provider of type Introspection.
type IntrospectionConfig struct {
	// URL is the introspection endpoint.
	URL string `json:"url"`
	// Issuer is what iss must be where there is one; "" is any.
	Issuer string `json:"issuer"`
	// Auth is how this issuer shows who it is; default: client_secret_basic.
	Auth identity.ClientAuth `json:"auth"`
	// ClientID is this issuer's own, not with the auth bearer.
	ClientID string `json:"clientID"`
	// SecretFile holds the client's secret, or the bearer token, alone.
	SecretFile string `json:"secretFile"`
	// Pattern is a regular expression for the whole of a token; others are not sent.
	Pattern string `json:"pattern"`
	// ClientIDs are the clients whose tokens are taken; default: all.
	ClientIDs []string `json:"clientIDs"`
	// Audiences are those of which a token must have one; default: none is asked for.
	Audiences []string `json:"audiences"`
	// Untyped takes tokens of which no token_type says that they are access tokens.
	Untyped bool `json:"untyped"`
	// CAFile is a PEM file to trust instead of the system's certificates; may be "".
	CAFile string       `json:"caFile"`
	Claims ClaimsConfig `json:"claims"`
}

func (n *IntrospectionConfig) check(field string) error {
	if n == nil {
		return fmt.Errorf("%s.introspection: it is missing; it must have url, clientID, secretFile, and clientIDs or audiences", field)
	}
	field += ".introspection."
	problems := []error{
		checkURL(field+"url", n.URL, anyPath),
		checkListed(field+"clientIDs", n.ClientIDs), checkListed(field+"audiences", n.Audiences),
		n.checkAuth(field), n.Claims.check(field + "claims"),
	}
	if n.Issuer != "" {
		problems = append(problems, checkURL(field+"issuer", n.Issuer, anyPath))
	}
	if len(n.ClientIDs) == 0 && len(n.Audiences) == 0 {
		problems = append(problems, fmt.Errorf("%sclientIDs: neither it nor audiences has an entry, so every application's tokens would be taken", field))
	}
	if _, err := n.pattern(); err != nil {
		problems = append(problems, fmt.Errorf("%spattern: it is no regular expression (RE2)", field))
	}
	return errors.Join(problems...)
}

func (n *IntrospectionConfig) checkAuth(field string) error {
	known := []identity.ClientAuth{identity.ClientSecretBasic, identity.ClientSecretPost, identity.ClientBearer}
	switch {
	case !slices.Contains(known, n.auth()):
		return fmt.Errorf("%sauth: it must be one of %q", field, known)
	case n.SecretFile == "":
		return fmt.Errorf("%ssecretFile: it is missing; name the file with the client's secret, or with the bearer token", field)
	case (n.ClientID == "") != (n.auth() == identity.ClientBearer):
		return fmt.Errorf("%sclientID: it must be this issuer's own, and be left out with the auth %s", field, identity.ClientBearer)
	}
	return nil
}

func (n *IntrospectionConfig) auth() identity.ClientAuth {
	if n.Auth == "" {
		return identity.ClientSecretBasic
	}
	return n.Auth
}

// pattern is nil for none.
func (n *IntrospectionConfig) pattern() (*regexp.Regexp, error) {
	if n.Pattern == "" {
		return nil, nil
	}
	return regexp.Compile(`^(?:` + n.Pattern + `)$`)
}

func newIntrospection(name string, c *IntrospectionConfig, log *slog.Logger) (*identity.Introspection, error) {
	pool, err := roots(c.CAFile)
	if err != nil {
		return nil, err
	}
	pattern, err := c.pattern()
	if err != nil {
		return nil, err
	}
	return identity.NewIntrospection(identity.IntrospectionOptions{
		Name: name, URL: c.URL, Issuer: c.Issuer, Auth: c.auth(), ClientID: c.ClientID, SecretFile: c.SecretFile,
		Pattern: pattern, ClientIDs: c.ClientIDs, Audiences: c.Audiences, Untyped: c.Untyped, Claims: c.Claims.rules(), RootCAs: pool, Log: log,
	})
}
