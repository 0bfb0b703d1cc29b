package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// addModels adds the models and their variants, sorted by their names, so that the
// order in which several tools apply them says nothing.
func (c *compiler) addModels() {
	for i := range c.route.Spec.Models {
		from := &c.route.Spec.Models[i]
		to := config.Model{Name: string(from.Name), Aliases: texts(from.Aliases)}
		if from.Split != nil {
			to.Split = config.Split{By: from.Split.By, Salt: from.Split.Salt}
		}
		for _, v := range from.Variants {
			to.Variants = append(to.Variants, config.Variant{Name: string(v.Name), Weight: int(v.Weight), Fallback: string(v.Fallback)})
		}
		slices.SortStableFunc(to.Variants, func(a, b config.Variant) int { return cmp.Compare(a.Name, b.Name) })
		for j, m := range from.Mirrors {
			path := fmt.Sprintf("spec.models[%s].mirrors[%d].percent", from.Name, j)
			to.Mirrors = append(to.Mirrors, config.Mirror{
				Of: string(m.Of), To: string(m.To), Percent: c.percent(nil, path, m.Percent.String()), OnCancel: m.OnCancel,
			})
		}
		c.config.Models = append(c.config.Models, to)
	}
	slices.SortStableFunc(c.config.Models, func(a, b config.Model) int { return cmp.Compare(a.Name, b.Name) })
}

// texts are names as the config has them.
func texts[T ~string](names []T) []string {
	var out []string
	for _, name := range names {
		out = append(out, string(name))
	}
	return out
}
