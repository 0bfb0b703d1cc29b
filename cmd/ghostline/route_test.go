package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

const (
	smallRoute = "../../config/samples/small.yaml"
	fullRoute  = "../../config/samples/full.yaml"
)

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestCompileSamples: the samples are right, and what is printed is what a proxy reads.
func TestCompileSamples(t *testing.T) {
	t.Parallel()
	s := &shell{t: t, dir: t.TempDir(), env: map[string]string{}}
	status, out, stderr := s.run(t.Context(), "", "compile", "-f", smallRoute)
	if want := read(t, "testdata/compile_small.json"); status != exitOK || out != want || stderr != "" {
		t.Errorf("small: status %d, %q\n%s\nwant\n%s", status, stderr, out, want)
	}
	for _, region := range []string{"westeurope", "northeurope"} {
		status, out, stderr := s.run(t.Context(), "", "compile", "-f", fullRoute, "--region", region)
		if status != exitOK || stderr != "" {
			t.Errorf("full, %s: status %d, %q", region, status, stderr)
		}
		if cfg, err := config.Decode([]byte(out)); err != nil || cfg.Region != region {
			t.Errorf("full, %s: %v in %s", region, err, out)
		}
		if strings.Contains(out, "put the key here") {
			t.Errorf("full, %s: a key is printed", region)
		}
	}
}

// TestCompilePlaceholders: a route alone compiles, and it is said what is missing.
func TestCompilePlaceholders(t *testing.T) {
	t.Parallel()
	s := &shell{t: t, dir: t.TempDir(), env: map[string]string{}}
	route, rest, _ := strings.Cut(read(t, fullRoute), "\n---\n")
	file := s.file("route.yaml", route)
	status, out, stderr := s.run(t.Context(), "", "compile", "-f", file, "--region", "westeurope")
	const note = `note: no file has the Secret "weu-1", whose entry "api-key" is for spec.regions[westeurope].units[weu-reserved-1].secretRef; a placeholder takes its place`
	if status != exitOK || !strings.Contains(stderr, note) || strings.Count(stderr, "note: ") != 5 {
		t.Errorf("status %d, %s", status, stderr)
	}
	if cfg, err := config.Decode([]byte(out)); err != nil || len(cfg.Units) != 5 {
		t.Errorf("%v in %s", err, out)
	}
	s.expect(exitFailure, `spec.tokens.deniedSubjects.configMapRef: there is no ConfigMap "ghostline-denied"`, "compile", "-f", file, "--region", "westeurope", "--strict-references")
	if status, _, stderr := s.run(t.Context(), "", "compile", "-f", file, "-f", s.file("rest.yaml", rest), "--region", "westeurope", "--strict-references"); status != exitOK || stderr != "" {
		t.Errorf("two files: status %d, %s", status, stderr)
	}
}

// TestCompileOutput writes all that a proxy reads, for its owner alone.
func TestCompileOutput(t *testing.T) {
	t.Parallel()
	s := &shell{t: t, dir: t.TempDir(), env: map[string]string{}}
	dir := filepath.Join(t.TempDir(), "out")
	if status, out, stderr := s.run(t.Context(), "", "compile", "-f", fullRoute, "--region", "westeurope", "-o", dir); status != exitOK || out+stderr != "" {
		t.Fatalf("status %d, %q, %q", status, out, stderr)
	}
	cfg, err := config.Decode([]byte(read(t, filepath.Join(dir, "config.json"))))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"config.json", "credentials", cfg.Tokens.DeniedSubjects.File}
	for _, unit := range cfg.Units {
		if unit.TLS != nil {
			want = append(want, unit.TLS.CAFile)
		}
		if unit.Credential != "" && read(t, filepath.Join(dir, "credentials", unit.Credential)) != "put the key here" {
			t.Errorf("the credential %s is not the Secret's", unit.Credential)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !slices.Contains(want, entry.Name()) {
			t.Errorf("there is %s, want %q", entry.Name(), want)
		}
		if info, err := entry.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, error %v", entry.Name(), info.Mode(), err)
		}
	}
	if len(entries) != len(want) {
		t.Errorf("there are %v, want %q", entries, want)
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	s.expect(exitFailure, "chmod 700", "compile", "-f", fullRoute, "--region", "westeurope", "-o", open)
}

