package entitlement

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

const (
	maxRules  = 1000
	maxValues = 10_000
	maxClaims = 16

	// Those of the issuer's own tokenLife.
	minTokenLife = 10 * time.Second
	maxTokenLife = 24 * time.Hour

	// maxProblems bounds what is said of one file.
	maxProblems = 50
)

var (
	namePattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	providerPattern = regexp.MustCompile(`^[!-~]{1,255}$`)
	subjectPattern  = regexp.MustCompile(`^[!-~]{1,255}$`)
	orgPattern      = regexp.MustCompile(`^[^\pC/]{1,255}$`)
	teamPattern     = regexp.MustCompile(`^[^\pC/]{1,255}/[^\pC/]{1,255}$`)
	textPattern     = regexp.MustCompile(`^\PC{1,255}$`)
	modelPattern    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)
	tierPattern     = regexp.MustCompile(`^[A-Za-z0-9._-]{0,63}$`)
	// messagePattern is what RFC 6749 lets error_description have (section 5.2).
	messagePattern = regexp.MustCompile(`^[ !#-\[\]-~]{1,500}$`)
)

// checker collects what is wrong with a file.
type checker struct{ problems []error }

func (c *checker) add(field, format string, args ...any) {
	switch len(c.problems) {
	case maxProblems:
		c.problems = append(c.problems, fmt.Errorf("there are more problems than these %d", maxProblems))
	case maxProblems + 1:
	default:
		c.problems = append(c.problems, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
}

// policy is of use only if there is no problem.
func (c *checker) policy(f file) *Policy {
	switch {
	case len(f.Rules) == 0:
		c.add("rules", "there is none, so nobody would be allowed; for that, write a rule that denies everybody")
	case len(f.Rules) > maxRules:
		c.add("rules", "there are %d; there may be %d", len(f.Rules), maxRules)
		return nil
	}
	policy := &Policy{}
	first := map[string]int{}
	for i, r := range f.Rules {
		field := fmt.Sprintf("rules[%d]", i)
		if !namePattern.MatchString(r.Name) {
			c.add(field+".name", "it must be 1 to 63 letters, digits, dots, dashes and underscores, the first a letter or digit")
		} else if earlier, taken := first[r.Name]; taken {
			c.add(field+".name", "it is that of rules[%d]", earlier)
		} else {
			first[r.Name] = i
		}
		policy.rules = append(policy.rules, c.rule(field, r))
	}
	return policy
}

func (c *checker) rule(field string, r fileRule) rule {
	checked := rule{name: r.Name, conditions: c.match(field+".match", r.Match), deny: r.Deny}
	if (r.Allow == nil) == (r.Deny == nil) {
		c.add(field, "it must have one of allow and deny, such as allow: {} or deny: {message: ...}")
		return checked
	}
	if r.Deny != nil {
		if !messagePattern.MatchString(r.Deny.Message) {
			c.add(field+".deny.message", "it must be 1 to 500 printable ASCII characters, without double quotes and backslashes; "+
				"it is shown to the user, so say whom to ask")
		}
		return checked
	}
	checked.allow = c.allow(field+".allow", r.Allow)
	return checked
}

func (c *checker) match(field string, m *fileMatch) (conditions []condition) {
	if m == nil {
		m = &fileMatch{}
	}
	for _, list := range []struct {
		kind    kind
		values  []string
		pattern *regexp.Regexp
		must    string
	}{
		{kindProvider, m.Providers, providerPattern, "it must be the name of an identity provider"},
		{kindSubject, m.Subjects, subjectPattern, "it must be 1 to 255 visible ASCII characters, such as github:583231"},
		{kindOrganization, m.Organizations, orgPattern, "it must be the name of an organisation, without a slash"},
		{kindTeam, m.Teams, teamPattern, "it must be ORGANIZATION/TEAM"},
	} {
		if list.values == nil {
			continue
		}
		c.values(field+"."+string(list.kind), list.values, list.pattern, list.must)
		conditions = append(conditions, newCondition(list.kind, "", list.values))
	}
	conditions = append(conditions, c.claims(field+".claims", m.Claims)...)
	switch {
	case m.Everybody && len(conditions) > 0:
		c.add(field+".everybody", "it takes the place of all other fields; leave it or them out")
	case !m.Everybody && len(conditions) == 0:
		c.add(field, "it has no condition; for a rule that is for everybody, write match: {everybody: true}")
	}
	return conditions
}

func (c *checker) claims(field string, claims map[string][]string) (conditions []condition) {
	if claims != nil && len(claims) == 0 || len(claims) > maxClaims {
		c.add(field, "there are %d; there must be 1 to %d, or leave it out", len(claims), maxClaims)
	}
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		if !textPattern.MatchString(name) {
			c.add(field, "a claim's name must be 1 to 255 printable characters")
			continue
		}
		c.values(field+"."+name, claims[name], textPattern, "it must be 1 to 255 printable characters")
		conditions = append(conditions, newCondition(kindClaim, name, claims[name]))
	}
	return conditions
}

// values checks a list of which one must match.
func (c *checker) values(field string, values []string, pattern *regexp.Regexp, must string) {
	if len(values) == 0 || len(values) > maxValues {
		c.add(field, "there are %d values; there must be 1 to %d, or leave it out", len(values), maxValues)
		return
	}
	for i, value := range values {
		if !pattern.MatchString(value) {
			c.add(fmt.Sprintf("%s[%d]", field, i), "%s", must)
		}
	}
}

func (c *checker) allow(field string, a *fileAllow) *allowance {
	checked := &allowance{models: a.Models, tier: a.Tier}
	if a.Models != nil && (len(a.Models) == 0 || len(a.Models) > identity.MaxModels) {
		c.add(field+".models", "there are %d; there must be 1 to %d, or leave it out for all", len(a.Models), identity.MaxModels)
	}
	for i, model := range a.Models {
		if !modelPattern.MatchString(model) {
			c.add(fmt.Sprintf("%s.models[%d]", field, i), "it must be 1 to 128 letters, digits, dots, dashes, underscores and slashes")
		}
	}
	if !tierPattern.MatchString(a.Tier) {
		c.add(field+".tier", "it must be at most 63 letters, digits, dots, dashes and underscores")
	}
	if a.TokenLife == "" {
		return checked
	}
	var err error
	if checked.life, err = time.ParseDuration(a.TokenLife); err != nil ||
		checked.life < minTokenLife || checked.life > maxTokenLife || checked.life%time.Second != 0 {
		c.add(field+".tokenLife", "it must be whole seconds from 10s to 24h, such as 10m")
	}
	return checked
}
