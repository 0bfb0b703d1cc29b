package tokenissuer

import (
	"net/http"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

const (
	pathOAuth    = "/oauth/token"
	pathCopilot  = "/copilot_internal/v2/token"
	pathKeys     = "/.well-known/jwks.json"
	pathMetadata = "/.well-known/oauth-authorization-server"
)

// metadata is what RFC 8414 lets a client find out about an issuer.
type metadata struct {
	Issuer        string   `json:"issuer"`
	TokenEndpoint string   `json:"token_endpoint"`
	KeysURI       string   `json:"jwks_uri"`
	GrantTypes    []string `json:"grant_types_supported"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	// ResponseTypes is required by section 2, and empty, because there is no
	// authorization endpoint. (Section 3.2 wants empty lists left out, but
	// clients look for what section 2 requires.)
	ResponseTypes []string `json:"response_types_supported"`
	// Logins are ours (section 2 allows more members than it names): how a person
	// gets a credential that this issuer exchanges.
	Logins []login `json:"ghostline_logins,omitempty"`
}

// login is an identity provider's device flow (RFC 8628), with the names that it has
// in the provider's own metadata. Client and scope are public.
type login struct {
	Name           string `json:"name"`
	ClientID       string `json:"client_id"`
	Scope          string `json:"scope,omitempty"`
	DeviceEndpoint string `json:"device_authorization_endpoint"`
	TokenEndpoint  string `json:"token_endpoint"`
	// SubjectTokenType is what of the provider's answer is exchanged here.
	SubjectTokenType string `json:"subject_token_type"`
}

func (s *server) metadata() metadata {
	return metadata{
		Issuer: s.config.Issuer, TokenEndpoint: s.config.Issuer + pathOAuth, KeysURI: s.config.Issuer + pathKeys,
		GrantTypes: []string{grantTokenExchange}, AuthMethods: []string{"none"}, ResponseTypes: []string{},
		Logins: s.logins(),
	}
}

// logins are in the order of the configuration.
func (s *server) logins() (all []login) {
	for _, provider := range s.providers {
		people, ok := provider.(identity.LoginProvider)
		if !ok {
			continue
		}
		if l, known := people.Login(); known {
			all = append(all, login{
				Name: people.Name(), ClientID: l.ClientID, Scope: l.Scope,
				DeviceEndpoint: l.DeviceEndpoint, TokenEndpoint: l.TokenEndpoint, SubjectTokenType: subjectTypeName(l.Type),
			})
		}
	}
	return all
}

func subjectTypeName(credential identity.CredentialType) string {
	for name, known := range subjectTypes {
		if known == credential {
			return name
		}
	}
	return typeAccessToken
}

// describe answers with the metadata as they are now: what a provider tells of itself
// may not be known at the start. Nobody keeps them, or a login that comes to be known
// would stay unknown to those behind the same cache.
func (s *server) describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	writeJSON(w, http.StatusOK, s.metadata())
}
