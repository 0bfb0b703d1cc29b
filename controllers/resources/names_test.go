package resources

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
)

func TestNames(t *testing.T) {
	longRoute, longRegion := strings.Repeat("r", 40), strings.Repeat("e", 32) // the most that the API takes
	for _, tc := range []struct {
		route, region string
		want          string // Names.Proxy; empty: only its form is looked at
	}{
		{"ghost", "westeurope", "ghost-westeurope-proxy"},
		{"g", "1", "g-1-proxy"},
		{"ghost", longRegion, "ghost-" + longRegion + "-proxy"},
		// 50 characters stay as they are, 51 are cut.
		{longRoute, "123456789", longRoute + "-123456789-proxy"},
		{longRoute, "1234567890", longRoute + "--4088a7d0-proxy"},
		{longRoute, longRegion, ""},
		{"a" + strings.Repeat("-", 38) + "b", longRegion, ""},
	} {
		names := namesOf(tc.route, tc.region)
		if tc.want != "" && names.Proxy != tc.want {
			t.Errorf("route %q in region %q is %q, want %q", tc.route, tc.region, names.Proxy, tc.want)
		}
		for _, name := range []string{names.Proxy, names.Proxies, names.Credentials} {
			// What Services are held to, the strictest; it includes the length.
			if problems := validation.IsDNS1035Label(name); len(problems) > 0 {
				t.Errorf("route %q in region %q: %q: %v", tc.route, tc.region, name, problems)
			}
		}
		if names.Proxy == names.Proxies || names.Proxies == names.Credentials {
			t.Errorf("route %q in region %q: two names are alike: %+v", tc.route, tc.region, names)
		}
	}
}

// TestLongNamesDiffer: names that are cut are told apart by what was cut off.
func TestLongNamesDiffer(t *testing.T) {
	route := strings.Repeat("r", 40)
	one, other := namesOf(route, "north-west-europe-1"), namesOf(route, "north-west-europe-2")
	if one.Proxy == other.Proxy || one.Proxies == other.Proxies || one.Credentials == other.Credentials {
		t.Errorf("two regions have the same names: %+v, %+v", one, other)
	}
}

func namesOf(route, region string) Names {
	r := &v1alpha1.CompletionRoute{}
	r.Name = route
	return NamesOf(r, region)
}

func TestLabelsAreValid(t *testing.T) {
	for name, file := range goldens(t) {
		for _, region := range regionsOf(readRoute(t, file)) {
			for key, value := range region.Labels() {
				if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
					t.Errorf("%s: label %s=%s: %v", name, key, value, problems)
				}
			}
			labels := region.Labels()
			for key, value := range region.Selector() {
				if labels[key] != value {
					t.Errorf("%s: the selector asks for %s=%s, and the label is %q", name, key, value, labels[key])
				}
			}
		}
	}
}
