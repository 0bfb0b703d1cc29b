package strict

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// GitHubDevice is a device flow that began.
type GitHubDevice struct {
	ClientID, UserCode string
	Scopes             []string // asked for
	Polls              int
}

type gitHubDevice struct {
	GitHubDevice
	code     string
	expires  time.Time
	interval time.Duration
	polled   time.Time // last; zero: never
	token    string    // once it is approved
	denied   bool
	spent    bool
}

// Devices are the device flows that began, in order.
func (g *GitHub) Devices() []GitHubDevice {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []GitHubDevice
	for _, d := range g.state.devices {
		all = append(all, d.GitHubDevice)
	}
	return all
}

// Approve is a user who enters the code in a browser and grants the app scopes; nil
// grants those that it asked for. It returns the token that the device will get.
func (g *GitHub) Approve(userCode, login string, scopes []string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.mustDevice(userCode)
	if scopes == nil {
		scopes = d.Scopes
	}
	d.token = g.addToken(GitHubToken{Login: login, ClientID: d.ClientID, Scopes: scopes})
	return d.token
}

// Deny is a user who clicks cancel.
func (g *GitHub) Deny(userCode string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mustDevice(userCode).denied = true
}

// Expire ends the life of a code.
func (g *GitHub) Expire(userCode string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mustDevice(userCode).expires = g.options.Now()
}

func (g *GitHub) mustDevice(userCode string) *gitHubDevice {
	for _, d := range g.state.devices {
		if d.UserCode == userCode {
			return d
		}
	}
	panic("strict: there is no user code " + userCode)
}

// web answers a request to the web host.
func (g *GitHub) web(got *GitHubRequest) *reply {
	answer := map[string]func(*GitHubRequest, url.Values) *reply{"/login/device/code": g.deviceCode, "/login/oauth/access_token": g.accessToken}[got.Path]
	if answer == nil {
		got.violate("path %s is not of the device flow", got.Path)
		return oauthReply(got, http.StatusNotFound, []pair{{"error", "Not Found"}})
	}
	if got.Method != http.MethodPost {
		got.violate("method is %s; it must be POST", got.Method)
		return oauthReply(got, http.StatusNotFound, []pair{{"error", "Not Found"}})
	}
	if got.credential != "" {
		got.violate("Authorization was sent; the device flow has no credential but its codes")
	}
	return answer(got, got.form())
}

// form reads the parameters. Those in the URL, or in a body that is not said to be
// a form, are not read: RFC 8628, 3.1, has them in the body as a form.
func (r *GitHubRequest) form() url.Values {
	if len(r.Query) > 0 {
		r.violate("parameters are in the URL; they belong into the body")
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		r.violate("Content-Type is %q; it must be application/x-www-form-urlencoded", r.Header.Get("Content-Type"))
		return url.Values{}
	}
	form, err := url.ParseQuery(string(r.Body))
	if err != nil {
		r.violate("the body is not a form")
	}
	return form
}

// only notes parameters that the reference does not have, or not once.
func (r *GitHubRequest) only(form url.Values, required []string, optional ...string) {
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			r.violate("parameter %s is not of the endpoint", name)
		}
		if len(form[name]) > 1 {
			r.violate("parameter %s is there %d times", name, len(form[name]))
		}
	}
	for _, name := range required {
		if form.Get(name) == "" {
			r.violate("parameter %s is required and missing", name)
		}
	}
}

// deviceCode is step 1.
func (g *GitHub) deviceCode(got *GitHubRequest, form url.Values) *reply {
	got.only(form, []string{"client_id"}, "scope")
	app := g.state.apps[form.Get("client_id")]
	switch {
	case app == nil: // the documentation does not say; users quote this
		return oauthReply(got, http.StatusNotFound, []pair{{"error", "Not Found"}})
	case !app.deviceFlow: // nor of the status, of which users quote 400
		return oauthReply(got, http.StatusBadRequest, oauthError("device_flow_disabled"))
	}
	scope := form.Get("scope")
	if strings.Contains(scope, ",") {
		got.violate("scope is %q; scopes are delimited by spaces", scope)
	}
	d := &gitHubDevice{code: randomHex(40), interval: g.options.Interval, expires: g.options.Now().Add(g.options.ExpiresIn)}
	d.ClientID, d.UserCode, d.Scopes = app.id, newUserCode(), strings.Fields(scope)
	g.state.devices = append(g.state.devices, d)
	base := "https://github.com"
	if g.options.EnterpriseServer {
		base = got.base
	}
	return oauthReply(got, http.StatusOK, []pair{
		{"device_code", d.code}, {"user_code", d.UserCode}, {"verification_uri", base + "/login/device"},
		{"expires_in", wholeSeconds(g.options.ExpiresIn)}, {"interval", wholeSeconds(d.interval)},
	})
}

