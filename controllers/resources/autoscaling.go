package resources

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
)

// The API server's defaults of v1alpha1.Autoscaling, for a route that comes from a file.
const (
	defaultMin       = 2
	defaultTargetCPU = 60
)

// HorizontalPodAutoscaler has as many proxies run as their processors need; nil if the
// route does not ask for it. It is quick to add and slow to take away: clients keep
// their connections for hours, so that a new proxy gets few of them at first, and each
// that goes makes its clients connect anew, all at about the same time.
func (r Region) HorizontalPodAutoscaler() *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	wanted := r.Proxy.Autoscaling
	if wanted == nil {
		return nil
	}
	cpu := autoscalingv2ac.MetricSpec().
		WithType(autoscalingv2.ResourceMetricSourceType).
		WithResource(autoscalingv2ac.ResourceMetricSource().
			WithName(corev1.ResourceCPU).
			WithTarget(autoscalingv2ac.MetricTarget().
				WithType(autoscalingv2.UtilizationMetricType).
				WithAverageUtilization(orDefault(wanted.TargetCPU, defaultTargetCPU))))
	// Part of a proxy counts as a whole one: of three, one may go.
	tenth := autoscalingv2ac.HPAScalingPolicy().
		WithType(autoscalingv2.PercentScalingPolicy).
		WithValue(10).
		WithPeriodSeconds(60)
	slowly := autoscalingv2ac.HPAScalingRules().
		WithStabilizationWindowSeconds(600).
		WithPolicies(tenth)
	return owned(r, autoscalingv2ac.HorizontalPodAutoscaler(r.names().Proxy, r.Route.Namespace)).
		WithSpec(autoscalingv2ac.HorizontalPodAutoscalerSpec().
			WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
				WithAPIVersion("apps/v1").
				WithKind("Deployment").
				WithName(r.names().Proxy)).
			WithMinReplicas(minReplicas(wanted)).
			WithMaxReplicas(wanted.Max).
			WithMetrics(cpu).
			WithBehavior(autoscalingv2ac.HorizontalPodAutoscalerBehavior().WithScaleDown(slowly)))
}

// minReplicas is at most the maximum, which the default alone could be above.
func minReplicas(wanted *v1alpha1.Autoscaling) int32 {
	return min(orDefault(wanted.Min, defaultMin), wanted.Max)
}

func orDefault(value, otherwise int32) int32 {
	if value == 0 {
		return otherwise
	}
	return value
}

// Handover is a Deployment with its number of proxies alone. A route that begins to ask
// for autoscaling takes replicas out of what the operator applies, and the API server
// would put its own default in their place: one. So this is applied first, by another
// field owner and with the number that there is; it owns replicas until the
// HorizontalPodAutoscaler sets them.
func (r Region) Handover(replicas int32) *appsv1ac.DeploymentApplyConfiguration {
	return appsv1ac.Deployment(r.names().Proxy, r.Route.Namespace).
		WithSpec(appsv1ac.DeploymentSpec().WithReplicas(replicas))
}
