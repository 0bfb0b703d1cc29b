package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CompletionRoute is one service of code completions: the models that clients ask
// for, the units of model capacity behind them in each region, and how requests are
// spread, changed and limited on their way.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=croute,categories=ghostline
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Models",type=string,JSONPath=`.status.models`
// +kubebuilder:printcolumn:name="Regions",type=string,JSONPath=`.status.regionsReady`,description="Regions that can serve, of those that this cluster runs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be 1 to 40 lower-case letters, digits or '-', begin with a letter and end with a letter or digit, because Services are named after it"
type CompletionRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is what is wanted.
	// +required
	Spec CompletionRouteSpec `json:"spec"`
	// Status is what the operator made of it.
	// +optional
	Status CompletionRouteStatus `json:"status,omitzero"`
}

// CompletionRouteList is a list of CompletionRoutes.
//
// +kubebuilder:object:root=true
type CompletionRouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CompletionRoute `json:"items"`
}

// CompletionRouteSpec is what is wanted of a CompletionRoute.
//
// +kubebuilder:validation:XValidation:rule="self.regions.all(r, !has(r.failover) || r.failover.all(f, f != r.name && self.regions.exists(o, o.name == f)))",message="regions[].failover must name other regions of this route, not the region itself"
// +kubebuilder:validation:XValidation:rule="self.models.all(m, self.models.all(o, !has(o.aliases) || !(m.name in o.aliases)))",message="models[].aliases must not repeat the name of a model"
// +kubebuilder:validation:XValidation:rule="self.models.all(m, !has(m.aliases) || m.aliases.all(a, self.models.exists_one(o, has(o.aliases) && a in o.aliases)))",message="models[].aliases must differ between models: a name that clients ask for means one model"
// +kubebuilder:validation:XValidation:rule="!has(self.mutations) || self.mutations.all(x, !has(x.match) || !has(x.match.models) || x.match.models.all(n, self.models.exists(m, m.name == n)))",message="mutations[].match.models must name models of this route by their names, not by aliases"
type CompletionRouteSpec struct {
	// Hostname is the name that clients connect to, such as completions.example.com.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be a DNS name in lower case, such as completions.example.com, without a scheme, port or path"
	Hostname string `json:"hostname"`
	// Tokens says which completion tokens the proxies accept.
	// +required
	Tokens Tokens `json:"tokens"`
	// Models are the logical models that clients ask for, 1 to 16.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Models []Model `json:"models"`
	// Regions are the places where units and proxies run side by side, 1 to 16.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Regions []Region `json:"regions"`
	// Mutations change requests on their way to a unit, in this order; 64 at most.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Mutations []Mutation `json:"mutations,omitempty"`
	// Clients says what is done about the programs that ask; the first rule that
	// matches counts, and a client that none matches is served. 64 at most.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Clients []ClientRule `json:"clients,omitempty"`
	// Limits bound what clients may ask.
	// +optional
	Limits *Limits `json:"limits,omitempty"`
	// Timeouts bound the phases of a request.
	// +optional
	Timeouts *Timeouts `json:"timeouts,omitempty"`
	// Objectives are what the service is to keep to. Proxies tell of them in their
	// metrics, so that alerts know the targets.
	// +optional
	Objectives *Objectives `json:"objectives,omitempty"`
	// Proxy says how proxies run, in every region that does not say otherwise.
	// +optional
	Proxy *Proxy `json:"proxy,omitempty"`
	// Edge runs a load balancer before the proxies, which holds the clients'
	// connections while proxies come and go.
	// +optional
	Edge *Edge `json:"edge,omitempty"`
}

// Tokens says which completion tokens are accepted.
type Tokens struct {
	// Issuer is what the claim iss must be, such as https://tokens.example.com.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Issuer string `json:"issuer"`
	// Audience is what the claim aud must hold, such as completions.example.com.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Audience string `json:"audience"`
	// KeySet is where the issuer's public keys come from.
	// +required
	KeySet KeySet `json:"keySet"`
	// DeniedSubjects cuts subjects off before their tokens end.
	// +optional
	DeniedSubjects *DeniedSubjects `json:"deniedSubjects,omitempty"`
}

// KeySet is where the token issuer's public keys (a JWKS, RFC 7517) come from.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.configMapRef)",message="must have exactly one of url and configMapRef"
// +kubebuilder:validation:XValidation:rule="!has(self.caRef) || has(self.url)",message="caRef goes only with url"
type KeySet struct {
	// URL is fetched in the background by each proxy.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^https://[^/?#@]+([/?].*)?$') || self.matches('^http://(localhost|127[.][0-9.]+|[[]::1[]])(:[0-9]+)?([/?].*)?$')",message="must be an https URL without a user or password, such as https://tokens.example.com/.well-known/jwks.json: who changes the keys on their way can make tokens"
	URL string `json:"url,omitempty"`
	// ConfigMapRef names the entry of a ConfigMap in the route's namespace.
	// +optional
	ConfigMapRef *KeyRef `json:"configMapRef,omitempty"`
	// CARef names the entry of a ConfigMap with the PEM certificates to trust for url
	// instead of the system's.
	// +optional
	CARef *KeyRef `json:"caRef,omitempty"`
}

// DeniedSubjects is a text with one subject a line; blank lines and lines that begin
// with # do not count.
type DeniedSubjects struct {
	// ConfigMapRef names the entry of a ConfigMap in the route's namespace.
	// +required
	ConfigMapRef KeyRef `json:"configMapRef"`
}

// KeyRef names an entry of a Secret or ConfigMap in the route's namespace.
type KeyRef struct {
	// Name is the object's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key is the entry's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be letters, digits, '-', '_' or '.', as the keys of Secrets and ConfigMaps are"
	Key string `json:"key"`
}

// SecretRef names a Secret in the route's namespace.
type SecretRef struct {
	// Name is the Secret's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Name is what models, variants, units and mutations are called.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$')",message="must be 1 to 63 letters, digits, '.', '_' or '-', and begin and end with a letter or digit"
type Name string

// RegionName is what a region is called. Objects are named after it.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be 1 to 32 lower-case letters, digits or '-', and begin and end with a letter or digit, such as westeurope"
type RegionName string

// Duration is a length of time such as 1.5s or 250ms.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|us|s|m|h))+$')",message="must be a number with a unit, such as 5s or 250ms"
// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|us|s|m|h))+$') || duration(self) > duration('0s') && duration(self) <= duration('10m')",message="must be above 0s and at most 10m"
type Duration string
