package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A route that cannot be served as it stands leaves the last good config in use, for
// proxies that start meanwhile too, and says why.
func TestInvalidThenCorrected(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{})
	c.applyRoute()
	good := c.awaitReady("ghost")

	c.apply(strings.ReplaceAll(routeWith, "serves: ghost-code/stable", "serves: ghost-code/stabel"))
	c.awaitCondition("ghost", v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalid)
	ready := c.awaitCondition("ghost", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted)
	if !strings.Contains(ready.Message, "spec.regions[north].units[north-1].serves") || !strings.Contains(ready.Message, "stabel") {
		t.Errorf("the condition says %q", ready.Message)
	}
	pod := c.pods("west")[0]
	if err := c.api.Delete(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	hashes := []string{good.Status.Regions[0].ConfigHash, good.Status.Regions[1].ConfigHash}
	c.eventually("the proxy that took its place uses the last good config", func() bool {
		now := c.configHashes("west")
		return len(now) == 2 && contains(hashes, now) && c.pods("west")[0].UID != pod.UID && c.pods("west")[1].UID != pod.UID
	})
	c.apply(routeWith)
	c.awaitReady("ghost")
}

// What a ConfigMap cannot hold is refused before anything is written.
func TestConfigTooLarge(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{})
	c.applyRoute()
	good := c.awaitReady("ghost")
	before := c.objects("ghost")

	c.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: denied}\ndata: {subjects: \"" + strings.Repeat("github:1234567890\\n", 50_000) + "\"}\n")
	large := strings.Replace(routeWith, "  models:\n", "    deniedSubjects: {configMapRef: {name: denied, key: subjects}}\n  models:\n", 1)
	c.apply(large)
	condition := c.awaitCondition("ghost", v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonConfigTooLarge)
	if !strings.Contains(condition.Message, "bytes") {
		t.Errorf("the condition says %q", condition.Message)
	}
	after := c.objects("ghost")
	for name, version := range before {
		if strings.HasPrefix(name, "ConfigMap/") || strings.HasPrefix(name, "Secret/") {
			if after[name] != version {
				t.Errorf("%s was written", name)
			}
		}
	}
	for i, region := range c.route("ghost").Status.Regions {
		if region.ConfigHash != good.Status.Regions[i].ConfigHash {
			t.Errorf("region %s is said to have another config than the one in use", region.Name)
		}
	}
}

// An object of the name that the operator needs, which is somebody else's, is left
// alone, and named.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	for _, taken := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ghost-west-proxy"}, Data: map[string]string{"mine": "yes"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "ghost-west-credentials"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "ghost-west-proxy"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}},
	} {
		t.Run(fmt.Sprintf("%T", taken), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.startOperator(operatorOptions{})
			taken.SetNamespace(c.namespace)
			create(t, taken)
			c.applyRoute()
			condition := c.awaitCondition("ghost", v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
			if !strings.Contains(condition.Message, taken.GetName()) {
				t.Errorf("the condition says %q", condition.Message)
			}
			c.eventually("the other region is served", func() bool { return c.regionStatus("north").Proxies.Programmed == 2 })
			live := taken.DeepCopyObject().(client.Object)
			if err := c.api.Get(t.Context(), types.NamespacedName{Namespace: c.namespace, Name: taken.GetName()}, live); err != nil {
				t.Fatal(err)
			}
			if live.GetResourceVersion() != taken.GetResourceVersion() {
				t.Errorf("somebody else's object was written: %+v", live)
			}
			if err := c.api.Delete(t.Context(), live); err != nil {
				t.Fatal(err)
			}
			c.awaitReady("ghost")
		})
	}
}
