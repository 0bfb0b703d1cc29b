package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bound is one bound of a field: what the refusal of a value says, one value that is
// beyond it, and one that is just within.
type bound struct {
	path, message  string
	beyond, within any
}

// boundsOf are the bounds of a field by its schema.
func boundsOf(path string, schema *apiextensionsv1.JSONSchemaProps) []bound {
	var all []bound
	add := func(beyond, within any, message string, args ...any) {
		all = append(all, bound{path: path, message: fmt.Sprintf(message, args...), beyond: beyond, within: within})
	}
	if n := schema.MaxItems; n != nil {
		add(elements(schema, *n+1), elements(schema, *n), "must have at most %d items", *n)
	}
	if n := schema.MinItems; n != nil {
		add(elements(schema, *n-1), elements(schema, *n), "should have at least %d items", *n)
	}
	if n := schema.MaxProperties; n != nil {
		add(properties(*n+1), properties(*n), "must have at most %d items", *n)
	}
	if n := schema.MaxLength; n != nil {
		add(strings.Repeat("a", int(*n)+1), strings.Repeat("a", int(*n)), "may not be more than %d bytes", *n)
	}
	if n := schema.MinLength; n != nil && *n > 0 {
		add(strings.Repeat("a", int(*n)-1), strings.Repeat("a", int(*n)), "should be at least %d chars long", *n)
	}
	if n := schema.Maximum; n != nil {
		add(int64(*n)+1, int64(*n), "should be less than or equal to %d", int64(*n))
	}
	if n := schema.Minimum; n != nil {
		add(int64(*n)-1, int64(*n), "should be greater than or equal to %d", int64(*n))
	}
	if len(schema.Enum) > 0 {
		names := make([]string, len(schema.Enum))
		for i, name := range schema.Enum {
			names[i] = string(name.Raw)
		}
		add("Wrong", strings.Trim(names[0], `"`), "supported values: %s", strings.Join(names, ", "))
	}
	return all
}

// elements is a list of n different elements. They need not be whole: what is looked
// for is what the refusal says of the list.
func elements(schema *apiextensionsv1.JSONSchemaProps, n int64) []any {
	list := []any{}
	item := schema.Items.Schema
	for i := range n {
		switch name := fmt.Sprintf("n%d", i); {
		case item.Type == "string" && i < int64(len(item.Enum)):
			list = append(list, strings.Trim(string(item.Enum[i].Raw), `"`))
		case item.Type == "string":
			list = append(list, name)
		case len(schema.XListMapKeys) == 1:
			list = append(list, map[string]any{schema.XListMapKeys[0]: name})
		default:
			list = append(list, map[string]any{})
		}
	}
	return list
}

func properties(n int64) map[string]any {
	all := map[string]any{}
	for i := range n {
		all[fmt.Sprintf("n%d", i)] = "x"
	}
	return all
}

// TestBounds: each bound of each field refuses what is just beyond it, and names the
// field; it does not refuse what is just within.
func TestBounds(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	created := route(t, namespace)
	if err := admin.Create(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	var tested int
	walkSchema(t, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		for _, b := range boundsOf(path, schema) {
			tested++
			if causes := b.try(t, created, b.beyond); !b.among(causes) {
				t.Errorf("%s: %.80v is to be refused with %q, got %q", path, b.beyond, b.message, causes)
			}
			if causes := b.try(t, created, b.within); b.among(causes) {
				t.Errorf("%s: %.80v is within the bound, got %q", path, b.within, causes)
			}
		}
	})
	t.Logf("%d bounds", tested)
}

// among says whether the refusal is of this bound.
func (b bound) among(causes []string) bool {
	return slices.ContainsFunc(causes, func(cause string) bool {
		return strings.HasPrefix(cause, b.path+": ") && strings.Contains(cause, b.message)
	})
}

// try returns why the API server refuses the route with a value for the field: on its
// creation, or, where the field is of the status, on its update.
func (b bound) try(t *testing.T, created *unstructured.Unstructured, value any) []string {
	t.Helper()
	object := created.DeepCopy()
	setField(t, object, b.path, value)
	if strings.HasPrefix(b.path, "status.") {
		if err := admin.Status().Update(t.Context(), object, client.DryRunAll); err != nil {
			return refusal(err)
		}
		return nil
	}
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetName("another")
	if err := tryCreate(t, object); err != nil {
		return refusal(err)
	}
	return nil
}

// TestEverythingIsBounded: a list, a map or a text of the spec without a bound lets one
// route take the API server's memory, and CEL rules cost too much. What is Kubernetes'
// own type is as Kubernetes has it.
func TestEverythingIsBounded(t *testing.T) {
	t.Parallel()
	walkSchema(t, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		if !strings.HasPrefix(path, "spec.") || strings.Contains(path, "proxy.resources.") || strings.HasSuffix(path, ".annotations.*") {
			return
		}
		switch {
		case schema.Type == "array" && schema.MaxItems == nil:
			t.Errorf("%s has no bound on its elements", path)
		case schema.Type == "object" && schema.AdditionalProperties != nil && schema.MaxProperties == nil:
			t.Errorf("%s has no bound on its entries", path)
		case (schema.Type == "string" || schema.XIntOrString) && schema.MaxLength == nil && len(schema.Enum) == 0:
			t.Errorf("%s has no bound on its length", path)
		case schema.Type == "integer" && (schema.Minimum == nil || schema.Maximum == nil):
			t.Errorf("%s has no bounds", path)
		}
	})
}
