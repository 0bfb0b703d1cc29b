package proxy

import (
	"errors"

	"github.com/ghostline-dev/ghostline/proxy/auth"
)

// errNoKeys is a proxy that does not know the issuer's keys yet.
var errNoKeys = errors.New("the token issuer's keys are not known yet")

// authenticate finds the request's subject, before its body is read.
func (p *proxy) authenticate(x *exchange) error {
	claims, cached, err := x.snapshot.auth.Authenticate(x.header["Authorization"], x.start)
	p.metrics.authenticated(cached, err)
	x.stranger = err != nil
	switch {
	case err == nil:
	case errors.Is(err, auth.ErrNoToken):
		return noToken()
	case errors.Is(err, auth.ErrSeveral):
		return severalTokens()
	default:
		return badToken(err, errors.Is(err, auth.ErrExpired))
	}
	// Not remembered with the token, so that a denial holds at once.
	if x.snapshot.denied[claims.Subject] {
		return denied("subject_denied", "this user is not allowed to use this service any more")
	}
	x.claims = claims
	return nil
}
