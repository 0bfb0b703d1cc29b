package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkProgrammed measures the time from applying a change of routes to all of
// their proxies using it: of one route, and of a hundred at once, each with one proxy.
// Run it by
//
//	TESTFLAGS='-run ^$ -bench Programmed -benchtime 5x' make test-api
func BenchmarkProgrammed(b *testing.B) {
	for _, routes := range []int{1, 100} {
		b.Run(fmt.Sprintf("routes=%d", routes), func(b *testing.B) {
			c := newCluster(b)
			requests := new(requestCounter)
			c.startOperator(operatorOptions{through: requests.count})
			c.apply(keySet)
			c.apply(secret("west-1", "the west's key"))
			c.applyAll(routes, 1)
			before := requests.changes.Load()
			for i := 0; b.Loop(); i++ {
				c.applyAll(routes, 2+i%8)
			}
			b.ReportMetric(float64(requests.changes.Load()-before)/float64(b.N*routes), "writes/route")
		})
	}
}

// applyAll applies routes with a weight and waits until they are programmed.
func (c *cluster) applyAll(routes, weight int) {
	c.t.Helper()
	single := strings.NewReplacer("replicas: 2", "replicas: 1", "weight: 9", fmt.Sprintf("weight: %d", weight)).Replace(withoutNorth)
	for i := range routes {
		c.apply(strings.Replace(single, "name: ghost\n", fmt.Sprintf("name: route-%d\n", i), 1))
	}
	for i := range routes {
		name := fmt.Sprintf("route-%d", i)
		c.eventually(name+" is programmed", func() bool {
			route := c.route(name)
			programmed := meta.FindStatusCondition(route.Status.Conditions, v1alpha1.ConditionProgrammed)
			return programmed != nil && programmed.Status == metav1.ConditionTrue && programmed.ObservedGeneration == route.Generation
		})
	}
}
