package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CompletionRouteStatus is what the operator made of a CompletionRoute. What changes
// fast, such as the state of units, is in the proxies' metrics and /statusz.
type CompletionRouteStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Accepted, ResolvedRefs, Programmed and Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Models are the names of the models, for kubectl get.
	// +optional
	Models string `json:"models,omitempty"`
	// RegionsReady is how many of the regions that this operator runs can serve, such
	// as 2/3.
	// +optional
	RegionsReady string `json:"regionsReady,omitempty"`
	// Regions are those that this operator runs.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Regions []RegionStatus `json:"regions,omitempty"`
	// MutationsLeftOut are those that cannot be used; the rest is.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MutationsLeftOut []LeftOut `json:"mutationsLeftOut,omitempty"`
}

// RegionStatus is a region as this operator sees it.
type RegionStatus struct {
	// Name is the region's.
	// +required
	Name RegionName `json:"name"`
	// Proxies counts the region's proxies.
	// +optional
	Proxies ProxiesStatus `json:"proxies,omitzero"`
	// ConfigHash is the SHA-256 of the config that the region is to have.
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
	// Vote is whether the region should get clients: Healthy, Unhealthy, or Unknown
	// while no proxy could say.
	// +optional
	// +kubebuilder:validation:Enum=Healthy;Unhealthy;Unknown
	Vote string `json:"vote,omitempty"`
	// VoteReason is why the vote is not Healthy.
	// +optional
	VoteReason string `json:"voteReason,omitempty"`
	// Addresses are where the region is reached: a load balancer's addresses or names,
	// else the Service's.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Addresses []string `json:"addresses,omitempty"`
	// UnitsLeftOut are those that this region cannot use; the rest is served.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	UnitsLeftOut []LeftOut `json:"unitsLeftOut,omitempty"`
}

// ProxiesStatus counts a region's proxies.
type ProxiesStatus struct {
	// Wanted is how many are to run.
	Wanted int32 `json:"wanted"`
	// Ready is how many do, and take requests.
	Ready int32 `json:"ready"`
	// Programmed is how many of those use the region's config.
	Programmed int32 `json:"programmed"`
}

// LeftOut is a part of the route that is left out, and why.
type LeftOut struct {
	// Name is the part's.
	Name string `json:"name"`
	// Reason is one of the reasons of the conditions Accepted and ResolvedRefs.
	Reason string `json:"reason"`
	// Message says what is wrong, where, and what would be right.
	Message string `json:"message"`
}

// The values of [RegionStatus.Vote].
const (
	VoteHealthy   = "Healthy"
	VoteUnhealthy = "Unhealthy"
	VoteUnknown   = "Unknown"
)
