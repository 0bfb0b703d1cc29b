package api

import (
	"context"

	"github.com/ghostline-dev/ghostline/controllers/resources"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kinds are all that a route can be the cause of.
var kinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "ServiceAccount"}, {Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, {Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
}

// objects are the objects of a route, or all in the namespace, as KIND/NAME, and their
// resource versions.
func (c *cluster) objects(route string) map[string]string {
	c.t.Helper()
	options := []client.ListOption{client.InNamespace(c.namespace)}
	if route != "" {
		options = append(options, client.MatchingLabels{resources.LabelRoute: route})
	}
	objects := map[string]string{}
	for _, kind := range kinds {
		list := new(metav1.PartialObjectMetadataList)
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.api.List(context.Background(), list, options...); err != nil {
			c.t.Fatal(err)
		}
		for _, item := range list.Items {
			objects[kind.Kind+"/"+item.Name] = item.ResourceVersion
		}
	}
	return objects
}
