package resources

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
)

// Region is what the objects of a route in one region are made of.
type Region struct {
	// Route owns the objects, which are in its namespace.
	Route *v1alpha1.CompletionRoute
	// Name is the region's.
	Name string
	// Proxy says how the proxies run: see [ProxyOf].
	Proxy v1alpha1.Proxy
	// Image is used where Proxy.Image is empty.
	Image string
	// OperatorNamespace is where the operator runs, whose pods may ask the proxies'
	// admin ports. Empty means the route's namespace.
	OperatorNamespace string
}

// ProxyOf is the route's spec.proxy with the region's overrides: a field that is set
// there takes the place of the whole field here.
func ProxyOf(route *v1alpha1.CompletionRoute, region v1alpha1.Region) v1alpha1.Proxy {
	var proxy v1alpha1.Proxy
	if route.Spec.Proxy != nil {
		proxy = *route.Spec.Proxy.DeepCopy()
	}
	if region.Proxy == nil {
		return proxy
	}
	over := region.Proxy.DeepCopy()
	// One of the two takes the place of the other too, since there is one number of
	// proxies to be said.
	if over.Replicas != nil || over.Autoscaling != nil {
		proxy.Replicas, proxy.Autoscaling = over.Replicas, over.Autoscaling
	}
	if over.Image != "" {
		proxy.Image = over.Image
	}
	if over.Service != nil {
		proxy.Service = over.Service
	}
	if over.TLS != nil {
		proxy.TLS = over.TLS
	}
	if over.TrustedEdges != nil {
		proxy.TrustedEdges = over.TrustedEdges
	}
	if over.Resources != nil {
		proxy.Resources = over.Resources
	}
	return proxy
}

// Objects are all that the region needs but its ConfigMap and Secret, in the order in
// which they are to be applied: what guards pods before the pods.
func (r Region) Objects() []runtime.ApplyConfiguration {
	objects := []runtime.ApplyConfiguration{
		r.NetworkPolicy(),
		r.PodDisruptionBudget(),
		r.Service(),
		r.HeadlessService(),
		r.Deployment(),
	}
	if r.Proxy.Autoscaling != nil {
		objects = append(objects, r.HorizontalPodAutoscaler())
	}
	return objects
}

// Labels are those of every object of the region.
func (r Region) Labels() map[string]string {
	labels := map[string]string{
		LabelInstance:  r.Route.Name,
		LabelComponent: "proxy",
		LabelManagedBy: NameOperator,
	}
	maps.Copy(labels, r.Selector())
	return labels
}

// Selector finds the region's pods in the route's namespace. A Deployment's can never
// be changed.
func (r Region) Selector() map[string]string {
	return map[string]string{
		LabelName:   NameProxy,
		LabelRoute:  r.Route.Name,
		LabelRegion: r.Name,
	}
}

func (r Region) selector() *metav1ac.LabelSelectorApplyConfiguration {
	return metav1ac.LabelSelector().WithMatchLabels(r.Selector())
}

func (r Region) names() Names { return NamesOf(r.Route, r.Name) }

// object is an apply configuration whose metadata can be set.
type object[T any] interface {
	WithLabels(map[string]string) T
	WithOwnerReferences(...*metav1ac.OwnerReferenceApplyConfiguration) T
}

// owned gives an object what all of the region's have: labels, and the route as their
// owner, with which they go.
func owned[T object[T]](r Region, o T) T {
	return o.WithLabels(r.Labels()).WithOwnerReferences(metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).
		WithKind("CompletionRoute").
		WithName(r.Route.Name).
		WithUID(r.Route.UID).
		WithController(true).
		WithBlockOwnerDeletion(true))
}
