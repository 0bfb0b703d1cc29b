package compile_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/config/crd"
	"github.com/ghostline-dev/ghostline/proxy/config"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// fieldOf is the schema of a field of the CRD; [] is an entry of a list.
func fieldOf(t *testing.T, path string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(crd.CompletionRoutes(), &definition); err != nil {
		t.Fatal(err)
	}
	at := *definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	for name := range strings.SplitSeq(path, ".") {
		field, list := strings.CutSuffix(name, "[]")
		next, ok := at.Properties[field]
		if !ok {
			t.Fatalf("the CRD has no %s (at %s)", path, field)
		}
		if at = next; list {
			at = *next.Items.Schema
		}
	}
	return &at
}

// TestEnumerations: what the CRD lets pass is what a proxy knows, no more, no less.
func TestEnumerations(t *testing.T) {
	t.Parallel()
	var apis []string
	for _, provider := range config.Providers() {
		apis = append(apis, config.APIs(provider)...)
	}
	for path, want := range map[string][]string{
		"spec.regions[].units[].provider":                 config.Providers(),
		"spec.regions[].units[].api":                      apis,
		"spec.regions[].units[].fillInTheMiddle.template": config.Templates(),
		"spec.regions[].units[].protocol":                 {config.ProtocolAuto, config.ProtocolHTTP2, config.ProtocolH2C, config.ProtocolHTTP1},
		"spec.models[].split.by":                          {config.SplitBySubject, config.SplitByRequest},
		"spec.models[].mirrors[].onCancel":                {config.OnCancelCancel, config.OnCancelComplete},
		"spec.mutations[].headers[].op":                   {config.OpSet, config.OpAdd, config.OpRemove},
		"spec.mutations[].body[].op":                      {config.OpSet, config.OpDefault, config.OpRemove, config.OpMin, config.OpMax, config.OpAppend},
		"spec.clients[].action":                           {config.ActionAllow, config.ActionWarn, config.ActionUpgrade},
	} {
		var got []string
		for _, value := range fieldOf(t, path).Enum {
			got = append(got, strings.Trim(string(value.Raw), `"`))
		}
		slices.Sort(got)
		slices.Sort(want)
		if want = slices.Compact(want); !slices.Equal(got, want) {
			t.Errorf("%s: the CRD has %q, a proxy knows %q", path, got, want)
		}
	}
}

// list is n entries made of a format with # for the entry's number.
func list(n int64, format string) string {
	var out []string
	for i := range n {
		out = append(out, strings.ReplaceAll(format, "#", fmt.Sprint(i)))
	}
	return "[" + strings.Join(out, ",") + "]"
}

