package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Between these lines of a README is the table of its chart's values.
const (
	tableBegins = "<!-- values, generated from values.yaml and values.schema.json -->\n"
	tableEnds   = "<!-- end of values -->\n"
)

// schema is what is read of a values.schema.json.
type schema struct {
	Ref         string            `json:"$ref"`
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
	Definitions map[string]schema `json:"definitions"`
}

// table has a row for each value.
type table struct {
	definitions map[string]schema
	rows        bytes.Buffer
	problems    []error
}

// withTable is the README of a chart with its table anew.
func withTable(chart string) ([]byte, error) {
	readme, err := os.ReadFile(filepath.Join(chart, "README.md"))
	if err != nil {
		return nil, err
	}
	before, rest, begins := bytes.Cut(readme, []byte(tableBegins))
	_, after, ends := bytes.Cut(rest, []byte(tableEnds))
	if !begins || !ends {
		return nil, fmt.Errorf("README.md: the lines %q and %q are missing", tableBegins, tableEnds)
	}
	rows, err := valuesTable(chart)
	if err != nil {
		return nil, err
	}
	return slices.Concat(before, []byte(tableBegins), rows, []byte(tableEnds), after), nil
}

func valuesTable(chart string) ([]byte, error) {
	var root schema
	content, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &root); err != nil {
		return nil, fmt.Errorf("values.schema.json: %w", err)
	}
	var values map[string]any
	if content, err = os.ReadFile(filepath.Join(chart, "values.yaml")); err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(content, &values); err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	delete(root.Properties, "global") // Helm's, and in no values.yaml
	t := table{definitions: root.Definitions}
	t.rows.WriteString("| value | default | |\n|---|---|---|\n")
	t.add("", root, values)
	return t.rows.Bytes(), errors.Join(t.problems...)
}

// add adds the rows of all values below one. Those that the schema has and values.yaml
// has not are rows only where values.yaml has an empty object for the user to fill.
func (t *table) add(prefix string, of schema, values map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, known := of.Properties[name]; !known {
			t.problem("%s%s: it is in values.yaml and not in values.schema.json", prefix, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
		path, value := prefix+name, t.resolve(of.Properties[name])
		given, exists := values[name]
		if !exists {
			t.problem("%s: it is in values.schema.json and not in values.yaml", path)
			continue
		}
		if value.Description == "" {
			t.problem("%s: it has no description in values.schema.json", path)
		}
		if inner, is := given.(map[string]any); is && len(inner) > 0 && len(value.Properties) > 0 && name != "resources" {
			t.add(path+".", value, inner)
			continue
		}
		t.row(path, given, value.Description)
	}
}

func (t *table) row(path string, given any, description string) {
	content, err := json.Marshal(given)
	if err != nil {
		t.problem("%s: %w", path, err)
	}
	fmt.Fprintf(&t.rows, "| `%s` | `%s` | %s |\n", path, content, description)
}

// resolve follows a reference; what stands beside it takes precedence.
func (t *table) resolve(s schema) schema {
	if s.Ref == "" {
		return s
	}
	target := t.definitions[strings.TrimPrefix(s.Ref, "#/definitions/")]
	if s.Description != "" {
		target.Description = s.Description
	}
	return target
}

func (t *table) problem(format string, args ...any) {
	t.problems = append(t.problems, fmt.Errorf(format, args...))
}
