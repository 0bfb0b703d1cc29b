package api

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/controllers"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// helmCluster is an API server of its own, on which nothing of Ghostline is installed
// yet, and Helm's way to it.
type helmCluster struct {
	*cluster
	admin      *rest.Config
	kubeConfig string
}

func newHelmCluster(t *testing.T) *helmCluster {
	t.Helper()
	environment := newEnvironment()
	environment.CRDDirectoryPaths = nil
	admin, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	addingUser.Lock()
	user, err := environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, admin)
	addingUser.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	kubeConfig, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return &helmCluster{&cluster{t: t, api: clientFor(t, admin), namespace: "completions"}, admin, file}
}

// helm runs Helm, and returns what it says.
func (c *helmCluster) helm(args ...string) (string, error) {
	c.t.Helper()
	run := exec.Command("go", append([]string{"tool", "-modfile=hack/tools/go.mod", "helm", "--kubeconfig", c.kubeConfig}, args...)...)
	run.Dir = "../.."
	run.Env = append(os.Environ(), "CGO_ENABLED=0", "HELM_CACHE_HOME="+c.t.TempDir(), "HELM_CONFIG_HOME="+c.t.TempDir(), "HELM_DATA_HOME="+c.t.TempDir())
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	err := run.Run()
	return out.String(), err
}

