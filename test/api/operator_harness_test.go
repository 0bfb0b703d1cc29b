package api

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// cluster is what a test of the operator works with: a namespace of its own at the
// real API server, where pods must keep to the Pod Security Standard "restricted", the
// real controllers that make pods of Deployments and collect what has no owner, and a
// node that runs the proxies.
type cluster struct {
	t         testing.TB
	api       client.Client
	namespace string
	node      *node
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	startControllerManager(t)
	c := &cluster{t: t, api: admin, namespace: newNamespace(t)}
	c.node = startNode(t, c.api, c.namespace)
	return c
}

// The real kube-controller-manager, once for all tests.
var controllerManager sync.Once

func startControllerManager(t testing.TB) {
	t.Helper()
	controllerManager.Do(func() {
		addingUser.Lock()
		user, err := environment.AddUser(envtest.User{Name: "kube-controller-manager", Groups: []string{"system:masters"}}, adminConfig)
		addingUser.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		kubeConfig, err := user.KubeConfig()
		if err != nil {
			t.Fatal(err)
		}
		dir, err := os.MkdirTemp("", "ghostline-api-")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "kubeconfig")
		if err := os.WriteFile(file, kubeConfig, 0o600); err != nil {
			t.Fatal(err)
		}
		manager := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
			"--kubeconfig="+file, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000",
			"--controllers=garbage-collector-controller,deployment-controller,replicaset-controller,horizontal-pod-autoscaler-controller,disruption-controller",
			"--concurrent-gc-syncs=20", "--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20")
		manager.Stdout, manager.Stderr = io.Discard, io.Discard
		if err := manager.Start(); err != nil {
			t.Fatal(err)
		}
		onExit(func() {
			_ = manager.Process.Kill()
			_ = manager.Wait()
			_ = os.RemoveAll(dir)
		})
	})
}

// operator is a running one.
type operator struct {
	t       testing.TB
	stopped chan struct{}
	cancel  context.CancelFunc
	err     error
}

// operatorOptions are what tests give an operator beside what every one has.
type operatorOptions struct {
	region, install string
	// namespace is the one that it watches, if not the cluster's.
	namespace string
	// through changes the operator's way to the API server.
	through func(*rest.Config) *rest.Config
	// interval is how often an unchanged route is looked at.
	interval time.Duration
}

// startOperator runs an operator under exactly the rights of config/rbac/role.yaml,
// until the test ends.
func (c *cluster) startOperator(o operatorOptions) *operator {
	c.t.Helper()
	if o.namespace == "" {
		o.namespace = c.namespace
	}
	if o.install == "" {
		o.install = "ghostline-operator"
	}
	api := userWithRole(c.t, o.namespace, "../../config/rbac/role.yaml")
	if o.through != nil {
		api = o.through(api)
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &operator{t: c.t, stopped: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(run.stopped)
		run.err = controllers.Run(ctx, controllers.Options{
			API: api, Namespace: o.namespace, OwnNamespace: o.namespace, Region: o.region, Install: o.install,
			Identity: uuid.NewString(), ProxyImage: "ghostline-proxy:test", Metrics: prometheus.NewRegistry(), Log: testLog(c.t),
			Interval: o.interval,
		})
	}()
	c.t.Cleanup(run.stop)
	return run
}

func (o *operator) stop() {
	o.cancel()
	<-o.stopped
}

// testLog shows the operator's log when a test is run with -v.
func testLog(t testing.TB) logr.Logger {
	if !testing.Verbose() || os.Getenv("OPERATOR_LOG") == "" {
		return logr.Discard()
	}
	return funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, t.Name(), prefix, args) }, funcr.Options{})
}

// apply creates or changes objects as kubectl apply --server-side does. Those without
// a namespace are put into the cluster's.
func (c *cluster) apply(manifests string) {
	c.t.Helper()
	if err := c.tryApply(manifests); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) tryApply(manifests string) error {
	for _, document := range strings.Split(manifests, "\n---\n") {
		object, err := decode(document)
		if err != nil {
			return err
		}
		object.SetNamespace(c.namespace)
		if err := c.api.Apply(c.t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			return err
		}
	}
	return nil
}

// route reads a route.
func (c *cluster) route(name string) *v1alpha1.CompletionRoute {
	c.t.Helper()
	route := new(v1alpha1.CompletionRoute)
	if err := c.api.Get(context.Background(), c.key(name), route); err != nil {
		c.t.Fatal(err)
	}
	return route
}

func (c *cluster) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

// awaitCondition waits until a condition of the route's newest generation has a status
// and a reason, and returns it.
func (c *cluster) awaitCondition(name, condition string, status metav1.ConditionStatus, reason string) *metav1.Condition {
	c.t.Helper()
	var got *metav1.Condition
	var last string
	end := time.Now().Add(patience)
	for time.Now().Before(end) {
		route := c.route(name)
		got = meta.FindStatusCondition(route.Status.Conditions, condition)
		if got != nil && got.Status == status && got.Reason == reason && got.ObservedGeneration == route.Generation {
			return got
		}
		last = fmt.Sprintf("generation %d, status %+v", route.Generation, route.Status)
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Fatalf("%s never became %s for %s; %s", condition, status, reason, last)
	return nil
}

func (c *cluster) awaitReady(name string) *v1alpha1.CompletionRoute {
	c.t.Helper()
	c.awaitCondition(name, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	return c.route(name)
}
