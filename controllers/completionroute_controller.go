// Package controllers is the operator: it turns CompletionRoutes into the proxies of a
// cluster, and tells in their status what became of them.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/compile"
	"github.com/ghostline-dev/ghostline/controllers/resources"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

//go:generate go tool -modfile=../hack/tools/go.mod controller-gen rbac:roleName=ghostline-operator paths=. output:rbac:dir=../config/rbac

// How soon a route is looked at again though nothing happened to it.
const (
	// lookFirst to lookSoon is while proxies are about to load a config, or a vote is in
	// doubt: sooner at first, since most have it within a second.
	lookFirst = 200 * time.Millisecond
	lookSoon  = 2 * time.Second
	// lookLater bounds the age of what the status tells of the proxies, by default.
	lookLater = time.Minute
)

// CompletionRouteReconciler brings the cluster to what each CompletionRoute says.
//
// It keeps nothing that it could not do without: what it remembers only saves
// requests to the API server. So it may be killed at any moment and started anew.
type CompletionRouteReconciler struct {
	// Client reads from the manager's cache, and writes.
	Client client.Client
	// Direct reads from the API server.
	Direct client.Reader
	Events events.EventRecorder
	// Proxies is who asks proxies for their status.
	Proxies StatusReader
	// Region is the one that this operator is for; empty is all.
	Region string
	// ProxyImage is the proxies' image where a route names none.
	ProxyImage string

	// OwnNamespace is that of the operator's pod.
	OwnNamespace string
	Metrics      *Metrics
	// Interval is how often a route is looked at to which nothing happens.
	Interval time.Duration

	content contents // of Secrets and ConfigMaps
	applied applied  // what was written
	told    told     // the statuses that were written
	votes   votes    // that were seen once
	waiting waiting  // routes, for their proxies
}

// pass is one look at one route.
type pass struct {
	route   *v1alpha1.CompletionRoute
	refs    compile.References
	regions []*region
	// problems are those of the route as a whole, beside the regions'.
	problems []compile.Problem
}

// region is one region of the route that this operator runs.
type region struct {
	objects  resources.Region
	compiled compile.Result
	// live is what the region's ConfigMap and Secret hold.
	live liveConfig
	// failure is why the region's objects could not be written.
	failure error
	fleet   fleet
}

func (g *region) name() string { return g.objects.Name }

// step is a part of a pass. One that fails ends the pass.
type step struct {
	name string
	run  func(context.Context, *pass) error
}

// What the operator may do, in its namespace only. RBAC cannot tell a Secret's
// metadata, which are watched, from what it holds, which is read by name where a route
// refers to it.
//
// +kubebuilder:rbac:namespace=ghostline,groups=completions.ghostline.dev,resources=completionroutes,verbs=get;list;watch
// +kubebuilder:rbac:namespace=ghostline,groups=completions.ghostline.dev,resources=completionroutes/status,verbs=patch
// +kubebuilder:rbac:namespace=ghostline,groups=completions.ghostline.dev,resources=completionroutes/finalizers,verbs=update
// +kubebuilder:rbac:namespace=ghostline,groups="",resources=configmaps;secrets;services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:namespace=ghostline,groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:namespace=ghostline,groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:namespace=ghostline,groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:namespace=ghostline,groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:namespace=ghostline,groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:namespace=ghostline,groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:namespace=ghostline,groups=coordination.k8s.io,resources=leases,verbs=create
// +kubebuilder:rbac:namespace=ghostline,groups=coordination.k8s.io,resources=leases,resourceNames=ghostline-operator,verbs=get;update

// Reconcile makes one pass over a route: read what it refers to, compile it, write
// its objects, ask its proxies, and tell in the status what came of it.
func (r *CompletionRouteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	route := new(v1alpha1.CompletionRoute)
	if err := r.Client.Get(ctx, req.NamespacedName, route); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(req)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !route.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // its objects go with it, by their owner references
	}
	r.told.update(route)
	p := &pass{route: route}
	var failed error
	for _, s := range []step{
		{"resolve", r.resolve},
		{"compile", r.compile},
		{"read what is there", r.readLive},
		{"write the config", r.writeConfig},
		{"write the objects", r.writeObjects},
		{"remove what is not wanted", r.prune},
		{"ask the proxies", r.askProxies},
		{"keep the config as the last good one", r.keepLast},
	} {
		if err := s.run(ctx, p); err != nil {
			failed = fmt.Errorf("%s: %w", s.name, err)
			break
		}
	}
	err := errors.Join(failed, p.failures(), r.writeStatus(ctx, p, failed))
	return ctrl.Result{RequeueAfter: r.lookAgain(p)}, err
}

// compile finds out what the route means in each region that this operator runs.
func (r *CompletionRouteReconciler) compile(ctx context.Context, p *pass) error {
	for _, name := range r.regionsOf(p.route) {
		objects := resources.Region{
			Route: p.route, Name: name, Proxy: compile.ProxyOf(p.route, name), Image: r.ProxyImage, OperatorNamespace: r.OwnNamespace,
		}
		g := &region{objects: objects, compiled: compile.Region(p.route, name, p.refs)}
		if err := r.checkCertificate(ctx, g); err != nil {
			return err
		}
		p.regions = append(p.regions, g)
	}
	if len(p.regions) == 0 { // only of an operator that is for a region
		p.problems = compile.Region(p.route, r.Region, p.refs).Problems
	}
	return nil
}

// regionsOf returns the route's regions that this operator runs.
func (r *CompletionRouteReconciler) regionsOf(route *v1alpha1.CompletionRoute) []string {
	var names []string
	for _, region := range route.Spec.Regions {
		if name := string(region.Name); r.Region == "" || r.Region == name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// failures are those of the regions, each of which goes on without the others.
func (p *pass) failures() error {
	var errs []error
	for _, g := range p.regions {
		if g.failure != nil {
			errs = append(errs, fmt.Errorf("region %s: %w", g.name(), g.failure))
		}
	}
	return errors.Join(errs...)
}

// lookAgain is when the next pass is due though nothing happens.
func (r *CompletionRouteReconciler) lookAgain(p *pass) time.Duration {
	key := client.ObjectKeyFromObject(p.route)
	if !slices.ContainsFunc(p.regions, func(g *region) bool { return g.unsettled() }) {
		r.waiting.forget(key)
		return r.Interval
	}
	return min(max(r.waiting.since(key)/2, lookFirst), lookSoon, r.Interval)
}

// unsettled says whether proxies are about to load the config, or the vote is in
// doubt. A region that waits for its first proxy is not: its pods tell of themselves.
func (g *region) unsettled() bool {
	if g.fleet.voteInDoubt {
		return true
	}
	return g.compiled.Config != nil && len(g.fleet.looks) > 0 && !g.programmed()
}

// forget drops what is remembered of a route that is gone.
func (r *CompletionRouteReconciler) forget(req ctrl.Request) {
	r.applied.forget(req.NamespacedName)
	r.told.forget(req.NamespacedName)
	r.votes.forget(req.NamespacedName)
	r.waiting.forget(req.NamespacedName)
	r.Metrics.forget(req.NamespacedName)
}

// waiting remembers since when routes wait for their proxies.
type waiting struct {
	mu    sync.Mutex
	begun map[types.NamespacedName]time.Time
}

// since is how long the route has waited.
func (w *waiting) since(route types.NamespacedName) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun == nil {
		w.begun = map[types.NamespacedName]time.Time{}
	}
	if _, ok := w.begun[route]; !ok {
		w.begun[route] = time.Now()
	}
	return time.Since(w.begun[route])
}

func (w *waiting) forget(route types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.begun, route)
}
