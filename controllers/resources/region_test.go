package resources

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
)

// smallRegion is that of the small sample.
func smallRegion(t *testing.T) Region {
	t.Helper()
	return regionsOf(readRoute(t, "../../config/samples/small.yaml"))[0]
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
