package v1alpha1

// The conditions of a CompletionRoute. All are normally True.
const (
	// ConditionAccepted is True if the route could be compiled, though parts may be
	// left out, which the reason then says.
	ConditionAccepted = "Accepted"
	// ConditionResolvedRefs is True if everything that the route refers to exists.
	ConditionResolvedRefs = "ResolvedRefs"
	// ConditionProgrammed is True if every ready proxy of this operator's regions uses
	// the config of this generation.
	ConditionProgrammed = "Programmed"
	// ConditionReady is True if the route is accepted and programmed, and each region
	// has a ready proxy.
	ConditionReady = "Ready"
)

// The reasons of ConditionAccepted.
const (
	// ReasonAccepted: True, with nothing left out.
	ReasonAccepted = "Accepted"
	// ReasonPartsLeftOut: True, but the message names parts that cannot be used.
	ReasonPartsLeftOut = "PartsLeftOut"
	// ReasonInvalid: False, nothing of the route can be served as it stands, and the
	// last good config stays. Also a left out part's reason.
	ReasonInvalid = "Invalid"
	// ReasonConfigTooLarge: False, a region's config and the files that it names do not
	// fit into a ConfigMap, or its credentials into a Secret.
	ReasonConfigTooLarge = "ConfigTooLarge"
	// ReasonUnknownRegion: False, the operator is for a region that the route does not
	// have.
	ReasonUnknownRegion = "UnknownRegion"
	// ReasonUnsupported: False, the route asks for what this release cannot do.
	ReasonUnsupported = "Unsupported"
)

// The reasons of ConditionResolvedRefs; also those of parts left out.
const (
	// ReasonResolvedRefs: True.
	ReasonResolvedRefs = "ResolvedRefs"
	// ReasonRefNotFound: False, a Secret or ConfigMap does not exist, or not yet.
	ReasonRefNotFound = "RefNotFound"
	// ReasonRefKeyNotFound: False, a Secret or ConfigMap lacks the key.
	ReasonRefKeyNotFound = "RefKeyNotFound"
	// ReasonRefInvalid: False, the entry of a Secret or ConfigMap cannot be used.
	ReasonRefInvalid = "RefInvalid"
)

// The reasons of ConditionProgrammed.
const (
	// ReasonProgrammed: True.
	ReasonProgrammed = "Programmed"
	// ReasonPending: False, proxies are about to load the config.
	ReasonPending = "Pending"
	// ReasonNoProxies: False, no proxy of a region is ready.
	ReasonNoProxies = "NoProxies"
	// ReasonConfigRefused: False, a proxy refuses the config, and uses an earlier one.
	ReasonConfigRefused = "ConfigRefused"
	// ReasonLeftOutByProxy: False, a proxy uses the config but leaves a unit or a
	// mutation out.
	ReasonLeftOutByProxy = "LeftOutByProxy"
	// ReasonNameTaken: False, an object of the name that the operator needs belongs to
	// somebody else.
	ReasonNameTaken = "NameTaken"
	// ReasonApplyFailed: False, the API server did not take an object.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonNotAccepted: False, also of ConditionReady; ConditionAccepted says why.
	ReasonNotAccepted = "NotAccepted"
)

// The reasons of ConditionReady, beside ReasonNotAccepted and those of
// ConditionProgrammed.
const (
	// ReasonReady: True.
	ReasonReady = "Ready"
)
