package resources

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
)

// PodDisruptionBudget has nodes emptied one proxy at a time. It says how many may be
// missing rather than how many must be there, since with one proxy the latter would
// keep its node from ever being emptied. A proxy that is not ready serves nobody and is
// no reason to wait.
func (r Region) PodDisruptionBudget() *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return owned(r, policyv1ac.PodDisruptionBudget(r.names().Proxy, r.Route.Namespace)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithSelector(r.selector()).
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow))
}
