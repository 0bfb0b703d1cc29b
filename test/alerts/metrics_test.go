package alerts_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// targetLabels come with every series, from Prometheus or from the chart's PodMonitor.
var targetLabels = []string{"namespace", "route", "region", "pod", "instance", "job"}

// metric is what expressions may ask of one.
type metric struct {
	labels []string
	values []string // that a label may have; nil is not known
}

// catalogue are all metrics that rules and panels can look at, by name.
type catalogue map[string]metric

// knownMetrics are those of the services as docs/metrics.md has them, which test/docs
// holds to the code; the operator's and the process's by their registries; and `up`.
func knownMetrics(t *testing.T) catalogue {
	t.Helper()
	known := catalogue{"up": {}}
	known.addPage(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, suffix := range []string{"", "_sum", "_count"} { // those of the summary
			known[family.GetName()+suffix] = metric{}
		}
	}
	known.addOperator(t)
	return known
}

func (known catalogue) addPage(t *testing.T) {
	t.Helper()
	entry := regexp.MustCompile("(?s)^`(\\w+)`\n\n(Counter|Gauge|Histogram)\\. Labels: ([^.]*)\\.(.*)$")
	sections := map[string]string{}
	for _, section := range strings.Split(read(t, "../../docs/metrics.md"), "\n### ")[1:] {
		match := entry.FindStringSubmatch(strings.Split(section, "\n## ")[0])
		if match == nil {
			t.Fatalf("docs/metrics.md: no metric begins with %.60q", section)
		}
		m := metric{}
		if match[3] != "none" {
			m.labels = regexp.MustCompile(`\w+`).FindAllString(match[3], -1)
		}
		sections[match[1]] = match[4]
		known.add(match[1], match[2], m)
	}
	word := regexp.MustCompile("`([^`]+)`")
	for name, section := range sections {
		values := []string{"none"}
		for _, match := range word.FindAllStringSubmatch(section, -1) {
			values = append(values, match[1])
			for _, other := range word.FindAllStringSubmatch(sections[match[1]], -1) { // "as for"
				values = append(values, other[1])
			}
		}
		known[name] = metric{known[name].labels, values}
	}
	if len(sections) < 50 {
		t.Fatalf("docs/metrics.md has only %d metrics", len(sections))
	}
}

func (known catalogue) add(name, kind string, m metric) {
	known[name] = m
	if kind == "Histogram" {
		known[name+"_bucket"] = metric{append([]string{"le"}, m.labels...), nil}
		known[name+"_sum"], known[name+"_count"] = m, m
	}
}

func (known catalogue) addOperator(t *testing.T) {
	t.Helper()
	registry := prometheus.NewRegistry()
	controllers.NewMetrics(registry)
	described := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{(.*)\}`)
	descriptions := make(chan *prometheus.Desc)
	go func() { defer close(descriptions); registry.Describe(descriptions) }()
	for d := range descriptions {
		match := described.FindStringSubmatch(d.String())
		if match == nil {
			t.Fatalf("a metric of the operator says %s of itself", d)
		}
		kind := "Gauge"
		if strings.HasSuffix(match[1], "_seconds") {
			kind = "Histogram"
		}
		known.add(match[1], kind, metric{regexp.MustCompile(`\w+`).FindAllString(match[2], -1),
			[]string{v1alpha1.ConditionAccepted, v1alpha1.ConditionResolvedRefs, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady}})
	}
}

// has says whether any of the metrics has the label.
func (known catalogue) has(label string, metrics ...string) bool {
	return slices.Contains(targetLabels, label) || slices.ContainsFunc(metrics, func(name string) bool {
		return slices.Contains(known[name].labels, label)
	})
}

// check is what is wrong with an expression, if it is anything.
func (known catalogue) check(e expression) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if e.Error != "" {
		problem("%s", e.Error)
	}
	for _, s := range e.Selectors {
		m, ok := known[s.Metric]
		if !ok {
			problem("there is no metric %s", s.Metric)
			continue
		}
		for _, matcher := range s.Matchers {
			if !known.has(matcher.Label, s.Metric) {
				problem("%s has no label %s", s.Metric, matcher.Label)
			}
			for _, value := range strings.Split(matcher.Value, "|") {
				literal := regexp.MustCompile(`^\w[\w-]*$`).MatchString(value)
				if literal && m.values != nil && !slices.Contains(targetLabels, matcher.Label) && !slices.Contains(m.values, value) {
					problem("the label %s of %s is never %s", matcher.Label, s.Metric, value)
				}
			}
		}
	}
	for _, g := range e.Groupings {
		for _, label := range g.Labels {
			if !known.has(label, g.Metrics...) {
				problem("none of %s has a label %s", strings.Join(g.Metrics, ", "), label)
			}
		}
	}
	return problems
}

// missing are the labels that a text wants of an expression's series, in vain.
func (known catalogue) missing(e expression, wanted [][]string) (labels []string) {
	var metrics []string
	for _, s := range e.Selectors {
		metrics = append(metrics, s.Metric)
	}
	for _, match := range wanted {
		if !known.has(match[1], metrics...) {
			labels = append(labels, match[1])
		}
	}
	return labels
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
