package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/proxy/config"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestEveryFieldIsDescribed: it is what `kubectl explain` shows.
func TestEveryFieldIsDescribed(t *testing.T) {
	t.Parallel()
	walkSchema(t, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		if isMetadata, isElement := path == "metadata", strings.HasSuffix(path, "[0]") || strings.HasSuffix(path, ".*"); isMetadata || isElement {
			return // Kubernetes describes the one, and its list or map the other
		}
		if len(schema.Description) < 10 {
			t.Errorf("%s is described as %q", path, schema.Description)
		}
	})
}

// TestDefaults: what is left out of an object that is there gets these values.
func TestDefaults(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"spec.edge.haproxy.replicas":                    "2",
		"spec.limits.inFlight":                          "10000",
		"spec.limits.perSubject.burst":                  "90",
		"spec.limits.perSubject.inFlight":               "8",
		"spec.limits.perSubject.requestsPerSecond":      "30",
		"spec.limits.perSubject.sessions":               "4",
		"spec.models[0].mirrors[0].onCancel":            `"Cancel"`,
		"spec.models[0].split.by":                       `"Subject"`,
		"spec.proxy.autoscaling.min":                    "2",
		"spec.proxy.autoscaling.targetCPU":              "60",
		"spec.proxy.tolerations[0].operator":            `"Equal"`,
		"spec.regions[0].healthProbe.interval":          `"10s"`,
		"spec.regions[0].healthProbe.maxTokens":         "4",
		"spec.regions[0].proxy.autoscaling.min":         "2",
		"spec.regions[0].proxy.autoscaling.targetCPU":   "60",
		"spec.regions[0].proxy.tolerations[0].operator": `"Equal"`,
		"spec.regions[0].units[0].protocol":             `"Auto"`,
		"spec.timeouts.connect":                         `"1s"`,
		"spec.timeouts.firstByte":                       `"5s"`,
		"spec.timeouts.idle":                            `"10s"`,
		"spec.timeouts.readBody":                        `"5s"`,
		"spec.timeouts.total":                           `"60s"`,
		"spec.timeouts.write":                           `"10s"`,
	}
	object := route(t, newNamespace(t))
	change{
		"spec.edge": "{haproxy: {tls: {secretRef: {name: a}}}}", "spec.limits": "{perSubject: {}}", "spec.timeouts": "{}",
		"spec.models[0].mirrors[0]": "{of: stable, to: candidate, percent: 1}", "spec.models[0].split": "{}",
		"spec.proxy": "{autoscaling: {max: 5}, tolerations: [{key: pool}]}", "spec.regions[0].proxy": "{autoscaling: {max: 5}, tolerations: [{key: pool}]}", "spec.regions[0].healthProbe": "{}",
	}.to(t, object)
	if err := tryCreate(t, object); err != nil {
		t.Fatal(err)
	}
	walkSchema(t, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		if schema.Default == nil {
			return
		}
		got, _ := json.Marshal(fieldAt(object.Object, path))
		if string(got) != want[path] {
			t.Errorf("%s is %s by default, want %q", path, got, want[path])
		}
		delete(want, path)
	})
	for path := range want {
		t.Errorf("%s has no default", path)
	}
	sameAsProxy(t, object)
}

// fieldAt is what an object has at a path.
func fieldAt(there any, path string) any {
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == ']' }) {
		name, isList := strings.CutSuffix(step, "[0")
		fields, _ := there.(map[string]any)
		if there = fields[name]; isList {
			list, _ := there.([]any)
			if len(list) == 0 {
				return nil
			}
			there = list[0]
		}
	}
	return there
}

// sameAsProxy compares the defaults with those of a proxy that is told nothing: a route
// must not mean anything else by limits: {} than by no limits.
func sameAsProxy(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	data, err := yaml.Marshal(map[string]any{"limits": fieldAt(object.Object, "spec.limits"), "timeouts": fieldAt(object.Object, "spec.timeouts")})
	if err != nil {
		t.Fatal(err)
	}
	var route, proxy config.Config
	if err := yaml.UnmarshalStrict(data, &route); err != nil {
		t.Fatal(err)
	}
	proxy.SetDefaults()
	proxy.Limits.MaxBodyBytes = 0 // the CRD has no default for it, so that the text "1Mi" is not stored in every route
	if route.Limits != proxy.Limits || route.Timeouts != proxy.Timeouts {
		t.Errorf("a route's limits and timeouts are %+v %+v by default, a proxy's %+v %+v", route.Limits, route.Timeouts, proxy.Limits, proxy.Timeouts)
	}
}

