package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AllTeams in GitHubOptions.Teams are all teams of the organizations.
const AllTeams = "*"

// GitHubOptions is a GitHub to ask: github.com, GHE.com or an Enterprise Server.
type GitHubOptions struct {
	Name string
	// API is the base URL of its REST API, Web of what people see; without a slash at
	// the end.
	API, Web string
	// ClientID is the OAuth app, or the GitHub App, whose users' tokens are known. Tokens
	// of others are nobody's, or any app that a user has logged in to could pass for the
	// user.
	ClientID string
	// SecretFile holds the app's client secret. It may change.
	SecretFile string
	// Organizations are those whose members are told, in any case. If there is none,
	// GitHub is not asked for them.
	Organizations []string
	// Teams are those whose members are told: AllTeams, or ORGANIZATION/SLUG each. If
	// there is none, GitHub is not asked for them.
	Teams []string
	// Roots are the certificates to trust; nil is the system's.
	Roots *x509.CertPool
	// Quota is told how many more checks of tokens GitHub allows the app in the running
	// hour; may be nil. An Enterprise Server may not say.
	Quota func(remaining int)
	Log   *slog.Logger
}

// GitHub knows the users' tokens of one app.
type GitHub struct {
	o             GitHubOptions
	organizations map[string]bool // in lower case, as teams are
	teams         map[string]bool
	secret        *secretFile
	client        *http.Client
}

// gitHubToken is a user's token of an OAuth app (gho) or a GitHub App (ghu), or one of the
// time before tokens had prefixes. Others, such as personal ones and those of other
// providers, are never sent to GitHub.
var gitHubToken = regexp.MustCompile(`^(gh[ou]_[A-Za-z0-9_.-]{16,1000}|[0-9a-f]{40})$`)

// NewGitHub reads the secret, and asks nothing of GitHub yet. Close it after use.
func NewGitHub(o GitHubOptions) (*GitHub, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	secret, err := openSecret(o.SecretFile, o.Log)
	if err != nil {
		return nil, fmt.Errorf("client secret: %w", err)
	}
	return &GitHub{
		o: o, secret: secret, client: gitHubClient(o.Roots),
		organizations: lowerSet(o.Organizations), teams: lowerSet(o.Teams),
	}, nil
}

func lowerSet(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[strings.ToLower(name)] = true
	}
	return set
}

// Name is the provider's name.
func (g *GitHub) Name() string { return g.o.Name }

// Close ends connections that are idle.
func (g *GitHub) Close() error {
	g.client.CloseIdleConnections()
	return nil
}

// Login is GitHub's device flow. The app must have it enabled.
func (g *GitHub) Login() (Login, bool) {
	login := Login{
		ClientID: g.o.ClientID, Type: AccessToken,
		DeviceEndpoint: g.o.Web + "/login/device/code", TokenEndpoint: g.o.Web + "/login/oauth/access_token",
	}
	if g.asksOrganizations() || g.asksTeams() {
		login.Scope = "read:org"
	}
	return login, true
}

func (g *GitHub) asksOrganizations() bool { return len(g.organizations) > 0 }
func (g *GitHub) asksTeams() bool         { return len(g.teams) > 0 }

// Plausible is false for what has not the form of a user's token.
func (g *GitHub) Plausible(credential Credential) bool {
	return credential.Type == AccessToken && gitHubToken.MatchString(credential.Value)
}

// Identify checks that the token is of our app, and asks who its user is. One call comes
// after the other: that is what GitHub wants.
func (g *GitHub) Identify(ctx context.Context, credential Credential) (Identity, error) {
	if !g.Plausible(credential) {
		return Identity{}, ErrUnknownCredential
	}
	checked, err := g.check(ctx, credential.Value)
	if err != nil {
		return Identity{}, err
	}
	if err := g.confirm(ctx, credential.Value, checked.User); err != nil {
		return Identity{}, err
	}
	who := Identity{
		Subject:  g.o.Name + ":" + strconv.FormatInt(checked.User.ID, 10),
		ClientID: g.o.ClientID,
		Claims:   map[string][]string{"login": {checked.User.Login}},
	}
	if checked.ExpiresAt != nil {
		who.Expires = *checked.ExpiresAt
	}
	if g.asksOrganizations() {
		if who.Organizations, err = g.memberOf(ctx, credential.Value, checked.User.ID); err != nil {
			return Identity{}, err
		}
	}
	if g.asksTeams() {
		if who.Teams, err = g.teamsOf(ctx, credential.Value); err != nil {
			return Identity{}, err
		}
	}
	return who, nil
}

// account is a user, as far as it matters.
type account struct {
	ID          int64      `json:"id"`
	Login       string     `json:"login"`
	SuspendedAt *time.Time `json:"suspended_at"` // of an Enterprise Server
}

