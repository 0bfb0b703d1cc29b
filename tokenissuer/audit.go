package tokenissuer

import (
	"net/http"
)

// audit writes the one line that says who got a token, or why not. The
// credential and the token are never in it.
func (s *server) audit(w http.ResponseWriter, d decision) {
	attributes := []any{
		"request_id", w.Header().Get(headerRequestID), "endpoint", d.endpoint, "result", string(d.result()),
		"address", d.addressText(), "provider", d.provider, "subject", d.who.Subject, "client_id", d.who.ClientID,
	}
	if d.who.Subject != "" {
		attributes = append(attributes, "identity", d.source(), "rule", d.rule)
	}
	if d.refused == nil {
		attributes = append(attributes, "audience", d.claims.Audience, "token_id", d.claims.ID)
	} else {
		attributes = append(attributes, "reason", d.refused.message)
		if d.refused.cause != nil {
			attributes = append(attributes, "cause", d.refused.cause)
		}
	}
	s.log.Info("exchange", attributes...)
}

// source is how the issuer came to know the identity.
func (d *decision) source() string {
	switch {
	case d.who.Stale:
		return "stale"
	case d.who.Cached:
		return "cached"
	}
	return "asked"
}

func (d *decision) addressText() string {
	if !d.address.IsValid() {
		return "unknown"
	}
	return d.address.String()
}