func (c *helmCluster) mustHelm(args ...string) {
	c.t.Helper()
	if out, err := c.helm(args...); err != nil {
		c.t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// runRelease runs the operator as a release's Deployment says, as its service account,
// so with the rights that the chart gives and no others.
func (c *helmCluster) runRelease(namespace, release string) *operator {
	c.t.Helper()
	var deployment appsv1.Deployment
	if err := c.api.Get(c.t.Context(), client.ObjectKey{Namespace: namespace, Name: release}, &deployment); err != nil {
		c.t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	api := rest.CopyConfig(c.admin)
	api.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:%s", namespace, pod.ServiceAccountName),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
	}
	flags := map[string]string{"-watch-namespace": namespace}
	for _, arg := range pod.Containers[0].Args {
		name, value, _ := strings.Cut(arg, "=")
		flags[name] = value
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &operator{t: c.t, stopped: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(run.stopped)
		run.err = controllers.Run(ctx, controllers.Options{
			API: api, Namespace: flags["-watch-namespace"], OwnNamespace: namespace, Region: flags["-region"], Install: flags["-install"],
			Identity: uuid.NewString(), ProxyImage: flags["-proxy-image"], Metrics: prometheus.NewRegistry(), Log: testLog(c.t), Interval: time.Second,
		})
	}()
	c.t.Cleanup(run.stop)
	return run
}

// awaitProxies waits until the route's Deployments are there, and returns the route's
// objects.
func (c *helmCluster) awaitProxies(regions ...string) map[string]string {
	c.t.Helper()
	c.eventually("the regions have their Deployments, and the route its status", func() bool {
		objects := c.objects("ghost")
		for _, region := range regions {
			if objects["Deployment/ghost-"+region+"-proxy"] == "" {
				return false
			}
		}
		return len(c.route("ghost").Status.Conditions) > 0
	})
	return c.objects("ghost")
}

// The life of a release: an upgrade keeps routes and their proxies as they are, an
// uninstall too, with the definition, and a new install goes on with them.
func TestHelmLifeCycle(t *testing.T) {
	t.Parallel()
	c := newHelmCluster(t)
	c.mustHelm("install", "ghostline", "charts/ghostline", "-n", "completions", "--create-namespace")
	first := c.runRelease("completions", "ghostline")
	c.applyRoute()
	proxies := c.awaitProxies("west", "north")
	route := c.route("ghost").UID
	unchanged := func(when string) {
		t.Helper()
		if got := c.awaitProxies("west", "north"); !maps.Equal(got, proxies) {
			t.Errorf("%s the route's objects were %v, and are %v", when, proxies, got)
		}
		if got := c.route("ghost").UID; got != route {
			t.Errorf("%s the route is another one", when)
		}
	}

	c.mustHelm("upgrade", "ghostline", "charts/ghostline", "-n", "completions", "--set", "logLevel=debug,replicas=2")
	first.stop()
	second := c.runRelease("completions", "ghostline")
	unchanged("after an upgrade")

	c.mustHelm("uninstall", "ghostline", "-n", "completions")
	second.stop()
	unchanged("after an uninstall")
	var deployments appsv1.DeploymentList
	if err := c.api.List(t.Context(), &deployments, client.InNamespace("completions"), client.MatchingLabels{"app.kubernetes.io/name": "ghostline-operator"}); err != nil {
		t.Fatal(err)
	}
	if len(deployments.Items) > 0 {
		t.Error("after an uninstall the operator is still there")
	}

	c.mustHelm("install", "ghostline", "charts/ghostline", "-n", "completions")
	c.runRelease("completions", "ghostline")
	unchanged("after a new install")
	c.apply(strings.Replace(routeWith, "replicas: 2", "replicas: 3", 1))
	c.eventually("the new install works on the route", func() bool { return *c.deployment("ghost-west-proxy").Spec.Replicas == 3 })
}

// A second install in the same cluster, for another region in a namespace of its own,
// leaves the definition to the first.
func TestHelmSecondInstall(t *testing.T) {
	t.Parallel()
	c := newHelmCluster(t)
	c.mustHelm("install", "ghostline", "charts/ghostline", "-n", "completions", "--create-namespace", "--set", "region=west")
	c.runRelease("completions", "ghostline")
	c.applyRoute()
	c.awaitProxies("west")

	// Helm itself says what is wrong; docs/install.md what to do.
	out, err := c.helm("install", "north", "charts/ghostline", "-n", "north", "--create-namespace", "--set", "region=north")
	if err == nil || !strings.Contains(out, "completionroutes.completions.ghostline.dev") {
		t.Errorf("a second owner of the definition: %v\n%s", err, out)
	}
	c.mustHelm("install", "north", "charts/ghostline", "-n", "north", "--create-namespace", "--set", "region=north,crds.enabled=false")
	other := &helmCluster{&cluster{t: t, api: c.api, namespace: "north"}, c.admin, c.kubeConfig}
	other.runRelease("north", "north-ghostline")
	other.applyRoute()
	other.awaitProxies("north")
	for _, each := range []struct {
		c    *cluster
		none string
	}{{c.cluster, "north"}, {other.cluster, "west"}} {
		if objects := each.c.objectsOf(each.none); len(objects) > 0 {
			t.Errorf("namespace %s has objects of the region %s: %v", each.c.namespace, each.none, objects)
		}
	}
	c.mustHelm("uninstall", "north", "-n", "north")
	if c.route("ghost").UID == "" || other.route("ghost").UID == "" {
		t.Error("routes went with the second install")
	}
}

// kustomize's way is the same: its objects are taken by a real API server, and the
// operator works with the rights that they give.
func TestKustomize(t *testing.T) {
	t.Parallel()
	c := newHelmCluster(t)
	build := exec.Command("go", "tool", "-modfile=hack/tools/go.mod", "kustomize", "build", "config/default")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	manifests, err := build.Output()
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(manifests), "\n---\n")
	// As kubectl apply does: namespaces and definitions first.
	slices.SortStableFunc(documents, func(a, b string) int { return rank(a) - rank(b) })
	for _, document := range documents {
		object, err := decode(document)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kubectl")); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	c.namespace = "ghostline"
	c.runRelease("ghostline", "ghostline-operator")
	c.eventually("routes are known", func() bool { return c.tryApply(routeWith) == nil })
	c.applyRoute()
	c.awaitProxies("west", "north")
}

func rank(document string) int {
	if strings.Contains(document, "\nkind: Namespace\n") || strings.Contains(document, "\nkind: CustomResourceDefinition\n") {
		return 0
	}
	return 1
}
