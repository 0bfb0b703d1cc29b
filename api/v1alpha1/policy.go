package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Mutation changes the requests that match it: headers as they go to the unit, the
// body in OpenAI's form before it is put into the provider's. A mutation of which a
// part cannot apply leaves the request as it was.
//
// +kubebuilder:validation:XValidation:rule="has(self.headers) || has(self.body)",message="must have headers or body, else it changes nothing"
type Mutation struct {
	// Name is the mutation's; metrics and the access log name it.
	// +required
	Name Name `json:"name"`
	// Match says which requests it is for. Default: all.
	// +optional
	Match *MutationMatch `json:"match,omitempty"`
	// Headers are changes of header fields.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Headers []HeaderChange `json:"headers,omitempty"`
	// Body are changes of the body's fields.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Body []BodyChange `json:"body,omitempty"`
}

// MutationMatch says which requests a mutation is for: those that every field which
// is set allows.
type MutationMatch struct {
	// Models are logical models, by their names.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Models []Name `json:"models,omitempty"`
	// Variants are those that serve, by their names.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Variants []Name `json:"variants,omitempty"`
	// Clients are the programs that ask.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Clients []ClientMatch `json:"clients,omitempty"`
	// SubjectsPercent is the share of the users, 0 to 100, such as 5 or "0.5"; always
	// the same ones for a mutation's name. Default: 100.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100 : string(self).matches('^(100|[0-9]{1,2}([.][0-9]{1,3})?)$')",message="must be 0 to 100, such as 5 or \"0.5\""
	SubjectsPercent *intstr.IntOrString `json:"subjectsPercent,omitempty"`
}

// HeaderChange changes one header field of the request to the unit.
//
// +kubebuilder:validation:XValidation:rule="(self.op == 'Remove') != has(self.value)",message="value is required with op Set and Add, and does not go with Remove"
type HeaderChange struct {
	// Op is Set (whatever it was), Add (beside those of that name) or Remove.
	// +required
	// +kubebuilder:validation:Enum=Set;Add;Remove
	Op string `json:"op"`
	// Name is the field's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`
	// Value is the field's new value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value,omitempty"`
}

// BodyChange changes one field of the body.
type BodyChange struct {
	// Op is Set (whatever it was), Default (if it is missing or null), Remove, Min (at
	// least the value), Max (at most the value) or Append (to a list).
	// +required
	// +kubebuilder:validation:Enum=Set;Default;Remove;Min;Max;Append
	Op string `json:"op"`
	// Path names a field, or one within objects: max_tokens, logit_bias.50256.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path"`
	// Value is JSON: a number for Min and Max, an element for Append.
	// +optional
	Value *apiextensionsv1.JSON `json:"value,omitempty"`
}

// ClientMatch matches programs by what they call themselves.
type ClientMatch struct {
	// Name is the program's, such as copilot.vim; letter case does not count.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._/:+=-]+$')",message="must be letters, digits or any of '.', '_', '/', ':', '+', '=' and '-', such as copilot.vim"
	Name string `json:"name"`
	// Versions is a range such as "<1.40.0" or ">=1.2 <2 || 3.x". Default: any
	// version, unknown ones too.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Versions string `json:"versions,omitempty"`
}

// ClientRule says what is done about a client.
//
// +kubebuilder:validation:XValidation:rule="(self.action == 'Allow') != has(self.message)",message="message is required with action Upgrade and Warn, to tell the user what to do, and does not go with Allow"
// +kubebuilder:validation:XValidation:rule="self.action != 'Allow' || !has(self.dryRun) || !self.dryRun",message="dryRun goes only with action Upgrade and Warn; remove the rule instead"
type ClientRule struct {
	// Match is which clients the rule is for.
	// +required
	Match ClientMatch `json:"match"`
	// Action is Upgrade (refuse with status 466), Warn (serve, with a message in a
	// header) or Allow.
	// +required
	// +kubebuilder:validation:Enum=Upgrade;Warn;Allow
	Action string `json:"action"`
	// Message is for the client's user: one line.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// DryRun counts what the rule would do, and does not do it.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// Limits bound what clients may ask.
type Limits struct {
	// MaxBodyBytes bounds a request's body, 1 to 64Mi. Default: 1Mi.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 && self <= 67108864 : isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('64Mi')) <= 0",message="must be above 0 and at most 64Mi, such as 1Mi"
	MaxBodyBytes *intstr.IntOrString `json:"maxBodyBytes,omitempty"`
	// InFlight bounds the requests in each proxy.
	// +optional
	// +kubebuilder:default=10000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	InFlight int32 `json:"inFlight,omitempty"`
	// PerSubject bounds each user on each proxy.
	// +optional
	PerSubject *SubjectLimits `json:"perSubject,omitempty"`
}

// SubjectLimits bound one subject on each proxy.
type SubjectLimits struct {
	// InFlight bounds the requests of one editor session. One more takes the place of
	// the oldest that has no byte of its answer yet.
	// +optional
	// +kubebuilder:default=8
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	InFlight int32 `json:"inFlight,omitempty"`
	// Sessions bounds what a subject's editor sessions run together, to so many times
	// inFlight.
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Sessions int32 `json:"sessions,omitempty"`
	// RequestsPerSecond is how fast the subject's bucket fills.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	RequestsPerSecond int32 `json:"requestsPerSecond,omitempty"`
	// Burst is how many requests the full bucket holds.
	// +optional
	// +kubebuilder:default=90
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Burst int32 `json:"burst,omitempty"`
}

// Timeouts bound the phases of a request.
//
// +kubebuilder:validation:XValidation:rule="duration(self.total) >= duration(self.firstByte)",message="total must be at least firstByte"
type Timeouts struct {
	// Connect bounds opening a connection to a unit.
	// +optional
	// +kubebuilder:default="1s"
	Connect Duration `json:"connect,omitempty"`
	// ReadBody bounds the arrival of the request's body.
	// +optional
	// +kubebuilder:default="5s"
	ReadBody Duration `json:"readBody,omitempty"`
	// FirstByte bounds the wait for the first byte of a stream, over all tries.
	// +optional
	// +kubebuilder:default="5s"
	FirstByte Duration `json:"firstByte,omitempty"`
	// Idle bounds the gap between two events of a stream.
	// +optional
	// +kubebuilder:default="10s"
	Idle Duration `json:"idle,omitempty"`
	// Write bounds one write to a client that does not read.
	// +optional
	// +kubebuilder:default="10s"
	Write Duration `json:"write,omitempty"`
	// Total bounds a request from its body's end.
	// +optional
	// +kubebuilder:default="60s"
	Total Duration `json:"total,omitempty"`
}

// Objectives are what the service is to keep to, over all requests but cancelled ones.
type Objectives struct {
	// SuccessPercent is how many of 100 requests are to succeed, such as "99.9".
	// +optional
	SuccessPercent Percentage `json:"successPercent,omitempty"`
	// FirstByte says of how many of 100 answers the first byte is to come within what
	// time.
	// +optional
	FirstByte *FirstByteObjective `json:"firstByte,omitempty"`
}

// FirstByteObjective says of how many of 100 answers the first byte is to come within
// what time.
type FirstByteObjective struct {
	// Percent of the answers, such as "99".
	// +required
	Percent Percentage `json:"percent"`
	// Under is the time that they have, such as 300ms.
	// +required
	Under Duration `json:"under"`
}

// Percentage is a number above 0 and below 100 as text, such as "99.9".
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=9
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,2}([.][0-9]{1,6})?$') && double(self) > 0.0",message="must be text, above 0 and below 100, such as \"99.9\": to promise all leaves none that may fail"
type Percentage string
