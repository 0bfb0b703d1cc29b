package compile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/compile"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// smallRoute is a route of one region, with so many units of one key each.
func smallRoute(units int) *v1alpha1.CompletionRoute {
	route := &v1alpha1.CompletionRoute{Spec: v1alpha1.CompletionRouteSpec{
		Tokens: v1alpha1.Tokens{Issuer: "https://t", Audience: "a", KeySet: v1alpha1.KeySet{URL: "https://t/keys"}},
		Models: []v1alpha1.Model{{Name: "m", Variants: []v1alpha1.Variant{{Name: "v", Weight: 1}}}},
	}}
	region := v1alpha1.Region{Name: "west"}
	for i := range units {
		region.Units = append(region.Units, v1alpha1.Unit{
			Name: v1alpha1.Name(fmt.Sprintf("u-%03d", i)), Serves: "m/v", Provider: "OpenAI", URL: "https://u/v1/completions",
			SecretRef: &v1alpha1.KeyRef{Name: "keys", Key: "key"},
		})
	}
	route.Spec.Regions = []v1alpha1.Region{region}
	return route
}

func keys(size int) compile.References {
	return compile.References{Secrets: map[string]map[string][]byte{"keys": {"key": []byte(strings.Repeat("k", size))}}}
}

// TestSize: two of the largest configs that pass fit into one ConfigMap, and what is
// larger is refused with the reason, whatever it is that is large.
func TestSize(t *testing.T) {
	t.Parallel()
	denied := func(size int) (*v1alpha1.CompletionRoute, compile.References) {
		route, refs := smallRoute(1), keys(1)
		route.Spec.Tokens.DeniedSubjects = &v1alpha1.DeniedSubjects{ConfigMapRef: v1alpha1.KeyRef{Name: "denied", Key: "subjects"}}
		refs.ConfigMaps = map[string]map[string]string{"denied": {"subjects": strings.Repeat("x\n", size/2)}}
		return route, refs
	}
	route, refs := denied(2)
	rest := len(compile.Region(route, "west", refs).Data)
	for _, tc := range []struct {
		name  string
		make  func() (*v1alpha1.CompletionRoute, compile.References)
		wants []string // in the message; nil if it fits
	}{
		{"a list that just fits", func() (*v1alpha1.CompletionRoute, compile.References) { return denied((compile.MaxBytes - rest) &^ 1) }, nil},
		{"a list that is too large", func() (*v1alpha1.CompletionRoute, compile.References) { return denied(compile.MaxBytes - rest + 2) },
			[]string{"config of the region \"west\"", fmt.Sprint(compile.MaxBytes), "the denied subjects (5"}},
		{"many units", func() (*v1alpha1.CompletionRoute, compile.References) { return smallRoute(512), keys(10) }, nil},
		{"long keys", func() (*v1alpha1.CompletionRoute, compile.References) { return smallRoute(65), keys(8 << 10) },
			[]string{"the credentials", "have 532480 bytes", fmt.Sprint(compile.MaxBytes), "u-000 (8192)"}},
	} {
		route, refs := tc.make()
		result := compile.Region(route, "west", refs)
		if tc.wants == nil {
			if len(result.Problems) > 0 || result.Config == nil {
				t.Errorf("%s: %v", tc.name, result.Problems)
				continue
			}
			size := len(result.Data)
			for _, file := range result.Files {
				size += len(file)
			}
			if size > compile.MaxBytes || 2*size > 1<<20 {
				t.Errorf("%s: %d bytes", tc.name, size)
			}
			continue
		}
		if result.Config != nil || len(result.Problems) != 1 || result.Problems[0].Reason != v1alpha1.ReasonConfigTooLarge {
			t.Errorf("%s: config %v, %v", tc.name, result.Config != nil, result.Problems)
			continue
		}
		for _, want := range tc.wants {
			if !strings.Contains(result.Problems[0].Message, want) {
				t.Errorf("%s: %q is not in %s", tc.name, want, result.Problems[0].Message)
			}
		}
	}
}

// TestRotation: another key is another config, by name alone.
func TestRotation(t *testing.T) {
	t.Parallel()
	before, after := compile.Region(smallRoute(1), "west", keys(10)), compile.Region(smallRoute(1), "west", keys(11))
	if before.Hash == after.Hash || before.Config.Units[0].Credential == after.Config.Units[0].Credential {
		t.Errorf("%s and %s", before.Data, after.Data)
	}
	if strings.Contains(string(before.Data), "kkk") {
		t.Errorf("the key is in %s", before.Data)
	}
}

// TestUnusualCharacters: what JSON may hold and YAML may not reaches the proxy as it
// was, since proxies read YAML.
func TestUnusualCharacters(t *testing.T) {
	t.Parallel()
	const prompt = "\x01\x7f\u0080\u0085\u009f\u2028\u2029\ufeff\ufffe\uffff é 日本 😀 <&>\\ \""
	route := smallRoute(1)
	route.Spec.Regions[0].HealthProbe = &v1alpha1.HealthProbe{Prompt: prompt}
	result := compile.Region(route, "west", keys(1))
	decoded, err := config.Decode(result.Data)
	if err != nil || decoded.HealthProbe.Prompt != prompt {
		t.Errorf("%s: error %v, problems %v", result.Data, err, result.Problems)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	route := smallRoute(3)
	route.Spec.Tokens.KeySet = v1alpha1.KeySet{URL: "https://t/keys", CARef: &v1alpha1.KeyRef{Name: "issuer-ca"}}
	route.Spec.Tokens.DeniedSubjects = &v1alpha1.DeniedSubjects{ConfigMapRef: v1alpha1.KeyRef{Name: "denied"}}
	west := &route.Spec.Regions[0]
	west.Failover = []v1alpha1.RegionName{"north"}
	west.Units[2].SecretRef.Name = "a-key"
	west.Units[1].TLS = &v1alpha1.UnitTLS{CARef: &v1alpha1.KeyRef{Name: "denied"}}
	for _, name := range []v1alpha1.RegionName{"north", "east"} {
		other := *west.DeepCopy()
		other.Name, other.Failover = name, nil
		other.Units = other.Units[:1]
		other.Units[0].SecretRef.Name = string(name) + "-key"
		route.Spec.Regions = append(route.Spec.Regions, other)
	}
	for _, tc := range []struct {
		region              string
		secrets, configMaps []string
	}{
		{"west", []string{"a-key", "keys", "north-key"}, []string{"denied", "issuer-ca"}},
		{"north", []string{"north-key"}, []string{"denied", "issuer-ca"}},
		{"mars", nil, nil},
	} {
		secrets, configMaps := compile.Names(route, tc.region)
		if !slices.Equal(secrets, tc.secrets) || !slices.Equal(configMaps, tc.configMaps) {
			t.Errorf("%s: %q and %q, want %q and %q", tc.region, secrets, configMaps, tc.secrets, tc.configMaps)
		}
	}
}
