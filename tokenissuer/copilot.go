package tokenissuer

import (
	"net/http"
	"strings"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

// copilotForm is what Copilot clients speak, GET /copilot_internal/v2/token.
func (s *server) copilotForm() form {
	return form{endpoint: "copilot", read: readAuthorization, grant: s.grantCopilot, refuse: s.refuseCopilot}
}

type copilotGrant struct {
	Token string `json:"token"`
	// ExpiresAt is compared with the client's own clock by some clients, which
	// are wrong to; RefreshIn counts from receipt.
	ExpiresAt int64            `json:"expires_at"`
	RefreshIn int64            `json:"refresh_in"`
	Endpoints copilotEndpoints `json:"endpoints,omitzero"`
	SKU       string           `json:"sku,omitempty"`
	// Individual is false: no plan here is bought from GitHub by a person.
	Individual bool `json:"individual"`
}

type copilotEndpoints struct {
	Proxy string `json:"proxy,omitempty"`
	API   string `json:"api,omitempty"`
}

// copilotRefusal is shown to the user by editors: Title and Message as text,
// URL as where to go.
type copilotRefusal struct {
	Message string              `json:"message"`
	Details copilotErrorDetails `json:"error_details"`
}

type copilotErrorDetails struct {
	NotificationID string `json:"notification_id"`
	Title          string `json:"title"`
	Message        string `json:"message"`
	URL            string `json:"url"`
}

func (s *server) grantCopilot(w http.ResponseWriter, d decision) {
	writeJSON(w, http.StatusOK, copilotGrant{
		Token: d.token, ExpiresAt: d.claims.Expires.Unix(), RefreshIn: seconds(d.refresh),
		Endpoints: copilotEndpoints(s.config.Endpoints), SKU: s.config.SKU,
	})
}

func (s *server) refuseCopilot(w http.ResponseWriter, refused *refusal) {
	if refused.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tokens"`) // RFC 9110 section 11.6.1, RFC 6750 section 3
	}
	writeJSON(w, refused.status, copilotRefusal{
		Message: refused.message,
		Details: copilotErrorDetails{
			NotificationID: string(refused.result),
			Title:          "Completions are not available",
			Message:        refused.message,
			URL:            s.config.helpURL(),
		},
	})
}

// readAuthorization takes the scheme of GitHub's API, and the standard's.
func readAuthorization(_ http.ResponseWriter, r *http.Request) (ask, *refusal) {
	given := r.Header.Values("Authorization")
	if len(given) > 1 {
		return ask{}, badRequest("invalid_request", "there is more than one Authorization header")
	}
	scheme, credential, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	credential = strings.TrimSpace(credential)
	if credential == "" || !strings.EqualFold(scheme, "token") && !strings.EqualFold(scheme, "Bearer") {
		refused := badRequest("invalid_request", "log in first: there is no header Authorization: token OAUTH-TOKEN")
		refused.status = http.StatusUnauthorized
		return ask{}, refused
	}
	return ask{credential: identity.Credential{Value: credential, Type: identity.AccessToken}}, nil
}
