package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// traffic is the port that completions are asked for at. There is one: an edge that
// speaks TLS to clients speaks it to proxies as well if they have a certificate, and a
// second port in the clear would only be one more to guard.
type traffic struct {
	name        string
	pod         int32 // in the pod
	service     int32 // at the Service
	appProtocol string
}

func (r Region) traffic() traffic {
	if r.Proxy.TLS != nil {
		return traffic{name: PortNameTLS, pod: PortTLS, service: 443, appProtocol: "https"}
	}
	return traffic{name: PortNameCleartext, pod: PortCleartext, service: 80, appProtocol: "kubernetes.io/h2c"}
}

// Service is where clients or an edge reach the region's proxies.
func (r Region) Service() *corev1ac.ServiceApplyConfiguration {
	kind := corev1.ServiceTypeClusterIP
	var annotations map[string]string
	if wanted := r.Proxy.Service; wanted != nil {
		annotations = wanted.Annotations
		if wanted.Type != "" {
			kind = wanted.Type
		}
	}
	spec := corev1ac.ServiceSpec().
		WithType(kind).
		WithSelector(r.Selector()).
		WithPorts(r.trafficPort(r.traffic().service))
	if kind == corev1.ServiceTypeLoadBalancer {
		// The proxy sees the client's own address instead of a node's, the hop from
		// node to node is saved, and the load balancer asks each node whether it has
		// a proxy that is ready, rather than the path / of the proxy.
		spec.WithExternalTrafficPolicy(corev1.ServiceExternalTrafficPolicyLocal)
	}
	return owned(r, corev1ac.Service(r.names().Proxy, r.Route.Namespace)).
		WithAnnotations(annotations).
		WithSpec(spec)
}

// HeadlessService has the addresses of the proxies that are ready, by which an edge
// finds them and they count themselves. Its ports are the pods' own, since nothing
// stands between to translate them. It says nothing of publishNotReadyAddresses, which
// must stay at its default: false.
func (r Region) HeadlessService() *corev1ac.ServiceApplyConfiguration {
	admin := corev1ac.ServicePort().
		WithName(PortNameAdmin).
		WithProtocol(corev1.ProtocolTCP).
		WithPort(PortAdmin).
		WithTargetPort(intstr.FromString(PortNameAdmin))
	return owned(r, corev1ac.Service(r.names().Proxies, r.Route.Namespace)).
		WithSpec(corev1ac.ServiceSpec().
			WithClusterIP(corev1.ClusterIPNone).
			WithSelector(r.Selector()).
			WithPorts(r.trafficPort(r.traffic().pod), admin))
}

// trafficPort sends to the port by its name, so that while proxies are replaced by
// ones with TLS, or without, none gets what it does not speak.
func (r Region) trafficPort(number int32) *corev1ac.ServicePortApplyConfiguration {
	port := r.traffic()
	return corev1ac.ServicePort().
		WithName(port.name).
		WithProtocol(corev1.ProtocolTCP).
		WithAppProtocol(port.appProtocol).
		WithPort(number).
		WithTargetPort(intstr.FromString(port.name))
}
