package v1alpha1

// Unit is one piece of model capacity. Its name is unique in the whole route.
//
// +kubebuilder:validation:XValidation:rule="!has(self.api) || self.api == 'Completions' || (self.api == 'Infill' ? self.provider == 'LlamaCpp' : self.provider == 'Ollama')",message="api must be one that the provider has: Infill goes with LlamaCpp, Generate with Ollama, Completions with all"
// +kubebuilder:validation:XValidation:rule="!has(self.protocol) || (self.protocol == 'HTTP2' ? self.url.startsWith('https://') : self.protocol == 'H2C' ? self.url.startsWith('http://') : true)",message="protocol HTTP2 needs an https url, and H2C (HTTP/2 in the clear) an http url"
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || self.url.startsWith('https://')",message="tls goes only with an https url"
// +kubebuilder:validation:XValidation:rule="has(self.fillInTheMiddle) || !(self.provider == 'VLLM' || self.provider == 'LlamaCpp' && has(self.api) && self.api == 'Completions')",message="fillInTheMiddle is required with VLLM and with LlamaCpp's api Completions, which refuse the field suffix: name the model's template, such as {template: Qwen}"
// +kubebuilder:validation:XValidation:rule="!has(self.fillInTheMiddle) || self.provider in ['OpenAI', 'AzureOpenAI', 'VLLM'] || self.provider == 'LlamaCpp' && has(self.api) && self.api == 'Completions' || self.provider == 'Ollama' && (!has(self.api) || self.api == 'Generate')",message="fillInTheMiddle does not go with this provider and api, which take the field suffix; remove it"
type Unit struct {
	// Name is the unit's; metrics and the status name it.
	// +required
	Name Name `json:"name"`
	// Serves is MODEL/VARIANT.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=127
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$')",message="must be MODEL/VARIANT, such as ghost-code/stable"
	Serves string `json:"serves"`
	// Provider is whose API the unit speaks.
	// +required
	// +kubebuilder:validation:Enum=OpenAI;AzureOpenAI;VLLM;LlamaCpp;Ollama;Mistral;DeepSeek
	Provider string `json:"provider"`
	// API chooses among a provider's APIs. Default: Infill for LlamaCpp, Generate for
	// Ollama, else Completions.
	// +optional
	// +kubebuilder:validation:Enum=Completions;Infill;Generate
	API string `json:"api,omitempty"`
	// URL is the unit's whole completion endpoint, path and query included.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@]+/[^#]*$')",message="must be the whole endpoint, an http or https URL with its path and without a user, password or fragment, such as https://host/v1/completions"
	URL string `json:"url"`
	// Protocol is Auto (https: HTTP/2 or HTTP/1.1 by ALPN; http: HTTP/1.1), HTTP2, H2C
	// or HTTP1.
	// +optional
	// +kubebuilder:default=Auto
	// +kubebuilder:validation:Enum=Auto;HTTP2;H2C;HTTP1
	Protocol string `json:"protocol,omitempty"`
	// TLS says how the unit's certificate is checked.
	// +optional
	TLS *UnitTLS `json:"tls,omitempty"`
	// UpstreamModel is the name that the provider knows, where it differs from the
	// logical model's.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	UpstreamModel string `json:"upstreamModel,omitempty"`
	// FillInTheMiddle is how the model is shown what stands behind the cursor, where
	// the provider refuses the field suffix.
	// +optional
	FillInTheMiddle *FillInTheMiddle `json:"fillInTheMiddle,omitempty"`
	// MaxTokens bounds the answers that are asked for: a larger max_tokens is lowered
	// to it. Default: 500 for AzureOpenAI, 4096 for DeepSeek, else no bound.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MaxTokens int32 `json:"maxTokens,omitempty"`
	// SecretRef names the entry of a Secret that holds the unit's key. Default: none;
	// the unit is asked without one.
	// +optional
	SecretRef *KeyRef `json:"secretRef,omitempty"`
	// Capacity is what the unit can do for the whole region; each ready proxy takes an
	// equal share of it. Default: no limit.
	// +optional
	Capacity *Capacity `json:"capacity,omitempty"`
	// Priority orders a variant's units: lower is used first.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Priority int32 `json:"priority,omitempty"`
}

// UnitTLS says how a unit's certificate is checked.
//
// +kubebuilder:validation:XValidation:rule="has(self.caRef) || has(self.serverName)",message="must have caRef or serverName; remove tls for the defaults"
type UnitTLS struct {
	// CARef names the entry of a ConfigMap with the PEM certificates to trust instead
	// of the system's.
	// +optional
	CARef *KeyRef `json:"caRef,omitempty"`
	// ServerName is the name to expect, where it is not the URL's host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
}

// FillInTheMiddle is what a model was taught to find around the text before and the
// text behind the cursor: either a named template, or the marks themselves.
//
// +kubebuilder:validation:XValidation:rule="has(self.template) ? !has(self.prefix) && !has(self.suffix) && !has(self.middle) && !has(self.suffixFirst) : has(self.suffix)",message="must have either template, or the marks: suffix, and prefix and middle where the model has them"
type FillInTheMiddle struct {
	// Template is the model family's.
	// +optional
	// +kubebuilder:validation:Enum=CodeGemma;CodeLlama;Codestral;DeepSeek;None;Qwen;StarCoder
	Template string `json:"template,omitempty"`
	// Prefix stands before the text before the cursor.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Prefix string `json:"prefix,omitempty"`
	// Suffix stands before the text behind the cursor.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Suffix string `json:"suffix,omitempty"`
	// Middle stands where the model is to go on.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Middle string `json:"middle,omitempty"`
	// SuffixFirst has the text behind the cursor come first.
	// +optional
	SuffixFirst bool `json:"suffixFirst,omitempty"`
}

// Capacity is what a unit can do for the whole region.
type Capacity struct {
	// InFlight is how many requests may run at once; 0 is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	InFlight int32 `json:"inFlight,omitempty"`
	// RequestsPerSecond bounds how many begin in a second; 0 is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	RequestsPerSecond int32 `json:"requestsPerSecond,omitempty"`
}
