package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/resources"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownedKind is a kind of objects that routes own.
type ownedKind struct {
	schema.GroupVersionKind
	// whole says that its objects are watched with everything in them; of the others
	// only the metadata are.
	whole client.Object
	list  client.ObjectList
}

// ownedKinds are all of them.
func ownedKinds() []ownedKind {
	return []ownedKind{
		{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), whole: &appsv1.Deployment{}, list: &appsv1.DeploymentList{}},
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Service"), whole: &corev1.Service{}, list: &corev1.ServiceList{}},
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap")},
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret")},
		{GroupVersionKind: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")},
		{GroupVersionKind: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")},
		{GroupVersionKind: networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")},
	}
}

// object is an empty object of the kind, as it is cached.
func (k ownedKind) object() client.Object {
	if k.whole != nil {
		return k.whole
	}
	return k.metadata()
}

func (k ownedKind) metadata() *metav1.PartialObjectMetadata {
	object := new(metav1.PartialObjectMetadata)
	object.SetGroupVersionKind(k.GroupVersionKind)
	return object
}

// objects is an empty list of the kind, as it is cached.
func (k ownedKind) objects() client.ObjectList {
	if k.list != nil {
		return k.list
	}
	list := new(metav1.PartialObjectMetadataList)
	list.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
	return list
}

// kindOf is the owned kind of that name.
func kindOf(gvk schema.GroupVersionKind) ownedKind {
	for _, kind := range ownedKinds() {
		if kind.GroupVersionKind == gvk {
			return kind
		}
	}
	return ownedKind{GroupVersionKind: gvk}
}

// errNameTaken is an object of a name that we need, which is somebody else's.
var errNameTaken = errors.New("is not this CompletionRoute's")

// checkOwner refuses an object that the route does not own.
func checkOwner(route *v1alpha1.CompletionRoute, object client.Object) error {
	if metav1.IsControlledBy(object, route) {
		return nil
	}
	return fmt.Errorf("an object of the name %s %w; rename the route, or that", object.GetName(), errNameTaken)
}

// writeObjects writes each region's objects beside its config. A region that never had
// a config gets none: its proxies could not start.
func (r *CompletionRouteReconciler) writeObjects(ctx context.Context, p *pass) error {
	for _, g := range p.regions {
		if g.failure != nil || g.compiled.Config == nil && !g.live.exists {
			continue
		}
		if g.failure = r.handOverReplicas(ctx, g); g.failure != nil {
			continue
		}
		for _, object := range g.objects.Objects() {
			if g.failure = r.apply(ctx, p, object); g.failure != nil {
				break
			}
		}
	}
	return nil
}

// handOverReplicas keeps the number of proxies when autoscaling is turned on: a field
// that is applied no more falls back to its default, which is one, until the
// HorizontalPodAutoscaler sees to it. So the number is given to another owner first,
// as the API's documentation of server-side apply tells controllers to.
func (r *CompletionRouteReconciler) handOverReplicas(ctx context.Context, g *region) error {
	name := types.NamespacedName{Namespace: g.objects.Route.Namespace, Name: resources.NamesOf(g.objects.Route, g.name()).Proxy}
	var deployment appsv1.Deployment
	if g.objects.Proxy.Autoscaling == nil || r.Client.Get(ctx, name, &deployment) != nil || deployment.Spec.Replicas == nil {
		return nil // not asked for, or there is nothing to keep
	}
	scaler := kindOf(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")).metadata()
	if err := r.Client.Get(ctx, name, scaler); err == nil || client.IgnoreNotFound(err) != nil {
		return err
	}
	kept := g.objects.Handover(*deployment.Spec.Replicas).WithUID(deployment.UID)
	return r.Client.Apply(ctx, kept, client.FieldOwner(FieldOwner(r.Region)+"-replicas"), client.ForceOwnership)
}

// apply brings one object to what it should be, whoever changed it.
func (r *CompletionRouteReconciler) apply(ctx context.Context, p *pass, desired runtime.ApplyConfiguration) error {
	object, digest, err := encode(desired)
	if err != nil {
		return err
	}
	version, err := r.versionOf(ctx, p.route, object)
	if err != nil {
		return fmt.Errorf("%s: %w", object.GetKind(), err)
	}
	key := appliedKey{client.ObjectKeyFromObject(p.route), object.GetKind(), object.GetName()}
	if r.applied.is(key, written{digest, version}) {
		return nil
	}
	err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(FieldOwner(r.Region)), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), withoutContent(object.GetKind(), err))
	}
	r.applied.set(key, written{digest, object.GetResourceVersion()})
	return nil
}

