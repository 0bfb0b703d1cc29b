package resources

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/compile"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldens are the routes whose objects are in testdata/NAME.out.yaml: those of
// testdata/NAME.in.yaml, and the samples.
func goldens(t *testing.T) map[string]string {
	t.Helper()
	routes := map[string]string{}
	for _, pattern := range []string{"testdata/*.in.yaml", "../../config/samples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, error %v", pattern, len(files), err)
		}
		for _, file := range files {
			name, isInput := strings.CutSuffix(filepath.Base(file), ".in.yaml")
			if !isInput {
				name = "sample-" + strings.TrimSuffix(name, ".yaml")
			}
			routes[name] = file
		}
	}
	return routes
}

// readRoute reads a route, the first document of a file, as the API server would
// store it.
func readRoute(t *testing.T, file string) *v1alpha1.CompletionRoute {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(data, []byte("\n---\n"))
	route := &v1alpha1.CompletionRoute{}
	if err := yaml.UnmarshalStrict(first, route); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	route.Namespace, route.UID = "completions", "1b671a64-40d5-491e-99b0-da01ff1f3341"
	return route
}

// regionsOf are a route's regions as the operator hands them over.
func regionsOf(route *v1alpha1.CompletionRoute) []Region {
	var regions []Region
	for _, region := range route.Spec.Regions {
		regions = append(regions, Region{
			Route: route,
			Name:  string(region.Name),
			Proxy: compile.ProxyOf(route, string(region.Name)),
			Image: "registry.example.com/ghostline/proxy:v1.0.0",
		})
	}
	return regions
}

// everything is all that is applied of a region.
func everything(region Region) []runtime.ApplyConfiguration {
	return append([]runtime.ApplyConfiguration{
		region.ConfigMap(map[string][]byte{EntryConfig: []byte("{}\n"), EntryLastConfig: []byte("{}\n")}),
		region.Credentials(map[string][]byte{"weu-1-2bb80d53": []byte("a key")}),
	}, region.Objects()...)
}

func TestGolden(t *testing.T) {
	for name, file := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			for _, region := range regionsOf(readRoute(t, file)) {
				for _, object := range everything(region) {
					data, err := yaml.Marshal(object)
					if err != nil {
						t.Fatal(err)
					}
					got.WriteString("---\n")
					got.Write(data)
				}
			}
			golden := filepath.Join("testdata", name+".out.yaml")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v; go test -update writes it", err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s differs, - is the file; go test -update writes it anew:\n%s", golden, diff)
			}
		})
	}
}

// TestGoldenFilesHaveInputs: a file that no test compares with tells nothing.
func TestGoldenFilesHaveInputs(t *testing.T) {
	routes := goldens(t)
	files, err := filepath.Glob("testdata/*.out.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := routes[strings.TrimSuffix(filepath.Base(file), ".out.yaml")]; !ok {
			t.Errorf("%s has no input", file)
		}
	}
}
