package resources

import (
	"time"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// defaultReplicas is how many proxies run where a route says nothing: one can go and
// one fail, and one is left.
const defaultReplicas = 3

// minReady is how long a new proxy must have been ready before an old one goes: load
// balancers and the clients of the headless Service need it to find the new one.
const minReady = 5 * time.Second

// drainDelay is the proxy's -drain-delay: how long load balancers have to notice that
// it drains.
const drainDelay = 4 * time.Second

// gracePeriod is how long a proxy may take to end. It ends by itself when its streams
// have, so this is only a bound: a node kills what takes longer. It is made of the
// longest that any route may ask for rather than of this route's timeouts.total, since
// a changed grace period replaces all pods, and a changed config must not.
func gracePeriod() time.Duration {
	const (
		streams = 10 * time.Minute // the most that timeouts.total can be
		spans   = 5 * time.Second  // to send the last spans
		logs    = 2 * time.Second  // to write the last lines
		margin  = 19 * time.Second // for a busy node
	)
	return drainDelay + streams + spans + logs + margin
}

// Deployment runs the region's proxies. Nothing in its pod template depends on the
// config or the credentials, so that changing those replaces no pod.
func (r Region) Deployment() *appsv1ac.DeploymentApplyConfiguration {
	spec := appsv1ac.DeploymentSpec().
		WithSelector(r.selector()).
		WithMinReadySeconds(int32(minReady.Seconds())).
		// As many serve during a rollout as before it.
		WithStrategy(appsv1ac.DeploymentStrategy().
			WithType(appsv1.RollingUpdateDeploymentStrategyType).
			WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
				WithMaxUnavailable(intstr.FromInt32(0)).
				WithMaxSurge(intstr.FromString("25%")))). // rounded up
		WithTemplate(corev1ac.PodTemplateSpec().
			WithLabels(r.Labels()).
			WithSpec(r.pod()))
	if r.Proxy.Autoscaling == nil {
		replicas := int32(defaultReplicas)
		if r.Proxy.Replicas != nil {
			replicas = *r.Proxy.Replicas
		}
		spec.WithReplicas(replicas)
	}
	return owned(r, appsv1ac.Deployment(r.names().Proxy, r.Route.Namespace)).WithSpec(spec)
}

// pod needs nothing of Kubernetes: no ServiceAccount of its own, no token, and no
// environment from the Services around it.
func (r Region) pod() *corev1ac.PodSpecApplyConfiguration {
	pod := corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(int64(gracePeriod().Seconds())).
		WithSecurityContext(podSecurity()).
		WithTopologySpreadConstraints(
			r.spread(corev1.LabelTopologyZone),
			r.spread(corev1.LabelHostname),
		).
		WithVolumes(r.volumes()...).
		WithContainers(r.container())
	return r.placed(pod)
}

// placed says where the pod may run, and with which Secrets its image is pulled.
func (r Region) placed(pod *corev1ac.PodSpecApplyConfiguration) *corev1ac.PodSpecApplyConfiguration {
	for _, secret := range r.Proxy.ImagePullSecrets {
		pod.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(secret.Name))
	}
	for i := range r.Proxy.Tolerations {
		pod.WithTolerations(toleration(&r.Proxy.Tolerations[i]))
	}
	if r.Proxy.PriorityClassName != "" {
		pod.WithPriorityClassName(r.Proxy.PriorityClassName)
	}
	for key, value := range r.Proxy.NodeSelector {
		pod.WithNodeSelector(map[string]string{key: string(value)})
	}
	return pod
}

// toleration is one as it is applied: what is not set is not owned.
func toleration(from *v1alpha1.Toleration) *corev1ac.TolerationApplyConfiguration {
	out := corev1ac.Toleration()
	if from.Key != "" {
		out.WithKey(from.Key)
	}
	if from.Operator != "" {
		out.WithOperator(from.Operator)
	}
	if from.Value != "" {
		out.WithValue(from.Value)
	}
	if from.Effect != "" {
		out.WithEffect(from.Effect)
	}
	if from.TolerationSeconds != nil {
		out.WithTolerationSeconds(*from.TolerationSeconds)
	}
	return out
}

// spread has the proxies of one revision spread out where that is possible. Where it
// is not, a proxy beside another is better than none.
func (r Region) spread(over string) *corev1ac.TopologySpreadConstraintApplyConfiguration {
	return corev1ac.TopologySpreadConstraint().
		WithMaxSkew(1).
		WithTopologyKey(over).
		WithWhenUnsatisfiable(corev1.ScheduleAnyway).
		WithLabelSelector(r.selector()).
		WithMatchLabelKeys(appsv1.DefaultDeploymentUniqueLabelKey)
}
