// Package login gets a person's OAuth credential by the device flow (RFC 8628) from an
// identity provider that a token issuer names, and renews it when it expires.
package login

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/internal/oauthhttp"
)

// Provider is an identity provider at which people log in, as an issuer's metadata
// have it.
type Provider struct {
	Name           string `json:"name"`
	ClientID       string `json:"client_id"`
	Scope          string `json:"scope,omitempty"`
	DeviceEndpoint string `json:"device_authorization_endpoint"`
	TokenEndpoint  string `json:"token_endpoint"`
	// Type is what of the provider's answer the issuer wants.
	Type client.TokenType `json:"subject_token_type"`
}

const exampleEndpoint = "https://login.example.com/oauth/token"

// check says why p cannot be used. A name is shown at terminals.
func (p *Provider) check() error {
	if p.Name == "" || len(p.Name) > 255 || !printable(p.Name) {
		return errors.New("a login has no name of printable ASCII")
	}
	switch {
	case p.ClientID == "":
		return fmt.Errorf("%s has no client_id", p.Name)
	case !p.Type.Known():
		return fmt.Errorf("%s has a subject_token_type that this version does not know", p.Name)
	}
	for what, endpoint := range map[string]string{"device_authorization_endpoint": p.DeviceEndpoint, "token_endpoint": p.TokenEndpoint} {
		if _, err := oauthhttp.ParseURL(p.Name+"'s "+what, endpoint, exampleEndpoint); err != nil {
			return err
		}
	}
	return nil
}

// printable says whether s is all visible ASCII: nothing that a terminal would obey,
// and no letter that looks like another.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Login is what came of a login: secrets, to be kept where only their owner reads.
type Login struct {
	// Token is the credential for the issuer, of the type that Provider.Type says.
	Token string `json:"oauth_token"`
	// Obtained and Expires are by this machine's clock; Expires is zero if the
	// provider did not say. Neither is to be relied on: clocks are wrong.
	Obtained time.Time `json:"obtained,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	// RefreshToken gets another Token without the person; empty if there is none.
	RefreshToken string `json:"refresh_token,omitempty"`
	// Provider is where Token is from; of a token that is from elsewhere only the
	// type is known.
	Provider Provider `json:"provider,omitzero"`
}

// Options configure a [Client].
type Options struct {
	// RootCAs are the certificates to trust; nil means the system's.
	RootCAs   *x509.CertPool
	UserAgent string
}

// Client asks issuers and identity providers. It is safe for concurrent use.
type Client struct {
	http      *http.Client
	userAgent string
}

// New makes a client. It opens no connection.
func New(o Options) *Client {
	return &Client{http: oauthhttp.NewClient(o.RootCAs), userAgent: o.UserAgent}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
