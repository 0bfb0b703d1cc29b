package docs_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// unitsHead is a config that lacks only its units.
const unitsHead = `
region: eu-west
tokens: {issuer: "https://tokens.example.com", audience: completions.example.com, keySet: {file: jwks.json}}
models: [{name: ghost-code, variants: [{name: stable, weight: 1}]}]
units:
`

// TestProviderUnits decodes each example of docs/providers.md, which must have one for
// each provider and name each template.
func TestProviderUnits(t *testing.T) {
	const page = "../../docs/providers.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, found := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		example := found[1]
		if strings.HasPrefix(example, "fillInTheMiddle:") {
			example = "- {name: unit-1, region: eu-west, serves: ghost-code/stable, provider: OpenAI, url: \"https://a.test/v1/completions\", " + strings.TrimSpace(example) + "}\n"
		}
		c, err := config.Decode([]byte(unitsHead + example))
		if err != nil {
			t.Errorf("%s, %s\n%v", page, example, err)
			continue
		}
		shown = append(shown, c.Units[0].Provider)
	}
	for _, provider := range config.Providers() {
		if !slices.Contains(shown, provider) || !strings.Contains(string(text), "\n## "+provider+"\n") {
			t.Errorf("%s has no section or no example of %s", page, provider)
		}
	}
	for _, template := range config.Templates() {
		if !strings.Contains(string(text), "`"+template+"`") {
			t.Errorf("%s does not name the template %s", page, template)
		}
	}
}
