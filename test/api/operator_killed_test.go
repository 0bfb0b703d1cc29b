package api

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/resources"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An operator that is killed after any of its writes, its answer lost, leaves nothing
// that the next one does not bring to the same end: for a new route, a change of it, a
// region that it loses, and its deletion.
func TestKilledAfterEachWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.apply(keySet)
	c.apply(secret("west-1", "the west's key"))
	c.apply(secret("north-1", "the north's key"))
	single := strings.Replace(routeWith, "replicas: 2", "replicas: 1", 1)
	for _, scenario := range []struct{ name, before, after string }{
		{"a new route", "", single},
		{"a change", single, strings.Replace(single, "weight: 9", "weight: 5", 1)},
		{"a region less", single, strings.Replace(withoutNorth, "replicas: 2", "replicas: 1", 1)},
	} {
		t.Run(scenario.name, func(t *testing.T) { c.killAfterEachWrite(t, scenario.before, scenario.after) })
	}
}

// killAfterEachWrite kills operators on the way from one route to another, after their
// first write, their second, and so on until one is done before.
func (c *cluster) killAfterEachWrite(t *testing.T, before, after string) {
	c.bringTo(before)
	c.bringTo(after)
	want := c.outcome()
	for n := int64(1); ; n++ {
		c.bringTo(before)
		k := &killer{after: n}
		doomed := c.startOperator(operatorOptions{through: k.through, interval: 100 * time.Millisecond})
		c.apply(after)
		c.eventually("the operator is killed, or done", func() bool { return k.hasKilled() || c.isSettled() })
		doomed.stop()
		if !k.hasKilled() {
			t.Logf("done after %d writes", n-1)
			if n < 4 {
				t.Errorf("the operator wrote %d times only, so nothing was tried", n-1)
			}
			return
		}
		c.bringTo(after)
		if got := c.outcome(); got != want {
			t.Errorf("killed after write %d, %v: got\n%s\nwant\n%s", n, k.last.Load(), got, want)
		}
	}
}

// bringTo has an operator bring the route to what it should be; empty is none.
func (c *cluster) bringTo(route string) {
	c.t.Helper()
	defer c.startOperator(operatorOptions{interval: 100 * time.Millisecond}).stop()
	if route == "" {
		_ = c.api.DeleteAllOf(c.t.Context(), &v1alpha1.CompletionRoute{}, client.InNamespace(c.namespace))
		c.eventually("nothing of the route is left", func() bool { return len(c.objects("ghost")) == 0 })
		return
	}
	c.apply(route)
	c.eventually("the route is ready, and nothing is left to do", c.isSettled)
}

// withoutNorth is the route with one region.
var withoutNorth = func() string {
	north := routeWith[strings.Index(routeWith, "  - name: north\n"):strings.Index(routeWith, "  proxy: {replicas: 2}")]
	return strings.NewReplacer(north, "", "    failover: [north]\n", "").Replace(routeWith)
}()

// isSettled says whether the route is ready and its config the last good one, and
// nothing is left of a region that it lost.
func (c *cluster) isSettled() bool {
	route := new(v1alpha1.CompletionRoute)
	if c.api.Get(c.t.Context(), c.key("ghost"), route) != nil {
		return false
	}
	ready := meta.FindStatusCondition(route.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != route.Generation {
		return false
	}
	for _, region := range route.Status.Regions {
		var configMap corev1.ConfigMap
		if c.api.Get(c.t.Context(), c.key("ghost-"+string(region.Name)+"-proxy"), &configMap) != nil ||
			configMap.Data[resources.EntryLastConfig] != configMap.Data[resources.EntryConfig] {
			return false
		}
	}
	return len(route.Spec.Regions) == 2 || len(c.objectsOf("north")) == 0
}

// objectsOf are the objects of one region.
func (c *cluster) objectsOf(region string) []string {
	var names []string
	for name := range c.objects("ghost") {
		if strings.Contains(name, "ghost-"+region+"-") {
			names = append(names, name)
		}
	}
	return names
}

// outcome is all that the operator is there for, as text, without what differs from
// one time to the next.
func (c *cluster) outcome() string {
	c.t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(withoutPods(c.objects("ghost")))) {
		fmt.Fprintln(&b, name)
	}
	for _, region := range c.route("ghost").Status.Regions {
		region.Addresses = nil
		region.ConfigHash = ""
		region.VoteReason = ""
		region.Vote = ""
		fmt.Fprintf(&b, "%+v\n", region)
		var configMap corev1.ConfigMap
		if err := c.api.Get(c.t.Context(), c.key("ghost-"+string(region.Name)+"-proxy"), &configMap); err != nil {
			c.t.Fatal(err)
		}
		var credentials corev1.Secret
		if err := c.api.Get(c.t.Context(), c.key("ghost-"+string(region.Name)+"-credentials"), &credentials); err != nil {
			c.t.Fatal(err)
		}
		data := generation.ReplaceAllString(fmt.Sprint(configMap.Data), "")
		fmt.Fprintf(&b, "%s %d\n", data, len(credentials.Data))
	}
	for _, condition := range c.route("ghost").Status.Conditions {
		fmt.Fprintln(&b, condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	return b.String()
}

// generation stands in a config, and counts the changes of the route.
var generation = regexp.MustCompile(`"generation":[0-9]+`)
