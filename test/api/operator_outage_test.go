package api

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// isLong asks for the long forms of tests, which are for by hand: a minute without the
// API server, five minutes of quiet.
func isLong() bool { return os.Getenv("GHOSTLINE_LONG") != "" }

// outage is how long the API server is out, longer than the operator's Lease lasts.
func outage() time.Duration {
	if isLong() {
		return time.Minute
	}
	return 20 * time.Second
}

// While the API server is out the proxies go on. The operator ends, as it cannot know
// whether another one has taken over, or waits; started again, as a Deployment would,
// it catches up with what happened meanwhile.
func TestAPIServerGoesAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var way *relay
	through := func(config *rest.Config) *rest.Config {
		var api *rest.Config
		way, api = newRelay(t, config)
		return api
	}
	first := c.startOperator(operatorOptions{through: through})
	c.applyRoute()
	before := c.awaitReady("ghost")
	way.setCut(true)
	c.apply(strings.Replace(routeWith, "weight: 9", "weight: 5", 1))
	ctx, cancel := context.WithTimeout(t.Context(), outage())
	defer cancel()
	for ctx.Err() == nil {
		for _, hash := range c.configHashes("west") {
			if hash != before.Status.Regions[0].ConfigHash && hash != before.Status.Regions[1].ConfigHash {
				t.Fatalf("while the operator has no API server a proxy uses %q", hash)
			}
		}
		<-time.After(500 * time.Millisecond)
	}
	way.setCut(false)
	<-first.stopped
	if first.err == nil {
		t.Error("an operator that lost its Lease ended without an error, so nothing would start it again")
	}
	c.startOperator(operatorOptions{})
	c.awaitReady("ghost")
}

// Somebody else writes the same objects all the time: the operator's view is stale
// whenever it writes. It comes to the right end once that is over, and never loses
// what the other wrote into fields of its own.
func TestConflictStorm(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.startOperator(operatorOptions{})
	c.applyRoute()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var writes atomic.Int64
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"somebody.example/else":"%d"}}}`, writes.Add(1)))
			_ = c.api.Patch(ctx, &v1alpha1.CompletionRoute{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "ghost"}}, patch)
			_ = c.api.Patch(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "ghost-west-proxy"}}, patch)
		}
	}()
	for weight := range 5 {
		c.apply(strings.Replace(routeWith, "weight: 9", fmt.Sprintf("weight: %d", weight+1), 1))
		before := writes.Load()
		c.eventually("the other one wrote twenty times more", func() bool { return writes.Load() >= before+20 })
	}
	c.awaitReady("ghost") // although it goes on
	stop()
	<-ended
	c.awaitReady("ghost")
	if got := c.route("ghost").Annotations["somebody.example/else"]; got == "" {
		t.Error("what somebody else wrote is lost")
	}
}
