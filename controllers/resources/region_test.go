package resources

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
)

// smallRegion is that of the small sample.
func smallRegion(t *testing.T) Region {
	t.Helper()
	return regionsOf(readRoute(t, "../../config/samples/small.yaml"))[0]
}

func TestProxyOf(t *testing.T) {
	two, five := int32(2), int32(5)
	scaling := &v1alpha1.Autoscaling{Min: 3, Max: 9, TargetCPU: 70}
	service := &v1alpha1.Service{Type: corev1.ServiceTypeLoadBalancer, Annotations: map[string]string{"a": "b"}}
	tls := &v1alpha1.ServerTLS{SecretRef: v1alpha1.SecretRef{Name: "tls"}}
	resources := &corev1.ResourceRequirements{}
	full := v1alpha1.Proxy{
		Replicas: &five, Image: "image", Service: service, TLS: tls,
		TrustedEdges: []string{"10.0.0.0/8"}, Resources: resources,
	}
	for _, tc := range []struct {
		name          string
		route, region *v1alpha1.Proxy
		want          v1alpha1.Proxy
	}{
		{"nothing said", nil, nil, v1alpha1.Proxy{}},
		{"only by the route", &full, nil, full},
		{"only by the region", nil, &full, full},
		{"nothing overridden", &full, &v1alpha1.Proxy{}, full},
		{"everything overridden", &v1alpha1.Proxy{
			Replicas: &two, Image: "other", Service: &v1alpha1.Service{Type: corev1.ServiceTypeNodePort},
			TLS: &v1alpha1.ServerTLS{SecretRef: v1alpha1.SecretRef{Name: "other"}}, TrustedEdges: []string{"::/0"},
			Resources: &corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "other"}}},
		}, &full, full},
		{"replicas in place of autoscaling", &v1alpha1.Proxy{Autoscaling: scaling}, &v1alpha1.Proxy{Replicas: &two}, v1alpha1.Proxy{Replicas: &two}},
		{"autoscaling in place of replicas", &v1alpha1.Proxy{Replicas: &two}, &v1alpha1.Proxy{Autoscaling: scaling}, v1alpha1.Proxy{Autoscaling: scaling}},
		{"no trusted edges here", &full, &v1alpha1.Proxy{TrustedEdges: []string{}}, func() v1alpha1.Proxy {
			none := full
			none.TrustedEdges = []string{}
			return none
		}()},
	} {
		route := &v1alpha1.CompletionRoute{}
		route.Spec.Proxy = tc.route
		before := route.DeepCopy()
		got := ProxyOf(route, v1alpha1.Region{Proxy: tc.region})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: - is wanted:\n%s", tc.name, diff)
		}
		if diff := cmp.Diff(before, route); diff != "" {
			t.Errorf("%s: the route was changed:\n%s", tc.name, diff)
		}
	}
}

// TestProxyOfHasEveryField: one that is added to the API is not forgotten here.
func TestProxyOfHasEveryField(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[v1alpha1.Proxy]()) {
		over := &v1alpha1.Proxy{}
		value := reflect.ValueOf(over).Elem().FieldByIndex(field.Index)
		switch value.Kind() {
		case reflect.Pointer:
			value.Set(reflect.New(value.Type().Elem()))
		case reflect.Slice:
			value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		case reflect.String:
			value.SetString("set")
		default:
			t.Fatalf("%s is a %s, which this test cannot set", field.Name, value.Kind())
		}
		if diff := cmp.Diff(*over, ProxyOf(&v1alpha1.CompletionRoute{}, v1alpha1.Region{Proxy: over})); diff != "" {
			t.Errorf("%s is not taken over:\n%s", field.Name, diff)
		}
	}
}

// metadata decodes what all objects have.
func metadata(t *testing.T, object runtime.ApplyConfiguration) metav1.PartialObjectMetadata {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &meta); err != nil {
		t.Fatal(err)
	}
	return meta
}

