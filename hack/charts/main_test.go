package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// TestFilesAreUpToDate: what the charts have from elsewhere is what is there now.
func TestFilesAreUpToDate(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date; run make generate", name)
		}
	}
}

// TestChartsAreListed: a chart that is not in charts would have no table.
func TestChartsAreListed(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(root, "charts/*/Chart.yaml"))
	if err != nil || len(found) != len(charts) {
		t.Errorf("there are the charts %q, want %q; %v", found, charts, err)
	}
}

// TestProblems: a value that is not explained, or is on one side only, is named.
func TestProblems(t *testing.T) {
	chart := t.TempDir()
	for name, content := range map[string]string{
		"values.yaml":        "a: 1\nb: {c: x}\nonlyValues: 2\n",
		"values.schema.json": `{"properties": {"a": {}, "b": {"description": "d", "properties": {"c": {"$ref": "#/definitions/s"}, "onlySchema": {"description": "x"}}}}, "definitions": {"s": {"description": "text"}}}`,
		"README.md":          "before\n" + tableBegins + "old\n" + tableEnds + "after\n",
	} {
		if err := os.WriteFile(filepath.Join(chart, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := withTable(chart)
	if err == nil {
		t.Fatal("no problem was found")
	}
	for _, want := range []string{
		"a: it has no description",
		"b.onlySchema: it is in values.schema.json and not in values.yaml",
		"onlyValues: it is in values.yaml and not in values.schema.json",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the problems are %q, want %q among them", err, want)
		}
	}
	if rows, _ := valuesTable(chart); !strings.Contains(string(rows), "| `b.c` | `\"x\"` | text |\n") {
		t.Errorf("the table is %q", rows)
	}
}

// TestValuesAreExplained: a comment stands above each value of values.yaml, or above the
// run of lines that it is in.
func TestValuesAreExplained(t *testing.T) {
	for _, chart := range charts {
		content, err := os.ReadFile(filepath.Join(root, chart, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		explained := false
		for i, line := range strings.Split(string(content), "\n") {
			text := strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(text, "#"):
				explained = true
			case text == "":
				explained = false
			case strings.Contains(text, ":") && !strings.HasSuffix(text, ":") && !explained:
				t.Errorf("%s/values.yaml:%d: nothing explains %s", chart, i+1, text)
			}
		}
	}
}
