package config

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/strictyaml"
)

// TestValidateClients breaks a good rule in one way each.
func TestValidateClients(t *testing.T) {
	rule := func(change func(*ClientRule)) func(*Config) {
		return func(c *Config) { change(&c.Clients[0]) }
	}
	message := func(text string) func(*Config) {
		return rule(func(r *ClientRule) { r.Message = text })
	}
	for _, tc := range []struct {
		path  string
		spoil func(*Config)
		right string
	}{
		{"clients", func(c *Config) { c.Clients = slices.Repeat(c.Clients[:1], maxClientRules+1) }, "has 65 entries; at most 64 are allowed"},
		{"clients[0].match.name", rule(func(r *ClientRule) { r.Match.Name = "" }), "such as copilot.vim"},
		{"clients[0].match.name", rule(func(r *ClientRule) { r.Match.Name = "copilot vim" }), "such as copilot.vim"},
		{"clients[0].match.name", rule(func(r *ClientRule) { r.Match.Name = "copilot.vim/1.40.0" }), "the name is what stands before the slash"},
		{"clients[0].match.name", rule(func(r *ClientRule) { r.Match.Name = "OpenAI/Python/1.2" }), "the name is what stands before the slash"},
		{"clients[0].match.name", rule(func(r *ClientRule) { r.Match.Name = strings.Repeat("x", 65) }), "1 to 64 letters"},
		{"clients[0].match.versions", rule(func(r *ClientRule) { r.Match.Versions = "old" }), `"old" is no range of versions; it must be`},
		{"clients[0].match.versions", rule(func(r *ClientRule) { r.Match.Versions = "<1.5.29.7524" }), "versions of up to three numbers"},
		{"clients[0].match.versions", rule(func(r *ClientRule) { r.Match.Versions = strings.Repeat("1", 257) }), "has 257 bytes"},
		{"clients[0].action", rule(func(r *ClientRule) { r.Action = "" }), "it must be one of Allow, Warn, Upgrade"},
		{"clients[0].action", rule(func(r *ClientRule) { r.Action = "upgrade" }), "it must be one of Allow, Warn, Upgrade"},
		{"clients[0].message", message(""), "is missing; it must tell the user what to do"},
		{"clients[0].message", message(strings.Repeat("x", 1025)), "has 1025 bytes; it must be at most 1024"},
		{"clients[0].message", message("a\nb"), "one line of visible text"},
		{"clients[0].message", message("a\x1b[31mb"), "one line of visible text"},
		{"clients[0].message", message("a\u202eb"), "one line of visible text"},
		{"clients[0].message", message(" a"), "one line of visible text"},
		{"clients[0].message", rule(func(r *ClientRule) { r.Action, r.Message = ActionWarn, "Bitte erneuern: ü" }), "must be ASCII for Warn"},
		{"clients[0].message", rule(func(r *ClientRule) { r.Action = ActionAllow }), "goes only with Warn and Upgrade"},
		{"clients[0].dryRun", rule(func(r *ClientRule) { r.Action = ActionAllow }), "remove the rule instead"},
		{"clients[2]", func(c *Config) {
			again := c.Clients[1]
			again.Match = ClientMatch{Name: "VSCode", Versions: "<1"}
			c.Clients = append(c.Clients, again)
		}, "can never count, since clients[1] is for all versions of VSCode"},
	} {
		t.Run(tc.path+" "+tc.right, func(t *testing.T) {
			c := full()
			tc.spoil(c)
			for name, err := range decodeBoth(t, c) {
				assertProblem(t, name, err, tc.path, tc.right)
			}
		})
	}
}

func TestClientRulesThatAreRight(t *testing.T) {
	for name, rules := range map[string][]ClientRule{
		"none":                    nil,
		"a message in any script": {{Match: ClientMatch{Name: "copilot"}, Action: ActionUpgrade, Message: "Bitte erneuern: „1.40“ 更新"}},
		"a warning":               {{Match: ClientMatch{Name: "OpenAI/Python", Versions: "<1 || >=2 <2.3"}, Action: ActionWarn, Message: strings.Repeat("x", maxClientMessage)}},
		"a dry run does not hide what follows": {
			{Match: ClientMatch{Name: "copilot"}, Action: ActionUpgrade, Message: "x", DryRun: true},
			{Match: ClientMatch{Name: "copilot", Versions: "<1"}, Action: ActionUpgrade, Message: "x"},
			{Match: ClientMatch{Name: "copilot"}, Action: ActionAllow},
		},
		"as many as can be": slices.Repeat([]ClientRule{{Match: ClientMatch{Name: "copilot", Versions: "<1"}, Action: ActionAllow}}, maxClientRules),
	} {
		t.Run(name, func(t *testing.T) {
			c := full()
			c.Clients = rules
			for mode, err := range decodeBoth(t, c) {
				if err != nil {
					t.Errorf("%s: %v", mode, err)
				}
			}
		})
	}
}

// decodeBoth is what either way of decoding says of the config.
func decodeBoth(t *testing.T, c *Config) map[string]error {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]error{"strict": modes["strict"](data), "lenient": modes["lenient"](data)}
}

// TestClientRulesOfThePage: the rules that the page shows are right.
func TestClientRulesOfThePage(t *testing.T) {
	const page = "../../docs/clients.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(data), "\n```yaml\nclients:\n")
	example, _, _ = strings.Cut(example, "\n```\n")
	c := full()
	rules := &struct {
		Clients []ClientRule `json:"clients"`
	}{}
	if err := strictyaml.Decode([]byte("clients:\n"+example), rules); err != nil || len(rules.Clients) < 3 {
		t.Fatalf("%s: %d rules, %v", page, len(rules.Clients), err)
	}
	c.Clients = rules.Clients
	for mode, err := range decodeBoth(t, c) {
		if err != nil {
			t.Errorf("%s, %s: %v", page, mode, err)
		}
	}
}
