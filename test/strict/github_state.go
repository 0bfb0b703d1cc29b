package strict

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// GitHubUser is an account of a person.
type GitHubUser struct {
	Login       string
	ID          int64 // default: the next free one
	Name, Email string
	Suspended   bool
}

// GitHubOrg is an organisation.
type GitHubOrg struct {
	Login string
	ID    int64 // default: the next free one
	// SSO enforces SAML single sign-on: only tokens that are authorised for it see it.
	SSO bool
	// Restricted does not let in the apps that it has not approved, that is: any.
	Restricted bool
}

// GitHubMember says how a user belongs to an organisation or a team.
type GitHubMember struct {
	// State is "active" (the default) or "pending": invited, and has not accepted.
	State string
	// Role is in an organisation "member" (the default), "admin" or
	// "billing_manager", in a team "member" or "maintainer".
	Role string
}

// GitHubTeam is a team of an organisation.
type GitHubTeam struct {
	Org, Slug string
	Name      string // default: the slug
	ID        int64  // default: the next free one
	Parent    string // a slug; members of a team are members of its parent
	Secret    bool   // only its members see it
}

// GitHubToken is an OAuth access token.
type GitHubToken struct {
	Login     string
	Value     string   // default: a new one, of the documented form
	ClientID  string   // of the app it was made for; default: that of the options
	Scopes    []string // kept normalised
	ExpiresAt time.Time
	SSO       []string // organisations with single sign-on that it is authorised for
}

type gitHubApp struct {
	id, secret, name string
	deviceFlow       bool
}

type gitHubTeam struct {
	GitHubTeam
	members map[int64]GitHubMember
}

type gitHubOrg struct {
	GitHubOrg
	members map[int64]GitHubMember
	teams   []*gitHubTeam
}

type gitHubToken struct {
	GitHubToken
	id   int64
	user *GitHubUser
	made time.Time
}

// gitHubState is who there is. Its slices keep the order in which things were added.
type gitHubState struct {
	lastID  int64
	apps    map[string]*gitHubApp
	users   []*GitHubUser
	orgs    []*gitHubOrg
	tokens  map[string]*gitHubToken
	retired map[string]bool // revoked tokens: still no words for a URL
	devices []*gitHubDevice
}

func newGitHubState() gitHubState {
	return gitHubState{apps: map[string]*gitHubApp{}, tokens: map[string]*gitHubToken{}, retired: map[string]bool{}}
}

func (s *gitHubState) nextID(wanted int64) int64 {
	if wanted != 0 {
		s.lastID = max(s.lastID, wanted)
		return wanted
	}
	s.lastID++
	return s.lastID
}

// user finds a user; logins are not case sensitive.
func (s *gitHubState) user(login string) *GitHubUser {
	for _, u := range s.users {
		if strings.EqualFold(u.Login, login) {
			return u
		}
	}
	return nil
}

func (s *gitHubState) org(login string) *gitHubOrg {
	for _, o := range s.orgs {
		if strings.EqualFold(o.Login, login) {
			return o
		}
	}
	return nil
}

func (o *gitHubOrg) team(slug string) *gitHubTeam {
	for _, t := range o.teams {
		if strings.EqualFold(t.Slug, slug) {
			return t
		}
	}
	return nil
}

// member is a user's membership in a team, by way of a child team if need be.
func (o *gitHubOrg) member(team *gitHubTeam, user int64) (GitHubMember, bool) {
	if m, is := team.members[user]; is {
		return m, true
	}
	for _, child := range o.teams {
		if child.Parent != "" && strings.EqualFold(child.Parent, team.Slug) {
			if m, is := o.member(child, user); is {
				return GitHubMember{State: m.State, Role: "member"}, true
			}
		}
	}
	return GitHubMember{}, false
}

func (s *gitHubState) isSecret(word string) bool {
	if word == "" {
		return false
	}
	for _, app := range s.apps {
		if app.secret == word {
			return true
		}
	}
	return s.tokens[word] != nil || s.retired[word] || slices.ContainsFunc(s.devices, func(d *gitHubDevice) bool { return d.code == word })
}

// AddApp adds another OAuth app, whose tokens are not those of the options' app.
func (g *GitHub) AddApp(clientID, clientSecret string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.apps[clientID] = &gitHubApp{id: clientID, secret: clientSecret, name: "app " + clientID, deviceFlow: true}
}

// AddUser adds a user and returns their id.
func (g *GitHub) AddUser(user GitHubUser) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	user.ID = g.state.nextID(user.ID)
	g.state.users = append(g.state.users, &user)
	return user.ID
}

// ChangeUser changes a user: their name, login, or whether they are suspended.
func (g *GitHub) ChangeUser(login string, change func(*GitHubUser)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g.mustUser(login))
}

