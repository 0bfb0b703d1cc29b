package resources

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
)

// NetworkPolicy lets anyone connect for completions, which take a token, and closes the
// admin port, which asks for none, to all but the operator and the namespaces that are
// labelled with [LabelMonitoring]. (A node always reaches its own pods, and so do
// probes and kubectl port-forward.) Where proxies connect to is not restricted: units,
// the issuer and collectors of spans are anywhere.
func (r Region) NetworkPolicy() *networkingv1ac.NetworkPolicyApplyConfiguration {
	operator := networkingv1ac.NetworkPolicyPeer().
		WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{LabelName: NameOperator}))
	if r.OperatorNamespace != "" && r.OperatorNamespace != r.Route.Namespace {
		operator.WithNamespaceSelector(metav1ac.LabelSelector().
			WithMatchLabels(map[string]string{corev1.LabelMetadataName: r.OperatorNamespace}))
	}
	monitoring := networkingv1ac.NetworkPolicyPeer().
		WithNamespaceSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{LabelMonitoring: "true"}))
	return owned(r, networkingv1ac.NetworkPolicy(r.names().Proxy, r.Route.Namespace)).
		WithSpec(networkingv1ac.NetworkPolicySpec().
			WithPodSelector(r.selector()).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(
				networkingv1ac.NetworkPolicyIngressRule().
					WithPorts(policyPort(r.traffic().pod)),
				networkingv1ac.NetworkPolicyIngressRule().
					WithPorts(policyPort(PortAdmin)).
					WithFrom(operator, monitoring),
			))
}

func policyPort(number int32) *networkingv1ac.NetworkPolicyPortApplyConfiguration {
	return networkingv1ac.NetworkPolicyPort().
		WithProtocol(corev1.ProtocolTCP).
		WithPort(intstr.FromInt32(number))
}