// TestCompileSaysWhatIsWrong is each kind of mistake.
func TestCompileSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := &shell{t: t, dir: t.TempDir(), env: map[string]string{}}
	changed := func(name, old, new string) string {
		text := read(t, smallRoute)
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in the sample", old)
		}
		return s.file(name, strings.Replace(text, old, new, 1))
	}
	for _, tc := range []struct {
		status int
		says   string
		args   []string
	}{
		{exitUsage, "no route: set --file", nil},
		{exitUsage, "takes no argument", []string{"-f", smallRoute, "x"}},
		{exitUsage, "the route has several regions: set --region to westeurope or northeurope", []string{"-f", fullRoute}},
		{exitUsage, `the route has no region "mars"; it has westeurope`, []string{"-f", smallRoute, "--region", "mars"}},
		{exitFailure, "no such file", []string{"-f", "gone.yaml"}},
		{exitFailure, "is a second CompletionRoute", []string{"-f", smallRoute, "-f", fullRoute}},
		{exitFailure, "there is no CompletionRoute", []string{"-f", s.file("empty.yaml", "# nothing\n")}},
		{exitFailure, "is not YAML", []string{"-f", s.file("broken.yaml", "a: [")}},
		{exitFailure, `unknown field "spec.hostnam"`, []string{"-f", changed("unknown.yaml", "hostname", "hostnam")}},
		{exitFailure, `spec.regions[0].units[0].provider: Unsupported value: "VLM"`, []string{"-f", changed("provider.yaml", "VLLM", "VLM")}},
		{exitFailure, "fillInTheMiddle is required with VLLM", []string{"-f", changed("template.yaml", "      fillInTheMiddle:\n        template: Qwen\n", "")}},
		{exitFailure, `spec.regions[westeurope].units[weu-1].serves: "ghost-code/nxet" names no variant`, []string{"-f", changed("serves.yaml", "ghost-code/stable", "ghost-code/nxet")}},
		{exitFailure, "spec.regions[westeurope].units[weu-1].url: ends in /chat/completions", []string{"-f", changed("url.yaml", "8000/v1/completions", "8000/v1/chat/completions")}},
	} {
		s.expect(tc.status, tc.says, append([]string{"compile"}, tc.args...)...)
	}
}

// TestExplainRoute explains by a route as it does by the config that it gives.
func TestExplainRoute(t *testing.T) {
	t.Parallel()
	s := &shell{t: t, dir: t.TempDir(), env: map[string]string{}}
	request := s.file("request.json", `{"model":"copilot-codex","prompt":"func main() {","max_tokens":900}`)
	args := []string{"--subject", "user-1", "--request-id", "r-1", "--header", "Editor-Plugin-Version: copilot.vim/1.30.0"}
	explain := func(files ...string) string {
		t.Helper()
		status, out, stderr := s.run(t.Context(), "", append(append([]string{"explain"}, files...), append(args, request)...)...)
		if status != exitOK || stderr != "" {
			t.Fatalf("%q: status %d, %s", files, status, stderr)
		}
		return out
	}
	byRoute := explain("-f", fullRoute, "--region", "westeurope")
	_, compiled, _ := s.run(t.Context(), "", "compile", "-f", fullRoute, "--region", "westeurope")
	if byConfig := explain("-f", s.file("config.json", compiled)); byRoute != byConfig {
		t.Errorf("by the route:\n%s\nby its config:\n%s", byRoute, byConfig)
	}
	for _, want := range []string{"model        ghost-code", "weu-reserved-1 (region westeurope, priority 0)", "neu-1 (region northeurope", "mutation     cap-old-plugins: applied", "(the unit's credential)", `"max_tokens":200`} {
		if !strings.Contains(byRoute, want) {
			t.Errorf("%q is not in\n%s", want, byRoute)
		}
	}
	s.expect(exitUsage, "the route has several regions", "explain", "-f", fullRoute, request)
	bad := s.file("bad.yaml", strings.Replace(read(t, fullRoute), "serves: ghost-code/next", "serves: ghost-code/nxet", 1))
	if status, _, stderr := s.run(t.Context(), "", "explain", "-f", bad, "--region", "westeurope", request); status != exitOK ||
		!strings.Contains(stderr, "left out: spec.regions[westeurope].units[weu-next].serves: ") {
		t.Errorf("with a part left out: status %d, %s", status, stderr)
	}
}

// TestUpRoute serves a route's models by its aliases, its rules about clients and its
// mutations, and asks nobody outside: its units and its issuer do not exist.
func TestUpRoute(t *testing.T) {
	t.Parallel()
	s, interrupt := startUp(t, "-f", fullRoute, "--region", "westeurope")
	defer interrupt()
	for _, want := range []string{
		"It serves the CompletionRoute ghost as in the region westeurope:", "  model  ghost-code, copilot-codex, gpt-41-copilot\n",
		"  unit   weu-next for ghost-code/next (region westeurope), played by the model server\n",
		"  unit   neu-1 for ghost-code/stable (region northeurope), played by the model server\n", "The units of the route are not asked.",
	} {
		if !strings.Contains(s.announced, want) {
			t.Errorf("%q is not in what up says:\n%s", want, s.announced)
		}
	}
	token := s.tokens()[0]
	s.stream("/v1/completions", token, `{"model":"gpt-41-copilot","prompt":"func main() {\n\t","max_tokens":8,"stream":true}`)
	var status struct {
		Units []struct{ Name, Region, Problem string }
	}
	if err := json.Unmarshal([]byte(s.admin("/statusz")), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Units) != 5 {
		t.Errorf("the units are %+v", status.Units)
	}
	for _, unit := range status.Units {
		if unit.Problem != "" {
			t.Errorf("the unit %s: %s", unit.Name, unit.Problem)
		}
	}
	s.expect(exitUsage, "--region goes with --file", "up", "--dir", s.dir, "--region", "westeurope")
	s.expect(exitFailure, "there is no CompletionRoute", "up", "--dir", s.dir, "-f", s.file("none.yaml", "{}\n"))
}
