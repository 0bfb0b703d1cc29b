package charts

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// definition is the specification of the CRD, which TestDefinition compares.
var definition = regexp.MustCompile(`(?s)(kind: CustomResourceDefinition\n.*?\nspec:\n).*?(\n---\n)`)

// TestGolden: what each case comes to is in a file beside its values, for the eye.
func TestGolden(t *testing.T) {
	each(t, func(t *testing.T, c caseOf) {
		// Helm 4 leaves a line between objects, Helm 3 does not.
		out := strings.ReplaceAll(c.render(t), "\n\n---\n", "\n---\n")
		got := definition.ReplaceAllString(out, "$1  # that of config/crd$2")
		file := strings.TrimSuffix(c.file, ".values.yaml") + ".out.yaml"
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s differs; run go test ./test/charts -update if it should (-want +got):\n%s", file, diff)
		}
	})
}

func TestLint(t *testing.T) {
	each(t, func(t *testing.T, c caseOf) {
		out, err := run(t, "helm", "lint", "--strict", chartDir(c.chart), "--values", c.file)
		if err != nil || !strings.Contains(out, "0 chart(s) failed") {
			t.Errorf("%s%v", out, err)
		}
	})
}
