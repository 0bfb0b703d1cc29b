package strict

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// gitHubRoute is one endpoint.
type gitHubRoute struct {
	method, path string
	query        []string // parameters
	basic        bool     // the app's id and secret are the credential, not a token
	scopes       []string // one of which a token must have
	hidden       bool     // without them there is nothing there, rather than something forbidden
	forbidden    string   // what it then says
	serve        func(*GitHub, *gitHubCall) *reply
}

// gitHubCall is a request to an endpoint.
type gitHubCall struct {
	got   *GitHubRequest
	route *gitHubRoute
	vars  []string     // of the path, in order
	app   *gitHubApp   // of an endpoint with the app's credential
	token *gitHubToken // of the others
	urls  gitHubURLs
}

// gitHubRoutes are the endpoints. Scopes are as the reference says: of /user/orgs
// "This API requires at least user or read:org scope", of /user/teams "need the
// user, repo, or read:org scope". Of memberships it says nothing; the page on scopes
// has read:org as "Read-only access to organization membership, organization
// projects, and team membership".
func gitHubRoutes() []gitHubRoute {
	readOrg, page := []string{"read:org"}, []string{"per_page", "page"}
	return []gitHubRoute{
		{method: "POST", path: "/applications/*/token", basic: true, serve: (*GitHub).checkToken},
		{method: "GET", path: "/user", serve: (*GitHub).authenticatedUser},
		{
			method: "GET", path: "/user/memberships/orgs", query: append([]string{"state"}, page...), scopes: readOrg, serve: (*GitHub).memberships,
			forbidden: "You need at least read:org scope to list your organization memberships.",
		},
		{
			method: "GET", path: "/user/memberships/orgs/*", scopes: readOrg, serve: (*GitHub).membership,
			forbidden: "You need at least read:org scope to read your organization membership.",
		},
		{
			method: "GET", path: "/user/orgs", query: page, scopes: []string{"user", "read:org"}, serve: (*GitHub).userOrgs,
			forbidden: "You need at least read:org scope or user scope to list your organizations.",
		},
		{
			method: "GET", path: "/user/teams", query: page, scopes: []string{"user", "repo", "read:org"}, serve: (*GitHub).userTeams,
			forbidden: "You need at least read:org scope to list your teams.",
		},
		{method: "GET", path: "/orgs/*/teams/*/memberships/*", scopes: readOrg, hidden: true, serve: (*GitHub).teamMembership},
	}
}

// match returns the path's variables.
func (r *gitHubRoute) match(path string) ([]string, bool) {
	want, have := strings.Split(r.path, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return nil, false
	}
	var vars []string
	for i, segment := range have {
		decoded, err := url.PathUnescape(segment)
		switch {
		case want[i] == "*" && err == nil && decoded != "":
			vars = append(vars, decoded)
		case want[i] != segment:
			return nil, false
		}
	}
	return vars, true
}

// api answers a request to the API.
func (g *GitHub) api(got *GitHubRequest) *reply {
	if strings.TrimSpace(got.Header.Get("User-Agent")) == "" && !g.options.EnterpriseServer {
		return &reply{
			status: http.StatusForbidden, header: http.Header{"Content-Type": {"text/html"}},
			body: []byte("\r\nRequest forbidden by administrative rules. Please make sure your request has a User-Agent header " +
				"(https://docs.github.com/en/rest/overview/resources-in-the-rest-api#user-agent-required). Check https://developer.github.com for other possible causes.\r\n"),
		}
	}
	r := g.limited(got)
	if r == nil {
		r = g.route(got)
		g.condition(got, r)
	}
	return g.finish(got, r)
}

// finish adds the headers that every answer of the API has.
func (g *GitHub) finish(got *GitHubRequest, r *reply) *reply {
	g.limitHeaders(got, r)
	r.header.Set("X-Github-Request-Id", strings.ToUpper(randomHex(4)+":"+randomHex(6)))
	r.header.Set("X-Github-Media-Type", "github.v3; format=json")
	if g.options.EnterpriseServer {
		r.header.Set("X-Github-Enterprise-Version", "3.19.0")
	}
	return r
}

