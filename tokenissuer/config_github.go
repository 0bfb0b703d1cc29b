package tokenissuer

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

// gitHubCom is where most people are.
const gitHubCom = "https://github.com"

const (
	maxOrganizations = 64
	maxTeams         = 256
)

// GitHubConfig is a provider of type GitHub.
type GitHubConfig struct {
	// URL is what people see: https://github.com by default, https://SUBDOMAIN.ghe.com, or
	// an Enterprise Server's. The API's URL follows from it.
	URL string `json:"url"`
	// ClientID is of the OAuth app or GitHub App that people log in to.
	ClientID string `json:"clientID"`
	// ClientSecretFile holds the app's client secret alone.
	ClientSecretFile string `json:"clientSecretFile"`
	// Organizations are those whose members entitlements may name.
	Organizations []string `json:"organizations"`
	// Teams is true for all teams of Organizations, or lists ORGANIZATION/SLUG.
	Teams Teams `json:"teams"`
	// CAFile is a PEM file to trust instead of the system's certificates; may be "".
	CAFile string `json:"caFile"`
}

// Teams stands as true, false or a list in a file; true is identity.AllTeams alone.
type Teams []string

// UnmarshalJSON reads either form.
func (t *Teams) UnmarshalJSON(data []byte) error {
	var all bool
	if err := json.Unmarshal(data, &all); err == nil {
		if *t = nil; all {
			*t = Teams{identity.AllTeams}
		}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return &json.UnmarshalTypeError{Value: "value", Type: reflect.TypeFor[Teams]()}
	}
	*t = list
	return nil
}

var (
	clientIDPattern     = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	organizationPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)
	teamPattern         = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9_-]{0,99})/[^/\s]{1,255}$`)
)

func (g *GitHubConfig) check(field string) error {
	if g == nil {
		return fmt.Errorf("%s.github: it is missing; it must have clientID and clientSecretFile", field)
	}
	field += ".github."
	problems := []error{checkURL(field+"url", g.url(), hostOnly), g.checkOrganizations(field), g.checkTeams(field)}
	if !clientIDPattern.MatchString(g.ClientID) {
		problems = append(problems, fmt.Errorf("%sclientID: it must be the client ID that GitHub shows in the app's settings, such as Iv1.8a61f9b3a7aba766", field))
	}
	if g.ClientSecretFile == "" {
		problems = append(problems, fmt.Errorf("%sclientSecretFile: it is missing; name the file with the app's client secret", field))
	}
	if u, err := url.Parse(g.url()); err == nil && strings.HasPrefix(u.Hostname(), "api.") {
		problems = append(problems, fmt.Errorf("%surl: it is the API's; it must be the one that people see, such as %s", field, gitHubCom))
	}
	return errors.Join(problems...)
}

func (g *GitHubConfig) checkOrganizations(field string) error {
	if len(g.Organizations) > maxOrganizations {
		return fmt.Errorf("%sorganizations: there are %d, more than %d", field, len(g.Organizations), maxOrganizations)
	}
	for i, name := range g.Organizations {
		if !organizationPattern.MatchString(name) {
			return fmt.Errorf("%sorganizations[%d]: it must be a name as in https://github.com/NAME", field, i)
		}
	}
	return nil
}

func (g *GitHubConfig) checkTeams(field string) error {
	if len(g.Teams) > maxTeams {
		return fmt.Errorf("%steams: there are %d, more than %d", field, len(g.Teams), maxTeams)
	}
	if len(g.Teams) > 0 && len(g.Organizations) == 0 {
		return fmt.Errorf("%steams: organizations must list those that the teams are of", field)
	}
	for i, name := range g.Teams {
		parts := teamPattern.FindStringSubmatch(name)
		switch {
		case slices.Equal(g.Teams, Teams{identity.AllTeams}):
		case parts == nil:
			return fmt.Errorf("%steams[%d]: it must be ORGANIZATION/SLUG, such as acme/platform; true is all teams", field, i)
		case !slices.ContainsFunc(g.Organizations, func(o string) bool { return strings.EqualFold(o, parts[1]) }):
			return fmt.Errorf("%steams[%d]: organizations does not list %q", field, i, parts[1])
		}
	}
	return nil
}

func (g *GitHubConfig) url() string {
	if g.URL == "" {
		return gitHubCom
	}
	return g.URL
}

// api is the base URL of the REST API of the GitHub at url.
func (g *GitHubConfig) api() string {
	scheme, host, _ := strings.Cut(g.url(), "://")
	if lower := strings.ToLower(host); lower == "github.com" || strings.HasSuffix(lower, ".ghe.com") {
		return scheme + "://api." + host
	}
	return g.url() + "/api/v3"
}

func newGitHub(p ProviderConfig, log *slog.Logger, m *providerMetrics) (*identity.GitHub, error) {
	pool, err := roots(p.GitHub.CAFile)
	if err != nil {
		return nil, err
	}
	return identity.NewGitHub(identity.GitHubOptions{
		Name: p.Name, API: p.GitHub.api(), Web: p.GitHub.url(),
		ClientID: p.GitHub.ClientID, SecretFile: p.GitHub.ClientSecretFile,
		Organizations: p.GitHub.Organizations, Teams: p.GitHub.Teams,
		Roots: pool, Quota: m.quotaOf(p.Name), Log: log,
	})
}
