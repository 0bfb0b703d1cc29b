package compile

import (
	"fmt"
	"slices"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// check asks proxy/config what it would refuse, leaves out the bad parts, and returns
// the encoded rest.
func (c *compiler) check() []byte {
	for _, problem := range c.refused() {
		c.translate(problem)
	}
	c.dropBad()
	if len(c.config.Units) == 0 {
		c.invalid(fmt.Sprintf("spec.regions[%s].units", c.region.Name),
			"has no unit that can be used, and neither have the regions that it fails over to; at least one must be right")
	}
	if c.stopped {
		return nil
	}
	c.config.Requires = requires(&c.config)
	data, err := encode(&c.config)
	if err == nil {
		_, err = config.Decode(data)
	}
	if err != nil {
		c.invalid("spec", "cannot be made a config: %s", err)
	}
	return data
}

// refused are the problems that proxy/config has with what was put together.
func (c *compiler) refused() []*config.Problem {
	data, err := encode(&c.config)
	if err != nil {
		c.invalid("spec", "cannot be made a config: %s", err)
		return nil
	}
	_, err = config.Decode(data)
	problems, rest := config.Problems(err)
	if rest != nil {
		c.invalid("spec", "cannot be made a config: %s", rest)
	}
	return problems
}

// dropBad leaves out the bad units and mutations, and what only they needed.
func (c *compiler) dropBad() {
	var units []config.Unit
	files, credentials := map[string]bool{}, map[string]bool{}
	for i, unit := range c.config.Units {
		if c.units[i].bad {
			continue
		}
		units = append(units, unit)
		credentials[unit.Credential] = true
		if unit.TLS != nil {
			files[unit.TLS.CAFile] = true
		}
	}
	var mutations []config.Mutation
	for i, mutation := range c.config.Mutations {
		if !c.mutations[i].bad {
			mutations = append(mutations, mutation)
		}
	}
	c.config.Units, c.config.Mutations = units, mutations
	tokens := &c.config.Tokens
	files[tokens.KeySet.File], files[tokens.KeySet.CAFile] = true, true
	if tokens.DeniedSubjects != nil {
		files[tokens.DeniedSubjects.File] = true
	}
	keepOnly(c.files, files)
	keepOnly(c.credentials, credentials)
}

func keepOnly(entries map[string][]byte, used map[string]bool) {
	for name := range entries {
		if !used[name] {
			delete(entries, name)
		}
	}
}

// requires are the features that a proxy must have to honour a config, sorted.
func requires(c *config.Config) []string {
	uses := map[string]bool{
		config.FeatureClientPolicy:     len(c.Clients) > 0,
		config.FeatureFillInTheMiddle:  slices.ContainsFunc(c.Units, func(u config.Unit) bool { return u.FillInTheMiddle != nil }),
		config.FeatureHealthProbe:      c.HealthProbe != nil,
		config.FeatureMirrors:          slices.ContainsFunc(c.Models, func(m config.Model) bool { return len(m.Mirrors) > 0 }),
		config.FeatureMutations:        len(c.Mutations) > 0,
		config.FeatureRegionalCapacity: slices.ContainsFunc(c.Units, func(u config.Unit) bool { return u.Capacity != config.Capacity{} }),
		config.FeatureTrustedEdges:     len(c.TrustedEdges) > 0,
	}
	var features []string
	for _, feature := range config.Features() {
		if uses[feature] {
			features = append(features, feature)
		}
	}
	return features
}

// translate tells a problem of the config as one of the route.
func (c *compiler) translate(problem *config.Problem) {
	if problem.Path == "units" {
		return // there is none, which is told once the bad ones are left out
	}
	at, path := c.routePath(problem.Path)
	if slices.ContainsFunc(c.problems, func(p Problem) bool { return p.Path == path }) {
		return // the same, told better
	}
	message := c.routeMessage(problem.Message)
	if at != nil {
		c.problem(at, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, path, "%s", message)
	} else {
		c.invalid(path, "%s", message)
	}
}