// loginPattern is what a login may look like, those of managed users and bots included.
var loginPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_\[\]-]{0,99}$`)

func (a *account) isSound() bool { return a.ID > 0 && loginPattern.MatchString(a.Login) }

// authorization is GitHub's answer to the check of a token.
type authorization struct {
	App struct {
		ClientID string `json:"client_id"`
	} `json:"app"`
	User      *account   `json:"user"`
	ExpiresAt *time.Time `json:"expires_at"`
}

// check is POST /applications/{client_id}/token, which alone tells whose app a token is of.
func (g *GitHub) check(ctx context.Context, token string) (*authorization, error) {
	a, err := g.do(ctx, call{
		method: http.MethodPost, path: "/applications/" + g.o.ClientID + "/token",
		body:      map[string]string{"access_token": token},
		authorize: func(r *http.Request) { r.SetBasicAuth(g.o.ClientID, g.secret.read()) },
	})
	if err != nil {
		return nil, err
	}
	g.tellQuota(a)
	switch a.status {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusUnprocessableEntity:
		// Only GitHub's own words deny: a wrong API URL finds nothing either.
		if !a.isGitHubsError() || a.speaksOf("spammed") {
			return nil, a.outage("is no answer of GitHub's REST API; is its URL right?")
		}
		return nil, ErrUnknownCredential
	case http.StatusUnauthorized:
		return nil, a.outage("refuses the app's clientID and secret")
	default:
		return nil, a.refusal()
	}
	var got authorization
	if !a.decode(&got) || got.App.ClientID == "" {
		return nil, a.garbage()
	}
	switch {
	case got.App.ClientID != g.o.ClientID:
		return nil, a.outage("speaks of another app")
	case got.User == nil:
		return nil, fmt.Errorf("%w: the token is no user's", ErrUnknownCredential)
	case !got.User.isSound():
		return nil, single(a.garbage())
	case got.ExpiresAt != nil && !got.ExpiresAt.After(time.Now()):
		return nil, fmt.Errorf("%w: the token has expired", ErrUnknownCredential)
	}
	return &got, nil
}

// confirm is GET /user: the check does not say that an account is suspended.
func (g *GitHub) confirm(ctx context.Context, token string, checked *account) error {
	a, err := g.get(ctx, token, "/user", "")
	if err != nil {
		return err
	}
	var got account
	switch {
	case !a.decode(&got):
		return a.garbage()
	case got.ID != checked.ID:
		return single(a.outage("speaks of another user than the check of the token"))
	case got.SuspendedAt != nil:
		return fmt.Errorf("%w: the account is suspended", ErrUnknownCredential)
	}
	return nil
}

// organization is one, as it stands in memberships and teams.
type organization struct {
	Login string `json:"login"`
}

// memberOf is GET /user/memberships/orgs, which has those whose membership is not public
// too.
func (g *GitHub) memberOf(ctx context.Context, token string, user int64) ([]string, error) {
	type membership struct {
		State        string        `json:"state"`
		Organization *organization `json:"organization"`
		User         *account      `json:"user"`
	}
	found := map[string]bool{}
	err := pages(ctx, g, token, call{path: "/user/memberships/orgs", query: "state=active&per_page=100"}, func(a answered, m membership) error {
		if m.Organization == nil || m.Organization.Login == "" || m.User != nil && m.User.ID != user {
			return single(a.garbage())
		}
		name := strings.ToLower(m.Organization.Login)
		if m.State == "active" && g.organizations[name] { // pending is an invitation
			found[name] = true
		}
		return nil
	})
	return sorted(found), err
}

// teamsOf is GET /user/teams.
func (g *GitHub) teamsOf(ctx context.Context, token string) ([]string, error) {
	type team struct {
		Slug         string        `json:"slug"`
		Organization *organization `json:"organization"`
	}
	found := map[string]bool{}
	err := pages(ctx, g, token, call{path: "/user/teams", query: "per_page=100"}, func(a answered, m team) error {
		if m.Organization == nil || m.Organization.Login == "" || m.Slug == "" || strings.ContainsAny(m.Slug, "/ ") {
			return single(a.garbage())
		}
		owner := strings.ToLower(m.Organization.Login)
		name := owner + "/" + strings.ToLower(m.Slug)
		if g.teams[name] || g.teams[AllTeams] && g.organizations[owner] {
			found[name] = true
		}
		return nil
	})
	return sorted(found), err
}

func sorted(set map[string]bool) []string {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// single makes an outage one of a single credential.
func single(err error) error {
	var outage *OutageError
	if errors.As(err, &outage) {
		outage.Single = true
	}
	return err
}
