// Package charts holds the charts and the kustomizations to what they say, by Helm's and
// kustomize's own programs: in, values; out, objects.
package charts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	root = "../.."
	// namespace is that of every release here.
	namespace = "completions"
	// The charts, and the folders in testdata with values of them.
	operator, issuer = "ghostline", "ghostline-issuer"
)

// The programs of the tools that hack/tools pins, each built once. HELM and KUSTOMIZE
// name others, such as those of another version.
var programs = map[string]func() (string, error){
	"helm":      sync.OnceValues(func() (string, error) { return build("helm") }),
	"kustomize": sync.OnceValues(func() (string, error) { return build("kustomize") }),
}

func build(name string) (string, error) {
	if path := os.Getenv(strings.ToUpper(name)); path != "" {
		return path, nil
	}
	cmd := exec.Command("go", "tool", "-modfile=hack/tools/go.mod", "-n", name)
	cmd.Dir = root
	// As the Makefile builds it, so that it is built once.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%v: %s", cmd, stderr(err))
	}
	return strings.TrimSpace(string(path)), nil
}

// run runs a tool. Nothing of the user's own settings reaches it, nor a cluster.
func run(t *testing.T, name string, args ...string) (stdout string, err error) {
	t.Helper()
	program, err := programs[name]()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	home := t.TempDir()
	cmd.Env = []string{"HOME=" + home, "KUBECONFIG=" + filepath.Join(home, "none")}
	out, err := cmd.Output()
	if err != nil {
		return string(out), errors.New(stderr(err))
	}
	return string(out), nil
}

func stderr(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return err.Error()
}

// template is what helm makes of a chart for a release of the chart's name.
func template(t *testing.T, chart string, args ...string) (string, error) {
	t.Helper()
	return run(t, "helm", append([]string{"template", chart, chartDir(chart), "--namespace", namespace}, args...)...)
}

func chartDir(chart string) string { return filepath.Join(root, "charts", chart) }

// caseOf is a chart and a file of its values.
type caseOf struct{ chart, name, file string }

// cases are those of testdata: all that the charts are rendered with.
func cases(t *testing.T) []caseOf {
	t.Helper()
	var found []caseOf
	for _, chart := range []string{operator, issuer} {
		files, err := filepath.Glob(filepath.Join("testdata", chart, "*.values.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("chart %s has %d files of values, error %v", chart, len(files), err)
		}
		for _, file := range files {
			found = append(found, caseOf{chart, strings.TrimSuffix(filepath.Base(file), ".values.yaml"), file})
		}
	}
	return found
}

// each runs a test with each case.
func each(t *testing.T, test func(*testing.T, caseOf)) {
	for _, c := range cases(t) {
		t.Run(c.chart+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// render is what a case comes to.
func (c caseOf) render(t *testing.T) string {
	t.Helper()
	out, err := template(t, c.chart, "--values", c.file)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c caseOf) objects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	return decode(t, c.render(t))
}

// decode reads the objects of a stream of YAML. A name that stands twice in one is a
// mistake.
func decode(t *testing.T, stream string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range bytes.SplitSeq([]byte("\n"+stream), []byte("\n---")) {
		var content map[string]any
		if err := yaml.UnmarshalStrict(document, &content); err != nil {
			t.Fatalf("%v in %s", err, document)
		}
		if len(content) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}
	return objects
}

// find is the one object of a kind and a name.
func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			if found != nil {
				t.Fatalf("there are two %s %s", kind, name)
			}
			found = object
		}
	}
	if found == nil {
		t.Fatalf("there is no %s %s", kind, name)
	}
	return found
}

// readFile reads one object from a file of the repository.
func readFile(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	objects := decode(t, string(content))
	if len(objects) != 1 {
		t.Fatalf("%s has %d objects, want one", name, len(objects))
	}
	return objects[0]
}
