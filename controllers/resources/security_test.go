package resources

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// restricted is what the API server says of a pod in a namespace that is labelled
// pod-security.kubernetes.io/enforce=restricted; empty is nothing.
func restricted(t *testing.T, pod corev1.PodTemplateSpec) string {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
	return result.ForbiddenDetail()
}

// deploymentOf is the region's Deployment as the API server decodes it.
func deploymentOf(t *testing.T, region Region) *appsv1.Deployment {
	t.Helper()
	data, err := json.Marshal(region.Deployment())
	if err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{}
	if err := json.Unmarshal(data, deployment); err != nil {
		t.Fatal(err)
	}
	return deployment
}

func TestPodsAreRestricted(t *testing.T) {
	for name, file := range goldens(t) {
		for _, region := range regionsOf(readRoute(t, file)) {
			if detail := restricted(t, deploymentOf(t, region).Spec.Template); detail != "" {
				t.Errorf("%s: the pods of %s are refused: %s", name, region.Name, detail)
			}
		}
	}
}

// TestRestrictionIsChecked: each of the settings is one that the check above misses.
func TestRestrictionIsChecked(t *testing.T) {
	region := smallRegion(t)
	yes := true
	for name, loosen := range map[string]func(pod *corev1.PodSpec){
		"root":                 func(pod *corev1.PodSpec) { pod.SecurityContext.RunAsNonRoot = nil },
		"no seccomp":           func(pod *corev1.PodSpec) { pod.SecurityContext.SeccompProfile = nil },
		"privilege escalation": func(pod *corev1.PodSpec) { pod.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"capabilities":         func(pod *corev1.PodSpec) { pod.Containers[0].SecurityContext.Capabilities = nil },
		"privileged":           func(pod *corev1.PodSpec) { pod.Containers[0].SecurityContext.Privileged = &yes },
		"the node's network":   func(pod *corev1.PodSpec) { pod.HostNetwork = true },
		"the node's files": func(pod *corev1.PodSpec) {
			pod.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		},
	} {
		pod := deploymentOf(t, region).Spec.Template
		loosen(&pod.Spec)
		if restricted(t, pod) == "" {
			t.Errorf("%s: the pod is not refused", name)
		}
	}
}

// TestPodsCannotWriteOrAskTheCluster: what Pod Security does not look at.
func TestPodsCannotWriteOrAskTheCluster(t *testing.T) {
	for name, file := range goldens(t) {
		for _, region := range regionsOf(readRoute(t, file)) {
			pod := deploymentOf(t, region).Spec.Template.Spec
			if token := pod.AutomountServiceAccountToken; token == nil || *token {
				t.Errorf("%s: pods have a token for the API server", name)
			}
			for _, container := range pod.Containers {
				if readOnly := container.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
					t.Errorf("%s: the root file system of %s can be written", name, container.Name)
				}
				for _, mount := range container.VolumeMounts {
					if !mount.ReadOnly {
						t.Errorf("%s: %s can be written", name, mount.MountPath)
					}
				}
			}
		}
	}
}
