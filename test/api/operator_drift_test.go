package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/resources"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Whatever somebody does to the operator's objects is put right.
func TestDriftIsPutRight(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{})
	c.applyRoute()
	c.awaitReady("ghost")
	const name = "ghost-west-proxy"
	patch := func(object client.Object, name, patch string) {
		t.Helper()
		object.SetNamespace(c.namespace)
		object.SetName(name)
		if err := c.api.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}

	image := c.deployment(name).Spec.Template.Spec.Containers[0].Image
	deployment := c.deployment(name)
	deployment.Spec.Template.Spec.Containers[0].Image = "somebody-elses"
	deployment.Spec.Replicas = new(int32(1))
	if err := c.api.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	c.eventually("the Deployment is as it was", func() bool {
		d := c.deployment(name)
		return d.Spec.Template.Spec.Containers[0].Image == image && *d.Spec.Replicas == 2
	})

	// Without its labels an object is none that the operator watches.
	patch(&policyv1.PodDisruptionBudget{}, name, `{"metadata":{"labels":null}}`)
	patch(&corev1.Service{}, name, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, resources.LabelManagedBy))
	c.eventually("the labels are back", func() bool {
		objects := c.objects("ghost")
		var service corev1.Service
		_ = c.api.Get(t.Context(), c.key(name), &service)
		return objects["PodDisruptionBudget/"+name] != "" && service.Labels[resources.LabelManagedBy] != ""
	})

	patch(&corev1.ConfigMap{}, name, `{"data":{"config.json":"nonsense"}}`)
	patch(&corev1.Secret{}, "ghost-west-credentials", `{"data":null}`)
	c.eventually("the config and the credentials are back", func() bool {
		var configMap corev1.ConfigMap
		var secret corev1.Secret
		_ = c.api.Get(t.Context(), c.key(name), &configMap)
		_ = c.api.Get(t.Context(), c.key("ghost-west-credentials"), &secret)
		return strings.HasPrefix(configMap.Data["config.json"], "{") && len(secret.Data) == 2
	})

	before := slices.Sorted(maps.Keys(withoutPods(c.objects("ghost"))))
	for _, object := range []client.Object{&corev1.Service{}, &corev1.ConfigMap{}, &appsv1.Deployment{}, &policyv1.PodDisruptionBudget{}} {
		object.SetNamespace(c.namespace)
		object.SetName(name)
		if err := c.api.Delete(t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
	}
	c.eventually("everything is there again", func() bool {
		return slices.Equal(slices.Sorted(maps.Keys(withoutPods(c.objects("ghost")))), before)
	})
	c.awaitReady("ghost")
}

// withoutPods leaves out what the Deployment's controller makes, whose names differ.
func withoutPods(objects map[string]string) map[string]string {
	maps.DeleteFunc(objects, func(name, _ string) bool {
		return strings.HasPrefix(name, "Pod/") || strings.HasPrefix(name, "ReplicaSet/")
	})
	return objects
}

// An unchanged route is looked at, and nothing is written, the route itself included.
func TestQuietRouteIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	passes := new(requestCounter)
	c.startOperator(operatorOptions{interval: 50 * time.Millisecond, through: passes.count})
	c.applyRoute()
	c.awaitReady("ghost")
	c.eventually("the last good config is kept", func() bool {
		var configMap corev1.ConfigMap
		_ = c.api.Get(t.Context(), c.key("ghost-west-proxy"), &configMap)
		return configMap.Data[resources.EntryLastConfig] == configMap.Data[resources.EntryConfig]
	})
	c.eventually("the Deployments have no more to tell, and the regions have voted", func() bool {
		return c.deployment("ghost-west-proxy").Status.AvailableReplicas == 2 && c.deployment("ghost-north-proxy").Status.AvailableReplicas == 2 &&
			c.regionStatus("west").Vote == v1alpha1.VoteUnhealthy && c.regionStatus("north").Vote == v1alpha1.VoteUnhealthy
	})
	before, route := c.objects(""), c.route("ghost").ResourceVersion
	changes, reads := passes.changes.Load(), passes.reads.Load()
	c.eventually("the route was looked at fifty times", func() bool { return passes.reads.Load() >= reads+50*4 })
	if isLong() {
		<-time.After(5 * time.Minute)
	}
	if got := c.objects(""); !maps.Equal(got, before) {
		t.Errorf("the objects were %v, and are %v", before, got)
	}
	if got := c.route("ghost").ResourceVersion; got != route {
		t.Errorf("the route's version was %s, and is %s", route, got)
	}
	if got := passes.changes.Load() - changes; got > 0 {
		t.Errorf("the operator wrote %d times", got)
	}
}

// Turning autoscaling on keeps the proxies that there are; turning it off removes the
// HorizontalPodAutoscaler.
func TestAutoscalingKeepsProxies(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{})
	c.applyRoute()
	c.awaitReady("ghost")
	c.apply(strings.Replace(routeWith, "proxy: {replicas: 2}", "proxy: {autoscaling: {min: 2, max: 4}}", 1))
	c.eventually("both regions are scaled", func() bool {
		objects := c.objects("ghost")
		return objects["HorizontalPodAutoscaler/ghost-west-proxy"] != "" && objects["HorizontalPodAutoscaler/ghost-north-proxy"] != ""
	})
	c.awaitReady("ghost")
	if got := *c.deployment("ghost-west-proxy").Spec.Replicas; got != 2 {
		t.Errorf("the Deployment has %d replicas, want the 2 that it had", got)
	}
	// What scales is believed: the operator does not put its number back.
	deployment := c.deployment("ghost-west-proxy")
	deployment.Spec.Replicas = new(int32(3))
	if err := c.api.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	c.eventually("three proxies are programmed", func() bool {
		for _, region := range c.route("ghost").Status.Regions {
			if region.Name == "west" {
				return region.Proxies.Programmed == 3 && region.Proxies.Wanted == 3
			}
		}
		return false
	})
	c.apply(routeWith)
	c.eventually("nobody scales, and there are two proxies", func() bool {
		return c.objects("ghost")["HorizontalPodAutoscaler/ghost-west-proxy"] == "" && len(c.pods("west")) == 2
	})
	c.awaitReady("ghost")
}
