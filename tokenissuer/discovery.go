package tokenissuer

import (
	"encoding/json"
	"fmt"
	"net/http"
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
}

func (s *server) metadata() metadata {
	return metadata{
		Issuer: s.config.Issuer, TokenEndpoint: s.config.Issuer + pathOAuth, KeysURI: s.config.Issuer + pathKeys,
		GrantTypes: []string{grantTokenExchange}, AuthMethods: []string{"none"}, ResponseTypes: []string{},
	}
}

// published is a document that anybody may read and keep for a while. Five
// minutes is what a key that is rotated in must be published before it signs.
func published(mediaType string, document any) (http.HandlerFunc, error) {
	body, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("published document: %w", err)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Cache-Control", "public, max-age=300")
		// A failed write is a client that went away.
		_, _ = w.Write(body)
	}, nil
}
