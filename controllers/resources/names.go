// Package resources makes the objects that a CompletionRoute needs in a cluster. All
// functions are pure.
package resources

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
)

// Names are those of a route's objects in one region, all of them.
type Names struct {
	// Proxy is the name of the Deployment and of what goes with it: Service,
	// ConfigMap, PodDisruptionBudget, HorizontalPodAutoscaler and NetworkPolicy.
	Proxy string
	// Proxies is the headless Service, whose addresses are the ready proxies.
	Proxies string
	// Credentials is the Secret with the units' credentials.
	Credentials string
}

// maxStem leaves room for the longest suffix in the 63 characters of a Service's name.
const maxStem = 50

// NamesOf returns the names of a route's objects in a region. Two routes whose names
// come out alike are told apart by their owner references.
func NamesOf(route *v1alpha1.CompletionRoute, region string) Names {
	stem := route.Name + "-" + region
	if len(stem) > maxStem {
		sum := sha256.Sum256([]byte(stem))
		stem = stem[:maxStem-9] + "-" + hex.EncodeToString(sum[:4])
	}
	return Names{
		Proxy:       stem + "-proxy",
		Proxies:     stem + "-proxies",
		Credentials: stem + "-credentials",
	}
}

// The labels of a route's objects, and two values: what the proxies' pods and those
// of the operator are called.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelRoute     = "completions.ghostline.dev/route"
	LabelRegion    = "completions.ghostline.dev/region"

	NameProxy    = "ghostline-proxy"
	NameOperator = "ghostline-operator"
)

// LabelMonitoring, with the value "true" on a namespace, lets its pods read the
// metrics of proxies: the one that Prometheus runs in.
const LabelMonitoring = "completions.ghostline.dev/monitoring"

// AnnotationConfigHash on a pod is the hash of the region's newest config. The
// operator changes it to have the node's kubelet look at the pod's mounts at once,
// which it does only every minute else.
const AnnotationConfigHash = "completions.ghostline.dev/config-hash"

// The ports of a proxy's pod, and what they are called there and in Services. A proxy
// has one of the first two.
const (
	PortTLS       = 8443 // TLS: HTTP/2 and HTTP/1.1
	PortCleartext = 8080 // h2c and HTTP/1.1
	PortAdmin     = 9090 // /healthz, /readyz, /statusz, /metrics

	PortNameTLS       = "https"
	PortNameCleartext = "h2c"
	PortNameAdmin     = "admin"
)

// The entries of the region's ConfigMap, beside the files that the configs name.
const (
	// EntryConfig is the newest config.
	EntryConfig = "config.json"
	// EntryLastConfig is the last config that all ready proxies had in use.
	EntryLastConfig = "last-config.json"
)
