package compile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/compile"
	"github.com/ghostline-dev/ghostline/controllers/routefile"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"sigs.k8s.io/yaml"
)

// FuzzRegion compiles whatever decodes as a CompletionRoute, valid or not, with
// everything that it refers to or with nothing.
func FuzzRegion(f *testing.F) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		f.Fatalf("%d inputs, error %v", len(inputs), err)
	}
	for _, input := range append(inputs, "../../config/samples/full.yaml") {
		data, err := os.ReadFile(input)
		if err != nil {
			f.Fatal(err)
		}
		first, _, _ := bytes.Cut(data, []byte("\n---\n"))
		f.Add(first, true)
		f.Add(first, false)
	}
	f.Fuzz(func(t *testing.T, data []byte, resolved bool) {
		var route v1alpha1.CompletionRoute
		if yaml.Unmarshal(data, &route) != nil {
			return
		}
		for i, region := range route.Spec.Regions {
			if i >= 4 {
				return // each is compiled alike
			}
			checkRegion(t, &route, string(region.Name), resolved)
		}
	})
}

func checkRegion(t *testing.T, route *v1alpha1.CompletionRoute, region string, resolved bool) {
	content := &routefile.Content{Route: route, References: compile.References{
		Secrets: map[string]map[string][]byte{}, ConfigMaps: map[string]map[string]string{},
	}}
	if resolved {
		if _, err := content.AddPlaceholders(region); err != nil {
			t.Fatal(err)
		}
	}
	before := route.DeepCopy()
	result, again := compile.Region(route, region, content.References), compile.Region(before, region, content.References)
	if !bytes.Equal(result.Data, again.Data) || !slices.Equal(result.Problems, again.Problems) {
		t.Errorf("the same route gives\n%s\n%v\nand then\n%s\n%v", result.Data, result.Problems, again.Data, again.Problems)
	}
	if !slices.IsSortedFunc(result.Problems, func(a, b compile.Problem) int { return strings.Compare(a.Path, b.Path) }) {
		t.Errorf("problems are not sorted: %v", result.Problems)
	}
	for _, p := range result.Problems {
		if !strings.HasPrefix(p.Path, "spec") || p.Message == "" || p.Condition == "" || p.Reason == "" || p.Unit != "" && p.Mutation != "" {
			t.Errorf("the problem is %+v", p)
		}
	}
	if result.Config == nil {
		if len(result.Problems) == 0 || result.Data != nil || result.Files != nil || result.Credentials != nil {
			t.Errorf("nothing can be served, but the result is %+v", result)
		}
		return
	}
	checkResult(t, result)
}

// checkResult checks that a config would be taken by a proxy, with all that it names.
func checkResult(t *testing.T, result compile.Result) {
	decoded, err := config.Decode(result.Data)
	if err != nil {
		t.Fatalf("%s: %v", result.Data, err)
	}
	if result.Hash != config.Hash(result.Data) {
		t.Errorf("the hash is %s", result.Hash)
	}
	files := []string{decoded.Tokens.KeySet.File, decoded.Tokens.KeySet.CAFile}
	if decoded.Tokens.DeniedSubjects != nil {
		files = append(files, decoded.Tokens.DeniedSubjects.File)
	}
	var credentials []string
	for _, unit := range decoded.Units {
		if unit.TLS != nil {
			files = append(files, unit.TLS.CAFile)
		}
		credentials = append(credentials, unit.Credential)
	}
	checkNames(t, "file", files, result.Files)
	checkNames(t, "credential", credentials, result.Credentials)
}

// checkNames checks that exactly what the config names is there, by names that the
// entries of a ConfigMap can have.
func checkNames(t *testing.T, what string, named []string, there map[string][]byte) {
	for _, name := range named {
		if _, ok := there[name]; name != "" && !ok {
			t.Errorf("the %s %q is not there", what, name)
		}
	}
	for name := range there {
		if !slices.Contains(named, name) || len(name) > 253 || strings.Trim(name, "-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			t.Errorf("the %s %q is there", what, name)
		}
	}
}
