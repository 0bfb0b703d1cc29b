// Package config is the configuration of one region's proxies as it stands in
// a file: what the operator compiles a CompletionRoute to, and what a person
// may write by hand. It knows nothing of Kubernetes and does no I/O.
package config

import (
	"encoding/json"
	"math"
	"time"
)

// Config is everything that decides how a proxy treats a request. Lists keep
// their order, names are unique within their list.
type Config struct {
	// Requires names features that a proxy must have to honour this config. A
	// proxy ignores fields that it does not know, so a config whose meaning
	// hangs on one says so here.
	Requires []string `json:"requires,omitempty"`
	// Route is the CompletionRoute that this was compiled from, if any.
	Route *Route `json:"route,omitempty"`
	// Region is where the proxy runs.
	Region string `json:"region"`
	// Failover names the regions to spill to, nearest first.
	Failover []string `json:"failover,omitempty"`
	Tokens   Tokens   `json:"tokens"`
	Models   []Model  `json:"models"`
	Units    []Unit   `json:"units"`
	Limits   Limits   `json:"limits,omitzero"`
	Timeouts Timeouts `json:"timeouts,omitzero"`
	// Objectives are what this service is to keep to. The proxy only tells of
	// them, so that alerts know.
	Objectives Objectives `json:"objectives,omitzero"`
	// HealthProbe has the region's units asked for a completion now and then;
	// without it, only requests tell how a unit is.
	HealthProbe *HealthProbe `json:"healthProbe,omitempty"`
	// TrustedEdges are the networks (CIDR) of edges, whose connections carry
	// many users: one who misbehaves there does not cost the others theirs.
	TrustedEdges []string `json:"trustedEdges,omitempty"`
	// Mutations change requests on their way to a unit, in this order.
	Mutations []Mutation `json:"mutations,omitempty"`
	// Clients says what is done about the programs that ask; the first rule that
	// matches counts, and a client that none matches is served.
	Clients []ClientRule `json:"clients,omitempty"`
}

// The features that a config can require: what changes its meaning for a proxy
// that would ignore the field.
const (
	FeatureClientPolicy     = "ClientPolicy"     // clients
	FeatureFillInTheMiddle  = "FillInTheMiddle"  // units[].fillInTheMiddle
	FeatureHealthProbe      = "HealthProbe"      // healthProbe
	FeatureMirrors          = "Mirrors"          // models[].mirrors
	FeatureMutations        = "Mutations"        // mutations
	FeatureRegionalCapacity = "RegionalCapacity" // capacity is the region's, not each proxy's
	FeatureTrustedEdges     = "TrustedEdges"     // trustedEdges
)

// Features returns the features that this version has, sorted.
func Features() []string {
	return []string{
		FeatureClientPolicy, FeatureFillInTheMiddle, FeatureHealthProbe, FeatureMirrors, FeatureMutations, FeatureRegionalCapacity, FeatureTrustedEdges,
	}
}

// Route identifies a CompletionRoute and the generation of its spec.
type Route struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
}

// Tokens says which completion tokens are accepted.
type Tokens struct {
	// Issuer and Audience are what the claims iss and aud must hold.
	Issuer   string `json:"issuer"`
	Audience string `json:"audience"`
	KeySet   KeySet `json:"keySet"`
	// DeniedSubjects cuts subjects off before their tokens end.
	DeniedSubjects *DeniedSubjects `json:"deniedSubjects,omitempty"`
}

// KeySet is where the issuer's public keys (a JWKS, RFC 7517) come from:
// exactly one of URL and File. Relative files are relative to the config file.
type KeySet struct {
	URL  string `json:"url,omitempty"`
	File string `json:"file,omitempty"`
	// CAFile holds the PEM certificates to trust for URL instead of the system's.
	CAFile string `json:"caFile,omitempty"`
}

// DeniedSubjects is a file with one subject a line; blank lines and lines that
// begin with # do not count.
type DeniedSubjects struct {
	File string `json:"file"`
}

// Model is a logical model: the name that clients ask for.
type Model struct {
	Name     string    `json:"name"`
	Aliases  []string  `json:"aliases,omitempty"`
	Split    Split     `json:"split,omitzero"`
	Variants []Variant `json:"variants"`
	// Mirrors send copies of requests to variants that are to be judged.
	Mirrors []Mirror `json:"mirrors,omitempty"`
}

// Split says how requests are spread over a model's variants.
type Split struct {
	// By is SplitBySubject (the default) or SplitByRequest.
	By string `json:"by,omitempty"`
	// Salt keeps experiments independent of each other.
	Salt string `json:"salt,omitempty"`
}

// The values of [Split.By].
const (
	SplitBySubject = "Subject"
	SplitByRequest = "Request"
)