// AddOrg adds an organisation and returns its id.
func (g *GitHub) AddOrg(org GitHubOrg) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	org.ID = g.state.nextID(org.ID)
	g.state.orgs = append(g.state.orgs, &gitHubOrg{GitHubOrg: org, members: map[int64]GitHubMember{}})
	return org.ID
}

// Join makes a user a member of an organisation, or changes how they are one.
func (g *GitHub) Join(login, org string, as GitHubMember) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mustOrg(org).members[g.mustUser(login).ID] = as.withDefaults()
}

// Leave ends a membership in an organisation and in its teams.
func (g *GitHub) Leave(login, org string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, user := g.mustOrg(org), g.mustUser(login).ID
	delete(o.members, user)
	for _, t := range o.teams {
		delete(t.members, user)
	}
}

// AddTeam adds a team to an organisation and returns its id.
func (g *GitHub) AddTeam(team GitHubTeam) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	org := g.mustOrg(team.Org)
	team.ID = g.state.nextID(team.ID)
	if team.Name == "" {
		team.Name = team.Slug
	}
	org.teams = append(org.teams, &gitHubTeam{GitHubTeam: team, members: map[int64]GitHubMember{}})
	return team.ID
}

// JoinTeam makes a user a member of a team, or changes how they are one.
func (g *GitHub) JoinTeam(login, org, slug string, as GitHubMember) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mustTeam(org, slug).members[g.mustUser(login).ID] = as.withDefaults()
}

// LeaveTeam ends a membership in a team.
func (g *GitHub) LeaveTeam(login, org, slug string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.mustTeam(org, slug).members, g.mustUser(login).ID)
}

// AddToken adds a token and returns its value.
func (g *GitHub) AddToken(token GitHubToken) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addToken(token)
}

func (g *GitHub) addToken(token GitHubToken) string {
	if token.ClientID == "" {
		token.ClientID = g.options.ClientID
	}
	if g.state.apps[token.ClientID] == nil {
		panic("strict: there is no app " + token.ClientID)
	}
	if token.Value == "" { // "gho_" is documented as the prefix of OAuth access tokens
		token.Value = "gho_" + randomHex(36)
	}
	token.Scopes = normalScopes(token.Scopes)
	g.state.tokens[token.Value] = &gitHubToken{
		GitHubToken: token, id: g.state.nextID(0), user: g.mustUser(token.Login), made: g.options.Now(),
	}
	return token.Value
}

// Revoke ends a token.
func (g *GitHub) Revoke(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.state.tokens, token)
	g.state.retired[token] = true
}

// token is one that is good now.
func (g *GitHub) token(value string) *gitHubToken {
	t := g.state.tokens[value]
	if t == nil || !t.ExpiresAt.IsZero() && !g.options.Now().Before(t.ExpiresAt) {
		return nil
	}
	return t
}

func (m GitHubMember) withDefaults() GitHubMember {
	if m.State == "" {
		m.State = "active"
	}
	if m.Role == "" {
		m.Role = "member"
	}
	return m
}

func (g *GitHub) mustUser(login string) *GitHubUser {
	if u := g.state.user(login); u != nil {
		return u
	}
	panic("strict: there is no user " + login)
}

func (g *GitHub) mustOrg(login string) *gitHubOrg {
	if o := g.state.org(login); o != nil {
		return o
	}
	panic("strict: there is no organisation " + login)
}

func (g *GitHub) mustTeam(org, slug string) *gitHubTeam {
	if t := g.mustOrg(org).team(slug); t != nil {
		return t
	}
	panic(fmt.Sprintf("strict: there is no team %s of %s", slug, org))
}

// impliedScopes are those that a scope includes ("Available scopes").
func impliedScopes(scope string) []string {
	switch scope {
	case "admin:org":
		return []string{"write:org", "read:org"}
	case "write:org":
		return []string{"read:org"}
	case "user":
		return []string{"read:user", "user:email", "user:follow"}
	}
	return nil
}

// normalScopes leaves out scopes that another one includes ("Normalized scopes").
func normalScopes(scopes []string) []string {
	normal := []string{}
	for _, scope := range scopes {
		implied := slices.ContainsFunc(scopes, func(other string) bool { return slices.Contains(impliedScopes(other), scope) })
		if !implied && !slices.Contains(normal, scope) {
			normal = append(normal, scope)
		}
	}
	return normal
}

// allows reports whether the token has one of the scopes, or one that includes it.
func (t *gitHubToken) allows(scopes []string) bool {
	for _, has := range t.Scopes {
		if slices.Contains(scopes, has) || slices.ContainsFunc(impliedScopes(has), func(s string) bool { return slices.Contains(scopes, s) }) {
			return true
		}
	}
	return len(scopes) == 0
}

func randomHex(digits int) string {
	b := make([]byte, (digits+1)/2)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)[:digits]
}
