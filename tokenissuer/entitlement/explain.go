package entitlement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

// Explanation is a decision and what each rule had to do with it.
type Explanation struct {
	Decision
	// TokenLife is as in the file; "" is the issuer's own.
	TokenLife string       `json:"tokenLife,omitempty"`
	Rules     []RuleResult `json:"rules"`
}

// RuleResult is what a rule says of the identity.
type RuleResult struct {
	Name    string `json:"name"`
	Effect  string `json:"effect"` // allow or deny
	Matches bool   `json:"matches"`
	// Why is why it does not match, or does not decide though it does. It is "" of the
	// rule that decides.
	Why string `json:"why,omitempty"`
}

// Explain is Decide with its reasons, in the order of the file.
func (p *Policy) Explain(provider string, who identity.Identity) Explanation {
	s := newSubject(provider, who)
	by := p.deciding(s)
	e := Explanation{Decision: p.decide(by, who)}
	if e.Decision.TokenLife > 0 {
		e.TokenLife = e.Decision.TokenLife.String()
	}
	for i, r := range p.rules {
		result := RuleResult{Name: r.name, Effect: "allow"}
		if r.deny != nil {
			result.Effect = "deny"
		}
		missed, misses := r.mismatch(s)
		result.Matches = !misses
		switch {
		case misses:
			result.Why = missed.why(s)
		case i != by && p.rules[by].deny != nil && r.deny == nil:
			result.Why = fmt.Sprintf("%s denies, and that wins", p.rules[by].name)
		case i != by:
			result.Why = fmt.Sprintf("%s comes before it", p.rules[by].name)
		}
		e.Rules = append(e.Rules, result)
	}
	return e
}

// maxNamed bounds the values that a reason names.
const maxNamed = 5

func (c *condition) why(s subject) string {
	field := string(c.kind)
	if c.kind == kindClaim {
		field += "." + c.claim
	}
	has := "none"
	if values := s.values(*c); len(values) > 0 && !slices.Equal(values, []string{""}) {
		has = named(values)
	}
	return fmt.Sprintf("%s: wants %s, has %s", field, named(c.values), has)
}

func named(values []string) string {
	text := strings.Join(values[:min(len(values), maxNamed)], ", ")
	if more := len(values) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
