package charts

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

func labelsOf(pods corev1.PodTemplateSpec) labels.Set { return pods.Labels }

// selected are the labels by which an object finds pods, if it does.
func selected(object *unstructured.Unstructured) (map[string]string, bool) {
	paths := map[string][]string{
		"Service":             {"spec", "selector"},
		"NetworkPolicy":       {"spec", "podSelector", "matchLabels"},
		"PodDisruptionBudget": {"spec", "selector", "matchLabels"},
		"PodMonitor":          {"spec", "selector", "matchLabels"},
		"Deployment":          {"spec", "selector", "matchLabels"},
	}
	path, is := paths[object.GetKind()]
	if !is {
		return nil, false
	}
	found, _, _ := unstructured.NestedStringMap(object.Object, path...)
	return found, true
}

// namedPorts are the ports of pods that an object names.
func namedPorts(object *unstructured.Unstructured) []string {
	lists := map[string]struct {
		path  []string
		field string
	}{
		"Service":    {[]string{"spec", "ports"}, "targetPort"},
		"PodMonitor": {[]string{"spec", "podMetricsEndpoints"}, "port"},
	}
	list := lists[object.GetKind()]
	entries, _, _ := unstructured.NestedSlice(object.Object, list.path...)
	var names []string
	for _, entry := range entries {
		if name, is := entry.(map[string]any)[list.field].(string); is {
			names = append(names, name)
		}
	}
	return names
}
