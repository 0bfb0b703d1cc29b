// Package compile turns a CompletionRoute into the config of one region's proxies. It
// is pure: the same route, references and region give the same bytes. The operator
// and the ghostline command use it alike.
package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// References is what the Secrets and ConfigMaps that a route refers to hold, by their
// names. One that does not exist is missing from its map.
type References struct {
	Secrets    map[string]map[string][]byte
	ConfigMaps map[string]map[string]string
}

// Result is what a route means in one region.
type Result struct {
	// Config is what the region's proxies are to use; nil if nothing can be served,
	// which the problems say why.
	Config *config.Config
	// Data is Config as it is written to a file, and Hash the name of its content
	// (see [config.Hash]).
	Data []byte
	Hash string
	// Files are the files that Config names, to stand beside it: certificates, a key
	// set, a list of denied subjects. Their names tell of their content, so that
	// another content is another config.
	Files map[string][]byte
	// Credentials are the entries of the credentials directory, named after the unit
	// and the content.
	Credentials map[string][]byte
	// Problems are what is wrong, sorted by path.
	Problems []Problem
}

// Problem is something wrong with a route.
type Problem struct {
	// Condition is the one that tells of it, ConditionAccepted or
	// ConditionResolvedRefs, and Reason one of its reasons.
	Condition, Reason string
	// Path is the field's, such as spec.regions[westeurope].units[weu-1].url.
	Path string
	// Message says what is wrong and what would be right.
	Message string
	// Unit or Mutation is the part that is left out because of it. With neither, it
	// is about the whole: nothing can be served if Result.Config is nil, else only
	// what stands at Path has no effect.
	Unit, Mutation string
}

// String is the problem as people read it.
func (p Problem) String() string { return p.Path + ": " + p.Message }

// Region compiles a route for the proxies of one of its regions. What cannot be used
// of the route is left out and told as a problem; the rest is served.
func Region(route *v1alpha1.CompletionRoute, region string, refs References) Result {
	at := regionIndex(route, region)
	if at < 0 {
		return Result{Problems: []Problem{{
			Condition: v1alpha1.ConditionAccepted, Reason: v1alpha1.ReasonUnknownRegion, Path: "spec.regions",
			Message: fmt.Sprintf("has no region %q; it has %s", region, strings.Join(regionNames(route), ", ")),
		}}}
	}
	c := &compiler{
		route: route, region: &route.Spec.Regions[at], refs: refs, proxy: ProxyOf(route, region),
		files: map[string][]byte{}, credentials: map[string][]byte{},
	}
	c.config.Route = &config.Route{Namespace: route.Namespace, Name: route.Name, Generation: route.Generation}
	c.config.Region = region
	c.addTokens()
	c.addModels()
	c.addFailover()
	c.addUnits()
	c.addMutations()
	c.addPolicy()
	c.noteUnsupported()
	return c.result()
}

// compiler is one run of Region.
type compiler struct {
	route  *v1alpha1.CompletionRoute
	region *v1alpha1.Region
	refs   References
	proxy  v1alpha1.Proxy

	config config.Config
	// units are what the config's units were made of, in the same order.
	units []place
	// mutations are what the config's mutations were made of, in the same order.
	mutations []place

	files, credentials map[string][]byte
	problems           []Problem
	stopped            bool // nothing can be served
}

// place is where a part of the config stands in the route.
type place struct {
	path           string
	unit, mutation string
	bad            bool // it is to be left out
}

// problem notes what is wrong with the part at a place, which is left out.
func (c *compiler) problem(at *place, condition, reason, path, format string, args ...any) {
	at.bad = true
	c.problems = append(c.problems, Problem{
		Condition: condition, Reason: reason, Path: path, Message: fmt.Sprintf(format, args...), Unit: at.unit, Mutation: at.mutation,
	})
}

// stop notes what is so wrong that nothing can be served.
func (c *compiler) stop(condition, reason, path, format string, args ...any) {
	c.stopped = true
	c.note(condition, reason, path, format, args...)
}

// note notes what is wrong, though the rest is served.
func (c *compiler) note(condition, reason, path, format string, args ...any) {
	c.problems = append(c.problems, Problem{Condition: condition, Reason: reason, Path: path, Message: fmt.Sprintf(format, args...)})
}

// invalid is stop for a field that no CompletionRoute may have so.
func (c *compiler) invalid(path, format string, args ...any) {
	c.stop(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, path, format, args...)
}

// noteUnsupported notes what this release cannot do, and serves the rest.
func (c *compiler) noteUnsupported() {
	if c.route.Spec.Edge != nil {
		c.note(v1alpha1.ConditionAccepted, v1alpha1.ReasonUnsupported, "spec.edge",
			"this release does not run an edge yet; remove it, and put a load balancer of your own before the proxies' Service")
	}
}

// result checks what was put together, and makes it the result.
func (c *compiler) result() Result {
	data := c.check()
	c.checkSize(data)
	out := Result{Problems: c.sorted()}
	if c.stopped {
		return out
	}
	out.Config, out.Data, out.Hash = &c.config, data, config.Hash(data)
	out.Files, out.Credentials = c.files, c.credentials
	return out
}

func (c *compiler) sorted() []Problem {
	slices.SortStableFunc(c.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return c.problems
}

func regionIndex(route *v1alpha1.CompletionRoute, name string) int {
	return slices.IndexFunc(route.Spec.Regions, func(r v1alpha1.Region) bool { return string(r.Name) == name })
}

func regionNames(route *v1alpha1.CompletionRoute) []string {
	var names []string
	for _, r := range route.Spec.Regions {
		names = append(names, string(r.Name))
	}
	return names
}
