package login

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/google/go-cmp/cmp"
)

func TestDeviceRequestsOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := newProvider(t, ok(strings.Replace(goodCode, "}", `,"verification_uri_complete":"https://hub.example/device?c=WDJB-MJHT"}`, 1)), ok(goodToken))
		code, err := c.Start(t.Context(), hub(client.TypeAccessToken))
		if err != nil {
			t.Fatal(err)
		}
		if code.UserCode != "WDJB-MJHT" || code.URL != "https://hub.example/device" ||
			code.CompleteURL != "https://hub.example/device?c=WDJB-MJHT" || code.Life != 15*time.Minute {
			t.Errorf("code %+v", code)
		}
		got, err := c.Wait(t.Context(), code)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		want := Login{Token: accessToken, RefreshToken: refresh, Obtained: now, Expires: now.Add(time.Hour), Provider: hub(client.TypeAccessToken)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("login (-want +got):\n%s", diff)
		}
		for i, want := range []string{
			"/device/code?client_id=Iv1.app&scope=read%3Auser",
			"/token?client_id=Iv1.app&device_code=device-hunter2&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code",
		} {
			if got := p.asked[i].path + "?" + p.asked[i].form.Encode(); got != want {
				t.Errorf("request %d: %s, want %s", i, got, want)
			}
		}
	})
}

