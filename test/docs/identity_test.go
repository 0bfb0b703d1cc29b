package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/strictyaml"
	"github.com/ghostline-dev/ghostline/tokenissuer"
)

// TestIdentityProviders has each example of the page in a config of its own.
func TestIdentityProviders(t *testing.T) {
	const page = "../../docs/identity.md"
	blocks := regexp.MustCompile("(?s)\n *```yaml\n(.*?)\n *```\n").FindAllStringSubmatch(read(t, page), -1)
	if len(blocks) < 3 {
		t.Errorf("%s has %d examples", page, len(blocks))
	}
	for _, block := range blocks {
		example := strings.ReplaceAll(block[1], "\n   ", "\n")
		example = strings.TrimPrefix(example, "   ") + "\nissuer: https://tokens.example.com\naudiences: [completions.example.com]\nkeys: {directory: keys}\n"
		var c tokenissuer.Config
		if err := strictyaml.Decode([]byte(example), &c); err != nil {
			t.Errorf("%s: %v in\n%s", page, err, example)
		} else if err := c.Validate(); err != nil {
			t.Errorf("%s: %v in\n%s", page, err, example)
		}
	}
}
