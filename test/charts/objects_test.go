package charts

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// TestObjects: each object is one that the API server would take: a field that does not
// exist is a mistake. Each is in the release's namespace, where it is in any.
func TestObjects(t *testing.T) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	// Those of other projects, which the Go client does not know.
	foreign := []string{"PodMonitor", "PrometheusRule", "CustomResourceDefinition"}
	each(t, func(t *testing.T, c caseOf) {
		for _, object := range c.objects(t) {
			name := object.GetKind() + " " + object.GetName()
			if object.GetLabels()["app.kubernetes.io/instance"] != c.chart {
				t.Errorf("%s does not have the label of its release: %v", name, object.GetLabels())
			}
			if slices.Contains(foreign, object.GetKind()) {
				continue
			}
			content, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := decoder.Decode(content, nil, nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := object.GetNamespace(); got != namespace && got != "completions-westeurope" {
				t.Errorf("%s is in the namespace %q", name, got)
			}
		}
	})
}

// TestPodSecurity: each pod is what Kubernetes calls restricted, and cannot write to its
// image.
func TestPodSecurity(t *testing.T) {
	each(t, func(t *testing.T, c caseOf) {
		checkPodSecurity(t, c.objects(t))
	})
}

func checkPodSecurity(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	pods := 0
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		pods++
		template := deployment(t, object).Spec.Template
		level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
		for _, result := range evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec) {
			if !result.Allowed {
				t.Errorf("%s: %s: %s", object.GetName(), result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
		for _, container := range template.Spec.Containers {
			if only := container.SecurityContext.ReadOnlyRootFilesystem; only == nil || !*only {
				t.Errorf("%s: %s can write to its image", object.GetName(), container.Name)
			}
		}
	}
	if pods != 1 {
		t.Errorf("there are %d Deployments, want one", pods)
	}
}

func deployment(t *testing.T, object *unstructured.Unstructured) *appsv1.Deployment {
	t.Helper()
	into := new(appsv1.Deployment)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// TestRole: the chart gives the operator the rights that are generated from the code, in
// the namespace that it watches, and no others.
func TestRole(t *testing.T) {
	want := readFile(t, "config/rbac/role.yaml").Object["rules"]
	each(t, func(t *testing.T, c caseOf) {
		if c.chart != operator || c.name == "bare" {
			t.Skip("the operator has no rights of this chart")
		}
		watched := namespace
		if c.name == "region" {
			watched = "completions-westeurope"
		}
		objects := c.objects(t)
		for _, object := range objects {
			switch object.GetKind() {
			case "ClusterRole", "ClusterRoleBinding":
				t.Errorf("there is a %s", object.GetKind())
			case "Role":
				if diff := cmp.Diff(want, object.Object["rules"]); diff != "" {
					t.Errorf("the rules differ from config/rbac/role.yaml (-want +got):\n%s", diff)
				}
				if object.GetNamespace() != watched {
					t.Errorf("the Role is in %s, want %s", object.GetNamespace(), watched)
				}
				binding := find(t, objects, "RoleBinding", object.GetName())
				if binding.GetNamespace() != watched {
					t.Errorf("the RoleBinding is in %s, want %s", binding.GetNamespace(), watched)
				}
			}
		}
	})
}

// TestDefinition: the chart's CustomResourceDefinition is config/crd's, and is kept when
// the release goes, unless one says otherwise.
func TestDefinition(t *testing.T) {
	const keep = "helm.sh/resource-policy"
	for _, kept := range []bool{true, false} {
		var args []string
		if !kept {
			args = []string{"--set", "crds.keep=false"}
		}
		out, err := template(t, operator, args...)
		if err != nil {
			t.Fatal(err)
		}
		want := readFile(t, "config/crd/completions.ghostline.dev_completionroutes.yaml")
		got := find(t, decode(t, out), want.GetKind(), want.GetName())
		annotations := got.GetAnnotations()
		if is := annotations[keep] == "keep"; is != kept {
			t.Errorf("crds.keep=%t: the annotations are %v", kept, annotations)
		}
		delete(annotations, keep)
		got.SetAnnotations(annotations)
		got.SetLabels(nil)
		if diff := cmp.Diff(want.Object, got.Object); diff != "" {
			t.Errorf("it differs from config/crd (-want +got):\n%s", diff)
		}
	}
	out, err := template(t, operator, "--set", "crds.enabled=false")
	if err != nil || strings.Contains(out, "CustomResourceDefinition") {
		t.Errorf("crds.enabled=false has a definition, or error %v", err)
	}
}

// TestVersions: charts and images are released together, so they say one version.
func TestVersions(t *testing.T) {
	versions := map[string]bool{}
	for _, chart := range []string{operator, issuer} {
		var meta struct{ Name, Version, AppVersion, APIVersion string }
		content, err := os.ReadFile(filepath.Join(chartDir(chart), "Chart.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(content, &meta); err != nil {
			t.Fatal(err)
		}
		if meta.Name != chart || meta.APIVersion != "v2" || meta.Version != meta.AppVersion {
			t.Errorf("%s: Chart.yaml says %+v; want the folder's name, v2, and one version", chart, meta)
		}
		versions[meta.Version] = true
	}
	for _, image := range images(t, kustomized(t)) {
		_, tag, _ := strings.Cut(image, ":")
		versions[tag] = true
	}
	if len(versions) != 1 {
		t.Errorf("the charts and config/manager are of the versions %v, want one", versions)
	}
}

// TestImages: what is run are this project's images, each of a release.
func TestImages(t *testing.T) {
	known := regexp.MustCompile(`(?:^|/)ghostline-(operator|proxy|tokenissuer)(:[0-9][^:@]*|@sha256:[0-9a-f]{64})$`)
	each(t, func(t *testing.T, c caseOf) {
		for _, image := range images(t, c.objects(t)) {
			if !known.MatchString(image) {
				t.Errorf("the image %s is none of ours", image)
			}
		}
	})
}

// images are those of all containers, and the proxies' that the operator is told.
func images(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	var found []string
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		for _, container := range deployment(t, object).Spec.Template.Spec.Containers {
			found = append(found, container.Image)
			for _, arg := range container.Args {
				if image, is := strings.CutPrefix(arg, "-proxy-image="); is {
					found = append(found, image)
				}
			}
		}
	}
	if len(found) == 0 {
		t.Error("there are no images")
	}
	return found
}

// TestSelectors: a Service, a NetworkPolicy, a PodDisruptionBudget and a PodMonitor of a
// release find its pods, and a name of a port is one that they have.
func TestSelectors(t *testing.T) {
	each(t, func(t *testing.T, c caseOf) {
		objects := c.objects(t)
		var pods corev1.PodTemplateSpec
		for _, object := range objects {
			if object.GetKind() == "Deployment" {
				pods = deployment(t, object).Spec.Template
			}
		}
		var ports []string
		for _, port := range pods.Spec.Containers[0].Ports {
			ports = append(ports, port.Name)
		}
		for _, object := range objects {
			name := object.GetKind() + " " + object.GetName()
			labels, ofPods := selected(object)
			if !ofPods || labels["app.kubernetes.io/name"] == "ghostline-proxy" {
				continue
			}
			selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: labels})
			if err != nil || selector.Empty() || !selector.Matches(labelsOf(pods)) {
				t.Errorf("%s selects %v, and the pods are %v", name, labels, pods.Labels)
			}
			for _, port := range namedPorts(object) {
				if !slices.Contains(ports, port) {
					t.Errorf("%s names the port %s, and the pods have %q", name, port, ports)
				}
			}
		}
	})
}
