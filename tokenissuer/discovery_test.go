package tokenissuer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/google/go-cmp/cmp"
)

// loginProvider is a provider at which people log in, once it is known how.
type loginProvider struct {
	provider
	login identity.Login
	known bool
}

func (p *loginProvider) Login() (identity.Login, bool) { return p.login, p.known }

// TestMetadataTellsHowToLogIn: as it is at the time of the request, because a provider
// may be discovered long after the issuer's start.
func TestMetadataTellsHowToLogIn(t *testing.T) {
	i := newIssuer(t)
	device := func(name string, kind identity.CredentialType) *loginProvider {
		return &loginProvider{provider: provider{name: name}, known: true, login: identity.Login{
			ClientID: name + "-app", DeviceEndpoint: "https://" + name + ".example/device",
			TokenEndpoint: "https://" + name + ".example/token", Type: kind,
		}}
	}
	hub, late, corp := device("hub", identity.AccessToken), device("late", identity.JWT), device("corp", identity.IDToken)
	late.known = false
	corp.login.Scope = "openid offline_access"
	i.providers = append(i.providers, hub, late, corp) // behind the static one, which has no login
	want := func(names ...string) {
		t.Helper()
		answer := i.do(httptest.NewRequest(http.MethodGet, pathMetadata, nil))
		var got struct {
			Logins []map[string]string `json:"ghostline_logins"`
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		kinds := map[string]string{"hub": "access_token", "late": "jwt", "corp": "id_token"}
		var all []map[string]string
		for _, name := range names {
			login := map[string]string{
				"name": name, "client_id": name + "-app", "device_authorization_endpoint": "https://" + name + ".example/device",
				"token_endpoint": "https://" + name + ".example/token", "subject_token_type": "urn:ietf:params:oauth:token-type:" + kinds[name],
			}
			if name == "corp" {
				login["scope"] = "openid offline_access"
			}
			all = append(all, login)
		}
		if diff := cmp.Diff(all, got.Logins); diff != "" {
			t.Errorf("logins (-want +got):\n%s", diff)
		}
	}
	want("hub", "corp")
	late.known = true
	want("hub", "late", "corp")
}