// condition: "Most endpoints return an etag header … Making a conditional request
// does not count against your primary rate limit if a 304 response is returned".
func (g *GitHub) condition(got *GitHubRequest, r *reply) {
	if got.Method != http.MethodGet || r.status != http.StatusOK {
		return
	}
	sum := sha256.Sum256(r.body)
	tag := `"` + hex.EncodeToString(sum[:]) + `"`
	r.header.Set("Etag", "W/"+tag)
	if strings.TrimPrefix(got.Header.Get("If-None-Match"), "W/") == tag {
		r.status, r.body = http.StatusNotModified, nil
		r.header.Del("Content-Type")
		if q := g.quota(got.principal); q.used > 0 {
			q.used--
		}
	}
}

func (g *GitHub) route(got *GitHubRequest) *reply {
	path, prefixed := strings.CutPrefix(got.Path, enterprisePrefix)
	switch {
	case prefixed != g.options.EnterpriseServer && prefixed:
		got.violate("path %s is of an Enterprise Server; this is github.com", got.Path)
		return gitHubError(http.StatusNotFound, "")
	case prefixed != g.options.EnterpriseServer:
		got.violate("path %s is not below %s, as on an Enterprise Server", got.Path, enterprisePrefix)
		return gitHubError(http.StatusNotFound, "")
	}
	routes := gitHubRoutes()
	for i := range routes {
		route := &routes[i]
		vars, is := route.match(path)
		if !is {
			continue
		}
		if got.Method != route.method {
			got.violate("method is %s; it must be %s", got.Method, route.method)
			return gitHubError(http.StatusNotFound, "")
		}
		return g.call(&gitHubCall{got: got, route: route, vars: vars, urls: g.urls(got)})
	}
	got.violate("path %s is not of the API", got.Path)
	return gitHubError(http.StatusNotFound, "")
}

func (g *GitHub) call(c *gitHubCall) *reply {
	if refusal := c.inspect(g.options.Versions); refusal != nil {
		return refusal
	}
	if c.route.basic {
		if refusal := g.authenticateApp(c); refusal != nil {
			return refusal
		}
		return c.route.serve(g, c)
	}
	if refusal := g.authenticateUser(c); refusal != nil {
		return refusal
	}
	r := c.refuseScopes()
	if r == nil {
		r = c.route.serve(g, c)
	}
	r.header.Set("X-Oauth-Scopes", strings.Join(c.token.Scopes, ", "))
	r.header.Set("X-Accepted-Oauth-Scopes", strings.Join(c.route.scopes, ", "))
	return r
}

// refuseScopes: "a token that has insufficient permissions, you will receive a 404
// Not Found or 403 Forbidden response".
func (c *gitHubCall) refuseScopes() *reply {
	switch {
	case c.token.allows(c.route.scopes):
		return nil
	case c.route.hidden:
		return gitHubError(http.StatusNotFound, "")
	}
	return gitHubError(http.StatusForbidden, c.route.forbidden)
}

// inspect holds everything but the credential and the body against the reference.
func (c *gitHubCall) inspect(versions []string) *reply {
	for _, name := range slices.Sorted(maps.Keys(c.got.Query)) {
		if name == "access_token" {
			return gitHubError(http.StatusBadRequest, "Must specify access token via Authorization header. https://developer.github.com/changes/2020-02-10-deprecating-auth-through-query-param")
		}
		if !slices.Contains(c.route.query, name) {
			c.got.violate("query parameter %s is not of the API", name)
		}
	}
	if c.got.Method == http.MethodGet && len(c.got.Body) > 0 {
		c.got.violate("a GET has a body")
	}
	if refusal := c.accept(); refusal != nil {
		return refusal
	}
	switch version := c.got.Header.Get("X-Github-Api-Version"); {
	case version == "":
		c.got.violate("X-GitHub-Api-Version is missing; you should specify one")
	case !slices.Contains(versions, version):
		c.got.violate("X-GitHub-Api-Version is %q; there are %s", version, strings.Join(versions, ", "))
		return gitHubError(http.StatusBadRequest, fmt.Sprintf("The version you specified, %s, is not a supported version.", version))
	}
	return nil
}

