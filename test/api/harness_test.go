// Package api holds Ghostline's objects, and what works with them, to a real Kubernetes
// API server. `make test-api` builds one and runs these tests; without it they skip
// themselves.
//
// There is one API server, with its etcd, for the whole package: environment, which
// knows the CRDs in config/crd. It admits as a cluster's does, Pod Security and the
// protection of owner references included, but makes no ServiceAccounts, and nothing
// runs beside it: no controller, no node, but in tests of the operator, which have them
// (operator_harness_test.go, node_test.go). What a test uses of this file:
//
//   - newNamespace: a namespace of the test's own.
//   - admin and adminConfig: who may do everything.
//   - clientFor: a client for whoever a config says.
//   - userWithRole: who may do only what a Role in a file says.
//   - newRelay (relay_test.go): a way to the API server that can be cut.
//   - onExit: what is to be done after all tests.
//   - eventually: what to wait for, within patience.
package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/go-logr/logr"
	"github.com/google/uuid"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"
)

// assetsVariable names the folder with the programs kube-apiserver and etcd.
const assetsVariable = "KUBEBUILDER_ASSETS"

// patience bounds every wait; what is waited for comes much sooner.
const patience = 90 * time.Second

// What TestMain sets up for all tests.
var (
	environment *envtest.Environment
	adminConfig *rest.Config
	admin       client.Client
	// atExit is run after all tests, last first, while the API server still runs.
	atExit   []func()
	atExitMu sync.Mutex
	// addingUser is held by who makes a user.
	addingUser sync.Mutex
)

func TestMain(m *testing.M) {
	if os.Getenv(assetsVariable) == "" {
		fmt.Printf("skipped: %s does not name a folder with kube-apiserver and etcd; make test-api builds them and runs these tests\n", assetsVariable)
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	// What the libraries say of an outage that a test makes is no news.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	environment = newEnvironment()
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
			code = 1
		}
	}()
	var err error
	if adminConfig, err = environment.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	adminConfig.QPS = -1
	if admin, err = newClient(adminConfig); err != nil {
		fmt.Fprintln(os.Stderr, "ask the API server:", err)
		return 1
	}
	code = m.Run()
	for i := range atExit {
		atExit[len(atExit)-1-i]()
	}
	return code
}

func newEnvironment() *envtest.Environment {
	e := &envtest.Environment{
		CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience,
	}
	e.ControlPlane.GetAPIServer().Configure().
		// OpenShift has the second one: who sets blockOwnerDeletion must be allowed to
		// change the owner's finalizers.
		Append("enable-admission-plugins", "NodeRestriction", "OwnerReferencesPermissionEnforcement").
		// An address for documentation, which nobody asks: without it a machine that has
		// only a loopback interface cannot run an API server.
		Set("advertise-address", "192.0.2.1")
	return e
}

// newClient asks the API server for Kubernetes' kinds and ours.
func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// clientFor asks the API server as whoever the config says.
func clientFor(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := newClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newNamespace makes a namespace whose pods must keep to the Pod Security Standard
// "restricted", and returns its name. It stays: only a controller could remove what
// it holds.
func newNamespace(t testing.TB) string {
	t.Helper()
	name := "t-" + uuid.NewString()[:8]
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})
	return name
}

func create(t testing.TB, object client.Object) {
	t.Helper()
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T: %v", object, err)
	}
}

// userWithRole makes a user who may do in a namespace exactly what the Roles in a file
// say, whatever namespace they name, and returns how it asks the API server. As a
// cluster's pod, it is a ServiceAccount's.
func userWithRole(t testing.TB, namespace, file string) *rest.Config {
	t.Helper()
	account := "user-" + uuid.NewString()[:8]
	addingUser.Lock() // envtest's AddUser is for one at a time
	user, err := environment.AddUser(envtest.User{
		Name:   "system:serviceaccount:" + namespace + ":" + account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
	}, &rest.Config{QPS: -1})
	addingUser.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(user.Config())
	for i, role := range readRoles(t, file) {
		role.Namespace, role.Name = namespace, fmt.Sprintf("%s-%d", account, i)
		create(t, role)
		create(t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		})
		awaitRules(t, config, namespace, role.Rules)
	}
	return config
}

// readRoles reads a file of Roles. Anything else in it is a mistake: the user would
// lack the rights that it gives.
func readRoles(t testing.TB, file string) []*rbacv1.Role {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var roles []*rbacv1.Role
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		document = bytes.TrimPrefix(document, []byte("---\n"))
		var role rbacv1.Role
		if err := yaml.UnmarshalStrict(document, &role); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if role.Kind != "Role" {
			t.Fatalf("%s has a %q, where only Roles are expected", file, role.Kind)
		}
		roles = append(roles, &role)
	}
	return roles
}

// awaitRules waits until the API server has heard of a role, as it does by a watch.
func awaitRules(t testing.TB, config *rest.Config, namespace string, rules []rbacv1.PolicyRule) {
	t.Helper()
	api := clientFor(t, config)
	for _, rule := range rules {
		resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
		attributes := authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
		}
		if len(rule.ResourceNames) > 0 {
			attributes.Name = rule.ResourceNames[0]
		}
		eventually(t, fmt.Sprintf("the role allows %+v", attributes), func() bool {
			review := &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes},
			}
			return api.Create(t.Context(), review) == nil && review.Status.Allowed
		})
	}
}

// onExit has something done after all tests, before what was asked for earlier.
func onExit(do func()) {
	atExitMu.Lock()
	defer atExitMu.Unlock()
	atExit = append(atExit, do)
}

// eventually waits until so is true, and says what was waited for if it never is.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !so() {
		select {
		case <-ctx.Done():
			t.Fatalf("it never came to be that %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