// TestDevicePolling holds when a client polls (RFC 8628 sections 3.2 and 3.5), and
// what ends it.
func TestDevicePolling(t *testing.T) {
	pending, slow, lost := refuse("authorization_pending"), refuse("slow_down"), answer{}
	const second = time.Second
	for name, tc := range map[string]struct {
		code    string // "" is goodCode
		answers []answer
		after   []time.Duration // of the request before
		want    error
		says    string
	}{
		"pending": {answers: []answer{pending, pending, ok(goodToken)}, after: []time.Duration{5, 5, 5}},
		"the interval is 5 s if there is none": {code: strings.Replace(goodCode, `,"interval":5`, "", 1),
			answers: []answer{pending, ok(goodToken)}, after: []time.Duration{5, 5}},
		"another interval": {code: strings.Replace(goodCode, `"interval":5`, `"interval":"30"`, 1),
			answers: []answer{pending, ok(goodToken)}, after: []time.Duration{30, 30}},
		"slow_down is for all that follow, and adds up": {answers: []answer{slow, pending, slow, pending, ok(goodToken)},
			after: []time.Duration{5, 10, 10, 15, 15}},
		"slow_down as GitHub says it": {answers: []answer{ok(`{"error":"slow_down","interval":20}`), ok(`{"error":"authorization_pending"}`), ok(goodToken)},
			after: []time.Duration{5, 20, 20}},
		"slow_down that asks for less": {answers: []answer{ok(`{"error":"slow_down","interval":1}`), ok(goodToken)}, after: []time.Duration{5, 10}},
		"timeouts double the wait up to a minute": {answers: []answer{lost, lost, lost, lost, lost, pending, ok(goodToken)},
			after: []time.Duration{5, 10, 20, 40, 60, 60, 5}},
		"a slow interval is kept by timeouts": {code: strings.Replace(goodCode, `"interval":5`, `"interval":90`, 1),
			answers: []answer{lost, ok(goodToken)}, after: []time.Duration{90, 90}},
		"overloaded": {answers: []answer{{status: 503, body: "<html>"}, {status: 429, body: "{}", retryAfter: "100"}, pending, ok(goodToken)},
			after: []time.Duration{5, 10, 100, 5}},
		"an error that passes":   {answers: []answer{refuse("temporarily_unavailable"), ok(goodToken)}, after: []time.Duration{5, 10}},
		"denied":                 {answers: []answer{pending, refuse("access_denied")}, after: []time.Duration{5, 5}, want: ErrDenied, says: "of [31mhub"},
		"denied as GitHub does":  {answers: []answer{ok(`{"error":"access_denied"}`)}, after: []time.Duration{5}, want: ErrDenied},
		"expired":                {answers: []answer{refuse("expired_token")}, after: []time.Duration{5}, want: ErrExpired},
		"expired by our own":     {code: strings.Replace(goodCode, "900", "7", 1), answers: []answer{pending, pending}, after: []time.Duration{5, 5}, want: ErrExpired},
		"expired while out":      {code: strings.Replace(goodCode, "900", "7", 1), answers: []answer{lost}, after: []time.Duration{5}, want: ErrExpired, says: "connection timed out"},
		"wrong application":      {answers: []answer{refuse("invalid_client")}, after: []time.Duration{5}, says: "hub answered invalid_client (of [31mhub): it does not know the application"},
		"flow not enabled":       {answers: []answer{ok(`{"error":"device_flow_disabled"}`)}, after: []time.Duration{5}, says: "the device flow is not enabled"},
		"an unknown error":       {answers: []answer{refuse("incorrect_device_code")}, after: []time.Duration{5}, says: "hub answered incorrect_device_code"},
		"an error without words": {answers: []answer{{status: 404, body: "<html>"}}, after: []time.Duration{5}, says: "hub answered 404"},
		"a redirect":             {answers: []answer{{status: 302}}, after: []time.Duration{5}, says: "hub answered 302"},
		"a form":                 {answers: []answer{ok("access_token=gho_hunter2")}, after: []time.Duration{5}, says: "not the JSON object"},
		"no token":               {answers: []answer{ok(`{"token_type":"bearer"}`)}, after: []time.Duration{5}, says: "gave no token"},
		"a token of text":        {answers: []answer{ok(`{"access_token":"a\nhunter2","token_type":"bearer"}`)}, after: []time.Duration{5}, says: "not printable ASCII"},
		"a token of another use": {answers: []answer{ok(`{"access_token":"hunter2","token_type":"DPoP"}`)}, after: []time.Duration{5}, says: `of type "DPoP", want Bearer`},
		"a code of another type": {answers: []answer{ok(`{"access_token":{"hunter2":1},"token_type":"Bearer"}`)}, after: []time.Duration{5}, says: "not the JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tc.code == "" {
					tc.code = goodCode
				}
				p, c := newProvider(t, append([]answer{ok(tc.code)}, tc.answers...)...)
				p.took = 10 * second
				code, err := c.Start(t.Context(), hub(client.TypeAccessToken))
				if err != nil {
					t.Fatal(err)
				}
				got, err := c.Wait(t.Context(), code)
				if tc.want == nil && tc.says == "" && (err != nil || got.Token != accessToken) {
					t.Errorf("login %+v, %v", got, err)
				}
				if tc.want != nil && !errors.Is(err, tc.want) {
					t.Errorf("error %v, want %v", err, tc.want)
				}
				if tc.want != nil || tc.says != "" {
					wantError(t, err, tc.says)
				}
				var after []time.Duration
				for _, a := range p.asked[1:] {
					after = append(after, a.after/second)
				}
				if diff := cmp.Diff(tc.after, after); diff != "" {
					t.Errorf("seconds between polls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestDeviceGivesUp: a person who gives up does not wait for the next poll.
func TestDeviceGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := newProvider(t, ok(goodCode), refuse("authorization_pending"))
		code, err := c.Start(t.Context(), hub(client.TypeAccessToken))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		if _, err := c.Wait(ctx, code); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
		if took := time.Since(p.start); took != 2*time.Second || len(p.asked) != 2 {
			t.Errorf("gave up %v after poll %d, want 2 s after the first", took, len(p.asked)-1)
		}
	})
}

// TestDeviceCodesThatAreRefused: what a provider sends is shown at a terminal and opened
// in a browser, so it must be harmless.
func TestDeviceCodesThatAreRefused(t *testing.T) {
	with := func(old, new string) answer { return ok(strings.Replace(goodCode, old, new, 1)) }
	for says, answers := range map[string][]answer{
		"device_code is missing": {with(`"device-hunter2"`, `""`), ok("{}")},
		"user_code is missing, too long or not printable ASCII": {
			with("WDJB", `\u001b[2J`), with("WDJB", `\u202e`), with("WDJB", "А"), with("WDJB-MJHT", ""), with("WDJB", strings.Repeat("W", 100))},
		"verification_uri is too long or not printable ASCII": {
			with("/device", `/\u001b]8;;https://evil.example\u0007`), with("hub.example/", `hub.example/ `), with("hub", "hüb"), with("/device", "/"+strings.Repeat("x", 3000))},
		"should look like https://login.example.com/device": {
			with("https://hub.example/device", "javascript:alert(1)"), with("https://hub.example/device", "file:///etc/passwd"),
			with("https://hub.example/device", ""), with("https://hub.example/device", "/device"), with("https://hub.example/device", "-flag")},
		"in clear text":              {with("https://hub", "http://hub")},
		"verification_uri_complete ": {with("}", `,"verification_uri_complete":"http://hub.example/"}`)},
		"expires_in is missing":      {with(`"expires_in":900,`, ""), with("900", "-1")},
		"not the JSON object":        {ok("<html>"), with("900", `"soon"`), ok("[]"), with("900", "NaN")},
		"hub answered 503":           {{status: http.StatusServiceUnavailable}},
		"invalid_scope (of [31mhub)": {refuse("invalid_scope")},
		"ask hub for a code: ":       {{}},
	} {
		for _, a := range answers {
			_, c := newProvider(t, a)
			_, err := c.Start(t.Context(), hub(client.TypeAccessToken))
			wantError(t, err, says)
		}
	}
}

func TestDeviceOfProvidersThatCannotBeUsed(t *testing.T) {
	for says, change := range map[string]func(*Provider){
		"no name":                     func(p *Provider) { p.Name = "\x1b" },
		"hub has no client_id":        func(p *Provider) { p.ClientID = "" },
		"subject_token_type":          func(p *Provider) { p.Type = "urn:ietf:params:oauth:token-type:saml2" },
		"hub's token_endpoint \"http": func(p *Provider) { p.TokenEndpoint = "http://hub.example/token" },
		"hub's device_authorization":  func(p *Provider) { p.DeviceEndpoint = "hub.example" },
	} {
		p := hub(client.TypeAccessToken)
		change(&p)
		_, c := newProvider(t)
		_, err := c.Start(t.Context(), p)
		wantError(t, err, says)
	}
}
