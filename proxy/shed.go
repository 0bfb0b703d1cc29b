package proxy

import (
	"errors"
	"slices"
)

var errAllFull = errors.New("no unit of the model is free")

// shed turns a request away while nobody can serve it, before its body is read
// and before it takes the place of an older one. It can only tell if the model is
// known so early: by the path, or because there is only one.
func (p *proxy) shed(x *exchange) error {
	m := x.snapshot.models[x.engine]
	if x.engine == "" && len(x.snapshot.config.Models) == 1 {
		m = x.snapshot.models[x.snapshot.config.Models[0].Name]
	}
	if m == nil || !x.claims.AllowsModel(m.Name) {
		return nil // match has an answer to that
	}
	for _, v := range m.variants {
		if v.onlyMirrored {
			continue
		}
		for _, u := range v.units {
			if p.standing(x, u, x.start) != notToAsk {
				return nil
			}
		}
	}
	x.model = m // for the record
	serving := slices.DeleteFunc(slices.Clone(m.variants), func(v *variant) bool { return v.onlyMirrored })
	return noCapacity(errAllFull, comeAgain(serving, x.start))
}
