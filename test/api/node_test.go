package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/controllers/resources"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// node plays the kubelet for the proxies of one namespace: it runs the real proxy for
// each pod, as the pod's arguments say, on an address of its own of the loopback
// network, with the pod's ConfigMaps and Secrets as files. As a kubelet does, it
// changes all files of a mount at once. It looks at them again only when the pod's
// annotations change, where a kubelet also does every minute, so that whoever forgets
// to hasten a config waits for ever.
type node struct {
	t         testing.TB
	api       client.Client
	namespace string
	proxies   map[types.UID]*runningProxy
	done      chan struct{}
	// held stops the node from looking at mounts.
	held atomic.Bool
}

// runningProxy is the pod that the node runs a proxy for.
type runningProxy struct {
	node        *node
	ip          string
	dir         string
	annotations map[string]string
	process     *exec.Cmd
	log         *bytes.Buffer
	exited      chan struct{}
	restarts    int32
	ready       bool
	probed      time.Time
	told        corev1.PodStatus
}

// lastAddress counts the loopback addresses that were given to pods.
var lastAddress atomic.Uint32

// proxyBinary builds the proxy once for all tests.
var proxyBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ghostline-api-")
	if err != nil {
		return "", err
	}
	onExit(func() { os.RemoveAll(dir) })
	out, err := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "proxy"), "../../cmd/proxy").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the proxy: %w\n%s", err, out)
	}
	return filepath.Join(dir, "proxy"), nil
})

// startNode runs a node until the test ends.
func startNode(t testing.TB, api client.Client, namespace string) *node {
	t.Helper()
	if _, err := proxyBinary(); err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, api: api, namespace: namespace, proxies: map[types.UID]*runningProxy{}, done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	go n.run(ctx)
	t.Cleanup(func() {
		stop()
		<-n.done
	})
	return n
}

