package compile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
)

// MaxBytes bounds a config with its files, and the credentials of a region. An API
// server takes 1 MiB of entries in a ConfigMap or Secret, and a region's holds two
// generations: the new one, and the last that all ready proxies had in use.
const MaxBytes = 1 << 20 / 2

// part is something that makes a config large.
type part struct {
	name string
	size int
}

// checkSize refuses what cannot be written. It must be found before anything is.
func (c *compiler) checkSize(data []byte) {
	if c.stopped {
		return
	}
	var parts []part
	total := len(data)
	for name, value := range c.files {
		total += len(value)
		kind, _, _ := strings.Cut(name, "-")
		parts = append(parts, part{map[string]string{"ca": "a CA's certificates", "keys": "the key set", "denied": "the denied subjects"}[kind], len(value)})
	}
	if total > MaxBytes {
		c.stop(v1alpha1.ConditionAccepted, v1alpha1.ReasonConfigTooLarge, "spec",
			"the config of the region %q and the files that it names have %d bytes; at most %d fit into its ConfigMap beside the last ones. Most of it: %s",
			c.region.Name, total, MaxBytes, largest(append(parts, c.sections()...)))
	}
	total, parts = 0, nil
	for name, value := range c.credentials {
		total += len(value)
		parts = append(parts, part{name[:strings.LastIndexByte(name, '-')], len(value)})
	}
	if total > MaxBytes {
		c.stop(v1alpha1.ConditionAccepted, v1alpha1.ReasonConfigTooLarge, "spec",
			"the credentials of the units in the config of the region %q have %d bytes; at most %d fit into its Secret beside the last ones. Most of it: %s",
			c.region.Name, total, MaxBytes, largest(parts))
	}
}

// sections are the parts of the config itself that can be large.
func (c *compiler) sections() []part {
	size := func(value any) int {
		data, _ := json.Marshal(value) // it is encoded already
		return len(data)
	}
	return []part{
		{fmt.Sprintf("%d units", len(c.config.Units)), size(c.config.Units)},
		{fmt.Sprintf("%d mutations", len(c.config.Mutations)), size(c.config.Mutations)},
		{fmt.Sprintf("%d models", len(c.config.Models)), size(c.config.Models)},
		{fmt.Sprintf("%d rules about clients", len(c.config.Clients)), size(c.config.Clients)},
	}
}

// largest names the three largest parts.
func largest(parts []part) string {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.name, b.name)) })
	var texts []string
	for _, p := range parts[:min(3, len(parts))] {
		texts = append(texts, fmt.Sprintf("%s (%d)", p.name, p.size))
	}
	return strings.Join(texts, ", ")
}
