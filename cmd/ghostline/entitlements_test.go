package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entitled is a shell with the rules that the page has as an example.
func entitled(t *testing.T) (s *shell, rules string, page string) {
	t.Helper()
	data, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```yaml\n(# entitlements.yaml\n.*?)```").FindSubmatch(data)
	if found == nil {
		t.Fatal("the page has no entitlements.yaml")
	}
	s = &shell{t: t, dir: t.TempDir(), env: map[string]string{}}
	return s, s.file("entitlements.yaml", string(found[1])), string(data)
}

// TestGuideToEntitlements runs the page's command and compares what it prints.
func TestGuideToEntitlements(t *testing.T) {
	s, rules, page := entitled(t)
	found := regexp.MustCompile("(?s)\n\\$ ghostline (entitlements [^\n]*)\n(.*?)```").FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page has no command")
	}
	args := strings.Fields(strings.Replace(found[1], "entitlements.yaml", rules, 1))
	if status, out, stderr := s.run(t.Context(), "", args...); status != exitOK || out != found[2] || stderr != "" {
		t.Errorf("%q: status %d, %s\n%s\nwant\n%s", args, status, stderr, out, found[2])
	}
}

func TestEntitlementsDenied(t *testing.T) {
	s, rules, _ := entitled(t)
	out := s.expect(exitFailure, "ghostline: the identity gets no token: You have no access any more.", "entitlements", "-f", rules,
		"--provider", "local", "--subject", "github:583231", "--team", "Acme/Leads")
	want := `denied       by left-the-company: You have no access any more. Ask it-help@example.com.

leads             allow  matches, but left-the-company denies, and that wins
engineering       allow  does not match: organizations: wants acme, has none
left-the-company  deny   decides
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	s.expect(exitFailure, "denied       by no rule: no rule of this service allows you", "entitlements", "-f", rules)
}

func TestEntitlementsJSON(t *testing.T) {
	s, rules, _ := entitled(t)
	out := s.expect(exitOK, "", "entitlements", "-f", rules, "--provider", "local", "--subject", "u", "--team", "acme/leads",
		"--organization", "acme", "--claim", "department=sales", "--claim", "department=eng", "-o", "json")
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"allowed": true, "rule": "leads", "models": []any{"ghost-code"}, "tier": "business", "tokenLife": "10m0s",
		"rules": []any{
			map[string]any{"name": "leads", "effect": "allow", "matches": true},
			map[string]any{"name": "engineering", "effect": "allow", "matches": true, "why": "leads comes before it"},
			map[string]any{"name": "left-the-company", "effect": "deny", "matches": false, "why": "subjects: wants github:583231, has u"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestEntitlementsMistakes(t *testing.T) {
	s, rules, _ := entitled(t)
	for _, tc := range []struct {
		status int
		says   string
		args   []string
	}{
		{exitUsage, "no rules: set --file", nil},
		{exitUsage, `--output is "yaml", want text or json`, []string{"-f", rules, "-o", "yaml"}},
		{exitUsage, `--claim is "department", want name=value`, []string{"-f", rules, "--claim", "department"}},
		{exitUsage, "entitlements takes no argument", []string{"-f", rules, "x"}},
		{exitFailure, "no such file", []string{"-f", rules + ".gone"}},
		{exitFailure, "rules[0].match: it has no condition", []string{"-f", s.file("bad.yaml", "rules: [{name: a, allow: {}}]")}},
	} {
		s.expect(tc.status, tc.says, append([]string{"entitlements"}, tc.args...)...)
	}
}