// Variant is one version behind a logical model.
type Variant struct {
	Name string `json:"name"`
	// Weight is the variant's share against the sum of all weights. A variant
	// of weight 0 serves only as a fallback, or is reached by mirrors.
	Weight int `json:"weight"`
	// Fallback is the variant used when no unit of this one can serve.
	Fallback string `json:"fallback,omitempty"`
}

// Mirror sends a part of what one variant serves to another one too. Its answers
// are compared and thrown away. Both are variants of the mirror's model.
type Mirror struct {
	Of string `json:"of"`
	To string `json:"to"`
	// Percent of the requests that Of serves are mirrored; above 0. A request is
	// mirrored once at most, so those of one variant are at most 100 together.
	Percent float64 `json:"percent"`
	// OnCancel is OnCancelCancel (the default) or OnCancelComplete.
	OnCancel string `json:"onCancel,omitempty"`
}

// The values of [Mirror.OnCancel]: what becomes of a mirrored request when the
// user types past the one that it copies.
const (
	OnCancelCancel   = "Cancel"   // it is cancelled too
	OnCancelComplete = "Complete" // it goes on to its end
)

// Unit is one piece of model capacity.
type Unit struct {
	Name string `json:"name"`
	// Region is where the unit stands: the config's region or a failover region.
	Region string `json:"region"`
	// Serves is MODEL/VARIANT.
	Serves string `json:"serves"`
	// Provider is one of the Provider constants: whose API the unit speaks.
	Provider string `json:"provider"`
	// API is one of the API constants, where the provider has several; see [APIs]
	// for the default.
	API string `json:"api,omitempty"`
	// URL is the unit's completion endpoint, path and query included.
	URL string `json:"url"`
	// Protocol is one of the Protocol constants; empty is ProtocolAuto.
	Protocol string   `json:"protocol,omitempty"`
	TLS      *UnitTLS `json:"tls,omitempty"`
	// UpstreamModel is the name the provider knows, where it differs from the
	// logical model's.
	UpstreamModel string `json:"upstreamModel,omitempty"`
	// FillInTheMiddle is how the upstream model is shown what stands behind the
	// cursor, where the provider refuses the field suffix.
	FillInTheMiddle *FillInTheMiddle `json:"fillInTheMiddle,omitempty"`
	// MaxTokens bounds the answers that are asked for: a larger max_tokens is
	// lowered to it. 0 is the provider's default; see [MaxTokensOf].
	MaxTokens int `json:"maxTokens,omitempty"`
	// Credential names an entry (a file) of the proxy's credentials directory.
	Credential string   `json:"credential,omitempty"`
	Capacity   Capacity `json:"capacity,omitzero"`
	// Priority orders a variant's units: lower is used first.
	Priority int `json:"priority,omitempty"`
}

// The values of [Unit.Protocol].
const (
	ProtocolAuto  = "Auto"  // https: HTTP/2 or HTTP/1.1 by ALPN; http: HTTP/1.1
	ProtocolHTTP2 = "HTTP2" // HTTP/2 over TLS
	ProtocolH2C   = "H2C"   // HTTP/2 in the clear, by prior knowledge
	ProtocolHTTP1 = "HTTP1"
)

// UnitTLS says how a unit's certificate is checked.
type UnitTLS struct {
	// CAFile holds the PEM certificates to trust instead of the system's.
	CAFile string `json:"caFile,omitempty"`
	// ServerName is the name to expect, where it is not the URL's host.
	ServerName string `json:"serverName,omitempty"`
}

// Capacity is what a unit can do for the whole region; each ready proxy of the
// region takes an equal share of it.
type Capacity struct {
	// InFlight is how many requests may run at once; 0 is no limit.
	InFlight int `json:"inFlight,omitempty"`
	// RequestsPerSecond bounds how many begin in a second; 0 is no limit.
	RequestsPerSecond float64 `json:"requestsPerSecond,omitempty"`
}

// HealthProbe is a small completion that a proxy asks each unit of its own region
// for. Zero means the default.
type HealthProbe struct {
	// Interval is the time from one probe of a unit to the next; the default is 10s.
	Interval Duration `json:"interval,omitempty"`
	// Prompt is what is to be completed; the default is the head of a function.
	Prompt string `json:"prompt,omitempty"`
	// MaxTokens bounds the answer; the default is 4.
	MaxTokens int `json:"maxTokens,omitempty"`
}

// Limits bound what clients may ask. Zero means the default.
type Limits struct {
	// MaxBodyBytes bounds a request's body; the default is 1 MiB.
	MaxBodyBytes int64 `json:"maxBodyBytes,omitempty"`
	// InFlight bounds the requests in this proxy; the default is 10,000.
	InFlight   int           `json:"inFlight,omitempty"`
	PerSubject SubjectLimits `json:"perSubject,omitzero"`
}

