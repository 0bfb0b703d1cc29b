package depcheck

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const moduleRoot = "../.."

func TestModuleKeepsImportRules(t *testing.T) {
	// Opened so that the go command reruns this test, rather than answer from
	// its cache, when a dependency changes.
	if _, err := os.ReadFile(filepath.Join(moduleRoot, "go.mod")); err != nil {
		t.Fatal(err)
	}
	module, err := Load(t.Context(), moduleRoot)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(module.Packages, func(pkg Package) bool {
		return pkg.Path == module.Path+"/internal/depcheck" && len(pkg.Files) > 0
	}) {
		t.Fatalf("this very package is not among the %d packages of %s that were read", len(module.Packages), module.Path)
	}
	for _, violation := range module.Check(Rules()) {
		t.Error(violation)
	}
}

func TestModuleKeepsFolders(t *testing.T) {
	violations, err := CheckFolders(moduleRoot)
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range violations {
		t.Error(violation)
	}
}

// planted is a module of one file, and what the rules say of it.
type planted struct {
	name    string
	file    string
	imports string
	want    string // a part of the only violation's message; "" means none
}

func plantings() []planted {
	return []planted{
		{"cmd imported", "hack/demo/main.go", "m/cmd/proxy/flags", "pkg hack/demo imports cmd/proxy/flags (in hack/demo/main.go): nothing imports cmd"},
		{"cmd imported by a test", "test/api/x_test.go", "m/cmd/proxy", "nothing imports cmd"},
		{"api in proxy", "proxy/match.go", "m/api/v1alpha1", "know nothing of Kubernetes"},
		{"controllers in client", "client/client.go", "m/controllers/compile", "know nothing of Kubernetes"},
		{"k8s.io in tokenissuer", "tokenissuer/keys/secret.go", "k8s.io/api/core/v1", "know nothing of Kubernetes"},
		{"controller-runtime in a test of proxy", "proxy/config/x_test.go", "sigs.k8s.io/controller-runtime", "know nothing of Kubernetes"},
		{"the Secret store in tokenissuer's tests", "tokenissuer/x_test.go", "m/internal/secretstore", ""},
		{"the Secret store in another command", "cmd/ghostline/keys.go", "m/internal/secretstore", "only cmd/tokenissuer plugs in"},
		{"the Secret store in cmd/tokenissuer", "cmd/tokenissuer/main.go", "m/internal/secretstore", ""},
		{"sigs.k8s.io/yaml is not Kubernetes", "proxy/config/decode.go", "sigs.k8s.io/yaml", ""},
		{"tokenissuer in proxy", "proxy/auth/auth.go", "m/tokenissuer/keys", "proxy meets tokenissuer only"},
		{"tokenissuer in a test of proxy", "proxy/auth/auth_test.go", "m/tokenissuer/keys", ""},
		{"proxy in tokenissuer", "tokenissuer/server.go", "m/proxy/config", "tokenissuer meets proxy only"},
		{"token in tokenissuer", "tokenissuer/server.go", "m/internal/token", ""},
		{"proxy in client", "client/client.go", "m/proxy", "client shares the event framing"},
		{"sse in client", "client/client.go", "m/proxy/sse", ""},
		{"proxy in controllers", "controllers/x_controller.go", "m/proxy", "controllers write proxy/config"},
		{"config in controllers", "controllers/compile/compile.go", "m/proxy/config", ""},
		{"files in compile", "controllers/compile/compile.go", "os", "compile and resources are pure"},
		{"sockets in the objects", "controllers/resources/deployment.go", "net/http", "compile and resources are pure"},
		{"files in a test of compile", "controllers/compile/x_test.go", "os", ""},
		{"a cluster in routes from files", "controllers/routefile/schema.go", "k8s.io/client-go/rest", "without a cluster to ask"},
		{"logic in api", "api/v1alpha1/types.go", "m/internal/token", "api holds types"},
		{"api in api", "api/v1beta1/convert.go", "m/api/v1alpha1", ""},
		{"proxy in its config", "proxy/config/config.go", "m/proxy/provider", "proxy/config is a leaf"},
		{"module in sse", "proxy/sse/sse.go", "m/internal/token", "proxy/sse is a leaf"},
		{"http in token", "internal/token/verify.go", "net/http", "internal/token checks claims"},
		{"files in a dialect", "proxy/provider/openai.go", "os", "do no I/O"},
		{"files in the wire config", "proxy/config/decode.go", "os", "do no I/O"},
		{"sockets in sse", "proxy/sse/reader.go", "net", "do no I/O"},
		{"a URL is no socket", "proxy/provider/azure.go", "net/url", ""},
		{"http in a stage", "proxy/match.go", "net/http", "pkg proxy imports net/http (in proxy/match.go): deciding is kept apart"},
		{"x/net/http2 in a stage", "proxy/prepare.go", "golang.org/x/net/http2", "deciding is kept apart"},
		{"http in a stage's test", "proxy/match_test.go", "net/http", ""},
		{"http in the server", "proxy/server.go", "net/http", ""},
		{"http in the fetch of keys", "proxy/auth/keys.go", "net/http", ""},
		{"http in the pool", "proxy/upstream/pool.go", "net/http", ""},
		{"http below the pool", "proxy/upstream/policy/p.go", "net/http", "deciding is kept apart"},
		{"a server.go elsewhere", "proxy/auth/server.go", "net/http", "deciding is kept apart"},
		{"a dialect in the stand-ins", "test/strict/vllm.go", "m/proxy/provider", "test/strict is written from the providers' references alone"},
		{"a dialect in the stand-ins' tests", "test/strict/vllm_test.go", "m/proxy/provider", "test/strict is written"},
		{"a name that only begins alike", "proxyish/x.go", "k8s.io/api/core/v1", ""},
	}
}

