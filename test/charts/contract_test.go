package charts

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ghostline-dev/ghostline/controllers/resources"
)

// TestFlags: the programs know the flags that the charts start them with.
func TestFlags(t *testing.T) {
	programs := map[string]string{"operator": "./cmd/operator", "tokenissuer": "./cmd/tokenissuer"}
	each(t, func(t *testing.T, c caseOf) {
		for _, object := range c.objects(t) {
			if object.GetKind() != "Deployment" {
				continue
			}
			container := deployment(t, object).Spec.Template.Spec.Containers[0]
			// With -version the program does nothing but read its flags.
			args := slices.Concat([]string{"run", programs[container.Name]}, container.Args, []string{"-version"})
			cmd := exec.Command("go", args...)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), container.Name+" ") {
				t.Errorf("%s %q: %s, %v", container.Name, container.Args, out, err)
			}
		}
	})
}

// TestNamesOfTheCode: charts and operator call the same things by the same names, by
// which proxies know who may ask their admin ports, and Prometheus finds them.
func TestNamesOfTheCode(t *testing.T) {
	out, err := template(t, operator, "--set", "crds.enabled=false,podMonitor.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	for name, objects := range map[string][]*unstructured.Unstructured{"chart": decode(t, out), "kustomize": kustomized(t)} {
		for _, object := range objects {
			switch object.GetKind() {
			case "Deployment":
				pods := deployment(t, object).Spec.Template
				if got := pods.Labels[resources.LabelName]; got != resources.NameOperator {
					t.Errorf("%s: the operator's pods are called %q, want %q", name, got, resources.NameOperator)
				}
			case "NetworkPolicy":
				checkMonitors(t, object)
			}
		}
	}
	monitor := find(t, decode(t, out), "PodMonitor", operator+"-proxies").Object["spec"]
	want := map[string]any{
		"selector":          map[string]any{"matchLabels": map[string]any{resources.LabelName: resources.NameProxy}},
		"namespaceSelector": map[string]any{"matchNames": []any{namespace}},
		"podMetricsEndpoints": []any{map[string]any{
			"port": resources.PortNameAdmin, "interval": "30s",
			"relabelings": []any{relabeled(resources.LabelRoute, "route"), relabeled(resources.LabelRegion, "region")},
		}},
	}
	if diff := cmp.Diff(any(want), monitor); diff != "" {
		t.Errorf("the proxies' PodMonitor differs (-want +got):\n%s", diff)
	}
}

// relabeled has a label of a pod become one of what is scraped there, by the name that
// Prometheus knows it by.
func relabeled(label, to string) map[string]any {
	from := "__meta_kubernetes_pod_label_" + strings.NewReplacer(".", "_", "/", "_").Replace(label)
	return map[string]any{"sourceLabels": []any{from}, "targetLabel": to}
}

// checkMonitors is of who may read the operator's metrics: who may read the proxies'.
func checkMonitors(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	var policy networkingv1.NetworkPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &policy); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{resources.LabelMonitoring: "true"}
	for _, rule := range policy.Spec.Ingress {
		for _, peer := range rule.From {
			if diff := cmp.Diff(want, peer.NamespaceSelector.MatchLabels); diff != "" {
				t.Errorf("%s lets in others (-want +got):\n%s", policy.Name, diff)
			}
		}
		for _, port := range rule.Ports {
			if *port.Protocol != corev1.ProtocolTCP || port.Port.IntVal != resources.PortAdmin {
				t.Errorf("%s has the port %v", policy.Name, port.Port)
			}
		}
	}
}
