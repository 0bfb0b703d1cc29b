package resources

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// The volumes of a proxy's pod, and where they are mounted.
const (
	volumeConfig      = "config"
	volumeCredentials = "credentials"
	volumeTLS         = "tls"

	dirConfig      = "/etc/ghostline/config"
	dirCredentials = "/etc/ghostline/credentials"
	dirTLS         = "/etc/ghostline/tls"
)

// nonRoot is the user and the group that a proxy runs as.
const nonRoot = 65532

// container runs the proxy. It has no preStop hook: the proxy itself says that it
// drains and waits for load balancers to notice (-drain-delay).
func (r Region) container() *corev1ac.ContainerApplyConfiguration {
	image := r.Image
	if r.Proxy.Image != "" {
		image = r.Proxy.Image
	}
	container := corev1ac.Container().
		WithName("proxy").
		WithImage(image).
		WithArgs(r.args()...).
		WithPorts(
			containerPort(r.traffic().name, r.traffic().pod),
			containerPort(PortNameAdmin, PortAdmin),
		).
		WithSecurityContext(containerSecurity()).
		WithVolumeMounts(r.mounts()...)
	return r.withResources(withProbes(container))
}

// args are the proxy's flags. It counts the region's proxies by the plain name of the
// headless Service, which is in the pod's own namespace: it is found whatever the
// cluster's domain is, and at the first try, since that namespace is what the resolver
// searches first.
func (r Region) args() []string {
	args := []string{
		"-config=" + dirConfig + "/" + EntryConfig,
		"-last-config=" + dirConfig + "/" + EntryLastConfig,
		"-credentials=" + dirCredentials,
		"-proxies-dns=" + r.names().Proxies,
		"-drain-delay=" + drainDelay.String(),
		fmt.Sprintf("-listen-admin=:%d", PortAdmin),
	}
	if r.Proxy.TLS == nil {
		return append(args, fmt.Sprintf("-listen-cleartext=:%d", PortCleartext))
	}
	return append(args,
		fmt.Sprintf("-listen-tls=:%d", PortTLS),
		"-tls-cert="+dirTLS+"/"+corev1.TLSCertKey,
		"-tls-key="+dirTLS+"/"+corev1.TLSPrivateKeyKey)
}

func containerPort(name string, port int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(name).WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)
}

// withProbes has a proxy take part while it is ready. Whether it lives is asked of
// another path, because a proxy that drains is not ready and must live on, and one
// that waits for the issuer's keys would not get them sooner by being restarted.
func withProbes(container *corev1ac.ContainerApplyConfiguration) *corev1ac.ContainerApplyConfiguration {
	get := func(path string) *corev1ac.ProbeApplyConfiguration {
		return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().
			WithPath(path).
			WithPort(intstr.FromString(PortNameAdmin)))
	}
	return container.
		WithStartupProbe(get("/healthz").WithPeriodSeconds(1).WithTimeoutSeconds(1).WithFailureThreshold(60)).
		WithReadinessProbe(get("/readyz").WithPeriodSeconds(5).WithTimeoutSeconds(2).WithFailureThreshold(2)).
		// A minute: to kill a proxy that is merely slow, because it or its node has
		// much to do, gives the others still more to do.
		WithLivenessProbe(get("/healthz").WithPeriodSeconds(10).WithTimeoutSeconds(5).WithFailureThreshold(6))
}

// volumes are the region's ConfigMap and Secret, mounted whole, so that their entries
// can change under a pod that stays. Their files belong to root and are read by the
// pod's group alone.
func (r Region) volumes() []*corev1ac.VolumeApplyConfiguration {
	const groupReads = 0o440
	volumes := []*corev1ac.VolumeApplyConfiguration{
		corev1ac.Volume().WithName(volumeConfig).WithConfigMap(corev1ac.ConfigMapVolumeSource().
			WithName(r.names().Proxy).
			WithDefaultMode(groupReads).
			WithOptional(false)),
		corev1ac.Volume().WithName(volumeCredentials).WithSecret(corev1ac.SecretVolumeSource().
			WithSecretName(r.names().Credentials).
			WithDefaultMode(groupReads).
			WithOptional(false)),
	}
	if r.Proxy.TLS == nil {
		return volumes
	}
	// Nothing else that the Secret may have is the proxy's business.
	return append(volumes, corev1ac.Volume().WithName(volumeTLS).WithSecret(corev1ac.SecretVolumeSource().
		WithSecretName(r.Proxy.TLS.SecretRef.Name).
		WithItems(
			corev1ac.KeyToPath().WithKey(corev1.TLSCertKey).WithPath(corev1.TLSCertKey),
			corev1ac.KeyToPath().WithKey(corev1.TLSPrivateKeyKey).WithPath(corev1.TLSPrivateKeyKey),
		).
		WithDefaultMode(groupReads).
		WithOptional(false)))
}

func (r Region) mounts() []*corev1ac.VolumeMountApplyConfiguration {
	mount := func(volume, dir string) *corev1ac.VolumeMountApplyConfiguration {
		return corev1ac.VolumeMount().WithName(volume).WithMountPath(dir).WithReadOnly(true)
	}
	mounts := []*corev1ac.VolumeMountApplyConfiguration{
		mount(volumeConfig, dirConfig),
		mount(volumeCredentials, dirCredentials),
	}
	if r.Proxy.TLS != nil {
		mounts = append(mounts, mount(volumeTLS, dirTLS))
	}
	return mounts
}

// withResources sets what the container may use. Without anything said of the
// processor or of memory, what a proxy is likely to need is requested, and nothing is
// limited: a proxy that is throttled answers late, and autoscaling needs a request.
func (r Region) withResources(container *corev1ac.ContainerApplyConfiguration) *corev1ac.ContainerApplyConfiguration {
	requests := corev1.ResourceList{}
	var limits corev1.ResourceList
	if wanted := r.Proxy.Resources; wanted != nil {
		limits = wanted.Limits
		for name, quantity := range wanted.Requests {
			requests[name] = quantity
		}
	}
	for name, quantity := range map[corev1.ResourceName]string{corev1.ResourceCPU: "500m", corev1.ResourceMemory: "128Mi"} {
		_, requested := requests[name]
		_, limited := limits[name] // which is what the API server then requests
		if !requested && !limited {
			requests[name] = resource.MustParse(quantity)
		}
	}
	resources := corev1ac.ResourceRequirements()
	if len(requests) > 0 {
		resources.WithRequests(requests)
	}
	if len(limits) > 0 {
		resources.WithLimits(limits)
	}
	if memory, ok := limits[corev1.ResourceMemory]; ok {
		// Else Go lets its garbage grow to several times what is in use, and the
		// kernel ends the process. A tenth is for what Go does not count. (Go knows
		// a limit on processors by itself.)
		container.WithEnv(corev1ac.EnvVar().
			WithName("GOMEMLIMIT").
			WithValue(strconv.FormatInt(memory.Value()/10*9, 10)))
	}
	return container.WithResources(resources)
}

// podSecurity and containerSecurity are what Pod Security calls restricted, and a root
// file system that cannot be written.
func podSecurity() *corev1ac.PodSecurityContextApplyConfiguration {
	return corev1ac.PodSecurityContext().
		WithRunAsNonRoot(true).
		WithRunAsUser(nonRoot).
		WithRunAsGroup(nonRoot).
		WithFSGroup(nonRoot).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
}

func containerSecurity() *corev1ac.SecurityContextApplyConfiguration {
	return corev1ac.SecurityContext().
		WithAllowPrivilegeEscalation(false).
		WithReadOnlyRootFilesystem(true).
		WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))
}
