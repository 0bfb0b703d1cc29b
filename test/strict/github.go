package strict

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// GitHubOptions are what a GitHub is.
type GitHubOptions struct {
	// ClientID, ClientSecret and AppName are those of the OAuth app. Default:
	// "Iv1.8a61f9b3a7aba766", "client-secret" and "my app".
	ClientID, ClientSecret, AppName string
	// EnterpriseServer has the API below /api/v3, and no rate limits ("Rate limits
	// are disabled by default") and thus none of their headers, unless Quota is set.
	EnterpriseServer bool
	// Quota is how many requests each principal, a user or an app, may make in an
	// hour. Default: 5000.
	Quota int
	// Versions are the API versions that there are; a request without one gets the
	// first. Default: 2022-11-28 and 2026-03-10.
	Versions []string
	// Interval is the least time between two polls of the device flow, ExpiresIn the
	// life of its codes. Default: 5 s and 900 s, as documented. Both are told in
	// whole seconds.
	Interval, ExpiresIn time.Duration
	// NoDeviceFlow has an app whose settings do not enable the device flow.
	NoDeviceFlow bool
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

func (o GitHubOptions) withDefaults() GitHubOptions {
	set := func(s *string, otherwise string) {
		if *s == "" {
			*s = otherwise
		}
	}
	set(&o.ClientID, "Iv1.8a61f9b3a7aba766")
	set(&o.ClientSecret, "client-secret")
	set(&o.AppName, "my app")
	if o.Quota == 0 && !o.EnterpriseServer {
		o.Quota = 5000
	}
	if o.Versions == nil {
		o.Versions = []string{"2022-11-28", "2026-03-10"}
	}
	if o.Interval == 0 {
		o.Interval = 5 * time.Second
	}
	if o.ExpiresIn == 0 {
		o.ExpiresIn = 900 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// GitHub is the stand-in for GitHub's REST API and its OAuth device flow, as far
// as a service needs them to find out who has a token and to what organisations
// and teams they belong. It is an [http.Handler] that serves both the API and the
// web host, which on an Enterprise Server are one; [GitHub.API] and [GitHub.Web]
// serve one of them.
//
// Written from GitHub's documentation of 2026 (docs.github.com, and the OpenAPI
// description in github/rest-api-description, version 23):
//
//   - REST: "Getting started with the REST API", "Authenticating to the REST API",
//     "API Versions", "Rate limits for the REST API", "Using pagination in the REST
//     API", "Best practices for using the REST API", "Troubleshooting the REST API".
//   - Endpoints: apps/oauth-applications#check-a-token,
//     users/users#get-the-authenticated-user, orgs/members#list-organization-
//     memberships-for-the-authenticated-user and #get-an-organization-membership-
//     for-the-authenticated-user, orgs/orgs#list-organizations-for-the-authenticated-
//     user, teams/teams#list-teams-for-the-authenticated-user,
//     teams/members#get-team-membership-for-a-user.
//   - OAuth: "Authorizing OAuth apps" (device flow), "Scopes for OAuth apps".
//
// Texts of errors that these pages leave open are those that users quote.
type GitHub struct {
	options GitHubOptions

	mu       sync.Mutex
	requests []*GitHubRequest
	state    gitHubState
	faults   []*GitHubFault
	quotas   map[string]*gitHubQuota // by principal
	waits    map[string]time.Time    // by credential: until when it was told to wait
	hanging  int
}

// NewGitHub is a GitHub with one app and nobody in it.
func NewGitHub(o GitHubOptions) *GitHub {
	g := &GitHub{options: o.withDefaults(), quotas: map[string]*gitHubQuota{}, waits: map[string]time.Time{}}
	g.state = newGitHubState()
	g.state.apps[g.options.ClientID] = &gitHubApp{
		id: g.options.ClientID, secret: g.options.ClientSecret, name: g.options.AppName, deviceFlow: !g.options.NoDeviceFlow,
	}
	return g
}

// GitHubRequest is what arrived at a [GitHub], and how it was answered.
type GitHubRequest struct {
	Method, Path string // the path is escaped, as it arrived
	Query        url.Values
	Header       http.Header
	Body         []byte
	Status       int      // of the answer; 0: none was sent
	Violations   []string // of this request

	credential string // what it says it is from; "" nothing
	base       string // of the server, as the client named it
	principal  string // whose quota it counts against
}

func (r *GitHubRequest) violate(format string, args ...any) {
	r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
}

// Requests are those that arrived and were read, in order.
func (g *GitHub) Requests() []GitHubRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []GitHubRequest
	for _, r := range g.requests {
		all = append(all, *r)
	}
	return all
}

// Count is the number of requests at a path, without the prefix of an Enterprise Server.
func (g *GitHub) Count(path string) int {
	n := 0
	for _, r := range g.Requests() {
		if strings.TrimPrefix(r.Path, enterprisePrefix) == path {
			n++
		}
	}
	return n
}

// Violations says what in all requests the documentation does not allow. That a
// token is not good, or may not see something, is none: a client cannot know.
func (g *GitHub) Violations() []string {
	var all []string
	for i, r := range g.Requests() {
		for _, said := range r.Violations {
			all = append(all, fmt.Sprintf("request %d, %s %s: %s", i+1, r.Method, r.Path, said))
		}
	}
	return all
}

const enterprisePrefix = "/api/v3"

// ServeHTTP implements [http.Handler].
func (g *GitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/login/") {
		g.serve(w, r, g.web)
		return
	}
	g.serve(w, r, g.api)
}

// API serves what api.github.com does, and nothing else.
func (g *GitHub) API() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, g.api) })
}

