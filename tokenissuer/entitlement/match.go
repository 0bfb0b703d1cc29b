package entitlement

import (
	"slices"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

// kind is what of an identity a condition is about. It is the field's name in the file.
type kind string

const (
	kindProvider     kind = "providers"
	kindSubject      kind = "subjects"
	kindOrganization kind = "organizations"
	kindTeam         kind = "teams"
	kindClaim        kind = "claims"
)

// rule is one that was checked. It has one of allow and deny.
type rule struct {
	name string
	// conditions must all hold. None is a rule for everybody.
	conditions []condition
	allow      *allowance
	deny       *fileDeny
}

type allowance struct {
	models []string
	tier   string
	life   time.Duration
}

// condition holds if the identity has one of the values.
type condition struct {
	kind   kind
	claim  string // the claim's name, of kindClaim
	values []string
	set    map[string]struct{} // of values
}

func newCondition(k kind, claim string, values []string) condition {
	if k == kindOrganization || k == kindTeam {
		values = lower(values)
	}
	c := condition{kind: k, claim: claim, values: values, set: make(map[string]struct{}, len(values))}
	for _, value := range values {
		c.set[value] = struct{}{}
	}
	return c
}

// mismatch is the first condition that does not hold, if there is one.
func (r *rule) mismatch(s subject) (condition, bool) {
	for _, c := range r.conditions {
		if !c.holds(s.values(c)) {
			return c, true
		}
	}
	return condition{}, false
}

func (c *condition) holds(has []string) bool {
	return slices.ContainsFunc(has, func(value string) bool {
		_, listed := c.set[value]
		return listed
	})
}

// subject is an identity as conditions see it.
type subject struct {
	provider, subject    []string // one each
	organizations, teams []string // in lower case: GitHub's names are the same in any
	claims               map[string][]string
}

func newSubject(provider string, who identity.Identity) subject {
	return subject{
		provider: []string{provider}, subject: []string{who.Subject},
		organizations: lower(who.Organizations), teams: lower(who.Teams), claims: who.Claims,
	}
}

func (s *subject) values(c condition) []string {
	switch c.kind {
	case kindProvider:
		return s.provider
	case kindSubject:
		return s.subject
	case kindOrganization:
		return s.organizations
	case kindTeam:
		return s.teams
	}
	return s.claims[c.claim]
}

func lower(values []string) []string {
	lowered := make([]string, len(values))
	for i, value := range values {
		lowered[i] = strings.ToLower(value)
	}
	return lowered
}
