package main

import (
	"crypto/x509"
	"errors"
	"net"
	"net/http"

	"github.com/ghostline-dev/ghostline/client"
)

// explain is err's text with what to do about it, where the error itself does
// not say so.
func explain(sys *system, err error) string {
	var (
		refusal   *client.Error
		issuer    *client.IssuerError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		resolve   *net.DNSError
		dial      *net.OpError
	)
	advice := ""
	switch {
	case errors.As(err, &refusal):
		advice = adviceOn(refusal)
	case errors.As(err, &issuer) && issuer.Refused() && !issuer.Denied() && sys.getenv(envOAuth) != "":
		advice = envOAuth + " is set and comes before a stored login: renew or unset it"
	case errors.As(err, &authority):
		advice = "if its certificate is signed by a CA of your own, name that CA by --ca or " + envCA
	case errors.As(err, &hostname):
		advice = "check the host name in the URLs of the proxy and the issuer"
	case errors.As(err, &resolve):
		advice = "check the host name in the URLs of the proxy and the issuer, and the network"
	case errors.As(err, &dial) && dial.Op == "dial":
		advice = "check that the server runs and that its URL is right"
	}
	if advice == "" {
		return err.Error()
	}
	return err.Error() + "\n" + advice
}

func adviceOn(refusal *client.Error) string {
	switch refusal.Status {
	case http.StatusUnauthorized:
		return "the proxy does not accept the issuer's tokens: check that the URLs of the proxy and the issuer belong together"
	case http.StatusForbidden:
		return "you may not use this model: ask whoever runs the service"
	}
	return ""
}
