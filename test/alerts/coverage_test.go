package alerts_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// unitTests are the parts of a file for `promtool test rules` that say which alerts
// fire when.
type unitTests struct {
	Tests []struct {
		PromQL []struct {
			Expr    string
			Samples []struct{ Labels string } `json:"exp_samples"`
		} `json:"promql_expr_test"`
		Alerts []struct {
			Name   string `json:"alertname"`
			Alerts []struct {
				Labels map[string]string `json:"exp_labels"`
			} `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	}
}

// labels of a selector that are compared with =, or with =~ as regular expressions.
var pair = regexp.MustCompile(`(\w+)(=~?)"([^"]*)"`)

// isChosen says whether a selector of ALERTS can choose the alerts of a rule.
func isChosen(r rule, selector string) bool {
	labels := map[string]string{"alertname": r.Alert, "alertstate": "firing"}
	for name, value := range r.Labels {
		labels[name] = value
	}
	for _, match := range pair.FindAllStringSubmatch(selector, -1) {
		value, own := labels[match[1]]
		if !own {
			continue // of the series
		}
		if match[2] == "=" && value != match[3] || match[2] == "=~" && !regexp.MustCompile("^(?:"+match[3]+")$").MatchString(value) {
			return false
		}
	}
	return true
}

// seen is what the unit tests have of one rule.
type seen struct{ fires, quiet bool }

func (s *seen) add(r rule, tests unitTests) {
	for _, test := range tests.Tests {
		for _, check := range test.PromQL {
			if !strings.HasPrefix(check.Expr, "ALERTS") || !isChosen(r, check.Expr) {
				continue
			}
			fires := false
			for _, sample := range check.Samples {
				fires = fires || isChosen(r, sample.Labels)
			}
			s.fires, s.quiet = s.fires || fires, s.quiet || !fires
		}
		for _, check := range test.Alerts {
			if check.Name != r.Alert {
				continue
			}
			fires := false
			for _, alert := range check.Alerts {
				fires = fires || alert.Labels["severity"] == r.Labels["severity"] && alert.Labels["long"] == r.Labels["long"]
			}
			s.fires, s.quiet = s.fires || fires, s.quiet || !fires
		}
	}
}

// TestEveryAlertIsTested wants series for each alert that fire it, and some that do not.
func TestEveryAlertIsTested(t *testing.T) {
	files, err := filepath.Glob("testdata/*.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		var s seen
		for _, file := range files {
			var tests unitTests
			if err := yaml.Unmarshal([]byte(read(t, file)), &tests); err != nil {
				t.Fatal(err)
			}
			s.add(r, tests)
		}
		if !s.fires || !s.quiet {
			t.Errorf("%s %v: a unit test fires it: %t, one leaves it quiet: %t; testdata is to have both", r.Alert, r.Labels, s.fires, s.quiet)
		}
	}
}
