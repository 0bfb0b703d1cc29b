package compile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// The lists whose entries stand elsewhere in the route.
var (
	entryPath   = regexp.MustCompile(`^(models|units|mutations)\[(\d+)\](.*)$`)
	variantPath = regexp.MustCompile(`^\.variants\[(\d+)\](.*)$`)
	pathInText  = regexp.MustCompile(`\b(?:models|units|mutations|clients)\[\d+\](?:\.\w+|\[\d+\])*`)
)

// routePath is the field of the route that a field of the config was made of, and
// the part that is left out if it is wrong; nil if there is none. Entries of named
// lists are called by their names, since the config sorts them.
func (c *compiler) routePath(wire string) (*place, string) {
	if match := entryPath.FindStringSubmatch(wire); match != nil {
		i, err := strconv.Atoi(match[2])
		switch list, rest := match[1], match[3]; {
		case err != nil:
		case list == "units" && i < len(c.units):
			return &c.units[i], c.units[i].path + unitField(rest)
		case list == "mutations" && i < len(c.mutations):
			return &c.mutations[i], c.mutations[i].path + rest
		case list == "models" && i < len(c.config.Models):
			return nil, modelPath(&c.config.Models[i], rest)
		}
		return nil, "spec." + wire
	}
	region := fmt.Sprintf("spec.regions[%s]", c.region.Name)
	switch first, _, _ := strings.Cut(wire, "."); {
	case wire == "region":
		return nil, region + ".name"
	case first == "healthProbe", strings.HasPrefix(wire, "failover["):
		return nil, region + "." + wire
	case strings.HasPrefix(wire, "trustedEdges"):
		if c.region.Proxy != nil && c.region.Proxy.TrustedEdges != nil {
			return nil, region + ".proxy." + wire
		}
		return nil, "spec.proxy." + wire
	}
	return nil, "spec." + strings.NewReplacer("keySet.file", "keySet.configMapRef", "keySet.caFile", "keySet.caRef",
		"deniedSubjects.file", "deniedSubjects.configMapRef").Replace(wire)
}

func modelPath(model *config.Model, rest string) string {
	path := fmt.Sprintf("spec.models[%s]", model.Name)
	if match := variantPath.FindStringSubmatch(rest); match != nil {
		if i, err := strconv.Atoi(match[1]); err == nil && i < len(model.Variants) {
			return fmt.Sprintf("%s.variants[%s]%s", path, model.Variants[i].Name, match[2])
		}
	}
	return path + rest
}

// unitField is a field of a unit as the route calls it.
func unitField(rest string) string {
	fields := []struct{ wire, route string }{{".credential", ".secretRef"}, {".tls.caFile", ".tls.caRef"}}
	if i := slices.IndexFunc(fields, func(f struct{ wire, route string }) bool { return f.wire == rest }); i >= 0 {
		return fields[i].route
	}
	return rest
}

// routeMessage is a message of proxy/config in the words of the route.
func (c *compiler) routeMessage(message string) string {
	message = strings.ReplaceAll(message, "the credentials directory", "a Secret")
	return pathInText.ReplaceAllStringFunc(message, func(wire string) string {
		_, path := c.routePath(wire)
		return path
	})
}
