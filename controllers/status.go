package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/compile"
	"github.com/ghostline-dev/ghostline/controllers/resources"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeStatus tells in the route's status what a pass found, if it is news. failed is
// why the pass ended early.
func (r *CompletionRouteReconciler) writeStatus(ctx context.Context, p *pass, failed error) error {
	before := p.route.Status.DeepCopy()
	if failed != nil {
		p.setCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonApplyFailed, failed.Error())
		p.setReady()
	} else {
		p.fillStatus()
	}
	r.Metrics.observe(p)
	if equality.Semantic.DeepEqual(before, &p.route.Status) {
		return nil
	}
	if err := r.applyStatus(ctx, p.route); err != nil {
		return fmt.Errorf("write the status: %w", client.IgnoreNotFound(err))
	}
	r.told.set(p.route)
	r.tell(before, p.route)
	return nil
}

// applyStatus writes the whole status, whatever the cache has of it: passes over a
// route follow each other, so what one finds is newer than all that was written. The
// UID keeps it from a route that took this one's place.
func (r *CompletionRouteReconciler) applyStatus(ctx context.Context, route *v1alpha1.CompletionRoute) error {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&route.Status)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("CompletionRoute"))
	object.SetNamespace(route.Namespace)
	object.SetName(route.Name)
	object.SetUID(route.UID)
	return r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(FieldOwner(r.Region)), client.ForceOwnership)
}

// told remembers the statuses that were written, since the cache lags behind.
type told struct {
	mu    sync.Mutex
	known map[types.NamespacedName]toldStatus
}

type toldStatus struct {
	route  types.UID
	status *v1alpha1.CompletionRouteStatus
}

// update puts the status that was written last into a route from the cache.
func (t *told) update(route *v1alpha1.CompletionRoute) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known[client.ObjectKeyFromObject(route)]; ok && known.route == route.UID {
		route.Status = *known.status.DeepCopy()
	}
}

func (t *told) set(route *v1alpha1.CompletionRoute) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[types.NamespacedName]toldStatus{}
	}
	t.known[client.ObjectKeyFromObject(route)] = toldStatus{route.UID, route.Status.DeepCopy()}
}

func (t *told) forget(route types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, route)
}

// fillStatus sets the status of a pass that came to its end.
func (p *pass) fillStatus() {
	status := &p.route.Status
	status.ObservedGeneration = p.route.Generation
	status.Models = modelNames(p.route)
	status.Regions, status.MutationsLeftOut = nil, nil
	serving := 0
	for _, g := range p.regions {
		if len(g.fleet.looks) > 0 {
			serving++
		}
		status.Regions = append(status.Regions, g.status())
		if status.MutationsLeftOut == nil { // they are the same in all regions
			status.MutationsLeftOut = leftOut(g.compiled.Problems, func(problem compile.Problem) string { return problem.Mutation })
		}
	}
	status.RegionsReady = fmt.Sprintf("%d/%d", serving, len(p.regions))
	p.setAccepted()
	p.setResolvedRefs()
	p.setProgrammed()
	p.setReady()
}

func modelNames(route *v1alpha1.CompletionRoute) string {
	var names []string
	for _, model := range route.Spec.Models {
		names = append(names, string(model.Name))
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

func (g *region) status() v1alpha1.RegionStatus {
	return v1alpha1.RegionStatus{
		Name: v1alpha1.RegionName(g.name()),
		Proxies: v1alpha1.ProxiesStatus{
			Wanted: g.fleet.wanted, Ready: int32(len(g.fleet.looks)), Programmed: int32(g.countProgrammed()),
		},
		ConfigHash:   g.hash(),
		Vote:         g.fleet.vote,
		VoteReason:   g.fleet.voteReason,
		Addresses:    g.fleet.addresses,
		UnitsLeftOut: leftOut(g.compiled.Problems, func(problem compile.Problem) string { return problem.Unit }),
	}
}

// hash is that of the config which the region is to have: the route's, or the one that
// stays because the route's cannot be used.
func (g *region) hash() string {
	if g.compiled.Config == nil && g.live.exists {
		return config.Hash([]byte(g.live.entries[resources.EntryConfig]))
	}
	return g.compiled.Hash
}

// leftOut are the parts that problems leave out, by what names the part.
func leftOut(problems []compile.Problem, part func(compile.Problem) string) []v1alpha1.LeftOut {
	var out []v1alpha1.LeftOut
	for _, problem := range problems {
		if name := part(problem); name != "" {
			out = append(out, v1alpha1.LeftOut{Name: name, Reason: problem.Reason, Message: problem.String()})
		}
	}
	return out
}

// setAccepted says whether the route could be compiled in every region.
func (p *pass) setAccepted() {
	problems := p.problemsOf(v1alpha1.ConditionAccepted)
	for _, g := range p.regions {
		if g.compiled.Config == nil {
			// Why nothing can be served may be a missing reference.
			problems = worstFirst(g.compiled.Problems)
			p.setCondition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, problems[0].Reason, sentence(problems))
			return
		}
	}
	switch {
	case len(p.regions) == 0:
		p.setCondition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, problems[0].Reason, sentence(problems))
	case len(problems) > 0:
		p.setCondition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonPartsLeftOut, sentence(problems))
	default:
		p.setCondition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the route is compiled")
	}
}

