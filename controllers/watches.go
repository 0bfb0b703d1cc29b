package controllers

import (
	"context"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/compile"
	"github.com/ghostline-dev/ghostline/controllers/resources"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The indexes of routes by the Secrets and ConfigMaps that they refer to.
const (
	indexSecrets    = "secrets"
	indexConfigMaps = "configMaps"
)

// watch has the reconciler called for a route when the route changes, what it owns,
// what it refers to, or one of its proxies.
func (r *CompletionRouteReconciler) watch(manager ctrl.Manager) error {
	for index, names := range map[string]func(*v1alpha1.CompletionRoute) []string{indexSecrets: r.secretNames, indexConfigMaps: r.configMapNames} {
		err := manager.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.CompletionRoute{}, index, func(object client.Object) []string {
			return names(object.(*v1alpha1.CompletionRoute))
		})
		if err != nil {
			return err
		}
	}
	b := ctrl.NewControllerManagedBy(manager).
		For(&v1alpha1.CompletionRoute{}, builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	for _, kind := range ownedKinds() {
		if kind.whole != nil {
			b.Owns(kind.whole)
		} else {
			b.Owns(kind.metadata(), builder.OnlyMetadata)
		}
	}
	return b.
		WatchesMetadata(&corev1.Secret{}, r.routesThatName(indexSecrets)).
		WatchesMetadata(&corev1.ConfigMap{}, r.routesThatName(indexConfigMaps)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(routeOfPod)).
		Complete(r)
}

func (r *CompletionRouteReconciler) secretNames(route *v1alpha1.CompletionRoute) []string {
	var names []string
	for _, region := range r.regionsOf(route) {
		secrets, _ := compile.Names(route, region)
		names = append(names, secrets...)
		if tls := compile.ProxyOf(route, region).TLS; tls != nil {
			names = append(names, tls.SecretRef.Name)
		}
	}
	return names
}

func (r *CompletionRouteReconciler) configMapNames(route *v1alpha1.CompletionRoute) []string {
	var names []string
	for _, region := range r.regionsOf(route) {
		_, configMaps := compile.Names(route, region)
		names = append(names, configMaps...)
	}
	return names
}

// routesThatName has the routes called that refer to an object.
func (r *CompletionRouteReconciler) routesThatName(index string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		var routes v1alpha1.CompletionRouteList
		if err := r.Client.List(ctx, &routes, client.InNamespace(object.GetNamespace()), client.MatchingFields{index: object.GetName()}); err != nil {
			return nil // the cache is closed: the operator ends
		}
		var requests []reconcile.Request
		for i := range routes.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&routes.Items[i])})
		}
		return requests
	})
}

func routeOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	route := pod.GetLabels()[resources.LabelRoute]
	if route == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: route}}}
}
