package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestMonitoring: the alerts and the dashboard reach the cluster as they are in the
// chart's files, with what Prometheus and Grafana fill in, in the braces of Helm. Without
// the files there are none.
func TestMonitoring(t *testing.T) {
	const rules = `groups:
- name: ghostline
  rules:
  - alert: RegionDown
    expr: ghostline_region_vote == 0
    annotations:
      summary: "{{ $labels.region }} is down"
`
	const dashboard = "{\n  \"title\": \"{{region}}\",\n  \"panels\": []\n}\n"
	for name, files := range map[string]map[string]string{
		"neither": nil, "both": {"rules.yaml": rules, "dashboard.json": dashboard},
	} {
		chart := t.TempDir()
		if err := os.CopyFS(chart, os.DirFS(chartDir(operator))); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"rules.yaml", "dashboard.json"} {
			if err := os.RemoveAll(filepath.Join(chart, "files", file)); err != nil {
				t.Fatal(err)
			}
		}
		for file, content := range files {
			if err := os.WriteFile(filepath.Join(chart, "files", file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		objects := monitored(t, chart)
		if len(files) == 0 {
			if len(objects) > 0 {
				t.Errorf("%s: there are %v", name, objects)
			}
			continue
		}
		checkMonitoring(t, objects, rules, dashboard)
	}
}

// TestMonitoringFiles is TestMonitoring of the files that the chart has.
func TestMonitoringFiles(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(chartDir(operator), "files/rules.yaml"))
	if os.IsNotExist(err) {
		t.Skip("the chart has no alerts yet")
	}
	dashboard, missing := os.ReadFile(filepath.Join(chartDir(operator), "files/dashboard.json"))
	if err != nil || missing != nil {
		t.Fatal(err, missing)
	}
	checkMonitoring(t, monitored(t, chartDir(operator)), string(rules), string(dashboard))
}

// monitored are the alerts and the dashboard of the chart in a folder.
func monitored(t *testing.T, chart string) []*unstructured.Unstructured {
	t.Helper()
	out, err := run(t, "helm", "template", operator, chart, "--namespace", namespace,
		"--set", "crds.enabled=false,prometheusRule.enabled=true,prometheusRule.labels.release=p,dashboard.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	var found []*unstructured.Unstructured
	for _, object := range decode(t, out) {
		if kind := object.GetKind(); kind == "PrometheusRule" || kind == "ConfigMap" {
			found = append(found, object)
		}
	}
	return found
}

func checkMonitoring(t *testing.T, objects []*unstructured.Unstructured, rules, dashboard string) {
	t.Helper()
	rule, configMap := find(t, objects, "PrometheusRule", operator), find(t, objects, "ConfigMap", operator+"-dashboard")
	var want any
	if err := yaml.Unmarshal([]byte(rules), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, rule.Object["spec"]); diff != "" {
		t.Errorf("the alerts differ (-files/rules.yaml +chart):\n%s", diff)
	}
	got, _, err := unstructured.NestedString(configMap.Object, "data", "ghostline.json")
	if diff := cmp.Diff(strings.TrimSpace(dashboard), got); diff != "" || err != nil {
		t.Errorf("the dashboard differs, error %v (-files/dashboard.json +chart):\n%s", err, diff)
	}
	if rule.GetLabels()["release"] != "p" || configMap.GetLabels()["grafana_dashboard"] != "1" {
		t.Errorf("the labels are %v and %v", rule.GetLabels(), configMap.GetLabels())
	}
}
