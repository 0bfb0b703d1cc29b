package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A unit whose key is missing is left out and named; the rest is served. Once the key
// is there, so is the unit.
func TestMissingAndLateSecret(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{})
	c.apply(keySet)
	c.apply(secret("west-1", "the west's key"))
	c.apply(routeWith) // the north's one unit has no key: nothing is left there
	condition := c.awaitCondition("ghost", v1alpha1.ConditionResolvedRefs, metav1.ConditionFalse, v1alpha1.ReasonRefNotFound)
	if !strings.Contains(condition.Message, "north-1") || !strings.Contains(condition.Message, "spec.regions[north].units[north-1].secretRef") {
		t.Errorf("the condition says %q", condition.Message)
	}
	c.eventually("the west is served all the same, without the unit", func() bool {
		west := c.regionStatus("west")
		return west.Proxies.Programmed == 2 && len(west.UnitsLeftOut) == 1 && west.UnitsLeftOut[0].Name == "north-1" &&
			west.UnitsLeftOut[0].Reason == v1alpha1.ReasonRefNotFound
	})
	if len(c.objectsOf("north")) != 0 {
		t.Errorf("the north has nothing to serve, and has %q", c.objectsOf("north"))
	}

	c.apply(secret("north-1", "the north's key"))
	route := c.awaitReady("ghost")
	c.awaitCondition("ghost", v1alpha1.ConditionResolvedRefs, metav1.ConditionTrue, v1alpha1.ReasonResolvedRefs)
	for _, region := range route.Status.Regions {
		if len(region.UnitsLeftOut) > 0 {
			t.Errorf("region %s still leaves out %v", region.Name, region.UnitsLeftOut)
		}
	}
}

func (c *cluster) regionStatus(name string) v1alpha1.RegionStatus {
	for _, region := range c.route("ghost").Status.Regions {
		if string(region.Name) == name {
			return region
		}
	}
	return v1alpha1.RegionStatus{}
}

// A rotated key is a change of the config. Its old entry stays until every proxy uses
// the new one, and no longer.
func TestRotatedSecret(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{})
	c.applyRoute()
	before := c.awaitReady("ghost")
	old := c.credentials("west")

	c.node.held.Store(true) // the proxies do not get to see it yet
	c.apply(secret("west-1", "another key"))
	c.awaitCondition("ghost", v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonPending)
	if got := c.credentials("west"); len(got) != 3 || !contains(got, old) {
		t.Errorf("while it is rotated the entries are %q, want %q and one more", got, old)
	}
	c.node.held.Store(false)
	after := c.awaitReady("ghost")
	if before.Status.Regions[1].ConfigHash == after.Status.Regions[1].ConfigHash {
		t.Error("the config's hash does not show that the key is another one")
	}
	c.eventually("the old entry is gone", func() bool { return len(c.credentials("west")) == 2 && !contains(c.credentials("west"), old) })
}

func contains(all, some []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}

// credentials are the names of a region's credentials, sorted.
func (c *cluster) credentials(region string) []string {
	c.t.Helper()
	var secret corev1.Secret
	if err := c.api.Get(c.t.Context(), c.key("ghost-"+region+"-credentials"), &secret); err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for name := range secret.Data {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A subject that is cut off is so as soon as the proxies have the list, which is a
// change of the config.
func TestDeniedSubjectsReachProxies(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{})
	c.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: denied}\ndata: {subjects: \"github:1\\n\"}\n")
	denying := strings.Replace(routeWith, "  models:\n", "    deniedSubjects: {configMapRef: {name: denied, key: subjects}}\n  models:\n", 1)
	c.apply(keySet)
	c.apply(secret("west-1", "the west's key"))
	c.apply(secret("north-1", "the north's key"))
	c.apply(denying)
	before := c.awaitReady("ghost").Status.Regions
	c.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: denied}\ndata: {subjects: \"github:1\\ngithub:2\\n\"}\n")
	c.eventually("every proxy has another config", func() bool {
		after := c.route("ghost").Status.Regions
		return after[0].ConfigHash != before[0].ConfigHash && after[0].Proxies.Programmed == 2 && after[1].Proxies.Programmed == 2
	})
}