// TestTwoTeamsShareARegion: each owns units of one region, and neither touches the
// other's.
func TestTwoTeamsShareARegion(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	whole := sample(t, "small.yaml", namespace)[0]
	part := func(units string) *unstructured.Unstructured {
		object := new(unstructured.Unstructured)
		object.SetGroupVersionKind(whole.GroupVersionKind())
		object.SetNamespace(namespace)
		object.SetName(whole.GetName())
		change{"spec.regions[0]": "{name: westeurope, units: " + units + "}"}.to(t, object)
		return object
	}
	apply := func(owner string, object *unstructured.Unstructured) {
		t.Helper()
		if err := admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner(owner)); err != nil {
			t.Fatalf("%s: %v", owner, err)
		}
	}
	units := func() (names []string) {
		t.Helper()
		got := new(v1alpha1.CompletionRoute)
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(whole), got); err != nil {
			t.Fatal(err)
		}
		for _, unit := range got.Spec.Regions[0].Units {
			names = append(names, string(unit.Name))
		}
		return names
	}
	const a, b = "{name: a, serves: ghost-code/stable, provider: OpenAI, url: 'https://a/v1'}", "{name: b, serves: ghost-code/stable, provider: OpenAI, url: 'https://b/v1'}"
	apply("platform", whole)
	apply("models", part("["+a+", "+b+"]"))
	if got := units(); !slices.Equal(got, []string{"weu-1", "a", "b"}) {
		t.Errorf("the units are %q after both have applied theirs", got)
	}
	apply("platform", whole)
	apply("models", part("["+b+"]"))
	if got := units(); !slices.Equal(got, []string{"weu-1", "b"}) {
		t.Errorf("the units are %q after one has left one of its own out", got)
	}
	theirs := part("[{name: weu-1, url: 'http://elsewhere/'}]")
	err := admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(theirs), client.FieldOwner("models"))
	if err == nil || !strings.Contains(err.Error(), `conflict with "platform"`) {
		t.Errorf("one changes the other's unit: %v, want a conflict that names the owner", err)
	}
}

// TestStatus: it is a subresource, so that who may write it may not write the spec and
// the other way round; `kubectl get` shows it.
func TestStatus(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	object := sample(t, "small.yaml", namespace)[0]
	change{"status.models": "from the spec's writer"}.to(t, object)
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	got := new(v1alpha1.CompletionRoute)
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), got); err != nil || got.Status.Models != "" {
		t.Errorf("the status is %+v, %v; want none", got.Status, err)
	}
	got.Spec.Hostname = "from-the-status-writer"
	got.Status = v1alpha1.CompletionRouteStatus{Models: "ghost-code", RegionsReady: "1/2"}
	meta.SetStatusCondition(&got.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPending, Message: "1 of 3 proxies", ObservedGeneration: 1,
	})
	if err := admin.Status().Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if got.Spec.Hostname == "from-the-status-writer" || got.Generation != 1 {
		t.Errorf("a write of the status changed the spec: %q, generation %d", got.Spec.Hostname, got.Generation)
	}
	table := getTable(t, namespace)
	var columns []string
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 || column.Name == "Message" {
			columns = append(columns, column.Name)
		}
	}
	if want := []string{"Name", "Models", "Regions", "Ready", "Reason", "Message", "Age"}; !slices.Equal(columns, want) {
		t.Errorf("the columns are %q, want %q", columns, want)
	}
	cells := table.Rows[0].Cells
	if want := []any{"ghost", "ghost-code", "1/2", "False", "Pending", "1 of 3 proxies"}; !slices.Equal(cells[:len(want)], want) {
		t.Errorf("the row is %q, want %q and the age", cells, want)
	}
	if age, _ := cells[len(cells)-1].(string); age == "" || age == "<unknown>" {
		t.Errorf("the age is %q", cells[len(cells)-1])
	}
}

// getTable asks for the routes as `kubectl get` does.
func getTable(t *testing.T, namespace string) *metav1.Table {
	t.Helper()
	client, err := rest.HTTPClientFor(adminConfig)
	if err != nil {
		t.Fatal(err)
	}
	client.Timeout = 30 * time.Second
	url := strings.TrimSuffix(adminConfig.Host, "/") + "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + namespace + "/completionroutes"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	table := new(metav1.Table)
	if err := json.NewDecoder(response.Body).Decode(table); err != nil || len(table.Rows) != 1 {
		t.Fatalf("%s, %d rows, %v; want a table of one", response.Status, len(table.Rows), err)
	}
	return table
}

// TestNames: how kubectl may call the kind.
func TestNames(t *testing.T) {
	t.Parallel()
	api, err := discovery.NewDiscoveryClientForConfig(adminConfig)
	if err != nil {
		t.Fatal(err)
	}
	list, err := api.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, resource := range list.APIResources {
		names = append(names, resource.Name)
		if resource.Name == "completionroutes" && (!slices.Equal(resource.ShortNames, []string{"croute"}) || !slices.Equal(resource.Categories, []string{"ghostline"}) || !resource.Namespaced) {
			t.Errorf("the short names are %q, the categories %q, namespaced %v", resource.ShortNames, resource.Categories, resource.Namespaced)
		}
	}
	if want := []string{"completionroutes", "completionroutes/status"}; !slices.Equal(names, want) {
		t.Errorf("the group has %q, want %q", names, want)
	}
}
