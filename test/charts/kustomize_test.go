package charts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func kustomized(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	out, err := run(t, "kustomize", "build", root+"/config/default")
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, out)
}

// TestKustomize: config/default has what the chart makes by default, in a namespace of
// its own.
func TestKustomize(t *testing.T) {
	objects := kustomized(t)
	kinds := map[string]int{}
	for _, object := range objects {
		kinds[object.GetKind()]++
		if is := object.GetNamespace(); is != "ghostline" && object.GetKind() != "Namespace" && object.GetKind() != "CustomResourceDefinition" {
			t.Errorf("%s %s is in the namespace %q", object.GetKind(), object.GetName(), is)
		}
	}
	want := map[string]int{"Namespace": 1, "CustomResourceDefinition": 1, "ServiceAccount": 1, "Role": 1, "RoleBinding": 1, "Deployment": 1, "NetworkPolicy": 1}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("the objects differ (-want +got):\n%s", diff)
	}
	for _, file := range []string{"config/rbac/role.yaml", "config/crd/completions.ghostline.dev_completionroutes.yaml"} {
		want := readFile(t, file)
		if diff := cmp.Diff(want.Object, find(t, objects, want.GetKind(), want.GetName()).Object); diff != "" {
			t.Errorf("it differs from %s (-want +got):\n%s", file, diff)
		}
	}
	checkPodSecurity(t, objects)
}

// TestKustomizeRunsAsTheChart: the two ways to install the operator run the same pod.
func TestKustomizeRunsAsTheChart(t *testing.T) {
	out, err := template(t, operator)
	if err != nil {
		t.Fatal(err)
	}
	chart := deployment(t, find(t, decode(t, out), "Deployment", "ghostline"))
	other := deployment(t, find(t, kustomized(t), "Deployment", "ghostline-operator"))
	// The chart says which install it is and which namespace is watched; without that it
	// is the only one, and the namespace is the pod's own.
	container := &chart.Spec.Template.Spec.Containers[0]
	if want := []string{"-install=" + namespace + "/" + operator, "-watch-namespace=" + namespace}; !slices.Equal(container.Args[:2], want) {
		t.Errorf("the chart's arguments are %q, want %q first", container.Args, want)
	}
	container.Args = container.Args[2:]
	chart.Spec.Template.Spec.ServiceAccountName = other.Spec.Template.Spec.ServiceAccountName
	chart.Spec.Template.Labels = other.Spec.Template.Labels
	if diff := cmp.Diff(chart.Spec, other.Spec); diff != "" {
		t.Errorf("config/manager differs from the chart (-chart +kustomize):\n%s", diff)
	}
}

func TestSamples(t *testing.T) {
	out, err := run(t, "kustomize", "build", root+"/config/samples")
	if err != nil || !strings.Contains(out, "kind: CompletionRoute") {
		t.Errorf("%s, %v", out, err)
	}
}

// TestKustomizeOtherNamespace: everything follows the namespace of an overlay, the
// rights too.
func TestKustomizeOtherNamespace(t *testing.T) {
	overlay := t.TempDir()
	base, err := filepath.Abs(root + "/config/default")
	if err != nil {
		t.Fatal(err)
	}
	base, err = filepath.Rel(overlay, base) // which is what kustomize takes
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte("namespace: other\nresources: ["+base+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "kustomize", "build", overlay)
	if err != nil {
		t.Fatal(err)
	}
	objects := decode(t, out)
	for _, object := range objects {
		if is := object.GetNamespace(); is != "" && is != "other" {
			t.Errorf("%s %s is in the namespace %q", object.GetKind(), object.GetName(), is)
		}
	}
	want := []any{map[string]any{"kind": "ServiceAccount", "name": "ghostline-operator", "namespace": "other"}}
	if diff := cmp.Diff(any(want), find(t, objects, "RoleBinding", "ghostline-operator").Object["subjects"]); diff != "" {
		t.Errorf("the rights are of another (-want +got):\n%s", diff)
	}
	find(t, objects, "Namespace", "other")
}
