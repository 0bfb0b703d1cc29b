package v1alpha1

// Region is a place where units and proxies run side by side.
type Region struct {
	// Name is the region's; the operator's flag --region names it.
	// +required
	Name RegionName `json:"name"`
	// Location says whose users are near, for DNS.
	// +optional
	Location *Location `json:"location,omitempty"`
	// Failover names the regions to spill to, nearest first. Units' keys travel only
	// to regions that list their region here. Default: nowhere.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=15
	// +kubebuilder:validation:XValidation:rule="self.all(f, self.exists_one(o, o == f))",message="must name each region once"
	Failover []RegionName `json:"failover,omitempty"`
	// Proxy says how proxies run in this region; a field that is set here takes the
	// place of the one in spec.proxy.
	// +optional
	Proxy *Proxy `json:"proxy,omitempty"`
	// HealthProbe has the region's units asked for a small completion now and then.
	// Default: none; only requests tell how a unit is.
	// +optional
	HealthProbe *HealthProbe `json:"healthProbe,omitempty"`
	// Units are the region's model capacity, 1 to 32.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Units []Unit `json:"units"`
}

// Location says whose users are near a region.
type Location struct {
	// Continents are AF, AN, AS, EU, NA, OC or SA.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:Enum=AF;AN;AS;EU;NA;OC;SA
	Continents []string `json:"continents,omitempty"`
}

// HealthProbe is a small completion that each proxy asks the units of its region for.
type HealthProbe struct {
	// Interval is the time from one probe of a unit to the next, 1s to 10m.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|us|s|m|h))+$') || duration(self) >= duration('1s')",message="must be at least 1s"
	Interval Duration `json:"interval,omitempty"`
	// Prompt is what is to be completed. Default: the head of a function.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Prompt string `json:"prompt,omitempty"`
	// MaxTokens bounds the answer.
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	MaxTokens int32 `json:"maxTokens,omitempty"`
}
