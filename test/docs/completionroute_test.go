package docs_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/config/crd"
	"github.com/ghostline-dev/ghostline/controllers/compile"
	"github.com/ghostline-dev/ghostline/controllers/routefile"
	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const routePage = "../../docs/spec/completionroute.md"

var update = flag.Bool("update", false, "write the tables of "+routePage+" anew")

// TestRouteFields compares the page's tables with the type: each field with its type,
// default, bounds and meaning, and each rule. -update writes them.
func TestRouteFields(t *testing.T) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(crd.CompletionRoutes(), &definition); err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(routePage)
	if err != nil {
		t.Fatal(err)
	}
	marked := regexp.MustCompile(`(?s)<!-- fields: (\S+) -->\n.*?<!-- end -->`)
	tables := fieldTables{sections: map[string]bool{}}
	for _, match := range marked.FindAllSubmatch(was, -1) {
		tables.sections[string(match[1])] = true
	}
	// A field without a section of its own is in its parent's, so all are somewhere.
	if !tables.sections["spec"] || !tables.sections["status"] {
		t.Fatal("the page lacks the section of spec or status")
	}
	tables.walk("", "", definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
	now := marked.ReplaceAllFunc(was, func(block []byte) []byte {
		path := string(marked.FindSubmatch(block)[1])
		rows, ok := tables.rows(path)
		if !ok {
			t.Errorf("there is no field %s", path)
		}
		return []byte("<!-- fields: " + path + " -->\n" + rows + "<!-- end -->")
	})
	if *update {
		if err := os.WriteFile(routePage, now, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(was), string(now)); diff != "" {
		t.Errorf("the tables are not the type's (-page +type; -update writes them):\n%s", diff)
	}
}

// fieldTables are the fields of a type and the rules about them, by section.
type fieldTables struct {
	sections      map[string]bool
	fields, rules map[string][]string
}

func (f *fieldTables) rows(section string) (string, bool) {
	fields := f.fields[section]
	if len(fields) == 0 {
		return "", false
	}
	var out strings.Builder
	out.WriteString("| field | type | default | bounds | meaning |\n|---|---|---|---|---|\n")
	for _, row := range fields {
		out.WriteString(row)
	}
	if rules := f.rules[section]; len(rules) > 0 {
		out.WriteString("\nRules:\n\n" + strings.Join(rules, ""))
	}
	return out.String(), true
}

// walk notes what is below the field at path, which is in a section.
func (f *fieldTables) walk(section, path string, schema *apiextensionsv1.JSONSchemaProps) {
	if f.fields == nil {
		f.fields, f.rules = map[string][]string{}, map[string][]string{}
	}
	if f.sections[path] {
		section = path
	}
	name := strings.TrimPrefix(strings.TrimPrefix(path, section), ".")
	for _, rule := range schema.XValidations {
		text := rule.Message
		if name != "" && name != "[]" {
			text = "`" + name + "`: " + text
		}
		if line := "- " + text + "\n"; !slices.Contains(f.rules[section], line) {
			f.rules[section] = append(f.rules[section], line)
		}
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		f.walk(section, path+"[]", schema.Items.Schema)
	}
	for _, field := range slices.Sorted(maps.Keys(schema.Properties)) {
		at, value := strings.TrimPrefix(path+"."+field, "."), schema.Properties[field]
		if path == "" && field != "spec" && field != "status" {
			continue // of every object
		}
		if path != "" {
			f.fields[section] = append(f.fields[section], fieldRow(section, at, &value, slices.Contains(schema.Required, field)))
		}
		// These are Kubernetes' own types.
		if field != "resources" && field != "conditions" && at != "spec.regions[].proxy" {
			f.walk(section, at, &value)
		}
	}
}

func fieldRow(section, path string, schema *apiextensionsv1.JSONSchemaProps, required bool) string {
	standard := ""
	switch {
	case schema.Default != nil:
		standard = "`" + string(schema.Default.Raw) + "`"
	case required:
		standard = "required"
	}
	meaning := strings.ReplaceAll(strings.Join(strings.Fields(schema.Description), " "), "|", `\|`)
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", strings.TrimPrefix(strings.TrimPrefix(path, section), "."), typeName(schema), standard, bounds(schema), meaning)
}

func typeName(schema *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case schema.XIntOrString:
		return "number or text"
	case schema.Type == "":
		return "any"
	case schema.Type == "array":
		return "list of " + map[string]string{"object": "objects", "string": "texts"}[schema.Items.Schema.Type]
	case schema.Type == "object" && schema.AdditionalProperties != nil:
		return "map of texts"
	}
	return map[string]string{"string": "text", "integer": "number", "boolean": "true or false", "object": "object"}[schema.Type]
}

func bounds(schema *apiextensionsv1.JSONSchemaProps) string {
	between := func(least, most *int64, what string) string {
		switch {
		case most == nil:
			return ""
		case least == nil:
			return fmt.Sprintf("at most %d%s", *most, what)
		}
		return fmt.Sprintf("%d to %d%s", *least, *most, what)
	}
	var out []string
	for _, value := range schema.Enum {
		out = append(out, "`"+strings.Trim(string(value.Raw), `"`)+"`")
	}
	if schema.Minimum != nil && schema.Maximum != nil {
		out = append(out, strconv.FormatFloat(*schema.Minimum, 'f', -1, 64)+" to "+strconv.FormatFloat(*schema.Maximum, 'f', -1, 64))
	}
	for _, text := range []string{
		between(schema.MinLength, schema.MaxLength, " characters"), between(schema.MinItems, schema.MaxItems, " entries"), between(nil, schema.MaxProperties, " entries"),
	} {
		if text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}

// TestRouteReasons: the page has each condition and each reason.
func TestRouteReasons(t *testing.T) {
	text, err := os.ReadFile(routePage)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1alpha1/conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		if !strings.Contains(string(text), "\n| `"+value+"` |") {
			t.Errorf("the page has no row for %s, %q", spec.Names[0].Name, value)
		}
		return true
	})
	if found < 20 {
		t.Errorf("only %d conditions and reasons were found", found)
	}
}

// TestRouteExample compiles the page's example as a person would.
func TestRouteExample(t *testing.T) {
	text, err := os.ReadFile(routePage)
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(text)
	if example == nil {
		t.Fatal("the page has no example")
	}
	content, err := routefile.Read(t.Context(), routefile.File{Name: routePage, Data: example[1]})
	if err != nil {
		t.Fatal(err)
	}
	for _, region := range []string{"westeurope", "northeurope"} {
		if _, err := content.AddPlaceholders(region); err != nil {
			t.Fatal(err)
		}
		if result := compile.Region(content.Route, region, content.References); len(result.Problems) > 0 {
			t.Errorf("%s: %v", region, result.Problems)
		}
	}
}