// TestBounds: a proxy takes what is just within a bound of the CRD, and nothing that
// is just beyond. The config is in JSON with what is tried in the place of a field.
func TestBounds(t *testing.T) {
	t.Parallel()
	const (
		variants = `[{"name":"v","weight":1}]`
		unit     = `{"name":"u","region":"r","serves":"m/v","provider":"OpenAI","url":"https://u/v1/completions"`
		remove   = `{"op":"Remove","path":"a"}`
	)
	base := map[string]string{
		"region": `"r"`, "tokens": `{"issuer":"https://t","audience":"a","keySet":{"url":"https://t/keys"}}`,
		"models": `[{"name":"m","variants":` + variants + `}]`, "units": "[" + unit + "}]",
	}
	entries := func(format string) func(int64) string { return func(n int64) string { return list(n, format) } }
	number := func(before, after string) func(int64) string {
		return func(n int64) string { return fmt.Sprint(before, n, after) }
	}
	for _, tc := range []struct {
		crd, field string
		make       func(int64) string // of the field, with the bound in it
	}{
		{"spec.models", "models", func(n int64) string {
			return "[{\"name\":\"m\",\"variants\":" + variants + "}," + list(n-1, `{"name":"m#","variants":`+variants+`}`)[1:]
		}},
		{"spec.models[].aliases", "models", func(n int64) string {
			return `[{"name":"m","variants":` + variants + `,"aliases":` + list(n, `"a#"`) + `}]`
		}},
		{"spec.models[].variants", "models", func(n int64) string {
			return `[{"name":"m","variants":[{"name":"v","weight":1},` + list(n-1, `{"name":"v#","weight":0}`)[1:] + `}]`
		}},
		{"spec.models[].variants[].weight", "models", number(`[{"name":"m","variants":[{"name":"v","weight":`, `}]}]`)},
		{"spec.mutations", "mutations", entries(`{"name":"m#","body":[` + remove + `]}`)},
		{"spec.mutations[].body", "mutations", func(n int64) string { return `[{"name":"m","body":` + list(n, remove) + `}]` }},
		{"spec.mutations[].match.clients", "mutations", func(n int64) string {
			return `[{"name":"m","body":[` + remove + `],"match":{"clients":` + list(n, `{"name":"c#"}`) + `}}]`
		}},
		{"spec.mutations[].body[].path", "mutations", func(n int64) string {
			return `[{"name":"m","body":[{"op":"Remove","path":"` + strings.Repeat("a", int(n)) + `"}]}]`
		}},
		{"spec.mutations[].headers[].name", "mutations", func(n int64) string {
			return `[{"name":"m","headers":[{"op":"Remove","name":"` + strings.Repeat("a", int(n)) + `"}]}]`
		}},
		{"spec.mutations[].headers[].value", "mutations", func(n int64) string {
			return `[{"name":"m","headers":[{"op":"Set","name":"A","value":"` + strings.Repeat("a", int(n)) + `"}]}]`
		}},
		{"spec.clients", "clients", entries(`{"match":{"name":"c#"},"action":"Allow"}`)},
		{"spec.clients[].message", "clients", func(n int64) string {
			return `[{"match":{"name":"c"},"action":"Warn","message":"` + strings.Repeat("a", int(n)) + `"}]`
		}},
		{"spec.clients[].match.name", "clients", func(n int64) string {
			return `[{"match":{"name":"` + strings.Repeat("a", int(n)) + `"},"action":"Allow"}]`
		}},
		{"spec.proxy.trustedEdges", "trustedEdges", entries(`"10.0.#.0/24"`)},
		{"spec.regions[].healthProbe.maxTokens", "healthProbe", number(`{"maxTokens":`, `}`)},
		{"spec.regions[].healthProbe.prompt", "healthProbe", func(n int64) string { return `{"prompt":"` + strings.Repeat("a", int(n)) + `"}` }},
		{"spec.regions[].units[].capacity.inFlight", "units", number("["+unit+`,"capacity":{"inFlight":`, `}}]`)},
		{"spec.regions[].units[].capacity.requestsPerSecond", "units", number("["+unit+`,"capacity":{"requestsPerSecond":`, `}}]`)},
		{"spec.regions[].units[].maxTokens", "units", number("["+unit+`,"maxTokens":`, `}]`)},
		{"spec.regions[].units[].fillInTheMiddle.prefix", "units", func(n int64) string {
			return "[" + unit + `,"fillInTheMiddle":{"suffix":"s","prefix":"` + strings.Repeat("a", int(n)) + `"}}]`
		}},
		{"spec.limits.perSubject.inFlight", "limits", number(`{"perSubject":{"inFlight":`, `}}`)},
		{"spec.limits.perSubject.sessions", "limits", number(`{"perSubject":{"sessions":`, `}}`)},
	} {
		most := bound(t, fieldOf(t, tc.crd))
		for n, fits := range map[int64]bool{most: true, most + 1: false} {
			fields := map[string]json.RawMessage{}
			for field, value := range base {
				fields[field] = json.RawMessage(value)
			}
			fields[tc.field] = json.RawMessage(tc.make(n))
			data, err := json.Marshal(fields)
			if err != nil {
				t.Fatalf("%s: %v", tc.crd, err)
			}
			if _, err := config.Decode(data); (err == nil) != fits {
				t.Errorf("%s, of at most %d: with %d, a proxy says %v", tc.crd, most, n, err)
			}
		}
	}
	// A proxy bounds the units of all regions together.
	units := bound(t, fieldOf(t, "spec.regions")) * bound(t, fieldOf(t, "spec.regions[].units"))
	for n, fits := range map[int64]bool{units: true, units + 1: false} {
		data := fmt.Sprintf(`{"region":%s,"tokens":%s,"models":%s,"units":%s}`, base["region"], base["tokens"], base["models"],
			list(n, strings.Replace(unit, `"name":"u"`, `"name":"u-#"`, 1)+"}"))
		if _, err := config.Decode([]byte(data)); (err == nil) != fits {
			t.Errorf("%d units: %v", n, err)
		}
	}
}

// bound is the largest number, length or count that a field may have.
func bound(t *testing.T, schema *apiextensionsv1.JSONSchemaProps) int64 {
	t.Helper()
	switch {
	case schema.MaxItems != nil:
		return *schema.MaxItems
	case schema.MaxLength != nil:
		return *schema.MaxLength
	case schema.Maximum != nil:
		return int64(*schema.Maximum)
	}
	t.Fatal("the field has no bound")
	return 0
}
