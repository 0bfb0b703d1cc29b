package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers"
	"github.com/ghostline-dev/ghostline/proxy/config"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Two installs for a region each, in a namespace each, with the same route: each runs
// its own region and tells of no other.
func TestOneInstallForEachRegion(t *testing.T) {
	t.Parallel()
	for _, region := range []string{"west", "north"} {
		t.Run(region, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.startOperator(operatorOptions{region: region})
			c.applyRoute()
			route := c.awaitReady("ghost")
			if len(route.Status.Regions) != 1 || string(route.Status.Regions[0].Name) != region || route.Status.RegionsReady != "1/1" {
				t.Errorf("the status is %+v", route.Status)
			}
			for name := range c.objects("ghost") {
				if !strings.Contains(name, region) {
					t.Errorf("there is %s", name)
				}
			}
			for _, field := range c.deployment("ghost-" + region + "-proxy").ManagedFields {
				if strings.HasPrefix(field.Manager, "ghostline-operator") && field.Manager != "ghostline-operator-"+region {
					t.Errorf("the field owner is %s", field.Manager)
				}
			}
		})
	}
}

// An operator for a region that the route does not have runs nothing, and says so.
func TestUnknownRegion(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{region: "south"})
	c.applyRoute()
	condition := c.awaitCondition("ghost", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted)
	if !strings.Contains(condition.Message, "south") || !strings.Contains(condition.Message, "north") {
		t.Errorf("the condition says %q", condition.Message)
	}
	if objects := c.objects("ghost"); len(objects) > 0 {
		t.Errorf("there are %v", objects)
	}
}

// Beside an operator of another install one ends, and says what is the matter; a
// replica of the same install waits.
func TestSecondInstallIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{region: "west"})
	c.applyRoute()
	c.awaitReady("ghost")
	replica := c.startOperator(operatorOptions{region: "west"})
	for _, other := range []operatorOptions{{region: "north"}, {}, {region: "west", install: "another-release"}} {
		refused := c.startOperator(other)
		<-refused.stopped
		if !errors.Is(refused.err, controllers.ErrOtherInstall) || !strings.Contains(refused.err.Error(), c.namespace) ||
			!strings.Contains(refused.err.Error(), "ghostline-operator/west") {
			t.Errorf("%+v ended with %v", other, refused.err)
		}
	}
	select {
	case <-replica.stopped:
		t.Errorf("a replica of the same install ended: %v", replica.err)
	default:
	}
}

// A replica takes over when the one at work ends, and another install may come once
// all have.
func TestTakingOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := c.startOperator(operatorOptions{})
	c.applyRoute()
	c.awaitReady("ghost")
	second := c.startOperator(operatorOptions{})
	first.stop()
	c.apply(strings.Replace(routeWith, "weight: 9", "weight: 5", 1))
	c.awaitReady("ghost")
	second.stop()
	c.startOperator(operatorOptions{install: "another-release"})
	c.apply(routeWith)
	c.awaitReady("ghost")
}

// A region that the route loses takes its proxies with it, and leaves the other alone.
func TestRegionIsRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{})
	c.applyRoute()
	c.awaitReady("ghost")
	pods := c.pods("west")
	c.apply(withoutNorth)
	c.eventually("nothing of the north is left", func() bool { return len(c.objectsOf("north")) == 0 })
	route := c.awaitReady("ghost")
	if len(route.Status.Regions) != 1 || route.Status.RegionsReady != "1/1" {
		t.Errorf("the status is %+v", route.Status)
	}
	if now := c.pods("west"); len(now) != len(pods) || now[0].UID != pods[0].UID {
		t.Error("the west's proxies were touched")
	}
}

// The largest route that there can be: 512 units, every region spilling to all others.
func TestLargestRoute(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{region: "r0"})
	c.apply(keySet)
	var regions strings.Builder
	for r := range 16 {
		var failover []string
		for other := range 16 {
			if other != r {
				failover = append(failover, fmt.Sprintf("r%d", other))
			}
		}
		fmt.Fprintf(&regions, "  - name: r%d\n    failover: [%s]\n    units:\n", r, strings.Join(failover, ", "))
		for u := range 32 {
			fmt.Fprintf(&regions, "    - {name: r%d-unit-%d, serves: ghost-code/stable, provider: OpenAI, url: \"https://models-%d.r%d.example.com/v1/completions\", secretRef: {name: models, key: key-%d}, capacity: {inFlight: 100}}\n", r, u, u, r, u)
		}
	}
	var data strings.Builder
	for u := range 32 {
		fmt.Fprintf(&data, "  key-%d: the key of unit %d\n", u, u)
	}
	c.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: models}\nstringData:\n" + data.String())
	head, tail := routeWith[:strings.Index(routeWith, "  regions:\n")], routeWith[strings.Index(routeWith, "  proxy: {replicas: 2}"):]
	c.apply(head + "  regions:\n" + regions.String() + tail)
	c.awaitReady("ghost")
	var configMap corev1.ConfigMap
	if err := c.api.Get(t.Context(), c.key("ghost-r0-proxy"), &configMap); err != nil {
		t.Fatal(err)
	}
	compiled, err := config.Decode([]byte(configMap.Data["config.json"]))
	if err != nil {
		t.Fatal(err)
	}
	if len(compiled.Units) != 512 || len(c.credentials("r0")) != 512 {
		t.Errorf("the config has %d units and %d credentials, want 512 of each", len(compiled.Units), len(c.credentials("r0")))
	}
	t.Logf("the config has %d bytes", len(configMap.Data["config.json"]))
}
