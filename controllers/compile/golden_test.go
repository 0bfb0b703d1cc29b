package compile_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/controllers/compile"
	"github.com/ghostline-dev/ghostline/controllers/routefile"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write testdata/*.out.yaml anew")

// golden is what a testdata/*.out.yaml holds.
type golden struct {
	// Refused is what an API server would say before anything is compiled.
	Refused     []string        `json:"refused,omitempty"`
	Problems    []goldenProblem `json:"problems,omitempty"`
	Files       []string        `json:"files,omitempty"`
	Credentials []string        `json:"credentials,omitempty"`
	Config      any             `json:"config"`
}

type goldenProblem struct {
	Condition string `json:"condition"`
	Reason    string `json:"reason"`
	Path      string `json:"path"`
	Message   string `json:"message"`
	Unit      string `json:"unit,omitempty"`
	Mutation  string `json:"mutation,omitempty"`
}

// regionLine is the first line of an input.
var regionLine = regexp.MustCompile(`^# Region (\S+): (.+)\.\n`)

// TestGolden compiles each testdata/*.in.yaml, a route with the Secrets and ConfigMaps
// that it refers to, and compares the outcome. An object that an API server would
// refuse is compiled all the same: the operator may meet one that an older definition
// let pass.
func TestGolden(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) < 30 {
		t.Fatalf("%d inputs, error %v", len(inputs), err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".in.yaml"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			got := compileGolden(t, data)
			output := strings.TrimSuffix(input, ".in.yaml") + ".out.yaml"
			if *update {
				if err := os.WriteFile(output, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(output)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got; -update writes it anew):\n%s", output, diff)
			}
		})
	}
}

func compileGolden(t *testing.T, data []byte) []byte {
	t.Helper()
	head := regionLine.FindSubmatch(data)
	if head == nil {
		t.Fatal("the first line must be such as: # Region westeurope: what this shows.")
	}
	content, refused := routefile.Read(t.Context(), routefile.File{Name: "route", Data: data})
	if content == nil {
		t.Fatal(refused)
	}
	result := compile.Region(content.Route, string(head[1]), content.References)
	out := golden{
		Files: slices.Sorted(maps.Keys(result.Files)), Credentials: slices.Sorted(maps.Keys(result.Credentials)),
	}
	for _, p := range result.Problems {
		out.Problems = append(out.Problems, goldenProblem(p))
	}
	if refused != nil {
		out.Refused = strings.Split(refused.Error(), "\n")
	}
	if err := yaml.UnmarshalStrict(result.Data, &out.Config); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range content.References.Secrets {
		for key, secret := range value {
			if secret := strings.TrimSpace(string(secret)); secret != "" && strings.Contains(string(text), secret) {
				t.Errorf("the entry %s of a Secret is in what is printed", key)
			}
		}
	}
	return text
}
