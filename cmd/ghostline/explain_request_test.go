package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// guide is the page that tells how to try a config.
const guide = "../../docs/mutations.md"

// inGuide is the text that the page has for a pattern with one group.
func inGuide(t *testing.T, pattern string) string {
	t.Helper()
	data, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(data)
	if found == nil {
		t.Fatalf("%s has nothing for %s", guide, pattern)
	}
	return string(found[1])
}

// explaining is a shell with the page's config and request as files.
func explaining(t *testing.T) (s *shell, config, request string) {
	t.Helper()
	s = &shell{t: t, dir: t.TempDir(), env: map[string]string{}}
	config = s.file("proxy.yaml", inGuide(t, "(?s)```yaml\n(# proxy.yaml\n.*?)```"))
	return s, config, s.file("request.json", inGuide(t, "(?s)```json\n(.*?)```"))
}

// TestGuideToExplain runs the page's command and compares what it prints.
func TestGuideToExplain(t *testing.T) {
	s, config, request := explaining(t)
	line := inGuide(t, `\n\$ ghostline (explain .*)\n`)
	want := inGuide(t, "(?s)\n\\$ ghostline explain [^\n]*\n(.*?)```")
	line = strings.NewReplacer("proxy.yaml", config, "request.json", request).Replace(line)
	var args []string
	for _, arg := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1) {
		args = append(args, strings.Trim(arg, "'"))
	}
	if status, out, stderr := s.run(t.Context(), "", args...); status != exitOK || out != want || stderr != "" {
		t.Errorf("%q: status %d, %s\n%s\nwant\n%s", args, status, stderr, out, want)
	}
}

func TestExplainFromStandardInput(t *testing.T) {
	s, config, _ := explaining(t)
	status, out, stderr := s.run(t.Context(), `{"prompt":"<a>","model":"copilot-codex"}`, "explain", "-f", config, "--output", "json", "-")
	var got struct {
		Model string
		Sent  struct {
			Unit string
			Body struct{ Prompt string }
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != exitOK {
		t.Fatalf("status %d, %v in %s, %s", status, err, out, stderr)
	}
	if got.Model != "ghost-code" || got.Sent.Unit == "" || !strings.Contains(got.Sent.Body.Prompt, "<a>") {
		t.Errorf("it says %s", out)
	}
}

// TestExplainSaysWhatIsWrong is each mistake that there is to make.
func TestExplainSaysWhatIsWrong(t *testing.T) {
	s, config, request := explaining(t)
	file := func(name, old, new string) string {
		data, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(data), old, new, 1)
		if text == string(data) {
			t.Fatalf("%q is not in the config", old)
		}
		return s.file(name, text)
	}
	for _, tc := range []struct {
		status int
		says   string
		args   []string
	}{
		{exitUsage, "takes one request", []string{"-f", config}},
		{exitUsage, "takes one request", []string{"-f", config, request, request}},
		{exitUsage, "no config: set --file", []string{request}},
		{exitUsage, `--output is "yaml", want text or json`, []string{"-f", config, "--output", "yaml", request}},
		{exitUsage, "is no header field", []string{"-f", config, "--header", "SECRET", request}},
		{exitUsage, "is no header field", []string{"-f", config, "--header", "A: SECRET\nB: c", request}},
		{exitFailure, "no such file", []string{"-f", config + ".gone", request}},
		{exitFailure, "no such file", []string{"-f", config, request + ".gone"}},
		{exitFailure, "neither YAML nor JSON", []string{"-f", s.file("no.yaml", "a: ["), request}},
		{exitFailure, "it is a Secret; explain reads a CompletionRoute, or a proxy's config", []string{"-f", s.file("secret.yaml", "kind: Secret\n"), request}},
		{exitFailure, "apiVersion is \"\"; it must be completions.ghostline.dev/v1alpha1", []string{"-f", s.file("route.yaml", "kind: CompletionRoute\nspec: {}\n"), request}},
		{exitUsage, "--region goes with a CompletionRoute", []string{"-f", config, "--region", "eu-west", request}},
		{exitUsage, "there is no CompletionRoute in the files", []string{"-f", config, "-f", config, request}},
		{exitFailure, `unknown field "regoin"`, []string{"-f", file("typo.yaml", "region: eu-west\ntokens", "regoin: eu-west\ntokens"), request}},
		{exitFailure, "mutations[0].body[0].op", []string{"-f", file("op.yaml", "op: Set", "op: Put"), request}},
		{exitFailure, `mutations[1].body[0].value: is no number`, []string{"-f", file("text.yaml", "value: 200", "value: many"), request}},
		{exitFailure, `the path "/v1/chat" is none of completions`, []string{"-f", config, "--path", "/v1/chat", request}},
		{exitFailure, "would be answered with status 400: the field \"model\" is missing; this service has: ghost-code", []string{"-f", config, request}},
		{exitFailure, "status 413", []string{"-f", file("small.yaml", "mutations:", "limits: {maxBodyBytes: 10}\nmutations:"), request}},
	} {
		s.expect(tc.status, tc.says, append([]string{"explain"}, tc.args...)...)
		if _, out, stderr := s.run(t.Context(), "", append([]string{"explain"}, tc.args...)...); strings.Contains(out+stderr, "SECRET") {
			t.Errorf("%q: a header is repeated: %s", tc.args, stderr)
		}
	}
}

// TestExplainClientRules tells both of a rule that holds and of a dry run.
func TestExplainClientRules(t *testing.T) {
	s, config, request := explaining(t)
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	config = s.file("rules.yaml", string(data)+`clients:
- {match: {name: copilot.vim, versions: "<1.40.0"}, action: Warn, message: Update it., dryRun: true}
- {match: {name: copilot.vim, versions: "<1.30.0"}, action: Upgrade, message: It is too old.}
- {match: {name: copilot.vim}, action: Allow}
`)
	ask := func(status int, says, version string) string {
		t.Helper()
		return s.expect(status, says, "explain", "-f", config, "--path", "/v1/engines/ghost-code/completions", "--header", "Editor-Plugin-Version: copilot.vim/"+version, request)
	}
	const dryRun = `dry run      clients[0], for copilot.vim <1.40.0: Warn "Update it."` + "\n"
	if out := ask(exitFailure, "would be answered with status 466: It is too old.", "1.29.0"); !strings.Contains(out, dryRun) ||
		!strings.Contains(out, `client rule  clients[1], for copilot.vim <1.30.0: Upgrade "It is too old."`) || strings.Contains(out, "To eu-west") {
		t.Errorf("an old one: %s", out)
	}
	if out := ask(exitOK, "client rule  clients[2], for copilot.vim: Allow\n", "1.39.0"); !strings.Contains(out, dryRun) || !strings.Contains(out, "\nTo eu-west") {
		t.Errorf("one that is served: %s", out)
	}
	if out := ask(exitOK, "client rule  clients[2]", "1.41.0"); strings.Contains(out, "dry run") {
		t.Errorf("a new one: %s", out)
	}
}
