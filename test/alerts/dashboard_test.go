package alerts_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const dashboardFile = "../../charts/ghostline/files/dashboard.json"

// dashboard is what the tests need of Grafana's.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct{ List []variable }
	Annotations   struct{ List []struct{ Name, Expr string } }
	Panels        []panel
}

type variable struct {
	Name, Type string
	Query      json.RawMessage
	AllValue   string
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ UID string }
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []target
}

type target struct {
	Datasource                struct{ UID string }
	RefID, Expr, LegendFormat string
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// rows are the questions that somebody on call asks, in their order.
var rows = []string{"Is it us?", "Who feels it?", "Where?", "Why?", "Experiments", "Token issuer", "Process"}

func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 39 {
		t.Errorf("uid %q, title %q, schemaVersion %d: want all three, and Grafana 11's version 39 or later", d.UID, d.Title, d.SchemaVersion)
	}
	var ids []int
	var titles, found []string
	panels := 0
	for _, p := range d.Panels {
		if slices.Contains(ids, p.ID) || slices.Contains(titles, p.Title) {
			t.Errorf("%q: another panel has its id %d or its title", p.Title, p.ID)
		}
		ids, titles = append(ids, p.ID), append(titles, p.Title)
		if p.Type == "row" {
			if len(found) > 0 && panels == 0 {
				t.Errorf("the row %q is empty", found[len(found)-1])
			}
			found, panels = append(found, p.Title), 0
			continue
		}
		panels++
		p.check(t)
	}
	if !slices.Equal(found, rows) || panels == 0 {
		t.Errorf("the rows are %q, want %q, with panels", found, rows)
	}
	for i, a := range d.Panels {
		for _, b := range d.Panels[:i] {
			if a.GridPos.X < b.GridPos.X+b.GridPos.W && b.GridPos.X < a.GridPos.X+a.GridPos.W &&
				a.GridPos.Y < b.GridPos.Y+b.GridPos.H && b.GridPos.Y < a.GridPos.Y+a.GridPos.H {
				t.Errorf("%q lies on %q", a.Title, b.Title)
			}
		}
		if a.GridPos.X+a.GridPos.W > 24 {
			t.Errorf("%q is not within the 24 columns", a.Title)
		}
	}
}

func (p panel) check(t *testing.T) {
	t.Helper()
	if p.Title == "" || len(p.Description) < 20 || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
		t.Errorf("%q: a panel is to have a title, a description, a unit and a query", p.Title)
	}
	var refs []string
	for _, target := range p.Targets {
		if target.Expr == "" || target.LegendFormat == "" || slices.Contains(refs, target.RefID) {
			t.Errorf("%q: the query %q lacks its expression or its legend, or is there twice", p.Title, target.RefID)
		}
		refs = append(refs, target.RefID)
		if p.Datasource.UID != "${datasource}" || target.Datasource.UID != "${datasource}" {
			t.Errorf("%q: its data source is to be the variable's", p.Title)
		}
	}
}

var grafanaVariable = regexp.MustCompile(`\$\{?(\w+)\}?`)

// fill puts values in the place of variables.
func (d dashboard) fill(t *testing.T, text string) string {
	t.Helper()
	return grafanaVariable.ReplaceAllStringFunc(text, func(variable string) string {
		name := grafanaVariable.FindStringSubmatch(variable)[1]
		if name == "__rate_interval" {
			return "5m"
		}
		if !d.hasVariable(name) {
			t.Errorf("%s: there is no variable %s", text, name)
		}
		return ".*"
	})
}

func (d dashboard) hasVariable(name string) bool {
	return slices.ContainsFunc(d.Templating.List, func(v variable) bool { return v.Name == name })
}

// TestDashboardExpressions fails for metrics, labels and values that nothing has.
func TestDashboardExpressions(t *testing.T) {
	d, known, r := readDashboard(t), knownMetrics(t), newReader(t)
	known.addRecorded(t, r)
	check := func(where, text, legend string) {
		e := r.read(d.fill(t, text))[0]
		for _, problem := range known.check(e) {
			t.Errorf("%q: %s\n%s", where, problem, text)
		}
		for _, missing := range known.missing(e, regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(legend, -1)) {
			t.Errorf("%q: its legend has the label %s, which its series do not have", where, missing)
		}
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			check(p.Title, target.Expr, target.LegendFormat)
		}
	}
	for _, a := range d.Annotations.List {
		check(a.Name, a.Expr, "")
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		query := regexp.MustCompile(`label_values\((.*), (\w+)\)`).FindStringSubmatch(string(v.Query))
		if query == nil {
			t.Errorf("the variable %s asks for %s, want label_values", v.Name, v.Query)
			continue
		}
		check("the variable "+v.Name, strings.ReplaceAll(query[1], `\"`, `"`), "{{"+query[2]+"}}")
		if v.AllValue != ".*" { // so that series without the label count among all
			t.Errorf("the variable %s has the value %q for all, want .*", v.Name, v.AllValue)
		}
	}
	for _, name := range []string{"datasource", "route", "region", "model"} {
		if !d.hasVariable(name) {
			t.Errorf("there is no variable %s", name)
		}
	}
}

// TestDashboardHasEveryMetric wants what docs/metrics.md explains to be seen somewhere.
func TestDashboardHasEveryMetric(t *testing.T) {
	text := read(t, dashboardFile)
	known := catalogue{}
	known.addPage(t)
	for name := range known {
		part := regexp.MustCompile(`_(bucket|sum|count)$`).MatchString(name)
		if !part && strings.HasPrefix(name, "ghostline_") && !strings.HasPrefix(name, "ghostline_issuer_") && !regexp.MustCompile(name+`\b|`+name+`_`).MatchString(text) {
			t.Errorf("no panel has %s", name)
		}
	}
}
