package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// unitPath is where a unit stands in the route.
func unitPath(region *v1alpha1.Region, unit *v1alpha1.Unit) string {
	return fmt.Sprintf("spec.regions[%s].units[%s]", region.Name, unit.Name)
}

// addFailover names the regions to spill to. One that cannot be is left out.
func (c *compiler) addFailover() {
	for i, name := range c.region.Failover {
		path := fmt.Sprintf("spec.regions[%s].failover[%d]", c.region.Name, i)
		switch {
		case regionIndex(c.route, string(name)) < 0:
			c.note(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, path,
				"%q is no region of this route, which has %s", name, strings.Join(regionNames(c.route), ", "))
		case name == c.region.Name || slices.Contains(c.region.Failover[:i], name):
			c.note(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, path,
				"%q is the region itself or stands there already; failover must name other regions, each once", name)
		default:
			c.config.Failover = append(c.config.Failover, string(name))
		}
	}
}

// addUnits adds the region's units and those of its failover regions, sorted by
// their names. Bad ones stay in until all that is wrong with them is found.
func (c *compiler) addUnits() {
	type made struct {
		unit config.Unit
		at   place
	}
	var all []made
	first := map[v1alpha1.Name]string{} // where each name stands first in the route
	for i := range c.route.Spec.Regions {
		region := &c.route.Spec.Regions[i]
		served := region.Name == c.region.Name || slices.Contains(c.config.Failover, string(region.Name))
		for j := range region.Units {
			unit := &region.Units[j]
			at := place{path: unitPath(region, unit), unit: string(unit.Name)}
			other, taken := first[unit.Name]
			switch {
			case !taken:
				first[unit.Name] = at.path
			case served:
				c.problem(&at, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, at.path+".name",
					"%q is already the name of the unit at %s; names of units must differ in the whole route", unit.Name, other)
			}
			if served && !taken {
				wire := c.unit(unit, &at)
				wire.Region = string(region.Name)
				all = append(all, made{wire, at})
			}
		}
	}
	slices.SortFunc(all, func(a, b made) int { return cmp.Compare(a.unit.Name, b.unit.Name) })
	for _, m := range all {
		c.config.Units, c.units = append(c.config.Units, m.unit), append(c.units, m.at)
	}
}

func (c *compiler) unit(from *v1alpha1.Unit, at *place) config.Unit {
	to := config.Unit{
		Name: string(from.Name), Serves: from.Serves,
		Provider: from.Provider, API: from.API, URL: from.URL, Protocol: from.Protocol,
		UpstreamModel: from.UpstreamModel, MaxTokens: int(from.MaxTokens), Priority: int(from.Priority),
	}
	if f := from.FillInTheMiddle; f != nil {
		to.FillInTheMiddle = &config.FillInTheMiddle{
			Template: f.Template, Prefix: f.Prefix, Suffix: f.Suffix, Middle: f.Middle, SuffixFirst: f.SuffixFirst,
		}
	}
	if from.Capacity != nil {
		to.Capacity = config.Capacity{InFlight: int(from.Capacity.InFlight), RequestsPerSecond: float64(from.Capacity.RequestsPerSecond)}
	}
	if from.TLS != nil {
		to.TLS = &config.UnitTLS{ServerName: from.TLS.ServerName}
	}
	c.resolveUnit(from, &to, at)
	return to
}

// resolveUnit puts what a unit refers to beside the config.
func (c *compiler) resolveUnit(from *v1alpha1.Unit, to *config.Unit, at *place) {
	if from.SecretRef != nil {
		key, refused := c.entry(KindSecret, from.SecretRef, HoldsCredential)
		if refused != nil {
			c.problem(at, v1alpha1.ConditionResolvedRefs, refused.reason, at.path+".secretRef", "%s", refused.message)
		} else {
			// Another key is another entry, so a rotated one is a config change.
			to.Credential = string(from.Name) + "-" + contentName(key)
			c.credentials[to.Credential] = key
		}
	}
	if from.TLS != nil && from.TLS.CARef != nil {
		name, refused := c.file(from.TLS.CARef, HoldsCertificates)
		if refused != nil {
			c.problem(at, v1alpha1.ConditionResolvedRefs, refused.reason, at.path+".tls.caRef", "%s", refused.message)
		}
		to.TLS.CAFile = name
	}
}