// SubjectLimits bound one subject on this proxy. Defaults: 8 in flight in each of
// 4 sessions, 30 requests a second, bursts of 90.
type SubjectLimits struct {
	// InFlight bounds the requests of one editor session. One more takes the place
	// of the oldest that has no byte of its answer yet.
	InFlight int `json:"inFlight,omitempty"`
	// Sessions bounds what a subject's editor sessions run together, to so many
	// times InFlight.
	Sessions          int     `json:"sessions,omitempty"`
	RequestsPerSecond float64 `json:"requestsPerSecond,omitempty"`
	Burst             int     `json:"burst,omitempty"`
}

// Timeouts bound the phases of a request. Zero means the default.
type Timeouts struct {
	// Connect bounds opening a connection to a unit; the default is 1s.
	Connect Duration `json:"connect,omitempty"`
	// ReadBody bounds the arrival of the request's body; the default is 5s.
	ReadBody Duration `json:"readBody,omitempty"`
	// FirstByte bounds the wait for the first byte of a stream, over all tries;
	// the default is 5s. A unary answer, whose first byte is its last, is
	// bounded by Total.
	FirstByte Duration `json:"firstByte,omitempty"`
	// Idle bounds the gap between two events of a stream; the default is 10s.
	Idle Duration `json:"idle,omitempty"`
	// Write bounds one write to a client that does not read; the default is 10s.
	Write Duration `json:"write,omitempty"`
	// Total bounds a request from its body's end; the default is 60s.
	Total Duration `json:"total,omitempty"`
}

// Objectives are the service's, over all requests but cancelled ones. Zero means
// that there is none.
type Objectives struct {
	// SuccessPercent is how many of 100 requests are to succeed.
	SuccessPercent float64             `json:"successPercent,omitempty"`
	FirstByte      *FirstByteObjective `json:"firstByte,omitempty"`
}

// FirstByteObjective says of how many of 100 answers the first byte is to come
// within what time.
type FirstByteObjective struct {
	Percent float64  `json:"percent"`
	Under   Duration `json:"under"`
}

// Values returns the objectives that are set by their names in metrics; times
// are in seconds.
func (o Objectives) Values() map[string]float64 {
	values := map[string]float64{}
	if o.SuccessPercent > 0 {
		values["success_percent"] = o.SuccessPercent
	}
	if o.FirstByte != nil {
		values["first_byte_percent"] = o.FirstByte.Percent
		values["first_byte_seconds"] = time.Duration(o.FirstByte.Under).Seconds()
	}
	return values
}

// Duration is a time.Duration that is written as "1.5s" or "250ms".
type Duration time.Duration

// notDuration is what was written where a duration belongs, but is none.
const notDuration = Duration(math.MinInt64)

// UnmarshalJSON reads what time.ParseDuration reads. Anything else becomes a
// value that validation refuses, since only validation knows the field's path.
func (d *Duration) UnmarshalJSON(data []byte) error {
	*d = notDuration
	var text string
	if json.Unmarshal(data, &text) != nil {
		return nil
	}
	if parsed, err := time.ParseDuration(text); err == nil {
		*d = Duration(parsed)
	}
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// SetDefaults gives every unset field that has a default its default.
func (c *Config) SetDefaults() {
	setDefault(&c.Limits.MaxBodyBytes, 1<<20)
	setDefault(&c.Limits.InFlight, 10_000)
	setDefault(&c.Limits.PerSubject.InFlight, 8)
	setDefault(&c.Limits.PerSubject.Sessions, 4)
	setDefault(&c.Limits.PerSubject.RequestsPerSecond, 30)
	setDefault(&c.Limits.PerSubject.Burst, 90)
	setDefault(&c.Timeouts.Connect, Duration(time.Second))
	setDefault(&c.Timeouts.ReadBody, Duration(5*time.Second))
	setDefault(&c.Timeouts.FirstByte, Duration(5*time.Second))
	setDefault(&c.Timeouts.Idle, Duration(10*time.Second))
	setDefault(&c.Timeouts.Write, Duration(10*time.Second))
	setDefault(&c.Timeouts.Total, Duration(60*time.Second))
	if probe := c.HealthProbe; probe != nil {
		setDefault(&probe.Interval, Duration(10*time.Second))
		setDefault(&probe.Prompt, "def add(a, b):\n    return ")
		setDefault(&probe.MaxTokens, 4)
	}
	for i := range c.Models {
		setDefault(&c.Models[i].Split.By, SplitBySubject)
		for j := range c.Models[i].Mirrors {
			setDefault(&c.Models[i].Mirrors[j].OnCancel, OnCancelCancel)
		}
	}
	for i := range c.Units {
		setDefault(&c.Units[i].Protocol, ProtocolAuto)
		setDefault(&c.Units[i].API, APIs(c.Units[i].Provider)[0])
		setDefault(&c.Units[i].MaxTokens, MaxTokensOf(c.Units[i].Provider))
	}
}

func setDefault[T comparable](field *T, value T) {
	var unset T
	if *field == unset {
		*field = value
	}
}
