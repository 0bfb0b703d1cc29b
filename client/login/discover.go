package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/ghostline-dev/ghostline/internal/oauthhttp"
	"github.com/ghostline-dev/ghostline/internal/oneline"
)

const wellKnown = "/.well-known/oauth-authorization-server"

// ErrNoLogin is of an issuer whose metadata name no provider at which people log in.
var ErrNoLogin = errors.New("the issuer offers no login for people")

// Providers are those at which people log in for an issuer, in its order. Those that
// this version cannot use are left out; the error is ErrNoLogin, and says why, if none
// is left.
func (c *Client) Providers(ctx context.Context, issuerURL string) ([]Provider, error) {
	issuer, err := oauthhttp.ParseURL("issuer URL", issuerURL, "https://tokens.example.com")
	if err != nil {
		return nil, err
	}
	answer, err := oauthhttp.Get(ctx, c.http, metadataURL(issuer), c.userAgent)
	if err != nil {
		return nil, fmt.Errorf("ask the issuer how to log in: %w", err)
	}
	if answer.Status != http.StatusOK {
		return nil, fmt.Errorf("ask the issuer how to log in: it answered %d: check the issuer's URL", answer.Status)
	}
	var metadata struct {
		Issuer string     `json:"issuer"`
		Logins []Provider `json:"ghostline_logins"`
	}
	if json.Unmarshal(answer.Body, &metadata) != nil {
		return nil, errors.New("ask the issuer how to log in: the answer is not the JSON object of RFC 8414 section 3.2: check the issuer's URL")
	}
	// Section 3.3: else one issuer could pass for another.
	if want := strings.TrimRight(issuerURL, "/"); metadata.Issuer != want {
		return nil, fmt.Errorf("the issuer at %s calls itself %s: use that URL if you trust it", want, oneline.Clean(metadata.Issuer))
	}
	return usable(metadata.Logins)
}

func usable(all []Provider) ([]Provider, error) {
	var good []Provider
	var problems []error
	for _, p := range all {
		if err := p.check(); err != nil {
			problems = append(problems, err)
			continue
		}
		good = append(good, p)
	}
	switch {
	case len(good) > 0:
		return good, nil
	case len(problems) > 0:
		return nil, fmt.Errorf("%w that can be used: %w", ErrNoLogin, errors.Join(problems...))
	}
	return nil, ErrNoLogin
}

// metadataURL puts the well-known path between host and path (RFC 8414 section 3).
func metadataURL(issuer *url.URL) string {
	at := url.URL{Scheme: issuer.Scheme, Host: issuer.Host, Path: wellKnown + strings.TrimRight(issuer.Path, "/")}
	return at.String()
}
