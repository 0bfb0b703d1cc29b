package login

import (
	"errors"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/google/go-cmp/cmp"
)

const (
	hubLogin = `{"name":"hub","client_id":"Iv1.app","scope":"read:user","device_authorization_endpoint":"https://hub.example/device/code",
		"token_endpoint":"https://hub.example/token","subject_token_type":"urn:ietf:params:oauth:token-type:access_token"}`
	issuerURL = "https://tokens.example"
)

func TestProviders(t *testing.T) {
	describe := func(logins string) answer {
		return ok(`{"issuer":"https://tokens.example","ghostline_logins":` + logins + `}`)
	}
	corp := strings.NewReplacer("hub", "corp", "access_token", "id_token").Replace(hubLogin)
	later := strings.Replace(hubLogin, "token-type:access_token", "token-type:passkey", 1)
	corpProvider := hub(client.TypeIDToken)
	corpProvider.Name, corpProvider.DeviceEndpoint, corpProvider.TokenEndpoint = "corp", "https://corp.example/device/code", "https://corp.example/token"
	for name, tc := range map[string]struct {
		answer answer
		want   []Provider
		says   string
	}{
		"one":                             {answer: describe("[" + hubLogin + "]"), want: []Provider{hub(client.TypeAccessToken)}},
		"two, and one of a later version": {answer: describe("[" + corp + "," + later + "," + hubLogin + "]"), want: []Provider{corpProvider, hub(client.TypeAccessToken)}},
		"none":                            {answer: describe("[]"), says: ErrNoLogin.Error()},
		"an issuer without the member":    {answer: ok(`{"issuer":"https://tokens.example"}`), says: ErrNoLogin.Error()},
		"none that can be used":           {answer: describe("[" + later + "]"), says: "no login for people that can be used: hub has a subject_token_type"},
		"another issuer's (RFC 8414 section 3.3)": {answer: ok(`{"issuer":"https://evil.example\u001b[2J"}`),
			says: "the issuer at https://tokens.example calls itself https://evil.example[2J"},
		"no issuer":   {answer: answer{status: 404}, says: "answered 404: check the issuer's URL"},
		"a page":      {answer: ok("<html>"), says: "not the JSON object of RFC 8414"},
		"unreachable": {says: "ask the issuer how to log in: "},
	} {
		t.Run(name, func(t *testing.T) {
			p, c := newProvider(t, tc.answer)
			got, err := c.Providers(t.Context(), issuerURL+"/")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("providers (-want +got):\n%s", diff)
			}
			if tc.says != "" {
				wantError(t, err, tc.says)
			}
			if strings.Contains(tc.says, "no login for people") != errors.Is(err, ErrNoLogin) {
				t.Errorf("error %v is ErrNoLogin: %t", err, errors.Is(err, ErrNoLogin))
			}
			if p.asked[0].path != "/.well-known/oauth-authorization-server" {
				t.Errorf("asked for %s", p.asked[0].path)
			}
		})
	}
	_, c := newProvider(t)
	_, err := c.Providers(t.Context(), "http://tokens.example")
	wantError(t, err, "in clear text")
}

// TestMetadataURL: RFC 8414 section 3 puts the well-known path before that of the issuer.
func TestMetadataURL(t *testing.T) {
	p, c := newProvider(t, ok(`{"issuer":"https://tokens.example/team","ghostline_logins":[`+hubLogin+`]}`))
	if _, err := c.Providers(t.Context(), issuerURL+"/team/"); err != nil {
		t.Fatal(err)
	}
	if want := "/.well-known/oauth-authorization-server/team"; p.asked[0].path != want {
		t.Errorf("asked for %s, want %s", p.asked[0].path, want)
	}
}
