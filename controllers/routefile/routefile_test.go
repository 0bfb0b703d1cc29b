package routefile_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/controllers/compile"
	"github.com/ghostline-dev/ghostline/controllers/routefile"
)

func sample(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../config/samples/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestDefaults: an object has the defaults of the definition, and keeps what it says.
func TestDefaults(t *testing.T) {
	t.Parallel()
	text := sample(t, "small") + "  timeouts: {total: 30s}\n  limits: {perSubject: {burst: 5}}\n"
	content, err := routefile.Read(t.Context(), routefile.File{Name: "small", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	spec := content.Route.Spec
	if spec.Regions[0].Units[0].Protocol != "Auto" || spec.Timeouts.Total != "30s" || spec.Timeouts.FirstByte != "5s" ||
		spec.Limits.InFlight != 10000 || spec.Limits.PerSubject.Burst != 5 || spec.Limits.PerSubject.Sessions != 4 {
		t.Errorf("the route is %+v, %+v, %+v", spec.Regions[0].Units[0], spec.Timeouts, spec.Limits)
	}
}

// TestRefusals is each kind of mistake; no value of a Secret is ever told.
func TestRefusals(t *testing.T) {
	t.Parallel()
	small := sample(t, "small")
	changed := func(old, new string) string {
		if !strings.Contains(small, old) {
			t.Fatalf("%q is not in the sample", old)
		}
		return strings.Replace(small, old, new, 1)
	}
	const secret = "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
	for name, tc := range map[string]struct {
		text, says string
		route      bool // there is one to compile all the same
	}{
		"the wrong version":   {changed("v1alpha1", "v1beta1"), `apiVersion is "completions.ghostline.dev/v1beta1"; it must be completions.ghostline.dev/v1alpha1`, false},
		"no name":             {changed("name: ghost\n", "labels: {}\n"), "metadata.name is missing", false},
		"a bad name":          {changed("name: ghost\n", "name: Ghost\n"), "metadata.name must be 1 to 40 lower-case letters", true},
		"an unknown field":    {changed("weight: 1", "wieght: 1"), `unknown field "spec.models[0].variants[0].wieght"`, true},
		"unknown metadata":    {changed("name: ghost\n", "name: ghost\n  label: {}\n"), `unknown field "metadata.label"`, true},
		"a wrong type":        {changed("weight: 1", "weight: heavy"), "spec.models[0].variants[0].weight", false},
		"a rule":              {changed("weight: 1", "weight: 0"), "at least one of variants must have a weight above 0", true},
		"a name twice":        {changed("    - name: stable\n", "    - name: stable\n      weight: 1\n    - name: stable\n"), `spec.models[0].variants[1]: Duplicate value`, true},
		"a field twice":       {changed("weight: 1", "weight: 1\n      weight: 2"), "document 1: is not YAML, or has a field twice", false},
		"a second route":      {small + "\n---\n" + small, "document 2: is a second CompletionRoute", false},
		"none":                {"# nothing\n", "there is no CompletionRoute", false},
		"a Secret in plain":   {small + secret + "data: {key: hunter2!}\n", "is no Secret; data must hold texts in base64", true},
		"a Secret of numbers": {small + secret + "stringData: {key: 31337}\n", "is no Secret", true},
		"broken YAML":         {small + secret + "stringData: {key: hunter2\n", "document 2: is not YAML", false},
	} {
		content, err := routefile.Read(t.Context(), routefile.File{Name: "f", Data: []byte(tc.text)})
		if err == nil || !strings.Contains(err.Error(), tc.says) || (content != nil) != tc.route {
			t.Errorf("%s: content %v, error %v; want %v and %q", name, content != nil, err, tc.route, tc.says)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "31337") {
			t.Errorf("%s: the error tells the secret: %v", name, err)
		}
		for line := range strings.Lines(err.Error()) {
			if !strings.HasPrefix(line, "f, document ") && tc.says != "there is no CompletionRoute" {
				t.Errorf("%s: the line %q does not say where", name, line)
			}
		}
	}
}

// TestPlaceholders: what no file has is made up, what one has stays, and what an
// object lacks stays missing.
func TestPlaceholders(t *testing.T) {
	t.Parallel()
	route, rest, _ := strings.Cut(sample(t, "full"), "\n---\n")
	content, err := routefile.Read(t.Context(), routefile.File{Name: "route", Data: []byte(route)},
		routefile.File{Name: "rest", Data: []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: weu-1}\ndata: {other: a2V5}\n")})
	if err != nil {
		t.Fatal(err)
	}
	added, err := content.AddPlaceholders("westeurope")
	if err != nil || len(added) != 4 {
		t.Fatalf("%v, error %v", added, err)
	}
	result := compile.Region(content.Route, "westeurope", content.References)
	if len(result.Problems) != 1 || !strings.Contains(result.Problems[0].Message, `the Secret "weu-1" has no entry "api-key"; it has other`) {
		t.Errorf("the problems are %v", result.Problems)
	}
	content, err = routefile.Read(t.Context(), routefile.File{Name: "all", Data: []byte(route + "\n---\n" + rest)})
	if err != nil {
		t.Fatal(err)
	}
	if added, err := content.AddPlaceholders("westeurope"); len(added) > 0 || err != nil {
		t.Errorf("with all there: %v, error %v", added, err)
	}
}

func TestHasRoute(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		sample(t, "small"): true, "kind: CompletionRoute\na: [": true, "region: a\n": false, "kind: Secret\n": false, "": false,
	} {
		if got := routefile.HasRoute([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