// accessToken is step 3, a poll.
func (g *GitHub) accessToken(got *GitHubRequest, form url.Values) *reply {
	got.only(form, []string{"client_id", "device_code", "grant_type"})
	d := g.polledDevice(form)
	fields := oauthError("incorrect_device_code")
	switch app := g.state.apps[form.Get("client_id")]; {
	case form.Get("grant_type") != deviceGrant:
		got.violate("grant_type is not %s", deviceGrant)
		fields = oauthError("unsupported_grant_type")
	case app == nil:
		fields = oauthError("incorrect_client_credentials")
	case !app.deviceFlow:
		fields = oauthError("device_flow_disabled")
	case d != nil:
		fields = g.poll(got, d)
	}
	return oauthReply(got, http.StatusOK, fields)
}

// polledDevice is the device whose code the app was given, if it can still be used.
func (g *GitHub) polledDevice(form url.Values) *gitHubDevice {
	for _, d := range g.state.devices {
		if d.code == form.Get("device_code") && d.ClientID == form.Get("client_id") && !d.spent {
			return d
		}
	}
	return nil
}

// poll: "If you make more than one access token request within the required minimum
// timeframe between requests (or interval), you'll hit the rate limit and receive a
// slow_down error response. The slow_down error response adds 5 seconds to the last
// interval … includes the new interval that you must use."
func (g *GitHub) poll(got *GitHubRequest, d *gitHubDevice) []pair {
	now, last := g.options.Now(), d.polled
	d.polled = now
	d.Polls++
	switch {
	case !last.IsZero() && now.Sub(last) < d.interval:
		got.violate("polled %v after the last poll; the interval is %v", now.Sub(last), d.interval)
		d.interval += 5 * time.Second
		return append(oauthError("slow_down"), pair{"interval", wholeSeconds(d.interval)})
	case d.denied: // "the user won't be able to use the verification code again"
		return oauthError("access_denied")
	case !now.Before(d.expires):
		return oauthError("expired_token")
	case d.token == "":
		return oauthError("authorization_pending")
	}
	d.spent = true
	scope := ""
	if t := g.state.tokens[d.token]; t != nil {
		scope = strings.Join(t.Scopes, ",")
	}
	return []pair{{"access_token", d.token}, {"token_type", "bearer"}, {"scope", scope}}
}

// pair is a field of an answer of OAuth, whose fields have an order.
type pair struct {
	name  string
	value any
}

func oauthError(code string) []pair {
	says := map[string]string{
		"authorization_pending":        "The authorization request is still pending.",
		"slow_down":                    "Too many requests have been made in the same timeframe.",
		"expired_token":                "The device code has expired.",
		"access_denied":                "The user cancelled the authorization.",
		"incorrect_device_code":        "The device_code provided is not valid.",
		"unsupported_grant_type":       "The grant type must be " + deviceGrant + ".",
		"incorrect_client_credentials": "The client_id and/or client_secret passed are incorrect.",
		"device_flow_disabled":         "Device Flow must be explicitly enabled for this App",
	}[code]
	return []pair{
		{"error", code}, {"error_description", says},
		{"error_uri", "https://docs.github.com/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps#error-codes-for-the-device-flow"},
	}
}

// oauthReply: a form, or "You can also receive the response in different formats if
// you provide the format in the Accept header", JSON or XML.
func oauthReply(got *GitHubRequest, status int, fields []pair) *reply {
	media, _, _ := mime.ParseMediaType(got.Header.Get("Accept"))
	r := &reply{status: status, header: http.Header{}}
	switch media {
	case "application/json":
		values := map[string]any{}
		for _, f := range fields {
			values[f.name] = f.value
		}
		r.body = marshal(values)
	case "application/xml":
		text := "<OAuth>\n"
		for _, f := range fields {
			text += fmt.Sprintf("  <%s>%v</%[1]s>\n", f.name, f.value)
		}
		r.body = []byte(text + "</OAuth>\n")
	default:
		if media != "" && media != "*/*" && media != "application/x-www-form-urlencoded" {
			got.violate("Accept is %q; it may be application/json or application/xml", got.Header.Get("Accept"))
		}
		media = "application/x-www-form-urlencoded"
		var text []string
		for _, f := range fields {
			text = append(text, f.name+"="+url.QueryEscape(fmt.Sprint(f.value)))
		}
		r.body = []byte(strings.Join(text, "&"))
	}
	r.header.Set("Content-Type", media+"; charset=utf-8")
	return r
}

func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// newUserCode: "This code is 8 characters with a hyphen in the middle."
func newUserCode() string {
	code := strings.ToUpper(randomHex(8))
	return code[:4] + "-" + code[4:]
}
