package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is one of a typed kind, of which here only the namespace and the name are set.
type Object interface {
	metav1.Object
	runtime.Object
}

// Unwanted are the objects that the region may have had and does not ask for any more.
func (r Region) Unwanted() []Object {
	if r.Proxy.Autoscaling != nil {
		return nil
	}
	return []Object{&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: r.named(r.names().Proxy)}}
}

// Everything is all that the region may have, for when it is no part of its route any
// more, in the order in which it is to go: what adds pods, the pods, and then what they
// use.
func (r Region) Everything() []Object {
	names := r.names()
	return []Object{
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: r.named(names.Proxy)},
		&appsv1.Deployment{ObjectMeta: r.named(names.Proxy)},
		&policyv1.PodDisruptionBudget{ObjectMeta: r.named(names.Proxy)},
		&corev1.Service{ObjectMeta: r.named(names.Proxy)},
		&corev1.Service{ObjectMeta: r.named(names.Proxies)},
		&networkingv1.NetworkPolicy{ObjectMeta: r.named(names.Proxy)},
		&corev1.ConfigMap{ObjectMeta: r.named(names.Proxy)},
		&corev1.Secret{ObjectMeta: r.named(names.Credentials)},
	}
}

func (r Region) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: r.Route.Namespace, Name: name}
}
