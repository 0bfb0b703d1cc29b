package api

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// change is what a test does to an object: a field's path, such as
// spec.models[0].aliases, and its new value as YAML; removed takes the field away.
type change map[string]string

const removed = "(removed)"

// to changes an object, in the order of the paths.
func (c change) to(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(c)) {
		var value any
		if err := yaml.Unmarshal([]byte(c[path]), &value); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if c[path] == removed {
			value = nil
		}
		setField(t, object, path, value)
	}
}

// setField sets what is at a path, and makes what is missing on the way; nil takes it
// away.
func setField(t *testing.T, object *unstructured.Unstructured, path string, value any) {
	t.Helper()
	steps := strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
	object.Object = put(t, path, object.Object, steps, value).(map[string]any)
}

// put returns what is there with the value at the end of the steps.
func put(t *testing.T, path string, there any, steps []string, value any) any {
	t.Helper()
	if len(steps) == 0 {
		return value
	}
	if i, err := strconv.Atoi(steps[0]); err == nil {
		list, _ := there.([]any)
		if i > len(list) {
			t.Fatalf("%s: there are %d elements at [%d]", path, len(list), i)
		}
		if i == len(list) {
			list = append(list, nil)
		}
		list[i] = put(t, path, list[i], steps[1:], value)
		return list
	}
	fields, _ := there.(map[string]any)
	if fields == nil {
		fields = map[string]any{}
	}
	if fields[steps[0]] = put(t, path, fields[steps[0]], steps[1:], value); fields[steps[0]] == nil {
		delete(fields, steps[0])
	}
	return fields
}

const samples, crds = "../../config/samples", "../../config/crd"

// sample reads the objects in a file of config/samples. The first is a route.
func sample(t *testing.T, name, namespace string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(samples, name))
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		object := new(unstructured.Unstructured)
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		object.SetNamespace(namespace)
		objects = append(objects, object)
	}
	return objects
}

// route is the route of config/samples/full.yaml.
func route(t *testing.T, namespace string) *unstructured.Unstructured {
	t.Helper()
	return sample(t, "full.yaml", namespace)[0]
}

// readCRD reads the CRD as it is in config/crd.
func readCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(crds, "*_completionroutes.yaml"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s has the CRDs %q, %v; want one", crds, files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	crd := new(apiextensionsv1.CustomResourceDefinition)
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// walkSchema calls visit for each field of the route, with its path: an element of a
// list is [0], a value of a map .key.
func walkSchema(t *testing.T, visit func(path string, schema *apiextensionsv1.JSONSchemaProps)) {
	t.Helper()
	var walk func(string, *apiextensionsv1.JSONSchemaProps)
	walk = func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		visit(path, schema)
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			below := schema.Properties[name]
			walk(strings.TrimPrefix(path+"."+name, "."), &below)
		}
		if schema.Items != nil {
			walk(path+"[0]", schema.Items.Schema)
		}
		if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
			walk(path+".*", schema.AdditionalProperties.Schema)
		}
	}
	walk("", readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema)
}

// tryCreate has the API server check an object, and change it as it would on its
// creation, without creating it.
func tryCreate(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	return client.WithFieldValidation(admin, metav1.FieldValidationStrict).
		Create(t.Context(), object, client.DryRunAll)
}

// refusal has a line "FIELD: MESSAGE" for each cause of a refused object.
func refusal(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return []string{fmt.Sprint(err)}
	}
	var causes []string
	for _, cause := range status.Status().Details.Causes {
		causes = append(causes, cause.Field+": "+cause.Message)
	}
	return causes
}

// TestSamples applies the samples, and all that they refer to, twice, as a user does.
func TestSamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(samples, "*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%s has the files %q, %v", samples, files, err)
	}
	api := client.WithFieldValidation(admin, metav1.FieldValidationStrict)
	for _, file := range files {
		namespace := newNamespace(t)
		for range 2 {
			for _, object := range sample(t, filepath.Base(file), namespace) {
				if err := api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test")); err != nil {
					t.Errorf("%s, %s %s: %v", file, object.GetKind(), object.GetName(), err)
				}
			}
		}
		typed := new(v1alpha1.CompletionRoute)
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "ghost"}, typed); err != nil || typed.Generation != 1 {
			t.Errorf("%s: generation %d, %v; want 1, since nothing changed", file, typed.Generation, err)
		}
	}
}