// worstFirst puts the problems because of which nothing can be served before those that
// cost a part.
func worstFirst(problems []compile.Problem) []compile.Problem {
	costsPart := func(problem compile.Problem) int {
		if problem.Unit == "" && problem.Mutation == "" {
			return 0
		}
		return 1
	}
	sorted := slices.Clone(problems)
	slices.SortStableFunc(sorted, func(a, b compile.Problem) int { return cmp.Compare(costsPart(a), costsPart(b)) })
	return sorted
}

func (p *pass) setResolvedRefs() {
	problems := p.problemsOf(v1alpha1.ConditionResolvedRefs)
	if len(problems) > 0 {
		p.setCondition(v1alpha1.ConditionResolvedRefs, metav1.ConditionFalse, problems[0].Reason, sentence(problems))
		return
	}
	p.setCondition(v1alpha1.ConditionResolvedRefs, metav1.ConditionTrue, v1alpha1.ReasonResolvedRefs, "everything that the route refers to exists")
}

// problemsOf are the problems of a condition in all regions, each once, sorted.
func (p *pass) problemsOf(condition string) []compile.Problem {
	var out []compile.Problem
	add := func(problems []compile.Problem) {
		for _, problem := range problems {
			if problem.Condition == condition {
				out = append(out, problem)
			}
		}
	}
	add(p.problems)
	for _, g := range p.regions {
		add(g.compiled.Problems)
	}
	slices.SortStableFunc(out, func(a, b compile.Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(out, func(a, b compile.Problem) bool { return a.String() == b.String() })
}

// setProgrammed says whether every ready proxy of every region uses the config, and if
// not what holds the first region up that does not get there by itself.
func (p *pass) setProgrammed() {
	var reason, message string
	for _, g := range p.regions {
		if why, text := g.holdUp(); why != "" && (reason == "" || reason == v1alpha1.ReasonPending) {
			reason, message = why, fmt.Sprintf("region %s: %s", g.name(), text)
		}
	}
	switch {
	case len(p.regions) == 0:
		p.setCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted, "the condition Accepted says why")
	case reason != "":
		p.setCondition(v1alpha1.ConditionProgrammed, metav1.ConditionFalse, reason, message)
	default:
		p.setCondition(v1alpha1.ConditionProgrammed, metav1.ConditionTrue, v1alpha1.ReasonProgrammed, "every ready proxy uses this generation's config")
	}
}

// holdUp is why the region is not programmed; empty if it is.
func (g *region) holdUp() (reason, message string) {
	switch {
	case errors.Is(g.failure, errNameTaken):
		return v1alpha1.ReasonNameTaken, g.failure.Error()
	case g.failure != nil:
		return v1alpha1.ReasonApplyFailed, g.failure.Error()
	case g.compiled.Config == nil && g.live.exists:
		return v1alpha1.ReasonNotAccepted, "the last config that could be used stays in use; the condition Accepted says what is wrong"
	case g.compiled.Config == nil:
		return v1alpha1.ReasonNotAccepted, "nothing is served; the condition Accepted says why"
	case len(g.fleet.looks) == 0 && g.fleet.waiting != "":
		return v1alpha1.ReasonNoProxies, fmt.Sprintf("no proxy is ready of %d; %s", g.fleet.wanted, g.fleet.waiting)
	case len(g.fleet.looks) == 0:
		return v1alpha1.ReasonNoProxies, fmt.Sprintf("no proxy is ready of %d", g.fleet.wanted)
	}
	for i := range g.fleet.looks {
		l := &g.fleet.looks[i]
		switch {
		case l.uses(g.compiled.Hash):
		case l.status != nil && l.status.RefusedConfig != nil && l.status.RefusedConfig.Hash == g.compiled.Hash:
			return v1alpha1.ReasonConfigRefused, fmt.Sprintf("proxy %s refuses the config: %s", l.pod.Name, l.status.RefusedConfig.Problem)
		case l.status != nil && l.status.ConfigHash == g.compiled.Hash:
			return v1alpha1.ReasonLeftOutByProxy, fmt.Sprintf("proxy %s leaves out %s", l.pod.Name, strings.Join(l.leftOut(), "; "))
		}
	}
	n := g.countProgrammed()
	if n == len(g.fleet.looks) {
		return "", ""
	}
	message = fmt.Sprintf("%d of %d ready proxies use the config", n, len(g.fleet.looks))
	for _, l := range g.fleet.looks {
		if l.status == nil {
			message += fmt.Sprintf("; pod %s does not answer the operator on port %d", l.pod.Name, resources.PortAdmin)
			break
		}
	}
	return v1alpha1.ReasonPending, message
}

// setReady is True if the route is accepted and programmed.
func (p *pass) setReady() {
	conditions := p.route.Status.Conditions
	accepted := meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted)
	programmed := meta.FindStatusCondition(conditions, v1alpha1.ConditionProgrammed)
	switch {
	case accepted != nil && accepted.Status != metav1.ConditionTrue:
		p.setCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted, accepted.Message)
	case programmed.Status != metav1.ConditionTrue:
		p.setCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, programmed.Reason, programmed.Message)
	default:
		p.setCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "the route is served")
	}
}

func (p *pass) setCondition(condition string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&p.route.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: message, ObservedGeneration: p.route.Generation,
	})
}

// maxInSentence bounds the problems that one condition's message names.
const maxInSentence = 5

// sentence is the problems as a condition's message; the parts left out are in the
// status, all of them.
func sentence(problems []compile.Problem) string {
	var texts []string
	for _, problem := range problems[:min(len(problems), maxInSentence)] {
		texts = append(texts, problem.String())
	}
	if more := len(problems) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}
