package controllers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/ghostline-dev/ghostline/controllers/resources"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// ProxyStatus is what the operator reads of a proxy's /statusz.
type ProxyStatus struct {
	ConfigHash string `json:"configHash"`
	// RefusedConfig is the newest config, if the proxy uses another one.
	RefusedConfig *RefusedConfig `json:"refusedConfig"`
	RegionVote    struct {
		Vote    string `json:"vote"` // up, down or unknown
		Problem string `json:"problem"`
	} `json:"regionVote"`
	Units            []PartStatus `json:"units"`
	MutationsLeftOut []PartStatus `json:"mutationsLeftOut"`
}

// RefusedConfig is a config that a proxy does not use, and why.
type RefusedConfig struct {
	Hash    string `json:"hash"`
	Problem string `json:"problem"`
}

// PartStatus is a unit or a mutation at a proxy.
type PartStatus struct {
	Name    string `json:"name"`
	State   string `json:"state"` // of a unit
	Problem string `json:"problem"`
}

// unitLeftOut is the state of a unit that a proxy cannot use.
const unitLeftOut = "left_out"

// StatusReader asks a proxy for its status.
type StatusReader interface {
	// Status is that of the proxy at an IP address.
	Status(ctx context.Context, ip string) (*ProxyStatus, error)
}

// AdminPort asks proxies on their admin port.
type AdminPort struct{ client *http.Client }

// Bounds of one question to a proxy.
const (
	statusTimeout   = 2 * time.Second
	maxStatus       = 4 << 20
	questionsAtOnce = 32
)

// NewAdminPort returns a StatusReader for proxies in pods.
func NewAdminPort() AdminPort {
	return AdminPort{&http.Client{
		Timeout:       statusTimeout,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * lookLater, DialContext: (&net.Dialer{Timeout: statusTimeout}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Status is a [StatusReader]'s.
func (a AdminPort) Status(ctx context.Context, ip string) (*ProxyStatus, error) {
	url := "http://" + net.JoinHostPort(ip, strconv.Itoa(resources.PortAdmin)) + "/statusz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, response.Status)
	}
	status := new(ProxyStatus)
	if err := json.NewDecoder(io.LimitReader(response.Body, maxStatus)).Decode(status); err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return status, nil
}

// fleet is what is known of a region's proxies.
type fleet struct {
	wanted int32
	// waiting says of a proxy that is not ready what it waits for; empty if nothing
	// is known.
	waiting string
	// pods are those of all proxies, looks of those that are ready, both by name.
	pods             []corev1.Pod
	looks            []look
	vote, voteReason string
	// voteInDoubt says that the proxies vote unlike the status, but did so only once.
	voteInDoubt bool
	addresses   []string
}

// look is what a ready proxy told; no status is one that did not answer.
type look struct {
	pod    *corev1.Pod
	status *ProxyStatus
}

// askProxies finds out what each region's proxies do, and hastens those that have not
// got the config yet.
func (r *CompletionRouteReconciler) askProxies(ctx context.Context, p *pass) error {
	for _, g := range p.regions {
		if err := r.findProxies(ctx, g); err != nil {
			return err
		}
	}
	var asking errgroup.Group
	asking.SetLimit(questionsAtOnce)
	for _, g := range p.regions {
		for i := range g.fleet.looks {
			l := &g.fleet.looks[i]
			asking.Go(func() error {
				var err error
				if l.status, err = r.Proxies.Status(ctx, l.pod.Status.PodIP); err != nil {
					log.FromContext(ctx).V(1).Info("A ready proxy does not tell its status", "pod", l.pod.Name, "problem", err.Error())
				}
				return nil
			})
		}
	}
	_ = asking.Wait()
	for _, g := range p.regions {
		r.countVotes(p, g)
		r.hasten(ctx, g)
	}
	return ctx.Err()
}

// findProxies finds the region's pods, and which of them are ready.
func (r *CompletionRouteReconciler) findProxies(ctx context.Context, g *region) (err error) {
	if g.fleet.pods, err = r.pods(ctx, g); err != nil {
		return err
	}
	for i := range g.fleet.pods {
		pod := &g.fleet.pods[i]
		if isReady(pod) {
			g.fleet.looks = append(g.fleet.looks, look{pod: pod})
		} else if g.fleet.waiting == "" {
			g.fleet.waiting = waitsFor(pod)
		}
	}
	return r.readWorkload(ctx, g)
}

// pods are those of the region's proxies, by name, without those that end.
func (r *CompletionRouteReconciler) pods(ctx context.Context, g *region) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := r.Client.List(ctx, &list, client.InNamespace(g.objects.Route.Namespace), client.MatchingLabels(g.objects.Selector()))
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !pod.DeletionTimestamp.IsZero() })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods, err
}