// withoutContent is the error without what an object holds: the API server, or a webhook
// before it, may quote what it refuses, and the error goes into the log and the status.
func withoutContent(kind string, err error) error {
	if reason := apierrors.ReasonForError(err); kind == "Secret" && reason != metav1.StatusReasonUnknown {
		return fmt.Errorf("the API server refuses it: %s", reason)
	}
	return err
}

// FieldOwner is the name under which the operator of a region applies objects; empty
// is the operator of all regions.
func FieldOwner(region string) string {
	if region == "" {
		return "ghostline-operator"
	}
	return "ghostline-operator-" + region
}

// encode is the object as it is sent, and what tells it from another.
func encode(desired runtime.ApplyConfiguration) (*unstructured.Unstructured, [sha256.Size]byte, error) {
	data, err := json.Marshal(desired)
	if err != nil {
		return nil, [sha256.Size]byte{}, err
	}
	object := new(unstructured.Unstructured)
	if err := object.UnmarshalJSON(data); err != nil {
		return nil, [sha256.Size]byte{}, err
	}
	return object, sha256.Sum256(data), nil
}

// versionOf is the version at which the object is known; empty if there is none. The
// cache holds only what carries our labels, so the API server is asked before an
// object is made: it may be somebody else's.
func (r *CompletionRouteReconciler) versionOf(ctx context.Context, route *v1alpha1.CompletionRoute, object client.Object) (string, error) {
	kind := kindOf(object.GetObjectKind().GroupVersionKind())
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	live := kind.object()
	err := r.Client.Get(ctx, name, live)
	if client.IgnoreNotFound(err) == nil && err != nil {
		live = kind.metadata()
		err = r.Direct.Get(ctx, name, live)
	}
	if err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return live.GetResourceVersion(), checkOwner(route, live)
}

// prune removes the route's objects that it does not want any more: those of a region
// that it lost, and a HorizontalPodAutoscaler that is asked for no longer.
func (r *CompletionRouteReconciler) prune(ctx context.Context, p *pass) error {
	wanted, err := p.wanted()
	if err != nil {
		return err
	}
	for _, kind := range ownedKinds() {
		list := kind.objects()
		if err := r.Client.List(ctx, list, client.InNamespace(p.route.Namespace), client.MatchingLabels{resources.LabelRoute: p.route.Name}); err != nil {
			return err
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return err
		}
		for _, item := range items {
			object := item.(client.Object)
			if wanted[kind.Kind+"/"+object.GetName()] || !metav1.IsControlledBy(object, p.route) {
				continue
			}
			uid := object.GetUID()
			err := r.Client.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
			}
		}
	}
	return nil
}

// wanted are the objects of the route's regions, as KIND/NAME.
func (p *pass) wanted() (map[string]bool, error) {
	wanted := map[string]bool{}
	for _, g := range p.regions {
		objects := append(g.objects.Objects(), g.objects.ConfigMap(nil), g.objects.Credentials(nil))
		for _, desired := range objects {
			object, _, err := encode(desired)
			if err != nil {
				return nil, err
			}
			wanted[object.GetKind()+"/"+object.GetName()] = true
		}
	}
	return wanted, nil
}

// applied remembers what was written and which version it got, so that an object that
// nobody touched is not written again.
type applied struct {
	mu    sync.Mutex
	known map[appliedKey]written
}

type appliedKey struct {
	route      types.NamespacedName
	kind, name string
}

type written struct {
	digest  [sha256.Size]byte
	version string
}

func (a *applied) is(key appliedKey, what written) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[key] == what
}

func (a *applied) set(key appliedKey, to written) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = map[appliedKey]written{}
	}
	a.known[key] = to
}

func (a *applied) forget(route types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.known {
		if key.route == route {
			delete(a.known, key)
		}
	}
}
