package charts

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
)

// notes are what the user reads after the install.
func notes(t *testing.T, chart string, args ...string) string {
	t.Helper()
	out, err := run(t, "helm", append([]string{"install", chart, chartDir(chart), "--namespace", namespace, "--dry-run=client"}, args...)...)
	if err != nil && os.Getenv("HELM") != "" && strings.Contains(err.Error(), "cluster unreachable") {
		t.Skip("Helm 3 shows notes only where there is a cluster")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(out, "\nNOTES:\n")
	if !found {
		t.Fatalf("there are no notes in %s", out)
	}
	return text
}

func TestNotes(t *testing.T) {
	const github, tls = "testdata/ghostline-issuer/github.values.yaml", "testdata/ghostline-issuer/oidc-tls.values.yaml"
	for _, tc := range []struct {
		chart      string
		args       []string
		want, lack []string
	}{
		{operator, nil, []string{"kubectl get croute -n completions", "runs all regions", "monitoring=true"}, []string{"crds.", "rbac."}},
		{operator, []string{"--set", "region=westeurope,watchNamespace=other"}, []string{"runs the region westeurope", "- name: westeurope", "kubectl get croute -n other", "logs -n completions"}, nil},
		{operator, []string{"--set", "crds.enabled=false,rbac.create=false"}, []string{"crds.enabled is false", "rbac.create is false"}, nil},
		{operator, []string{"--set", "crds.keep=false"}, []string{"crds.keep is false"}, nil},
		{issuer, []string{"--values", github}, []string{"ghostline login --issuer https://tokens.example.com", "audience: completions.example.com", "its ingress needs"}, []string{"trustedEdges", "no entitlements", "signingKeys"}},
		{issuer, []string{"--values", github, "--set-json", "config.trustedEdges=[]", "--set", "entitlements.rules=null"}, []string{"config.trustedEdges is empty", "There are no entitlements"}, nil},
		{issuer, []string{"--values", tls}, []string{"kubectl create secret generic -n completions our-keys", "https://tokens.completions.svc:8443"}, []string{"trustedEdges"}},
	} {
		text := notes(t, tc.chart, tc.args...)
		for _, want := range tc.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s %q: %q is not in the notes:\n%s", tc.chart, tc.args, want, text)
			}
		}
		for _, lack := range tc.lack {
			if strings.Contains(text, lack) {
				t.Errorf("%s %q: %q is in the notes:\n%s", tc.chart, tc.args, lack, text)
			}
		}
	}
}

// TestNotesRoute: the command of the notes, as a shell reads it, applies a route.
func TestNotesRoute(t *testing.T) {
	text := notes(t, operator)
	_, command, _ := strings.Cut(text, "kubectl apply ")
	command, _, _ = strings.Cut(command, "Then see")
	out, err := exec.Command("sh", "-eu", "-c", "kubectl() { cat; }; kubectl apply "+command).Output()
	if err != nil {
		t.Fatal(stderr(err))
	}
	var route v1alpha1.CompletionRoute
	if err := yaml.UnmarshalStrict(out, &route); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if route.Kind != "CompletionRoute" || len(route.Spec.Regions) != 1 || len(route.Spec.Regions[0].Units) != 1 {
		t.Errorf("the route is %s", out)
	}
}
