package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Proxy says how the proxies of a region run.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.replicas) && has(self.autoscaling))",message="must have one of replicas and autoscaling, not both"
// +kubebuilder:validation:XValidation:rule="!has(self.resources) || !has(self.resources.claims)",message="resources.claims is not supported; set requests and limits"
type Proxy struct {
	// Replicas is how many proxies run. Default: 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`
	// Autoscaling has as many proxies run as their processors need.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`
	// Image is the proxy's container image. Default: that of the operator's release.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// Service is how the proxies are reached.
	// +optional
	Service *Service `json:"service,omitempty"`
	// TLS has the proxies speak TLS with a certificate of their own. Default: HTTP/2
	// and HTTP/1.1 in the clear, for behind an edge.
	// +optional
	TLS *ServerTLS `json:"tls,omitempty"`
	// TrustedEdges are the networks (CIDR) of edges, whose connections carry many
	// users, and whose forwarded client address is believed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(n, isCIDR(n))",message="must be networks, each an address and a prefix length, such as 10.0.0.0/8"
	TrustedEdges []string `json:"trustedEdges,omitempty"`
	// Resources are the container's. Default: requests of half a processor and 128Mi.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// ImagePullSecrets are the Secrets in the route's namespace with which the image is
	// pulled, 8 at most.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []SecretRef `json:"imagePullSecrets,omitempty"`
	// NodeSelector are the labels of nodes that proxies may run on, 32 at most.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`
	// Tolerations are the taints of nodes that proxies may run on all the same, 32 at
	// most.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// PriorityClassName is the pods' class. Proxies come before what can wait.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// LabelValue is the value of a node's label.
//
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// Toleration is a taint of nodes that proxies may run on all the same.
//
// +kubebuilder:validation:XValidation:rule="self.operator == 'Exists' ? !has(self.value) : has(self.key)",message="key is required with operator Equal, and value does not go with Exists"
type Toleration struct {
	// Key is the taint's. Default: every key, which goes with Exists only.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
	// Operator is Equal, for the taint of that value, or Exists, for any value.
	// +optional
	// +kubebuilder:default=Equal
	// +kubebuilder:validation:Enum=Equal;Exists
	Operator corev1.TolerationOperator `json:"operator,omitempty"`
	// Value is the taint's.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// Effect is the taint's. Default: every effect.
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect,omitempty"`
	// TolerationSeconds is how long a pod stays on a node that gets the taint, with the
	// effect NoExecute. Default: for good.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// Autoscaling has as many proxies run as their processors need.
//
// +kubebuilder:validation:XValidation:rule="self.min <= self.max",message="max must be at least min"
type Autoscaling struct {
	// Min is how many proxies run at least.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Min int32 `json:"min,omitempty"`
	// Max is how many proxies run at most.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Max int32 `json:"max"`
	// TargetCPU is the percentage of the requested processor time that is aimed at.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	TargetCPU int32 `json:"targetCPU,omitempty"`
}

// Service says how proxies, or an edge, are reached.
type Service struct {
	// Type is the Service's. Default: ClusterIP for proxies, LoadBalancer for an edge.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// Annotations are put on the Service, 32 at most.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ServerTLS names a server's certificate.
type ServerTLS struct {
	// SecretRef names a Secret of type kubernetes.io/tls. It is read again while
	// serving when it changes.
	// +required
	SecretRef SecretRef `json:"secretRef"`
}

// Edge is a load balancer before the proxies.
type Edge struct {
	// HAProxy runs HAProxy as the edge.
	// +required
	HAProxy HAProxyEdge `json:"haproxy"`
}

// HAProxyEdge runs HAProxy as the edge.
type HAProxyEdge struct {
	// Replicas is how many of them run.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Replicas int32 `json:"replicas,omitempty"`
	// Service is how the edge is reached.
	// +optional
	Service *Service `json:"service,omitempty"`
	// TLS is the certificate that clients are shown.
	// +required
	TLS ServerTLS `json:"tls"`
}
