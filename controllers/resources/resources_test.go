package resources

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
)

func list(cpu, memory string) corev1.ResourceList {
	quantities := corev1.ResourceList{}
	if cpu != "" {
		quantities[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		quantities[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return quantities
}

func TestResources(t *testing.T) {
	for _, tc := range []struct {
		name             string
		wanted           *corev1.ResourceRequirements
		requests, limits corev1.ResourceList
		memory           string // GOMEMLIMIT
	}{
		{"nothing said", nil, list("500m", "128Mi"), nil, ""},
		{"said to be nothing", &corev1.ResourceRequirements{}, list("500m", "128Mi"), nil, ""},
		{"one request", &corev1.ResourceRequirements{Requests: list("2", "")}, list("2", "128Mi"), nil, ""},
		{"a memory limit", &corev1.ResourceRequirements{Limits: list("", "1000M")}, list("500m", ""), list("", "1000M"), "900000000"},
		{"limits only", &corev1.ResourceRequirements{Limits: list("1", "1000M")}, nil, list("1", "1000M"), "900000000"},
		{"all", &corev1.ResourceRequirements{Requests: list("1", "100M"), Limits: list("4", "200M")}, list("1", "100M"), list("4", "200M"), "180000000"},
	} {
		region := smallRegion(t)
		region.Proxy.Resources = tc.wanted
		container := deploymentOf(t, region).Spec.Template.Spec.Containers[0]
		want := corev1.ResourceRequirements{Requests: tc.requests, Limits: tc.limits}
		if diff := cmp.Diff(want, container.Resources); diff != "" {
			t.Errorf("%s: - is wanted:\n%s", tc.name, diff)
		}
		memory := ""
		for _, env := range container.Env {
			if env.Name == "GOMEMLIMIT" {
				memory = env.Value
			}
		}
		if memory != tc.memory {
			t.Errorf("%s: GOMEMLIMIT is %q, want %q", tc.name, memory, tc.memory)
		}
	}
}

// TestConfigMapKeepsBytes: what is no text stays as it is.
func TestConfigMapKeepsBytes(t *testing.T) {
	object := smallRegion(t).ConfigMap(map[string][]byte{"text": []byte("grün"), "bytes": {0xff, 0}})
	if diff := cmp.Diff(map[string]string{"text": "grün"}, object.Data); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string][]byte{"bytes": {0xff, 0}}, object.BinaryData); diff != "" {
		t.Error(diff)
	}
}

// TestHandover: a Deployment whose number of proxies is handed over keeps it, and one
// where it is not loses it.
func TestHandover(t *testing.T) {
	const operator = "operator"
	for _, handOver := range []bool{true, false} {
		region := smallRegion(t)
		deployments := fake.NewClientset().AppsV1().Deployments(region.Route.Namespace)
		apply := func(region Region) *int32 {
			live, err := deployments.Apply(t.Context(), region.Deployment(), metav1.ApplyOptions{FieldManager: operator, Force: true})
			if err != nil {
				t.Fatal(err)
			}
			return live.Spec.Replicas
		}
		before := apply(region)
		if before == nil || *before != defaultReplicas {
			t.Fatalf("%v proxies run, want %d", before, defaultReplicas)
		}
		if handOver {
			_, err := deployments.Apply(t.Context(), region.Handover(*before), metav1.ApplyOptions{FieldManager: "autoscaling"})
			if err != nil {
				t.Fatal(err)
			}
		}
		region.Proxy.Autoscaling = &v1alpha1.Autoscaling{Max: 9}
		after := apply(region)
		if kept := after != nil && *after == *before; kept != handOver {
			t.Errorf("handed over: %v; kept: %v", handOver, kept)
		}
	}
}

// TestOperatorElsewhere: only the pods of the namespace that the operator runs in may
// ask the admin port, not whatever calls itself so.
func TestOperatorElsewhere(t *testing.T) {
	region := smallRegion(t)
	for _, tc := range []struct {
		namespace string
		want      map[string]string // labels of the namespace; nil is the route's own
	}{
		{"", nil},
		{region.Route.Namespace, nil},
		{"ghostline-system", map[string]string{"kubernetes.io/metadata.name": "ghostline-system"}},
	} {
		region.OperatorNamespace = tc.namespace
		operator := region.NetworkPolicy().Spec.Ingress[1].From[0]
		if diff := cmp.Diff(map[string]string{LabelName: NameOperator}, operator.PodSelector.MatchLabels); diff != "" {
			t.Errorf("operator in %q: its pods:\n%s", tc.namespace, diff)
		}
		var got map[string]string
		if operator.NamespaceSelector != nil {
			got = operator.NamespaceSelector.MatchLabels
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("operator in %q: its namespace:\n%s", tc.namespace, diff)
		}
	}
}

// TestGracePeriodOutlastsAnyStream: a node must not kill a proxy that drains as its
// route says.
func TestGracePeriodOutlastsAnyStream(t *testing.T) {
	crd, err := os.ReadFile("../../api/v1alpha1/completionroute.go")
	if err != nil {
		t.Fatal(err)
	}
	longest := regexp.MustCompile(`duration\(self\) <= duration\('(\w+)'\)`).FindSubmatch(crd)
	if longest == nil {
		t.Fatal("the bound of a Duration is not where it was")
	}
	total, err := time.ParseDuration(string(longest[1]))
	if err != nil {
		t.Fatal(err)
	}
	got := time.Duration(*deploymentOf(t, smallRegion(t)).Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if got <= drainDelay+total {
		t.Errorf("the grace period is %v, which is too short for a drain of %v and streams of %v", got, drainDelay, total)
	}
}
