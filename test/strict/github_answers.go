package strict

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// checkToken is "Check a token": "Invalid tokens will return 404 NOT FOUND".
func (g *GitHub) checkToken(c *gitHubCall) *reply {
	if media, _, err := mime.ParseMediaType(c.got.Header.Get("Content-Type")); err != nil || media != "application/json" {
		c.got.violate("Content-Type is %q; it must be application/json", c.got.Header.Get("Content-Type"))
	}
	problems := examine(c.got.Body, []field{text("access_token").required()})
	for _, p := range problems {
		c.got.violate("%v", p)
	}
	value := gjson.GetBytes(c.got.Body, "access_token").String()
	switch {
	case !json.Valid(c.got.Body):
		return gitHubError(http.StatusBadRequest, "Problems parsing JSON")
	case !gjson.ParseBytes(c.got.Body).IsObject():
		return gitHubError(http.StatusBadRequest, "Body should be a JSON object")
	case slices.ContainsFunc(problems, func(p problem) bool { return p.trouble == missing }):
		return gitHubError(http.StatusUnprocessableEntity, "Invalid request.\n\n\"access_token\" wasn't supplied.")
	case slices.ContainsFunc(problems, func(p problem) bool { return p.trouble == wrongKind }):
		return gitHubError(http.StatusUnprocessableEntity, "Invalid request.\n\nFor 'properties/access_token', the value is not a string.")
	case value == "":
		c.got.violate("access_token is empty")
		return gitHubInvalid("OauthAccess", "access_token", "missing_field")
	}
	token := g.token(value)
	if token == nil || token.ClientID != c.app.id {
		return gitHubError(http.StatusNotFound, "")
	}
	return gitHubJSON(http.StatusOK, c.authorization(token))
}

// authenticatedUser is "Get the authenticated user": "need the user scope in order
// for the response to include private profile information".
func (g *GitHub) authenticatedUser(c *gitHubCall) *reply {
	user := c.urls.profile(c.token.user)
	if c.token.allows([]string{"user"}) {
		c.urls.addPrivate(user)
	}
	return gitHubJSON(http.StatusOK, user)
}

// see is how much of an organisation the token sees.
func (c *gitHubCall) see(org *gitHubOrg) (sso, restricted bool) {
	authorised := slices.ContainsFunc(c.token.SSO, func(login string) bool { return strings.EqualFold(login, org.Login) })
	return org.SSO && !authorised, org.Restricted
}

// mine are the token's user's organisations in the given states, without those that
// the token does not see, and a header that tells of those that want single sign-on.
func (g *GitHub) mine(c *gitHubCall, states ...string) (orgs []*gitHubOrg, header http.Header) {
	header = http.Header{}
	var hidden []string
	for _, org := range g.state.orgs {
		m, is := org.members[c.token.user.ID]
		if !is || !slices.Contains(states, m.State) {
			continue
		}
		switch sso, restricted := c.see(org); {
		case sso:
			hidden = append(hidden, strconv.FormatInt(org.ID, 10))
		case !restricted:
			orgs = append(orgs, org)
		}
	}
	if len(hidden) > 0 {
		header.Set("X-Github-Sso", "partial-results; organizations="+strings.Join(hidden, ","))
	}
	return orgs, header
}

// list is a page of what of finds in each organisation.
func (c *gitHubCall) list(orgs []*gitHubOrg, header http.Header, of func(*gitHubOrg) []any) *reply {
	var all []any
	for _, org := range orgs {
		all = append(all, of(org)...)
	}
	r := c.page(all)
	for name, values := range header {
		r.header[name] = values
	}
	return r
}

// memberships is "List organization memberships for the authenticated user": "If not
// specified, the API returns both active and pending memberships."
func (g *GitHub) memberships(c *gitHubCall) *reply {
	states := []string{"active", "pending"}
	if sent, is := c.got.Query["state"]; is {
		if len(sent) != 1 || !slices.Contains(states, sent[0]) {
			c.got.violate("state is %q; it must be active or pending", sent)
			return gitHubInvalid("Membership", "state", "invalid")
		}
		states = sent
	}
	orgs, header := g.mine(c, states...)
	return c.list(orgs, header, func(org *gitHubOrg) []any {
		return []any{c.urls.membership(org, c.token.user, org.members[c.token.user.ID])}
	})
}

