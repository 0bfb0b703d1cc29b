package tokenissuer

import (
	"net/http"
	"strings"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

// outageReporter is a provider that knows whether it is out. One that does not cannot be.
type outageReporter interface {
	// Outage is why the provider is out, nil if it is not. It does not wait.
	Outage() error
}

// ready is 503 only if no token could be made. While a provider is out it is 200 and says
// so: that provider is out for every replica alike, so that taking them out of service
// would help nobody, and would lock out users whose identity is remembered or who log in
// at another provider.
func (s *server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := s.canSign(); err != nil {
		s.log.Error("cannot sign", "error", err)
		writeText(w, http.StatusServiceUnavailable, "cannot sign")
		return
	}
	lines := []string{"ok"}
	for _, provider := range s.providers {
		state := "ok"
		if p, knows := provider.(outageReporter); knows && p.Outage() != nil {
			state = "out; only identities that are remembered get tokens"
		}
		lines = append(lines, "provider "+provider.Name()+": "+state)
	}
	writeText(w, http.StatusOK, strings.Join(lines, "\n"))
}

// canSign makes a token and checks it as a proxy would, against the keys that
// are published.
func (s *server) canSign() error {
	var d decision
	s.sign(identity.Identity{Subject: "readyz", ClientID: "readyz"}, s.config.Audiences[0], &d)
	if d.refused != nil {
		return d.refused.cause
	}
	verifier := token.Verifier{Issuer: s.config.Issuer, Audience: s.config.Audiences[0]}
	_, err := verifier.Verify(d.token, s.ring().Public, s.now())
	return err
}
