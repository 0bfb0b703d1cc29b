package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

// Model is a logical model: the name that clients ask for.
//
// +kubebuilder:validation:XValidation:rule="self.variants.exists(v, v.weight > 0)",message="at least one of variants must have a weight above 0, else nothing is served"
// +kubebuilder:validation:XValidation:rule="self.variants.all(v, !has(v.fallback) || v.fallback != v.name && self.variants.exists(o, o.name == v.fallback))",message="variants[].fallback must name another variant of this model"
// +kubebuilder:validation:XValidation:rule="!has(self.mirrors) || self.mirrors.all(x, x.of != x.to && self.variants.exists(v, v.name == x.of && v.weight > 0) && self.variants.exists(v, v.name == x.to))",message="mirrors[].of must name a variant of this model with a weight above 0, and mirrors[].to another variant of it"
// +kubebuilder:validation:XValidation:rule="!has(self.mirrors) || self.mirrors.all(x, self.mirrors.exists_one(o, o.of == x.of && o.to == x.to))",message="mirrors must not repeat a pair of of and to; give one the sum of both percents"
type Model struct {
	// Name is what clients ask for.
	// +required
	Name Name `json:"name"`
	// Aliases are other names for it, 16 at most.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Aliases []Name `json:"aliases,omitempty"`
	// Split says how requests are spread over the variants.
	// +optional
	Split *Split `json:"split,omitempty"`
	// Variants are the versions behind the name, 1 to 8.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Variants []Variant `json:"variants"`
	// Mirrors send copies of requests to variants that are to be judged, 8 at most.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Mirrors []Mirror `json:"mirrors,omitempty"`
}

// Split says how requests are spread over a model's variants.
type Split struct {
	// By is Subject (a user keeps to one variant) or Request.
	// +optional
	// +kubebuilder:default=Subject
	// +kubebuilder:validation:Enum=Subject;Request
	By string `json:"by,omitempty"`
	// Salt keeps experiments independent of each other: another salt, another draw.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Salt string `json:"salt,omitempty"`
}

// Variant is one version behind a logical model.
type Variant struct {
	// Name is the variant's; a unit serves MODEL/VARIANT.
	// +required
	Name Name `json:"name"`
	// Weight is the variant's share against the sum of all weights. A variant of
	// weight 0 serves only as a fallback, or is reached by mirrors.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight int32 `json:"weight"`
	// Fallback is the variant that is used when no unit of this one can serve.
	// +optional
	Fallback Name `json:"fallback,omitempty"`
}

// Mirror sends a part of what one variant serves to another one too. Its answers are
// compared and thrown away.
type Mirror struct {
	// Of is the variant whose requests are copied.
	// +required
	Of Name `json:"of"`
	// To is the variant that gets the copies.
	// +required
	To Name `json:"to"`
	// Percent of the requests that Of serves are copied: above 0, at most 100, such as
	// 2 or "0.5".
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 && self <= 100 : string(self).matches('^(100|[0-9]{1,2}([.][0-9]{1,3})?)$') && double(string(self)) > 0.0",message="must be above 0 and at most 100, such as 2 or \"0.5\""
	Percent intstr.IntOrString `json:"percent"`
	// OnCancel says what becomes of a copy when its user types on: Cancel, or Complete
	// to run it to its end.
	// +optional
	// +kubebuilder:default=Cancel
	// +kubebuilder:validation:Enum=Cancel;Complete
	OnCancel string `json:"onCancel,omitempty"`
}
