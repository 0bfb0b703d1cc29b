package entitlement

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/identity"
	"github.com/google/go-cmp/cmp"
)

func TestParseRefuses(t *testing.T) {
	rule := func(match, effect string) string {
		return "rules: [{name: secret1, match: " + match + ", " + effect + "}]"
	}
	allow := func(allow string) string { return rule("{everybody: true}", "allow: "+allow) }
	for _, tc := range []struct{ text, want string }{
		{"", "it is empty"},
		{"rules: []", "rules: there is none"},
		{"rules: {}", "rules: is an object; it must be a list"},
		{"ruels: []", `unknown field "ruels"`},
		{rule("{everybody: true, subject: [secret]}", "allow: {}"), `unknown field "rules[0].match.subject"`},
		{"rules: [" + strings.Repeat("{},", 1001) + "]", "rules: there are 1001; there may be 1000"},
		{"rules: [{match: {everybody: true}, allow: {}}]", "rules[0].name: it must be"},
		{"rules: [{name: 'a b', match: {everybody: true}, allow: {}}]", "rules[0].name: it must be"},
		{"rules: [{name: a, match: {everybody: true}, allow: {}}, {name: a, match: {everybody: true}, allow: {}}]", "rules[1].name: it is that of rules[0]"},
		{rule("{everybody: true}", "x-y: z"), "unknown field"},
		{"rules: [{name: a, match: {everybody: true}}]", "rules[0]: it must have one of allow and deny"},
		{rule("{everybody: true}", "allow: {}, deny: {message: m}"), "rules[0]: it must have one of allow and deny"},
		{"rules: [{name: a, allow: {}}]", "rules[0].match: it has no condition"},
		{rule("{}", "allow: {}"), "rules[0].match: it has no condition"},
		{rule("{everybody: false}", "allow: {}"), "rules[0].match: it has no condition"},
		{rule("{everybody: true, subjects: [secret]}", "allow: {}"), "rules[0].match.everybody: it takes the place"},
		{rule("{subjects: []}", "allow: {}"), "rules[0].match.subjects: there are 0 values"},
		{rule("{subjects: ['']}", "allow: {}"), "rules[0].match.subjects[0]: it must be 1 to 255 visible"},
		{rule("{subjects: [a, 'secret b']}", "allow: {}"), "rules[0].match.subjects[1]: it must be 1 to 255 visible"},
		{rule("{subjects: ["+strings.Repeat("a,", 10_001)+"]}", "allow: {}"), "rules[0].match.subjects: there are 10001 values"},
		{rule("{subjects: [7]}", "allow: {}"), "rules[0].match.subjects[0]: is a number; it must be a string"},
		{rule("{providers: ['secret b']}", "allow: {}"), "rules[0].match.providers[0]:"},
		{rule("{organizations: [secret/b]}", "allow: {}"), "rules[0].match.organizations[0]: it must be the name of an organisation"},
		{rule("{teams: [secret]}", "allow: {}"), "rules[0].match.teams[0]: it must be ORGANIZATION/TEAM"},
		{rule("{teams: [secret/b/c]}", "allow: {}"), "rules[0].match.teams[0]: it must be ORGANIZATION/TEAM"},
		{rule("{claims: {}}", "allow: {}"), "rules[0].match.claims: there are 0"},
		{rule("{claims: {a: }}", "allow: {}"), "rules[0].match.claims.a: there are 0 values"},
		{rule("{claims: {a: secret}}", "allow: {}"), "rules[0].match.claims.a: is a string; it must be a list"},
		{rule(`{claims: {a: ["secret\u0007"]}}`, "allow: {}"), "rules[0].match.claims.a[0]: it must be 1 to 255 printable"},
		{rule(`{claims: {"a\u0007": [secret]}}`, "allow: {}"), "rules[0].match.claims: a claim's name"},
		{allow("{models: []}"), "rules[0].allow.models: there are 0"},
		{allow("{models: [" + strings.Repeat("a,", 17) + "]}"), "rules[0].allow.models: there are 17"},
		{allow("{models: ['secret b']}"), "rules[0].allow.models[0]: it must be"},
		{allow("{tier: 'secret b'}"), "rules[0].allow.tier: it must be"},
		{allow("{tokenLife: secret}"), "rules[0].allow.tokenLife: it must be whole seconds"},
		{allow("{tokenLife: 9s}"), "rules[0].allow.tokenLife: it must be whole seconds"},
		{allow("{tokenLife: 25h}"), "rules[0].allow.tokenLife: it must be whole seconds"},
		{allow("{tokenLife: 10500ms}"), "rules[0].allow.tokenLife: it must be whole seconds"},
		{rule("{everybody: true}", "deny: {}"), "rules[0].deny.message: it must be"},
		{rule("{everybody: true}", `deny: {message: 'secret "b"'}`), "rules[0].deny.message: it must be"},
		{strings.Repeat("#", maxFileBytes+1), "it has more than 1 MiB"},
	} {
		_, err := Parse([]byte(tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.100q: error %v, want one with %q", tc.text, err, tc.want)
			continue
		}
		if strings.Contains(strings.ReplaceAll(err.Error(), "secret1", ""), "secret") {
			t.Errorf("%q: error %q quotes a value", tc.text, err)
		}
	}
}

func TestParseNamesAllProblems(t *testing.T) {
	_, err := Parse([]byte("rules: [{name: a, match: {subjects: [], teams: [x]}, deny: {}}, {name: a, allow: {tokenLife: 1s}}]"))
	for _, want := range []string{
		"rules[0].match.subjects:", "rules[0].match.teams[0]:", "rules[0].deny.message:",
		"rules[1].name:", "rules[1].match:", "rules[1].allow.tokenLife:",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
	_, err = Parse([]byte("rules: [" + strings.Repeat("{},", 1000) + "]"))
	if err == nil || strings.Count(err.Error(), "\n") != maxProblems || !strings.Contains(err.Error(), "there are more problems") {
		t.Errorf("3000 problems are told as %v", err)
	}
}

func TestProviders(t *testing.T) {
	if diff := cmp.Diff([]string{"hub"}, parse(t, rules).Providers()); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "entitlements.yaml")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("an absent file: %v", err)
	}
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if policy, err := Load(path); err != nil || policy.Rules() != 5 {
		t.Errorf("loaded %v, %v", policy, err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#", 2*maxFileBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "1 MiB") {
		t.Errorf("a large file: %v", err)
	}
}

// FuzzParse holds that what parses has no rule without effect or out of bounds, that a
// rule which denies wins over all, and that the explanation agrees with the decision.
func FuzzParse(f *testing.F) {
	f.Add([]byte(rules), "hub", "hub:1", "acme", "acme/leads", "department", "eng")
	f.Add([]byte("rules: [{name: a, match: {everybody: true}, allow: {models: [m], tokenLife: 1h}}]"), "", "", "", "", "", "")
	f.Add([]byte("rules: [{name: a, match: &m {claims: {a: [b]}}, deny: {message: no}}, {name: b, match: *m, allow: {}}]"), "p", "s", "o", "t/t", "a", "b")
	f.Add([]byte(`{"rules":[{"name":"a","match":{"subjects":["s"]},"allow":{"tier":"x"}}]}`), "p", "s", "", "", "", "")
	f.Fuzz(func(t *testing.T, data []byte, provider, subject, organization, team, claim, value string) {
		policy, err := Parse(data)
		if err != nil {
			return
		}
		if n := policy.Rules(); n < 1 || n > maxRules {
			t.Fatalf("%d rules", n)
		}
		who := identity.Identity{Subject: subject, Organizations: []string{organization}, Teams: []string{team},
			Claims: map[string][]string{claim: {value}}}
		decision, explained := policy.Decide(provider, who), policy.Explain(provider, who)
		if diff := cmp.Diff(decision, explained.Decision); diff != "" {
			t.Fatalf("Decide and Explain differ:\n%s", diff)
		}
		if decision.Allowed == (decision.Message != "") || decision.Allowed && decision.Rule == "" {
			t.Fatalf("decision %+v", decision)
		}
		if life := decision.TokenLife; life != 0 && (life < minTokenLife || life > maxTokenLife || life%time.Second != 0) {
			t.Fatalf("a token life of %v", life)
		}
		for _, r := range explained.Rules {
			switch {
			case r.Matches && r.Effect == "deny" && decision.Allowed:
				t.Fatalf("%s denies, but it is allowed", r.Name)
			case r.Matches && decision.Rule == "":
				t.Fatalf("%s matches, but no rule decides", r.Name)
			case (r.Why == "") != (r.Name == decision.Rule):
				t.Fatalf("%s: why is %q, but %q decides", r.Name, r.Why, decision.Rule)
			}
		}
	})
}