// membership is "Get an organization membership for the authenticated user": "If the
// authenticated user is not affiliated with the organization, a 404 is returned.
// This endpoint will return a 403 if the request is made by a GitHub App that is
// blocked by the organization."
func (g *GitHub) membership(c *gitHubCall) *reply {
	org := g.state.org(c.vars[0])
	if org == nil {
		return gitHubError(http.StatusNotFound, "")
	}
	m, is := org.members[c.token.user.ID]
	sso, restricted := c.see(org)
	switch {
	case !is:
		return gitHubError(http.StatusNotFound, "")
	case restricted:
		return gitHubError(http.StatusForbidden, "Although you appear to have the correct authorization credentials, the `"+org.Login+
			"` organization has enabled OAuth App access restrictions, meaning that data access to third-parties is limited.")
	case sso:
		// "If you receive a 403 Forbidden error, the X-GitHub-SSO header will include
		// a URL that you can follow to authorize your token."
		r := gitHubError(http.StatusForbidden, "Resource protected by organization SAML enforcement. You must grant your OAuth token access to this organization.")
		r.header.Set("X-Github-Sso", "required; url="+c.urls.html+"/orgs/"+org.Login+"/sso?authorization_request="+randomHex(40))
		return r
	}
	return gitHubJSON(http.StatusOK, c.urls.membership(org, c.token.user, m))
}

// userOrgs is "List organizations for the authenticated user".
func (g *GitHub) userOrgs(c *gitHubCall) *reply {
	orgs, header := g.mine(c, "active")
	return c.list(orgs, header, func(org *gitHubOrg) []any { return []any{c.urls.org(org)} })
}

// userTeams is "List teams for the authenticated user": "all of the teams across all
// of the organizations to which the authenticated user belongs".
func (g *GitHub) userTeams(c *gitHubCall) *reply {
	orgs, header := g.mine(c, "active")
	return c.list(orgs, header, func(org *gitHubOrg) []any {
		var teams []any
		for _, t := range org.teams {
			if m, is := t.members[c.token.user.ID]; is && m.State == "active" {
				teams = append(teams, c.urls.fullTeam(org, t))
			}
		}
		return teams
	})
}

// teamMembership is "Get team membership for a user": "the team must be visible to
// the authenticated user. … The role for organization owners is set to maintainer."
func (g *GitHub) teamMembership(c *gitHubCall) *reply {
	org, user := g.state.org(c.vars[0]), g.state.user(c.vars[2])
	if org == nil || user == nil {
		return gitHubError(http.StatusNotFound, "")
	}
	team, viewer := org.team(c.vars[1]), org.members[c.token.user.ID]
	if sso, restricted := c.see(org); team == nil || viewer.State != "active" || sso || restricted {
		return gitHubError(http.StatusNotFound, "")
	}
	if _, in := org.member(team, c.token.user.ID); team.Secret && !in && viewer.Role != "admin" {
		return gitHubError(http.StatusNotFound, "")
	}
	m, is := org.member(team, user.ID)
	if !is {
		return gitHubError(http.StatusNotFound, "")
	}
	if org.members[user.ID].Role == "admin" {
		m.Role = "maintainer"
	}
	return gitHubJSON(http.StatusOK, map[string]any{
		"url": fmt.Sprintf("%s/organizations/%d/team/%d/memberships/%s", c.urls.api, org.ID, team.ID, user.Login), "role": m.Role, "state": m.State,
	})
}

// authorization is the schema "authorization".
func (c *gitHubCall) authorization(t *gitHubToken) map[string]any {
	sum := sha256.Sum256([]byte(t.Value))
	var expires any
	if !t.ExpiresAt.IsZero() {
		expires = t.ExpiresAt.UTC().Format(time.RFC3339)
	}
	made := t.made.UTC().Format(time.RFC3339)
	return map[string]any{
		"id": t.id, "url": fmt.Sprintf("%s/authorizations/%d", c.urls.api, t.id), "scopes": t.Scopes,
		"token": t.Value, "token_last_eight": t.Value[max(0, len(t.Value)-8):], "hashed_token": hex.EncodeToString(sum[:]),
		"app":  map[string]any{"client_id": c.app.id, "name": c.app.name, "url": "https://example.com"},
		"note": nil, "note_url": nil, "fingerprint": nil, "created_at": made, "updated_at": made, "expires_at": expires,
		"user": c.urls.user(t.user), "installation": nil,
	}
}

func nodeID(kind string, id int64) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%03d:%s%d", len(kind), kind, id))
}

func gitHubJSON(status int, v any) *reply {
	return &reply{status: status, header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}, body: marshal(v)}
}

// gitHubError is the schema "basic-error". Default of the message: the status in words.
func gitHubError(status int, message string) *reply {
	if message == "" {
		message = http.StatusText(status)
	}
	if status == http.StatusUnprocessableEntity && message == http.StatusText(status) {
		return gitHubInvalid("", "", "unprocessable")
	}
	return gitHubJSON(status, map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(status)})
}

// gitHubInvalid is the schema "validation-error", of "Validation Failed".
func gitHubInvalid(resource, field, code string) *reply {
	return gitHubJSON(http.StatusUnprocessableEntity, map[string]any{
		"message": "Validation Failed", "documentation_url": "https://docs.github.com/rest", "status": "422",
		"errors": []any{map[string]any{"resource": resource, "field": field, "code": code}},
	})
}