func TestRulesFindPlantedViolations(t *testing.T) {
	for _, p := range plantings() {
		t.Run(p.name, func(t *testing.T) {
			got := p.module().Check(Rules())
			if p.want == "" {
				if len(got) > 0 {
					t.Errorf("want no violation, got %q", got)
				}
				return
			}
			if len(got) != 1 || !strings.Contains(got[0], p.want) {
				t.Errorf("want one violation with %q, got %q", p.want, got)
			}
		})
	}
}

func TestEveryRuleIsPlanted(t *testing.T) {
	for _, rule := range Rules() {
		if !slices.ContainsFunc(plantings(), func(p planted) bool { return len(p.module().Check([]Rule{rule})) > 0 }) {
			t.Errorf("no planted violation breaks the rule %q", rule.Because)
		}
	}
}

func (p planted) module() *Module {
	pkg := Package{
		Path:  "m/" + filepath.ToSlash(filepath.Dir(p.file)),
		Files: []File{{Name: p.file, Imports: []string{p.imports}}},
	}
	if !strings.HasSuffix(p.file, "_test.go") {
		pkg.Imports = pkg.Files[0].Imports
	}
	return &Module{Path: "m", Packages: []Package{pkg}}
}

func TestDeepRuleNamesTheWay(t *testing.T) {
	module := &Module{Path: "m", Packages: []Package{
		{Path: "m/proxy", Imports: []string{"m/internal/a", "example.org/lib"}},
		{Path: "m/internal/a", Imports: []string{"fmt"}},
		{Path: "example.org/lib", Imports: []string{"example.org/lib/deep", "m/proxy"}},
		{Path: "example.org/lib/deep", Imports: []string{"k8s.io/api"}},
	}}
	rule := Rule{From: []string{"./proxy"}, Deny: []string{"k8s.io/..."}, Deep: true, Because: "no"}
	want := []string{"pkg proxy imports k8s.io/api (by way of example.org/lib → example.org/lib/deep): no"}
	if got := module.Check([]Rule{rule}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	rule.Deep = false
	if got := module.Check([]Rule{rule}); len(got) > 0 {
		t.Errorf("a rule that is not deep found %q", got)
	}
}

func TestLoadReadsARealModule(t *testing.T) {
	root := writeModule(t, map[string]string{
		"go.mod":              "module example.org/planted\n\ngo 1.26.0\n",
		"proxy/match.go":      "package proxy\n\nimport _ \"net/http\"\n",
		"proxy/server.go":     "package proxy\n\nimport (\n\t_ \"net/http\"\n\n\t_ \"example.org/planted/internal/a\"\n)\n",
		"internal/a/a.go":     "package a\n\nimport _ \"example.org/planted/tokenissuer\"\n",
		"tokenissuer/x.go":    "package tokenissuer\n",
		"tests/common/x.go":   "package common\n",
		"cmd/x/flags/x.go":    "package flags\n",
		"client/a_test.go":    "package client\n\nimport _ \"example.org/planted/cmd/x/flags\"\n",
		"client/testdata/a.c": "",
	})
	module, err := Load(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, violation := range module.Check(Rules()) {
		what, _, _ := strings.Cut(violation, "):")
		got = append(got, what)
	}
	want := []string{
		"pkg client imports cmd/x/flags (in client/a_test.go",
		"pkg proxy imports net/http (in proxy/match.go",
		"pkg proxy imports tokenissuer (by way of internal/a",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	folders, err := CheckFolders(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) != 2 || !strings.HasPrefix(folders[0], "folder tests: ") || !strings.HasPrefix(folders[1], "folder tests/common: ") {
		t.Errorf("want the folders tests and tests/common refused, got %q", folders)
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	root := writeModule(t, map[string]string{
		"go.mod": "module example.org/planted\n\ngo 1.26.0\n",
		"x.go":   "package x\n\nimport _ \"example.org/planted/nowhere\"\n",
	})
	_, err := Load(t.Context(), root)
	if err == nil || !strings.Contains(err.Error(), "example.org/planted/nowhere") {
		t.Errorf("want an error that names the missing package, got %v", err)
	}
}

func writeModule(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