// readWorkload reads how many proxies are wanted, and where they are reached.
func (r *CompletionRouteReconciler) readWorkload(ctx context.Context, g *region) error {
	route := g.objects.Route
	name := types.NamespacedName{Namespace: route.Namespace, Name: resources.NamesOf(route, g.name()).Proxy}
	var deployment appsv1.Deployment
	if err := r.Client.Get(ctx, name, &deployment); client.IgnoreNotFound(err) != nil {
		return err
	}
	if deployment.Spec.Replicas != nil {
		g.fleet.wanted = *deployment.Spec.Replicas
	}
	var service corev1.Service
	if err := r.Client.Get(ctx, name, &service); client.IgnoreNotFound(err) != nil {
		return err
	}
	g.fleet.addresses = addresses(&service)
	return nil
}

// addresses are where a Service is reached: what a load balancer gave it, else its own.
func addresses(service *corev1.Service) []string {
	var out []string
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		out = append(out, cmp.Or(ingress.IP, ingress.Hostname))
	}
	if len(out) == 0 && service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		out = append(out, service.Spec.ClusterIPs...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func isReady(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// waitsFor says why a pod is not ready, as far as the node or the scheduler tells.
func waitsFor(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if waiting := c.State.Waiting; waiting != nil && waiting.Reason != "" {
			return fmt.Sprintf("pod %s waits: %s", pod.Name, waiting.Reason)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %s is not scheduled: %s", pod.Name, c.Message)
		}
	}
	return fmt.Sprintf("pod %s is not ready yet", pod.Name)
}

// hasten has the kubelets look at the mounts of pods that have not got the config:
// they do when a pod's annotations change, and else only every minute.
func (r *CompletionRouteReconciler) hasten(ctx context.Context, g *region) {
	if g.compiled.Config == nil || g.failure != nil {
		return
	}
	for i := range g.fleet.pods {
		pod := &g.fleet.pods[i]
		if pod.Annotations[resources.AnnotationConfigHash] == g.compiled.Hash || !g.lacksConfig(pod) {
			continue
		}
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, resources.AnnotationConfigHash, g.compiled.Hash))
		// Best effort: without it the config arrives a minute later.
		_ = r.Client.Patch(ctx, pod.DeepCopy(), patch)
	}
}

// lacksConfig says whether the pod's proxy does not use the config. One that is not
// ready is only starting, unless it was started before.
func (g *region) lacksConfig(pod *corev1.Pod) bool {
	for _, l := range g.fleet.looks {
		if l.pod.Name == pod.Name {
			return !l.uses(g.compiled.Hash)
		}
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 })
}

// uses says whether the proxy uses the config of that hash, all of it.
func (l *look) uses(hash string) bool {
	return l.status != nil && l.status.ConfigHash == hash && len(l.leftOut()) == 0
}

// leftOut are the parts of the config that the proxy cannot use, each with why.
func (l *look) leftOut() []string {
	if l.status == nil {
		return nil
	}
	var parts []string
	for _, unit := range l.status.Units {
		if unit.State == unitLeftOut {
			parts = append(parts, fmt.Sprintf("unit %s: %s", unit.Name, unit.Problem))
		}
	}
	for _, mutation := range l.status.MutationsLeftOut {
		parts = append(parts, fmt.Sprintf("mutation %s: %s", mutation.Name, mutation.Problem))
	}
	return parts
}

// programmed says whether there are ready proxies, and all of them use the config.
func (g *region) programmed() bool {
	return g.compiled.Config != nil && g.failure == nil && len(g.fleet.looks) > 0 && g.countProgrammed() == len(g.fleet.looks)
}

func (g *region) countProgrammed() int {
	n := 0
	for i := range g.fleet.looks {
		if g.compiled.Config != nil && g.fleet.looks[i].uses(g.compiled.Hash) {
			n++
		}
	}
	return n
}
