package docs_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestChanges decodes each change of a body that a page shows.
func TestChanges(t *testing.T) {
	const units = `- {name: unit-1, region: eu-west, serves: ghost-code/stable, provider: OpenAI, url: "https://a.test/v1/completions"}`
	for _, page := range []string{"mutations.md", "providers.md", "configuration.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`\{op: .*?\}`).FindAllString(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s shows no change", page)
		}
		for _, change := range found {
			if _, err := config.Decode([]byte(unitsHead + units + "\nmutations: [{name: a, body: [" + change + "]}]\n")); err != nil {
				t.Errorf("%s, %s: %v", page, change, err)
			}
		}
	}
}
