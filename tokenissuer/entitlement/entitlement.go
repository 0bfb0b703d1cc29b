// Package entitlement decides what an identity may have: whether a token, for which
// models, of which tier and for how long. It does no I/O but to read its file.
package entitlement

import (
	"slices"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
)

// Policy is the rules of one file. It is never changed.
type Policy struct {
	rules []rule // as they stand in the file
}

// Decision is what becomes of one identity.
type Decision struct {
	Allowed bool `json:"allowed"`
	// Rule is the name of the rule that decided; "" if none matched.
	Rule string `json:"rule,omitempty"`
	// Message is for the user who is denied; "" if they are not.
	Message string `json:"message,omitempty"`

	// Models are the logical models that the token is to name; nil is all, and a list
	// with none in it is none.
	Models []string `json:"models,omitzero"`
	// Tier goes into the token; may be "".
	Tier string `json:"tier,omitempty"`
	// TokenLife is in whole seconds; 0 is the issuer's own.
	TokenLife time.Duration `json:"-"`
}

const noRuleMessage = "no rule of this service allows you to use it; ask whoever runs it"

// Decide is the decision on an identity that a provider of that name knows. Any rule
// that denies wins, else the first that allows decides, else nobody has allowed it.
// Without a Policy everybody is allowed what the provider says of them.
func (p *Policy) Decide(provider string, who identity.Identity) Decision {
	if p == nil {
		return Decision{Allowed: true, Models: who.Models, Tier: who.Tier}
	}
	return p.decide(p.deciding(newSubject(provider, who)), who)
}

// none is the index of the rule that decides where none does.
const none = -1

// deciding is the index of the rule that decides.
func (p *Policy) deciding(s subject) int {
	allowed := none
	for i, r := range p.rules {
		if r.deny == nil && allowed != none {
			continue
		}
		if _, misses := r.mismatch(s); misses {
			continue
		}
		if r.deny != nil {
			return i
		}
		allowed = i
	}
	return allowed
}

func (p *Policy) decide(by int, who identity.Identity) Decision {
	if by == none {
		return Decision{Message: noRuleMessage}
	}
	r := p.rules[by]
	if r.deny != nil {
		return Decision{Rule: r.name, Message: r.deny.Message}
	}
	d := Decision{
		Allowed: true, Rule: r.name, Models: both(who.Models, r.allow.models), Tier: who.Tier, TokenLife: r.allow.life,
	}
	if r.allow.tier != "" {
		d.Tier = r.allow.tier
	}
	return d
}

// both are the models in two lists, of which nil has all: what the provider and the
// rule say are two limits, and each holds.
func both(provider, rule []string) []string {
	switch {
	case rule == nil:
		return provider
	case provider == nil:
		return rule
	}
	models := []string{}
	for _, model := range rule {
		if slices.Contains(provider, model) {
			models = append(models, model)
		}
	}
	return models
}

// Providers are the names of providers that rules ask for, each once, sorted.
func (p *Policy) Providers() []string {
	var names []string
	for _, r := range p.rules {
		for _, c := range r.conditions {
			if c.kind == kindProvider {
				names = append(names, c.values...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Rules is how many there are.
func (p *Policy) Rules() int { return len(p.rules) }
