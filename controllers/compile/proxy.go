package compile

import "github.com/ghostline-dev/ghostline/api/v1alpha1"

// ProxyOf is how the proxies of a region run: spec.proxy, with the fields that the
// region's own proxy sets in their place.
func ProxyOf(route *v1alpha1.CompletionRoute, region string) v1alpha1.Proxy {
	var out v1alpha1.Proxy
	if route.Spec.Proxy != nil {
		out = *route.Spec.Proxy.DeepCopy()
	}
	at := regionIndex(route, region)
	if at < 0 || route.Spec.Regions[at].Proxy == nil {
		return out
	}
	own := route.Spec.Regions[at].Proxy.DeepCopy()
	if own.Replicas != nil || own.Autoscaling != nil {
		// One of the two decides, and a region that sets one means that one.
		out.Replicas, out.Autoscaling = own.Replicas, own.Autoscaling
	}
	if own.Image != "" {
		out.Image = own.Image
	}
	if own.Service != nil {
		out.Service = own.Service
	}
	if own.TLS != nil {
		out.TLS = own.TLS
	}
	if own.TrustedEdges != nil {
		out.TrustedEdges = own.TrustedEdges
	}
	if own.Resources != nil {
		out.Resources = own.Resources
	}
	overridePlacement(&out, own)
	return out
}

// overridePlacement takes over where the pods run, and how they get there.
func overridePlacement(out, own *v1alpha1.Proxy) {
	if own.ImagePullSecrets != nil {
		out.ImagePullSecrets = own.ImagePullSecrets
	}
	if own.NodeSelector != nil {
		out.NodeSelector = own.NodeSelector
	}
	if own.Tolerations != nil {
		out.Tolerations = own.Tolerations
	}
	if own.PriorityClassName != "" {
		out.PriorityClassName = own.PriorityClassName
	}
}