func TestEveryObjectBelongsToItsRoute(t *testing.T) {
	for name, file := range goldens(t) {
		for _, region := range regionsOf(readRoute(t, file)) {
			for _, object := range everything(region) {
				meta := metadata(t, object)
				if meta.Namespace != region.Route.Namespace {
					t.Errorf("%s: %s %s is in namespace %q", name, meta.Kind, meta.Name, meta.Namespace)
				}
				if owner := metav1.GetControllerOf(&meta); owner == nil || owner.UID != region.Route.UID || !*owner.BlockOwnerDeletion {
					t.Errorf("%s: the owner of %s %s is %+v", name, meta.Kind, meta.Name, owner)
				}
				if diff := cmp.Diff(region.Labels(), meta.Labels); diff != "" {
					t.Errorf("%s: the labels of %s %s, - is wanted:\n%s", name, meta.Kind, meta.Name, diff)
				}
			}
		}
	}
}

// identify is how an object is told from others.
func identify(t *testing.T, object Object) string {
	t.Helper()
	kinds, _, err := clientscheme.Scheme.ObjectKinds(object)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s/%s", kinds[0], object.GetNamespace(), object.GetName())
}

// TestEverythingIsAllThatIsApplied: nothing is left of a region that has gone, and what
// a region does not ask for is never what it applies.
func TestEverythingIsAllThatIsApplied(t *testing.T) {
	region := smallRegion(t)
	region.Proxy.Autoscaling = &v1alpha1.Autoscaling{Max: 3}
	var applied, gone []string
	for _, object := range everything(region) {
		meta := metadata(t, object)
		applied = append(applied, fmt.Sprintf("%s %s/%s", meta.GroupVersionKind(), meta.Namespace, meta.Name))
	}
	for _, object := range region.Everything() {
		gone = append(gone, identify(t, object))
	}
	slices.Sort(applied)
	slices.Sort(gone)
	if diff := cmp.Diff(applied, gone); diff != "" {
		t.Errorf("- is applied, + is deleted:\n%s", diff)
	}
	if unwanted := region.Unwanted(); len(unwanted) > 0 {
		t.Errorf("with autoscaling %v is unwanted", unwanted)
	}
	region.Proxy.Autoscaling = nil
	unwanted := region.Unwanted()
	if len(unwanted) != 1 || !strings.Contains(identify(t, unwanted[0]), "HorizontalPodAutoscaler") || !slices.Contains(gone, identify(t, unwanted[0])) {
		t.Errorf("without autoscaling %v is unwanted", unwanted)
	}
}

// TestConfigLeavesPodsAlone: of a route, only spec.proxy changes the pod template.
func TestConfigLeavesPodsAlone(t *testing.T) {
	region := smallRegion(t)
	before := deploymentOf(t, region)
	spec := &region.Route.Spec
	spec.Timeouts = &v1alpha1.Timeouts{Total: "10m"}
	spec.Hostname = "other.example.com"
	spec.Limits = &v1alpha1.Limits{}
	spec.Tokens.Issuer = "https://other.example.com"
	spec.Models[0].Aliases = []v1alpha1.Name{"other"}
	spec.Regions[0].Units[0].SecretRef = &v1alpha1.KeyRef{Name: "key", Key: "key"}
	spec.Regions[0].Failover = []v1alpha1.RegionName{"northeurope"}
	region.Route.Generation = 7
	if diff := cmp.Diff(before, deploymentOf(t, region)); diff != "" {
		t.Errorf("the Deployment changes:\n%s", diff)
	}
}

func TestArgumentsAreFlags(t *testing.T) {
	reference, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	region := smallRegion(t)
	args := region.args()
	region.Proxy.TLS = &v1alpha1.ServerTLS{SecretRef: v1alpha1.SecretRef{Name: "tls"}}
	for _, arg := range append(args, region.args()...) {
		flag, _, _ := strings.Cut(arg, "=")
		if !strings.Contains(string(reference), "`"+flag+" ") {
			t.Errorf("docs/configuration.md has no flag %s", flag)
		}
	}
}
