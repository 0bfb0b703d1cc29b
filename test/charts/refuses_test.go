package charts

import (
	"strings"
	"testing"
)

// TestRefuses: values that are wrong are refused with their name, before anything is
// installed.
func TestRefuses(t *testing.T) {
	const githubCase, bareCase = "testdata/ghostline-issuer/github.values.yaml", "testdata/ghostline-issuer/bare.values.yaml"
	provider := func(field string) string { return "config.identityProviders[0]." + field }
	for _, tc := range []struct {
		name, chart, values, set string
		want                     []string
	}{
		{"a value that does not exist", operator, "", "replica=2", []string{"additional properties 'replica' not allowed"}},
		{"one inside of another", operator, "", "crds.enable=false", []string{"'/crds'", "additional properties 'enable' not allowed"}},
		{"text for a number", operator, "", "replicas=two", []string{"'/replicas'", "got string, want integer"}},
		{"text for a switch", operator, "", "podMonitor.enabled=yes", []string{"'/podMonitor/enabled'", "got string, want boolean"}},
		{"an object for text", operator, "", "region.name=westeurope", []string{"'/region'", "got object, want string"}},
		{"a number for a label", operator, "", "podLabels.team=7", []string{"'/podLabels/team'", "want string"}},
		{"a level that there is not", operator, "", "logLevel=trace", []string{"'/logLevel'", "'debug', 'info', 'warn', 'error'"}},
		{"a namespace that cannot be", operator, "", "watchNamespace=A_b", []string{"'/watchNamespace'", "does not match pattern"}},
		{"half a digest", operator, "", "image.digest=sha256:12", []string{"'/image/digest'", "does not match pattern"}},
		{"latest", operator, "", "image.tag=latest", []string{"image.tag: latest is another image every day"}},
		{"latest of the proxies", operator, "", "proxyImage.tag=latest", []string{"proxyImage.tag: latest is another image every day"}},
		{"nothing configured", issuer, "", "replicas=2", []string{"'/config'", "missing properties 'issuer', 'audiences', 'identityProviders'"}},
		{"latest of the issuer", issuer, githubCase, "image.tag=latest", []string{"image.tag: latest is another image every day"}},
		{"a typo in the config", issuer, githubCase, "config.tokenlife=5m", []string{"'/config'", "additional properties 'tokenlife' not allowed"}},
		{"a typo in a provider", issuer, githubCase, provider("github.organisations={acme}"), []string{"'/config/identityProviders/0/github'", "'organisations' not allowed"}},
		{"a provider of no kind", issuer, githubCase, provider("type=Github"), []string{"'/config/identityProviders/0/type'", "'Static', 'GitHub', 'OIDC', 'Introspection'"}},
		{"a secret's file that is relative", issuer, githubCase, provider("github.clientSecretFile=secret"), []string{"clientSecretFile'", "does not match pattern"}},
		{"keys of the config's own", issuer, githubCase, "config.keys.directory=/keys", []string{"'/config/keys'", "'directory' not allowed"}},
		{"an issuer with a path", issuer, githubCase, "config.issuer=https://example.com/tokens", []string{"'/config/issuer'", "does not match pattern"}},
		{"a file of two", issuer, githubCase, "files[0].configMap=x", []string{"'/files/0'", "oneOf"}},
		{"two kinds of rules", issuer, githubCase, "entitlements.existingConfigMap=x", []string{"entitlements: there are both rules and existingConfigMap"}},
		{"a rule for nobody", issuer, bareCase, "entitlements.rules[0].name=x", []string{"'/entitlements/rules/0'", "missing property 'match'"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--set", tc.set}
			if tc.values != "" {
				args = append(args, "--values", tc.values)
			}
			_, err := template(t, tc.chart, args...)
			if err == nil {
				t.Fatalf("%s is taken", tc.set)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v; want %q in it", tc.set, err, want)
				}
			}
		})
	}
}