// accept: "Most endpoints specify that you should pass an Accept header with a value
// of application/vnd.github+json".
func (c *gitHubCall) accept() *reply {
	accepted := c.got.Header.Get("Accept")
	json := accepted == ""
	for _, one := range strings.Split(accepted, ",") {
		media, _, err := mime.ParseMediaType(one)
		switch {
		case err == nil && slices.Contains([]string{"application/vnd.github+json", "application/json", "application/vnd.github.v3+json"}, media):
			json = true
		case media == "*/*" || media == "application/*":
			json = true
			fallthrough
		default:
			c.got.violate("Accept is %q; it should be application/vnd.github+json", accepted)
		}
	}
	if !json {
		return gitHubError(http.StatusUnsupportedMediaType, "Unsupported 'Accept' header: '"+accepted+"'. Must accept 'application/json'.")
	}
	return nil
}

// authenticateUser: Authorization is "Bearer TOKEN" or "token TOKEN".
func (g *GitHub) authenticateUser(c *gitHubCall) *reply {
	sent := c.got.Header.Get("Authorization")
	scheme, value, _ := strings.Cut(sent, " ")
	switch {
	case sent == "":
		c.got.violate("no credential: Authorization is missing")
		return gitHubError(http.StatusUnauthorized, "Requires authentication")
	case !strings.EqualFold(scheme, "bearer") && !strings.EqualFold(scheme, "token"):
		c.got.violate("Authorization is not of the form Bearer TOKEN")
		return gitHubError(http.StatusUnauthorized, "Bad credentials")
	}
	c.token = g.token(value)
	switch {
	case c.token == nil:
		return gitHubError(http.StatusUnauthorized, "Bad credentials")
	case c.token.user.Suspended:
		return gitHubError(http.StatusForbidden, "Sorry. Your account was suspended.")
	}
	return nil
}

// authenticateApp: "You will use the app's client ID as the username and the app's
// client secret as the password."
func (g *GitHub) authenticateApp(c *gitHubCall) *reply {
	sent := c.got.Header.Get("Authorization")
	scheme, value, _ := strings.Cut(sent, " ")
	switch {
	case sent == "":
		c.got.violate("no credential: Authorization is missing")
		return gitHubError(http.StatusUnauthorized, "Requires authentication")
	case !strings.EqualFold(scheme, "basic"):
		c.got.violate("Authorization is not basic authentication with the app's id and secret")
		return gitHubError(http.StatusUnauthorized, "Bad credentials")
	}
	c.app = g.basicApp(value)
	switch {
	case c.app == nil:
		return gitHubError(http.StatusUnauthorized, "Bad credentials")
	case c.app.id != c.vars[0]:
		c.got.violate("the path has the client id %s, the credential %s", c.vars[0], c.app.id)
		return gitHubError(http.StatusNotFound, "")
	}
	return nil
}

// page cuts the page that was asked for out of all, with the header Link. "If all
// results fit on a single page, the link header will be omitted."
func (c *gitHubCall) page(all []any) *reply {
	size, number := c.number("per_page", 30), c.number("page", 1)
	if size > 100 {
		c.got.violate("per_page is %d; the most is 100", size)
		size = 100
	}
	last := max((len(all)+size-1)/size, 1)
	from := min((number-1)*size, len(all))
	r := gitHubJSON(http.StatusOK, append([]any{}, all[from:min(from+size, len(all))]...))
	var links []string
	link := func(to int, rel string) {
		query := maps.Clone(c.got.Query)
		query.Set("page", strconv.Itoa(to))
		links = append(links, fmt.Sprintf(`<%s%s?%s>; rel="%s"`, c.got.base, c.got.Path, query.Encode(), rel))
	}
	if number > 1 {
		link(min(number-1, last), "prev")
	}
	if number < last {
		link(number+1, "next")
		link(last, "last")
	}
	if number > 1 {
		link(1, "first")
	}
	if len(links) > 0 {
		r.header.Set("Link", strings.Join(links, ", "))
	}
	return r
}

func (c *gitHubCall) number(name string, otherwise int) int {
	sent, is := c.got.Query[name]
	if !is {
		return otherwise
	}
	n, err := strconv.Atoi(sent[0])
	if err != nil || n < 1 || len(sent) > 1 {
		c.got.violate("%s is %q; it must be a positive integer", name, sent)
		return otherwise
	}
	return n
}
