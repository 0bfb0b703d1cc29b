package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/controllers/resources"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// routeWith is a route of two regions, each with a unit that has a key. The proxies'
// key set is a ConfigMap's, so that nobody need be asked for it.
const routeWith = `
apiVersion: completions.ghostline.dev/v1alpha1
kind: CompletionRoute
metadata:
  name: ghost
spec:
  hostname: completions.example.com
  tokens:
    issuer: https://tokens.example.com
    audience: completions.example.com
    keySet: {configMapRef: {name: keys, key: jwks.json}}
  models:
  - name: ghost-code
    variants: [{name: stable, weight: 9}, {name: next, weight: 1, fallback: stable}]
  regions:
  - name: west
    failover: [north]
    units:
    - {name: west-1, serves: ghost-code/stable, provider: OpenAI, url: "http://127.0.0.1:9/v1/completions", secretRef: {name: west-1, key: api-key}}
  - name: north
    units:
    - {name: north-1, serves: ghost-code/stable, provider: OpenAI, url: "http://127.0.0.1:9/v1/completions", secretRef: {name: north-1, key: api-key}}
  proxy: {replicas: 2}
`

// keySet is the ConfigMap with a key set.
const keySet = `
apiVersion: v1
kind: ConfigMap
metadata: {name: keys}
data:
  jwks.json: |
    {"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "one", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}
`

// secret is a Secret with a unit's key.
func secret(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nstringData: {api-key: %q}\n", name, value)
}

// applyRoute applies the route and all that it refers to.
func (c *cluster) applyRoute() {
	c.t.Helper()
	c.apply(keySet)
	c.apply(secret("west-1", "the west's key"))
	c.apply(secret("north-1", "the north's key"))
	c.apply(routeWith)
}

func decode(document string) (*unstructured.Unstructured, error) {
	object := new(unstructured.Unstructured)
	return object, yaml.UnmarshalStrict([]byte(document), &object.Object)
}

// proxyStatus asks each of a region's proxies which config it uses.
func (c *cluster) configHashes(region string) []string {
	c.t.Helper()
	var hashes []string
	for _, pod := range c.pods(region) {
		response, err := http.Get(fmt.Sprintf("http://%s:%d/statusz", pod.Status.PodIP, resources.PortAdmin))
		if err != nil {
			hashes = append(hashes, err.Error())
			continue
		}
		var status struct{ ConfigHash string }
		err = json.NewDecoder(response.Body).Decode(&status)
		response.Body.Close()
		if err != nil {
			c.t.Fatal(err)
		}
		hashes = append(hashes, status.ConfigHash)
	}
	return hashes
}

func (c *cluster) pods(region string) []corev1.Pod {
	c.t.Helper()
	var pods corev1.PodList
	if err := c.api.List(context.Background(), &pods, client.InNamespace(c.namespace), client.MatchingLabels{resources.LabelRegion: region}); err != nil {
		c.t.Fatal(err)
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !pod.DeletionTimestamp.IsZero() })
}

func TestRouteIsProgrammed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{})
	c.applyRoute()
	route := c.awaitReady("ghost")
	if route.Status.RegionsReady != "2/2" || route.Status.Models != "ghost-code" || route.Status.ObservedGeneration != route.Generation {
		t.Errorf("status is %+v", route.Status)
	}
	for _, region := range route.Status.Regions {
		if p := region.Proxies; p.Wanted != 2 || p.Ready != 2 || p.Programmed != 2 {
			t.Errorf("region %s has the proxies %+v, want 2 of each", region.Name, p)
		}
		for _, hash := range c.configHashes(string(region.Name)) {
			if hash != region.ConfigHash {
				t.Errorf("a proxy of region %s uses %q, want %s", region.Name, hash, region.ConfigHash)
			}
		}
	}
	// The west may spill to the north, not the other way round: keys travel only to
	// regions that list them.
	for region, want := range map[string]int{"west": 2, "north": 1} {
		var credentials corev1.Secret
		if err := c.api.Get(t.Context(), c.key("ghost-"+region+"-credentials"), &credentials); err != nil {
			t.Fatal(err)
		}
		if len(credentials.Data) != want {
			t.Errorf("region %s has %d credentials, want %d", region, len(credentials.Data), want)
		}
	}
}

// A change of the config reaches the proxies without a change of their pods, which
// would end their clients' connections.
func TestConfigChangeLeavesPodsAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{})
	c.applyRoute()
	before := c.awaitReady("ghost")
	pods, template := c.podNames(), c.deployment("ghost-west-proxy").Generation

	c.apply(strings.Replace(routeWith, "weight: 9", "weight: 5", 1))
	after := c.awaitReady("ghost")
	for i := range after.Status.Regions {
		if after.Status.Regions[i].ConfigHash == before.Status.Regions[i].ConfigHash {
			t.Errorf("region %s has the same config after a change", after.Status.Regions[i].Name)
		}
	}
	if got := c.podNames(); !slices.Equal(got, pods) {
		t.Errorf("the pods were %q, and are %q", pods, got)
	}
	if got := c.deployment("ghost-west-proxy").Generation; got != template {
		t.Errorf("the Deployment's generation was %d, and is %d", template, got)
	}
	// What all proxies use is what a starting one falls back to, and nothing older is kept.
	c.eventually("the last good config is the new one", func() bool {
		var configMap corev1.ConfigMap
		if err := c.api.Get(t.Context(), c.key("ghost-west-proxy"), &configMap); err != nil {
			t.Fatal(err)
		}
		return configMap.Data[resources.EntryLastConfig] == configMap.Data[resources.EntryConfig]
	})
}

func (c *cluster) eventually(what string, so func() bool) {
	c.t.Helper()
	eventually(c.t, what, so)
}

func (c *cluster) podNames() []string {
	var names []string
	for _, region := range []string{"west", "north"} {
		for _, pod := range c.pods(region) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (c *cluster) deployment(name string) *appsv1.Deployment {
	c.t.Helper()
	deployment := new(appsv1.Deployment)
	if err := c.api.Get(context.Background(), c.key(name), deployment); err != nil {
		c.t.Fatal(err)
	}
	return deployment
}

// Two routes in one namespace have nothing to do with each other, and nothing is left
// of one that is deleted.
func TestDeletionLeavesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{})
	before := c.objects("")
	c.applyRoute()
	c.apply(strings.Replace(routeWith, "name: ghost\n", "name: other\n", 1))
	c.awaitReady("ghost")
	c.awaitReady("other")
	other := c.objects("other")

	if err := c.api.Delete(t.Context(), c.route("ghost")); err != nil {
		t.Fatal(err)
	}
	c.eventually("nothing of the route is left", func() bool { return len(c.objects("ghost")) == 0 && len(c.pods("west")) == 2 })
	if got := c.objects("other"); !maps.Equal(got, other) {
		t.Errorf("the other route had %v, and has %v", other, got)
	}
	if err := c.api.Delete(t.Context(), c.route("other")); err != nil {
		t.Fatal(err)
	}
	c.eventually("the namespace is as it was, but for what the routes referred to", func() bool {
		now := c.objects("")
		for name := range now {
			if strings.HasSuffix(name, "/keys") || strings.HasSuffix(name, "west-1") || strings.HasSuffix(name, "north-1") || strings.HasPrefix(name, "Event/") {
				delete(now, name)
			}
		}
		return slices.Equal(slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(before)))
	})
}
