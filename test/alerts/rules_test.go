package alerts_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	rulesFile = "../../charts/ghostline/files/rules.yaml"
	runbooks  = "../../docs/runbooks/"
	// runbookURL is where those who run Ghostline read them.
	runbookURL = "https://github.com/ghostline-dev/ghostline/blob/main/docs/runbooks/"
)

// rule is one of the rules file.
type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

func readRules(t *testing.T) (rules []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, rulesFile)), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		rules = append(rules, group.Rules...)
	}
	if len(rules) < 50 {
		t.Fatalf("%s has only %d rules", rulesFile, len(rules))
	}
	return rules
}

// addRecorded adds what the rules record: it has the labels of what it is made of.
func (known catalogue) addRecorded(t *testing.T, r reader) {
	t.Helper()
	for _, rule := range readRules(t) {
		if rule.Record == "" {
			continue
		}
		var recorded metric
		for _, s := range r.read(rule.Expr)[0].Selectors {
			recorded.labels = append(recorded.labels, known[s.Metric].labels...)
		}
		known[rule.Record] = recorded
	}
}

// TestRuleExpressions fails for metrics, labels and values that nothing has.
func TestRuleExpressions(t *testing.T) {
	known, r := knownMetrics(t), newReader(t)
	known.addRecorded(t, r)
	label := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, rule := range readRules(t) {
		e := r.read(rule.Expr)[0]
		for _, problem := range known.check(e) {
			t.Errorf("%s%s: %s\n%s", rule.Alert, rule.Record, problem, rule.Expr)
		}
		for name, text := range rule.Annotations {
			for _, missing := range known.missing(e, label.FindAllStringSubmatch(text, -1)) {
				t.Errorf("%s: its %s has the label %s, which its series do not have", rule.Alert, name, missing)
			}
		}
	}
}

// TestAlertsAreComplete wants what somebody who is woken needs.
func TestAlertsAreComplete(t *testing.T) {
	for _, rule := range readRules(t) {
		if rule.Alert == "" {
			continue
		}
		if severity := rule.Labels["severity"]; severity != "page" && severity != "ticket" {
			t.Errorf("%s: its severity is %q, want page or ticket", rule.Alert, severity)
		}
		if names := slices.Sorted(maps.Keys(rule.Annotations)); !slices.Equal(names, []string{"description", "runbook_url", "summary"}) {
			t.Errorf("%s: its annotations are %s", rule.Alert, names)
		}
		if !strings.HasPrefix(rule.Alert, "Ghostline") {
			t.Errorf("%s: its name is to begin with Ghostline, since alerts of all systems meet in one place", rule.Alert)
		}
	}
}

// TestRunbooks wants a page for each alert, in the index too, and an alert for each page.
func TestRunbooks(t *testing.T) {
	index, pages := read(t, runbooks+"README.md"), map[string]bool{}
	for _, rule := range readRules(t) {
		if rule.Alert == "" {
			continue
		}
		name, ok := strings.CutPrefix(rule.Annotations["runbook_url"], runbookURL)
		if !ok || !strings.HasSuffix(name, ".md") {
			t.Errorf("%s: its runbook_url is %s, want %s….md", rule.Alert, rule.Annotations["runbook_url"], runbookURL)
			continue
		}
		pages[name] = true
		if !strings.Contains(firstLines(read(t, runbooks+name)), "`"+rule.Alert+"`") {
			t.Errorf("%s%s: its head does not name the alert %s", runbooks, name, rule.Alert)
		}
		line := regexp.MustCompile("(?m)^\\| `" + rule.Alert + "` \\| .*\\b" + rule.Labels["severity"] + "\\b.* \\| \\[.*\\]\\(" + regexp.QuoteMeta(name) + "\\) \\|$")
		if !line.MatchString(index) {
			t.Errorf("%sREADME.md: no line of the table has %s, its severity %s and %s", runbooks, rule.Alert, rule.Labels["severity"], name)
		}
	}
	files, err := filepath.Glob(runbooks + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := filepath.Base(file); name != "README.md" && !pages[name] {
			t.Errorf("%s: no alert has this page", file)
		}
	}
}

func firstLines(page string) string {
	head, _, _ := strings.Cut(page, "\n## ")
	return head
}

// TestRunbookPages checks what a page would have somebody do: its links, its queries,
// and the alerts and metrics that it names.
func TestRunbookPages(t *testing.T) {
	known, r := knownMetrics(t), newReader(t)
	known.addRecorded(t, r)
	alerts := map[string]bool{}
	for _, rule := range readRules(t) {
		alerts[rule.Alert] = true
	}
	files, err := filepath.Glob(runbooks + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, file := range files {
		page := read(t, file)
		for _, link := range regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(page, -1) {
			read(t, filepath.Join(runbooks, link[1]))
		}
		for _, name := range regexp.MustCompile(`\bGhostline[A-Z]\w+`).FindAllString(page, -1) {
			if !alerts[name] {
				t.Errorf("%s: there is no alert %s", file, name)
			}
		}
		for _, name := range regexp.MustCompile(`\bghostline_\w*[a-z0-9]`).FindAllString(page, -1) {
			if _, ok := known[name]; !ok {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		for _, block := range regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(page, -1) {
			for _, query := range strings.Split(strings.TrimSpace(block[1]), "\n") {
				if strings.HasPrefix(query, "#") {
					continue
				}
				queries++
				for _, problem := range known.check(r.read(query)[0]) {
					t.Errorf("%s: %s\n%s", file, problem, query)
				}
			}
		}
	}
	if queries < 20 {
		t.Errorf("only %d queries were found", queries)
	}
}
