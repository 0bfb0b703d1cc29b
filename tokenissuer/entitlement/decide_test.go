package entitlement

import (
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/google/go-cmp/cmp"
)

// rules has each kind of condition, and a rule that denies behind one that allows.
const rules = `
rules:
- name: leads
  match: {teams: [Acme/Leads], providers: [hub]}
  allow: {models: [big, small], tier: pro, tokenLife: 10m}
- name: engineers
  match: {organizations: [acme], claims: {department: [eng, research], region: [eu]}}
  allow: {}
- name: small
  match: {subjects: ["hub:1", "hub:2"]}
  allow: {models: [small]}
- name: gone
  match: {subjects: ["hub:9"]}
  deny: {message: You have left; ask the help desk.}
- name: contractors
  match: {organizations: [EXTERNAL], providers: [hub]}
  deny: {message: Not for contractors.}
`

func parse(t testing.TB, text string) *Policy {
	t.Helper()
	policy, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

func TestDecide(t *testing.T) {
	eng := map[string][]string{"department": {"sales", "eng"}, "region": {"eu"}}
	for _, tc := range []struct {
		name, provider string
		who            identity.Identity
		want           Decision
	}{
		{"nobody", "hub", identity.Identity{Subject: "hub:7"}, Decision{Message: noRuleMessage}},
		{"a team, in another case", "hub", identity.Identity{Subject: "hub:7", Teams: []string{"acme/x", "ACME/leads"}, Tier: "free"},
			Decision{Allowed: true, Rule: "leads", Models: []string{"big", "small"}, Tier: "pro", TokenLife: 10 * time.Minute}},
		{"the same team of another provider", "corp", identity.Identity{Subject: "corp:7", Teams: []string{"acme/leads"}}, Decision{Message: noRuleMessage}},
		{"an organisation alone", "hub", identity.Identity{Subject: "hub:7", Organizations: []string{"acme"}}, Decision{Message: noRuleMessage}},
		{"an organisation and claims", "corp", identity.Identity{Subject: "corp:7", Organizations: []string{"acme"}, Claims: eng, Tier: "free", Models: []string{"big"}},
			Decision{Allowed: true, Rule: "engineers", Tier: "free", Models: []string{"big"}}},
		{"one claim of two", "hub", identity.Identity{Organizations: []string{"acme"}, Claims: map[string][]string{"department": {"eng"}}}, Decision{Message: noRuleMessage}},
		{"claims are compared by case", "hub", identity.Identity{Organizations: []string{"acme"}, Claims: map[string][]string{"department": {"ENG"}, "region": {"eu"}}},
			Decision{Message: noRuleMessage}},
		{"the first that allows", "hub", identity.Identity{Subject: "hub:1", Teams: []string{"acme/leads"}, Models: []string{"small", "other"}},
			Decision{Allowed: true, Rule: "leads", Models: []string{"small"}, Tier: "pro", TokenLife: 10 * time.Minute}},
		{"no model that both allow", "hub", identity.Identity{Subject: "hub:2", Models: []string{"other"}},
			Decision{Allowed: true, Rule: "small", Models: []string{}}},
		{"a provider that allows none", "hub", identity.Identity{Subject: "hub:2", Models: []string{}},
			Decision{Allowed: true, Rule: "small", Models: []string{}}},
		{"a subject that only begins so", "hub", identity.Identity{Subject: "hub:10"}, Decision{Message: noRuleMessage}},
		{"denied behind an allow", "hub", identity.Identity{Subject: "hub:1", Organizations: []string{"External"}},
			Decision{Rule: "contractors", Message: "Not for contractors."}},
		{"denied twice", "hub", identity.Identity{Subject: "hub:9", Organizations: []string{"external"}},
			Decision{Rule: "gone", Message: "You have left; ask the help desk."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			policy := parse(t, rules)
			if diff := cmp.Diff(tc.want, policy.Decide(tc.provider, tc.who)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, policy.Explain(tc.provider, tc.who).Decision); diff != "" {
				t.Errorf("explained decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEverybody(t *testing.T) {
	policy := parse(t, `
rules:
- {name: all, match: {everybody: true}, allow: {tokenLife: 1h}}
- {name: closed, match: {everybody: true}, deny: {message: Closed today.}}
`)
	if got := policy.Decide("hub", identity.Identity{}); got.Allowed || got.Rule != "closed" {
		t.Errorf("decision %+v", got)
	}
}

func TestWithoutPolicyTheProviderDecides(t *testing.T) {
	var none *Policy
	who := identity.Identity{Subject: "u", Models: []string{"m"}, Tier: "pro"}
	want := Decision{Allowed: true, Models: []string{"m"}, Tier: "pro"}
	if diff := cmp.Diff(want, none.Decide("hub", who)); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

func TestExplain(t *testing.T) {
	results := func(provider string, who identity.Identity) map[string]string {
		why := map[string]string{}
		for _, r := range parse(t, rules).Explain(provider, who).Rules {
			why[r.Name] = r.Why
		}
		return why
	}
	got := results("hub", identity.Identity{Subject: "hub:1", Teams: []string{"acme/leads"}, Organizations: []string{"acme", "external"},
		Claims: map[string][]string{"department": {"sales"}}})
	want := map[string]string{
		"leads":       "contractors denies, and that wins",
		"engineers":   "claims.department: wants eng, research, has sales",
		"small":       "contractors denies, and that wins",
		"gone":        "subjects: wants hub:9, has hub:1",
		"contractors": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("why (-want +got):\n%s", diff)
	}
	got = results("hub", identity.Identity{Subject: "hub:1", Teams: []string{"acme/leads"}})
	want = map[string]string{
		"leads": "", "engineers": "organizations: wants acme, has none", "small": "leads comes before it",
		"gone": "subjects: wants hub:9, has hub:1", "contractors": "organizations: wants external, has none",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("why (-want +got):\n%s", diff)
	}
}

func TestReasonsAreShort(t *testing.T) {
	policy := parse(t, `rules: [{name: many, match: {subjects: [`+strings.Repeat("x,", 99)+`x]}, allow: {}}]`)
	got := policy.Explain("hub", identity.Identity{}).Rules[0].Why
	if want := "subjects: wants x, x, x, x, x and 95 more, has none"; got != want {
		t.Errorf("why is %q, want %q", got, want)
	}
}
