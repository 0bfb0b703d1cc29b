package charts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ghostline-dev/ghostline/tokenissuer"
	"github.com/ghostline-dev/ghostline/tokenissuer/entitlement"
)

// TestIssuerConfig: the issuer takes the config that the chart makes of values, and each
// file that it names is mounted.
func TestIssuerConfig(t *testing.T) {
	each(t, func(t *testing.T, c caseOf) {
		if c.chart != issuer {
			t.Skip("not the issuer's")
		}
		checkIssuer(t, c.objects(t))
	})
}

func checkIssuer(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	var pods corev1.PodSpec
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			pods = deployment(t, object).Spec.Template.Spec
		}
	}
	file := filepath.Join(t.TempDir(), "issuer.yaml")
	text := entryOf(t, objects, volume(t, pods, "config"), "issuer.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := tokenissuer.LoadConfig(file)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if config.Keys.Secret == "" {
		t.Error("the keys are not in a Secret")
	}
	for _, path := range regexp.MustCompile(`/etc/ghostline/\S+`).FindAllString(text, -1) {
		if !mounted(pods, filepath.Dir(path)) {
			t.Errorf("%s is in the config and not mounted", path)
		}
	}
	if config.Entitlements == nil {
		return
	}
	if name := volume(t, pods, "entitlements"); name != "who-may" { // which is not the chart's
		rules := entryOf(t, objects, name, filepath.Base(config.Entitlements.File))
		if _, err := entitlement.Parse([]byte(rules)); err != nil {
			t.Errorf("%v in %s", err, rules)
		}
	}
}

// volume is the ConfigMap of a volume.
func volume(t *testing.T, pods corev1.PodSpec, name string) string {
	t.Helper()
	for _, volume := range pods.Volumes {
		if volume.Name == name {
			return volume.ConfigMap.Name
		}
	}
	t.Fatalf("there is no volume %s", name)
	return ""
}

func mounted(pods corev1.PodSpec, dir string) bool {
	return slices.ContainsFunc(pods.Containers[0].VolumeMounts, func(mount corev1.VolumeMount) bool {
		return mount.MountPath == dir && mount.ReadOnly
	})
}

func entryOf(t *testing.T, objects []*unstructured.Unstructured, configMap, entry string) string {
	t.Helper()
	text, found, err := unstructured.NestedString(find(t, objects, "ConfigMap", configMap).Object, "data", entry)
	if err != nil || !found {
		t.Fatalf("the ConfigMap %s has no %s: %v", configMap, entry, err)
	}
	return text
}

// TestRestarts: a change of the config replaces the pods, one of the entitlements does
// not, since they are reloaded.
func TestRestarts(t *testing.T) {
	checksum := func(set string) string {
		out, err := template(t, issuer, "--values", "testdata/ghostline-issuer/github.values.yaml", "--set", set)
		if err != nil {
			t.Fatal(err)
		}
		sum := deployment(t, find(t, decode(t, out), "Deployment", issuer)).Spec.Template.Annotations["checksum/config"]
		if sum == "" {
			t.Fatal("there is no checksum of the config")
		}
		return sum
	}
	before := checksum("replicas=2")
	if checksum("config.tokenLife=5m") == before {
		t.Error("another config has the same checksum")
	}
	if checksum("entitlements.rules[0].name=other") != before {
		t.Error("other entitlements have another checksum")
	}
}

// TestReadmeValues: the values of the README install an issuer.
func TestReadmeValues(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(chartDir(issuer), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "```yaml\n")
	text, _, found := strings.Cut(text, "\n```\n")
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil || !found {
		t.Fatalf("no values in the README, or error %v", err)
	}
	out, err := template(t, issuer, "--values", file)
	if err != nil {
		t.Fatal(err)
	}
	checkIssuer(t, decode(t, out))
}

// TestIssuerRole: the issuer has the rights that docs/keys.md lists.
func TestIssuerRole(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root, "docs/keys.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(doc), "```yaml\napiVersion: rbac")
	text, _, _ = strings.Cut(text, "```\n")
	documented := decode(t, "apiVersion: rbac"+text)
	out, err := template(t, issuer, "--values", "testdata/ghostline-issuer/github.values.yaml", "--set", "signingKeys.secretName=ghostline-signing-keys")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(documented[0].Object["rules"], find(t, decode(t, out), "Role", issuer).Object["rules"]); diff != "" {
		t.Errorf("the rules differ (-docs/keys.md +chart):\n%s", diff)
	}
}

// TestConfigSchema: the schema of the issuer's config has the fields of the Go types,
// but for those that the chart sets.
func TestConfigSchema(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(chartDir(issuer), "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonSchema
	if err := json.Unmarshal(content, &schema); err != nil {
		t.Fatal(err)
	}
	set := []string{"config.keys.directory", "config.keys.secret", "config.entitlements"}
	want := slices.DeleteFunc(fields("config", reflect.TypeFor[tokenissuer.Config]()), func(path string) bool {
		return slices.ContainsFunc(set, func(by string) bool { return path == by || strings.HasPrefix(path, by+".") })
	})
	got := schema.fields("config", schema.Properties["config"])
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the fields differ (-Go +schema):\n%s", diff)
	}
}

// fields are the paths of all fields of a type, by their names in JSON.
func fields(prefix string, of reflect.Type) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	var paths []string
	for field := range of.Fields() {
		path := prefix + "." + field.Tag.Get("json")
		paths = append(append(paths, path), fields(path, field.Type)...)
	}
	return paths
}

// jsonSchema is what is read of a values.schema.json.
type jsonSchema struct {
	Ref         string                `json:"$ref"`
	Properties  map[string]jsonSchema `json:"properties"`
	Items       *jsonSchema           `json:"items"`
	Definitions map[string]jsonSchema `json:"definitions"`
}

func (root jsonSchema) fields(prefix string, of jsonSchema) []string {
	if of.Ref != "" {
		of = root.Definitions[strings.TrimPrefix(of.Ref, "#/definitions/")]
	}
	if of.Items != nil {
		return root.fields(prefix, *of.Items)
	}
	var paths []string
	for name, property := range of.Properties {
		path := prefix + "." + name
		paths = append(append(paths, path), root.fields(path, property)...)
	}
	return paths
}
