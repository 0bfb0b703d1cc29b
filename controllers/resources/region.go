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
	// Proxy says how the proxies run: compile.ProxyOf's.
	Proxy v1alpha1.Proxy
	// Image is used where Proxy.Image is empty.
	Image string
	// OperatorNamespace is where the operator runs, whose pods may ask the proxies'
	// admin ports. Empty means the route's namespace.
	OperatorNamespace string
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
