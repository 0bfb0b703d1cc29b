package controllers

import (
	"errors"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/compile"
	"github.com/ghostline-dev/ghostline/controllers/resources"
	"github.com/ghostline-dev/ghostline/proxy/config"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const hash = "the hash"

// proxyAt is a ready proxy that uses a config.
func proxyAt(hash string) look {
	return look{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-1"}}, status: &ProxyStatus{ConfigHash: hash}}
}

// regionWith is a region that is compiled and written, with proxies.
func regionWith(looks ...look) *region {
	return &region{
		objects:  resources.Region{Name: "west", Route: &v1alpha1.CompletionRoute{}},
		compiled: compile.Result{Config: new(config.Config), Hash: hash},
		fleet:    fleet{wanted: 2, looks: looks},
	}
}

func TestHoldUp(t *testing.T) {
	silent := look{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-2"}}}
	refusing, leaving := proxyAt("another"), proxyAt(hash)
	refusing.status.RefusedConfig = &RefusedConfig{Hash: hash, Problem: "requires[0]: unknown"}
	leaving.status.Units = []PartStatus{{Name: "unit-1", State: unitLeftOut, Problem: "no such entry"}}
	for _, tc := range []struct {
		name         string
		change       func(*region)
		reason, says string
	}{
		{"nothing", func(*region) {}, "", ""},
		{"a name is taken", func(g *region) { g.failure = errNameTaken }, v1alpha1.ReasonNameTaken, "is not this"},
		{"the API server refuses", func(g *region) { g.failure = errors.New("no") }, v1alpha1.ReasonApplyFailed, "no"},
		{"nothing to serve, ever", func(g *region) { g.compiled.Config = nil }, v1alpha1.ReasonNotAccepted, "nothing is served"},
		{"nothing to serve now", func(g *region) { g.compiled.Config, g.live.exists = nil, true }, v1alpha1.ReasonNotAccepted, "stays in use"},
		{"no proxy", func(g *region) { g.fleet.looks = nil }, v1alpha1.ReasonNoProxies, "no proxy is ready of 2"},
		{"a proxy that waits", func(g *region) { g.fleet.looks, g.fleet.waiting = nil, "pod x waits: ImagePullBackOff" }, v1alpha1.ReasonNoProxies, "ImagePullBackOff"},
		{"a proxy that refuses", func(g *region) { g.fleet.looks = []look{refusing} }, v1alpha1.ReasonConfigRefused, "requires[0]: unknown"},
		{"a proxy that leaves out", func(g *region) { g.fleet.looks = []look{leaving} }, v1alpha1.ReasonLeftOutByProxy, "unit unit-1: no such entry"},
		{"a proxy that has not got it", func(g *region) { g.fleet.looks = []look{proxyAt(hash), proxyAt("old")} }, v1alpha1.ReasonPending, "1 of 2"},
		{"a proxy that does not answer", func(g *region) { g.fleet.looks = []look{proxyAt(hash), silent} }, v1alpha1.ReasonPending, "pod-2 does not answer"},
	} {
		g := regionWith(proxyAt(hash), proxyAt(hash))
		tc.change(g)
		reason, message := g.holdUp()
		if reason != tc.reason || !strings.Contains(message, tc.says) {
			t.Errorf("%s: %q, %q; want %q, %q", tc.name, reason, message, tc.reason, tc.says)
		}
		if g.programmed() != (tc.reason == "") {
			t.Errorf("%s: programmed is %v", tc.name, g.programmed())
		}
	}
}

func TestMajority(t *testing.T) {
	voting := func(votes ...string) *region {
		g := regionWith()
		for _, vote := range votes {
			l := proxyAt(hash)
			l.status.RegionVote.Vote, l.status.RegionVote.Problem = vote, "units do not answer"
			g.fleet.looks = append(g.fleet.looks, l)
		}
		return g
	}
	for _, tc := range []struct {
		g            *region
		vote, reason string
	}{
		{voting(), v1alpha1.VoteUnknown, "no proxy is ready"},
		{voting("unknown"), v1alpha1.VoteUnknown, "no proxy has finished its checks"},
		{voting("up", "unknown"), v1alpha1.VoteHealthy, ""},
		{voting("up", "down"), v1alpha1.VoteHealthy, ""},
		{voting("up", "down", "down"), v1alpha1.VoteUnhealthy, "proxy pod-1: units do not answer"},
		{regionWith(look{pod: &corev1.Pod{}}), v1alpha1.VoteUnknown, "no proxy has finished its checks"},
	} {
		if vote, reason := tc.g.majority(); vote != tc.vote || reason != tc.reason {
			t.Errorf("%+v: %q, %q; want %q, %q", tc.g.fleet.looks, vote, reason, tc.vote, tc.reason)
		}
	}
}

// A vote is told once it was the same twice in a row.
func TestVotesAreDebounced(t *testing.T) {
	r := new(CompletionRouteReconciler)
	route := &v1alpha1.CompletionRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "ghost"}}
	vote := func(of string) (string, bool) {
		g := regionWith(proxyAt(hash))
		g.fleet.looks[0].status.RegionVote.Vote = of
		r.countVotes(&pass{route: route}, g)
		route.Status.Regions = []v1alpha1.RegionStatus{{Name: "west", Vote: g.fleet.vote, VoteReason: g.fleet.voteReason}}
		return g.fleet.vote, g.fleet.voteInDoubt
	}
	for i, tc := range []struct {
		of, want string
		inDoubt  bool
	}{
		{"unknown", v1alpha1.VoteUnknown, false}, // the first is told at once
		{"up", v1alpha1.VoteUnknown, true}, {"up", v1alpha1.VoteHealthy, false},
		{"down", v1alpha1.VoteHealthy, true}, {"up", v1alpha1.VoteHealthy, false},
		{"down", v1alpha1.VoteHealthy, true}, {"unknown", v1alpha1.VoteHealthy, true}, {"unknown", v1alpha1.VoteUnknown, false},
	} {
		if got, inDoubt := vote(tc.of); got != tc.want || inDoubt != tc.inDoubt {
			t.Errorf("look %d, %s: %s, in doubt %v; want %s, %v", i, tc.of, got, inDoubt, tc.want, tc.inDoubt)
		}
	}
}

func TestSentence(t *testing.T) {
	var problems []compile.Problem
	for _, unit := range []string{"a", "b", "c", "d", "e", "f"} {
		problems = append(problems, compile.Problem{Path: unit, Message: "is wrong", Unit: unit})
	}
	problems = append(problems, compile.Problem{Path: "all", Message: "is lost"})
	if got, want := sentence(worstFirst(problems)), "all: is lost; a: is wrong; b: is wrong; c: is wrong; d: is wrong; and 2 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestIsNews(t *testing.T) {
	condition := func(of, status, reason string) metav1.Condition {
		return metav1.Condition{Type: of, Status: metav1.ConditionStatus(status), Reason: reason}
	}
	was := condition(v1alpha1.ConditionProgrammed, "False", v1alpha1.ReasonPending)
	ready := condition(v1alpha1.ConditionReady, "False", v1alpha1.ReasonPending)
	for _, tc := range []struct {
		was  *metav1.Condition
		now  metav1.Condition
		want bool
	}{
		{nil, was, true},
		{&was, was, false},
		{&was, condition(v1alpha1.ConditionProgrammed, "False", v1alpha1.ReasonConfigRefused), true},
		{&was, condition(v1alpha1.ConditionProgrammed, "True", v1alpha1.ReasonProgrammed), true},
		{nil, ready, false}, // Programmed says it
		{&ready, condition(v1alpha1.ConditionReady, "False", v1alpha1.ReasonConfigRefused), false},
		{&ready, condition(v1alpha1.ConditionReady, "True", v1alpha1.ReasonReady), true},
	} {
		if got := isNews(tc.was, tc.now); got != tc.want {
			t.Errorf("%+v after %+v: %v, want %v", tc.now, tc.was, got, tc.want)
		}
	}
}

// What a Secret holds is in no error: errors go into the log and the status.
func TestErrorsHaveNoSecret(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "credentials",
		field.ErrorList{field.Invalid(field.NewPath("data"), "the key itself", "is wrong")})
	if got := withoutContent("Secret", invalid).Error(); strings.Contains(got, "the key itself") || !strings.Contains(got, "Invalid") {
		t.Errorf("of a Secret: %s", got)
	}
	if got := withoutContent("Service", invalid).Error(); !strings.Contains(got, "is wrong") {
		t.Errorf("of another kind, which should say why: %s", got)
	}
}

func TestAddresses(t *testing.T) {
	balanced := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.0.0.1"}}}
	if got := addresses(balanced); len(got) != 0 {
		t.Errorf("a load balancer without an address has %q", got)
	}
	balanced.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.2"}, {Hostname: "lb.example.com"}, {IP: "192.0.2.1"}}
	if got := strings.Join(addresses(balanced), " "); got != "192.0.2.1 192.0.2.2 lb.example.com" {
		t.Errorf("a load balancer has %q", got)
	}
	if got := addresses(&corev1.Service{Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.1", "fd00::1"}}}); len(got) != 2 {
		t.Errorf("a ClusterIP Service has %q", got)
	}
}

func TestWaitsFor(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-1"}}
	if got := waitsFor(pod); got != "pod pod-1 is not ready yet" {
		t.Error(got)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"}}
	if got := waitsFor(pod); !strings.Contains(got, "0/1 nodes are available") {
		t.Error(got)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	if got := waitsFor(pod); got != "pod pod-1 waits: ImagePullBackOff" {
		t.Error(got)
	}
}
