package controllers

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/resources"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Options is an operator to run.
type Options struct {
	// API is the API server, and who the operator is there.
	API *rest.Config
	// Namespace is the one whose routes it runs, OwnNamespace that of its own pod.
	Namespace, OwnNamespace string
	// Region is the one that it is for; empty is all regions of the routes.
	Region string
	// Install is what tells this install from another one, such as a Helm release's
	// name; its replicas share it. Identity is this process's, unlike any other's.
	Install, Identity string
	// ProxyImage is the proxies' image where a route names none.
	ProxyImage string
	// AdminAddress is where /healthz, /readyz and /metrics are served; empty is
	// nowhere.
	AdminAddress string
	// Proxies asks proxies for their status; nil asks their admin ports.
	Proxies StatusReader
	// Interval is how often a route is looked at to which nothing happens; 0 is a minute.
	Interval time.Duration
	// Metrics is where the operator's own are registered; nil is controller-runtime's
	// registry, which /metrics serves.
	Metrics prometheus.Registerer
	Log     logr.Logger
}

// Run runs the operator until ctx is done. Of an install's replicas one works and the
// others wait for its end. It returns [ErrOtherInstall] if another install runs the
// namespace.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	lock, err := newLock(o, cancel)
	if err != nil {
		return err
	}
	ready := new(readiness)
	manager, err := ctrl.NewManager(o.API, managerOptions(o, scheme, lock, ready))
	if err != nil {
		return err
	}
	ready.caches.Store(&cached{manager.GetCache()})
	if err := setUp(manager, o); err != nil {
		return err
	}
	err = manager.Start(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, ErrOtherInstall) {
		return cause
	}
	return err
}

// Scheme has the kinds that the operator reads and writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

func managerOptions(o Options, scheme *runtime.Scheme, lock *lock, ready *readiness) ctrl.Options {
	return ctrl.Options{
		Scheme: scheme,
		Logger: o.Log,
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{o.Namespace: {}},
			ByObject: map[client.Object]cache.ByObject{
				// Of what routes own only what is ours is kept. Secrets and ConfigMaps are
				// kept by their metadata, all of them, since routes refer to any.
				&appsv1.Deployment{}: {Label: ours()},
				&corev1.Service{}:    {Label: ours()},
				&corev1.Pod{}:        {Label: labels.SelectorFromSet(labels.Set{resources.LabelName: resources.NameProxy})},
			},
			DefaultTransform: cache.TransformStripManagedFields(),
		},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
		Metrics: metricsserver.Options{
			BindAddress:   orNone(o.AdminAddress),
			ExtraHandlers: map[string]http.Handler{"/healthz": healthz.CheckHandler{Checker: healthz.Ping}, "/readyz": healthz.CheckHandler{Checker: ready.check}},
		},
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		BaseContext:                         func() context.Context { return logr.NewContext(context.Background(), o.Log) },
		// The name is there once in a process, but for tests that run several operators.
		Controller: config.Controller{MaxConcurrentReconciles: 8, SkipNameValidation: new(true)},
	}
}

// ours selects what the operator made.
func ours() labels.Selector {
	return labels.SelectorFromSet(labels.Set{resources.LabelManagedBy: resources.NameOperator})
}

// orNone is controller-runtime's word for no address.
func orNone(address string) string {
	if address == "" {
		return "0"
	}
	return address
}

// setUp gives the manager its one reconciler.
func setUp(manager ctrl.Manager, o Options) error {
	if o.Proxies == nil {
		o.Proxies = NewAdminPort()
	}
	if o.Metrics == nil {
		o.Metrics = ctrlmetrics.Registry
	}
	reconciler := &CompletionRouteReconciler{
		Client:       manager.GetClient(),
		Direct:       manager.GetAPIReader(),
		Events:       manager.GetEventRecorder(LeaseName),
		Proxies:      o.Proxies,
		Metrics:      NewMetrics(o.Metrics),
		Region:       o.Region,
		ProxyImage:   o.ProxyImage,
		OwnNamespace: o.OwnNamespace,
		Interval:     cmp.Or(o.Interval, lookLater),
	}
	return reconciler.watch(manager)
}

// readiness says whether the operator has read what it works on. A replica that waits
// for another one's end has nothing to read, and is ready.
type readiness struct{ caches atomic.Pointer[cached] }

type cached struct{ cache.Cache }

// syncTimeout is how long the answer may take; the caches are read within it or not.
const syncTimeout = 100 * time.Millisecond

func (r *readiness) check(request *http.Request) error {
	ctx, cancel := context.WithTimeout(request.Context(), syncTimeout)
	defer cancel()
	if caches := r.caches.Load(); caches == nil || !caches.WaitForCacheSync(ctx) {
		return errors.New("the cluster's objects are not read yet")
	}
	return nil
}