func (n *node) run(ctx context.Context) {
	defer close(n.done)
	defer func() {
		for _, p := range n.proxies {
			p.kill()
		}
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		n.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look brings the proxies to what the pods say.
func (n *node) look(ctx context.Context) {
	var pods corev1.PodList
	if err := n.api.List(ctx, &pods, client.InNamespace(n.namespace), client.HasLabels{resources.LabelRoute}); err != nil {
		return // the API server is out; what runs goes on
	}
	seen := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		seen[pod.UID] = true
		if !pod.DeletionTimestamp.IsZero() {
			n.end(ctx, pod)
			continue
		}
		p := n.proxies[pod.UID]
		if p == nil {
			p = n.place(pod)
		}
		p.sync(ctx, pod)
	}
	for uid, p := range n.proxies {
		if !seen[uid] {
			p.kill()
			delete(n.proxies, uid)
		}
	}
}

// place gives a pod an address.
func (n *node) place(pod *corev1.Pod) *runningProxy {
	number := lastAddress.Add(1)
	p := &runningProxy{node: n, ip: fmt.Sprintf("127.7.%d.%d", number/250, number%250+1), dir: filepath.Join(n.t.TempDir(), pod.Name)}
	n.proxies[pod.UID] = p
	return p
}

// end has a pod that is to be deleted drain, and deletes it when it has.
func (n *node) end(ctx context.Context, pod *corev1.Pod) {
	if p := n.proxies[pod.UID]; p != nil && p.process != nil {
		_ = p.process.Process.Signal(syscall.SIGTERM)
		if !p.hasExited() {
			return
		}
	}
	_ = n.api.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
}

// sync starts the pod's proxy, looks at its mounts if it should, and tells its status.
func (p *runningProxy) sync(ctx context.Context, pod *corev1.Pod) {
	fresh := p.process == nil || p.hasExited()
	if fresh || !p.node.held.Load() && !maps.Equal(p.annotations, pod.Annotations) {
		if err := p.mount(ctx, pod); err != nil {
			p.tell(ctx, pod, "ContainerCreating", false)
			return
		}
		p.annotations = maps.Clone(pod.Annotations)
	}
	if fresh {
		p.ready = false
		if p.process != nil {
			p.restarts++
		}
		p.start(pod)
	}
	p.tell(ctx, pod, "", p.probe())
}

// mount writes the pod's volumes as files, all of a volume at once.
func (p *runningProxy) mount(ctx context.Context, pod *corev1.Pod) error {
	for _, volume := range pod.Spec.Volumes {
		files, err := p.node.read(ctx, volume)
		if err != nil {
			return err
		}
		dir := filepath.Join(p.dir, volume.Name)
		version, err := os.MkdirTemp(mkdir(p.node.t, dir), "..version")
		if err != nil {
			return err
		}
		for name, data := range files {
			if err := os.WriteFile(filepath.Join(version, name), data, 0o600); err != nil {
				return err
			}
		}
		if err := swap(dir, filepath.Base(version), files); err != nil {
			return err
		}
	}
	return nil
}

// swap points the mount at another version of its files.
func swap(dir, version string, files map[string][]byte) error {
	fresh := filepath.Join(dir, "..data_tmp")
	if err := os.Symlink(version, fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, filepath.Join(dir, "..data")); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, ok := files[entry.Name()]; !ok && !strings.HasPrefix(entry.Name(), "..") {
			_ = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

func mkdir(t testing.TB, dir string) string {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Error(err)
	}
	return dir
}

// read returns the files of a volume.
func (n *node) read(ctx context.Context, volume corev1.Volume) (map[string][]byte, error) {
	files := map[string][]byte{}
	switch {
	case volume.ConfigMap != nil:
		var configMap corev1.ConfigMap
		if err := n.api.Get(ctx, types.NamespacedName{Namespace: n.namespace, Name: volume.ConfigMap.Name}, &configMap); err != nil {
			return nil, err
		}
		for name, text := range configMap.Data {
			files[name] = []byte(text)
		}
	case volume.Secret != nil:
		var secret corev1.Secret
		if err := n.api.Get(ctx, types.NamespacedName{Namespace: n.namespace, Name: volume.Secret.SecretName}, &secret); err != nil {
			return nil, err
		}
		maps.Copy(files, secret.Data)
	default:
		return nil, fmt.Errorf("volume %s is of a kind that this node does not have", volume.Name)
	}
	return files, nil
}

// start runs the proxy with the pod's arguments, its paths and addresses put in place.
func (p *runningProxy) start(pod *corev1.Pod) {
	container := pod.Spec.Containers[0]
	args := slices.Clone(container.Args)
	for i, arg := range args {
		for _, mount := range container.VolumeMounts {
			arg = strings.ReplaceAll(arg, mount.MountPath, filepath.Join(p.dir, mount.Name))
		}
		if strings.HasPrefix(arg, ":") {
			arg = p.ip + arg
		}
		args[i] = strings.ReplaceAll(arg, "=:", "="+p.ip+":")
	}
	binary, _ := proxyBinary()
	p.log = new(bytes.Buffer)
	p.process = exec.Command(binary, append(args, "-drain-delay=10ms", "-access-log=")...)
	p.process.Stderr = p.log
	p.exited = make(chan struct{})
	if err := p.process.Start(); err != nil {
		p.node.t.Errorf("start a proxy: %v", err)
		close(p.exited)
		return
	}
	go func(process *exec.Cmd, exited chan struct{}) {
		_ = process.Wait()
		close(exited)
	}(p.process, p.exited)
}

func (p *runningProxy) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// probe says whether the proxy is ready. One that is ready is asked every second only,
// as a kubelet would at the soonest.
func (p *runningProxy) probe() bool {
	if p.ready && time.Since(p.probed) < time.Second {
		return true
	}
	p.ready, p.probed = p.isReady(), time.Now()
	return p.ready
}

func (p *runningProxy) isReady() bool {
	response, err := http.Get(fmt.Sprintf("http://%s:%d/readyz", p.ip, resources.PortAdmin))
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (p *runningProxy) kill() {
	if p.process != nil && p.process.Process != nil {
		_ = p.process.Process.Kill()
		<-p.exited
	}
}

// tell writes the pod's status, as a kubelet does, if it is another.
func (p *runningProxy) tell(ctx context.Context, pod *corev1.Pod, waiting string, ready bool) {
	status := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}}}
	container := corev1.ContainerStatus{Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, Ready: ready, RestartCount: p.restarts}
	if waiting != "" {
		container.State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting}
		status.Phase = corev1.PodPending
	}
	status.ContainerStatuses = []corev1.ContainerStatus{container}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		condition := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse}
		if ready {
			condition.Status = corev1.ConditionTrue
			condition.LastTransitionTime = metav1.Time{Time: pod.CreationTimestamp.Time}
		}
		status.Conditions = append(status.Conditions, condition)
	}
	if fmt.Sprint(p.told) == fmt.Sprint(status) {
		return
	}
	changed := pod.DeepCopy()
	changed.Status = status
	switch err := p.node.api.Status().Update(ctx, changed); {
	case err == nil:
		p.told = status
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), ctx.Err() != nil:
	default:
		if !isOut(err) {
			p.node.t.Errorf("status of pod %s: %v", pod.Name, err)
		}
	}
}

// isOut says whether the API server did not answer.
func isOut(err error) bool { return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown }
