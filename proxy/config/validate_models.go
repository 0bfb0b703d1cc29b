package config

import (
	"fmt"
	"slices"
)

func (c *Config) checkModels(p *problems) {
	p.count("models", len(c.Models), maxModels)
	taken := map[string]string{}
	for i := range c.Models {
		model, path := &c.Models[i], fmt.Sprintf("models[%d]", i)
		names := append([]string{model.Name}, model.Aliases...)
		for j, name := range names {
			namePath := path + ".name"
			if j > 0 {
				namePath = fmt.Sprintf("%s.aliases[%d]", path, j-1)
			}
			p.name(namePath, name)
			if other, ok := taken[name]; ok {
				p.add(namePath, "%q is already the name at %s; names and aliases of models must differ", name, other)
			}
			taken[name] = namePath
		}
		if len(model.Aliases) > maxAliases {
			p.add(path+".aliases", "has %d entries; at most %d are allowed", len(model.Aliases), maxAliases)
		}
		p.oneOf(path+".split.by", model.Split.By, SplitBySubject, SplitByRequest)
		model.checkVariants(p, path+".variants")
		model.checkMirrors(p, path+".mirrors")
	}
}

func (m *Model) checkVariants(p *problems, path string) {
	p.count(path, len(m.Variants), maxVariants)
	fallbacks, sum := map[string]string{}, 0
	for i, v := range m.Variants {
		at := fmt.Sprintf("%s[%d]", path, i)
		p.name(at+".name", v.Name)
		if _, ok := fallbacks[v.Name]; ok {
			p.add(at+".name", "%q is already the name of a variant of this model", v.Name)
		}
		fallbacks[v.Name] = v.Fallback
		if v.Weight < 0 || v.Weight > maxWeight {
			p.add(at+".weight", "is %d; it must be 0 to %d", v.Weight, maxWeight)
		}
		sum += v.Weight
	}
	if len(m.Variants) > 0 && sum == 0 {
		p.add(path, "all have weight 0; at least one must be above 0")
	}
	for i, v := range m.Variants {
		at := fmt.Sprintf("%s[%d].fallback", path, i)
		if v.Fallback == "" {
			continue
		}
		if _, ok := fallbacks[v.Fallback]; !ok {
			p.add(at, "%q is no variant of this model", v.Fallback)
			continue
		}
		next := v.Fallback
		for range m.Variants {
			if next == v.Name {
				p.add(at, "leads back to %q itself; fallbacks must end", v.Name)
				break
			}
			next = fallbacks[next]
		}
	}
}

func (m *Model) checkMirrors(p *problems, path string) {
	if len(m.Mirrors) > maxMirrors {
		p.add(path, "has %d entries; at most %d are allowed", len(m.Mirrors), maxMirrors)
	}
	sums, seen := map[string]float64{}, map[[2]string]bool{}
	for i, mirror := range m.Mirrors {
		at := fmt.Sprintf("%s[%d]", path, i)
		m.isVariant(p, at+".of", mirror.Of)
		if slices.ContainsFunc(m.Variants, func(v Variant) bool { return v.Name == mirror.Of && v.Weight == 0 }) {
			p.add(at+".of", "%q has weight 0, so no request is for it; name a variant with a weight", mirror.Of)
		}
		m.isVariant(p, at+".to", mirror.To)
		pair := [2]string{mirror.Of, mirror.To}
		switch {
		case mirror.Of == mirror.To:
			p.add(at+".to", "%q is the variant that is mirrored; name another one", mirror.To)
		case seen[pair]:
			p.add(at, "mirrors %s to %s, as one above does; give that one the sum of both percents", mirror.Of, mirror.To)
		}
		seen[pair] = true
		if !(mirror.Percent > 0 && mirror.Percent <= 100) {
			p.add(at+".percent", "is %g; it must be above 0 and at most 100", mirror.Percent)
		} else if sums[mirror.Of] += mirror.Percent; sums[mirror.Of] > 100 {
			p.add(at+".percent", "makes %g percent of what %s serves; a request is mirrored once at most, so it must be at most 100 together", sums[mirror.Of], mirror.Of)
		}
		p.oneOf(at+".onCancel", mirror.OnCancel, OnCancelCancel, OnCancelComplete)
	}
}

func (m *Model) isVariant(p *problems, path, name string) {
	if !slices.ContainsFunc(m.Variants, func(v Variant) bool { return v.Name == name }) {
		p.add(path, "%q is no variant of this model", name)
	}
}