// Web serves what github.com does, and nothing else.
func (g *GitHub) Web() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, g.web) })
}

// serve reads a request, lets a host answer it, and sends the answer.
func (g *GitHub) serve(w http.ResponseWriter, r *http.Request, host func(*GitHubRequest) *reply) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil { // the client left while it sent: nothing arrived
		return
	}
	got := &GitHubRequest{
		Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.Query(), Header: r.Header.Clone(), Body: body,
		credential: r.Header.Get("Authorization"), base: "http://" + r.Host,
	}
	if r.TLS != nil {
		got.base = "https://" + r.Host
	}
	fault := g.arrive(got)
	if fault != nil && !g.suffer(r.Context(), fault) {
		return
	}
	answer := g.answer(got, fault, host)
	for name, values := range answer.header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body) // whether the client is still there does not matter
}

// arrive notes the request, with what is wrong whatever it asks for, and takes the
// fault for it, if there is one.
func (g *GitHub) arrive(got *GitHubRequest) *GitHubFault {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests = append(g.requests, got)
	g.inspectHeaders(got)
	g.inspectURL(got)
	if until, told := g.waits[got.credential]; told && g.options.Now().Before(until) {
		got.violate("sent %v before the time that a rate limit told to wait for", until.Sub(g.options.Now()))
	}
	return g.takeFault(got)
}

func (g *GitHub) answer(got *GitHubRequest, fault *GitHubFault, host func(*GitHubRequest) *reply) *reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	var answer *reply
	if fault != nil {
		got.principal = g.principalOf(got)
		answer = g.fail(got, fault)
	}
	if answer == nil {
		answer = host(got)
	}
	if fault != nil {
		for name, values := range fault.Header {
			answer.header[http.CanonicalHeaderKey(name)] = values
		}
	}
	got.Status = answer.status
	return answer
}

// inspectHeaders notes headers that the documentation does not have: whatever else
// arrives leaked from a client.
func (g *GitHub) inspectHeaders(got *GitHubRequest) {
	for _, name := range slices.Sorted(maps.Keys(got.Header)) {
		if len(got.Header[name]) > 1 {
			got.violate("header %s is there %d times", name, len(got.Header[name]))
		}
		switch name {
		case "Accept", "Accept-Encoding", "Authorization", "Content-Length", "Content-Type", "If-Modified-Since",
			"If-None-Match", "Traceparent", "Tracestate", "User-Agent", "X-Github-Api-Version":
		default:
			got.violate("header %s is not of the API", name)
		}
	}
	switch agent := got.Header.Get("User-Agent"); {
	case strings.TrimSpace(agent) == "":
		got.violate("User-Agent is missing")
	case strings.HasPrefix(agent, "Go-http-client/"):
		got.violate("User-Agent is Go's; it should be the name of the application")
	}
}

// inspectURL notes credentials in it: they would be in every log on the way.
func (g *GitHub) inspectURL(got *GitHubRequest) {
	for _, name := range slices.Sorted(maps.Keys(got.Query)) {
		switch name {
		case "access_token", "client_secret", "device_code", "token", "code":
			got.violate("a credential is in the URL: parameter %s", name)
		}
	}
	path, err := url.PathUnescape(got.Path)
	if err != nil {
		path = got.Path
	}
	for _, segment := range strings.Split(path, "/") {
		if g.state.isSecret(segment) {
			got.violate("a credential is in the URL's path")
		}
	}
}
