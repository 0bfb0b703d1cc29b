package config

import "encoding/json"

// Mutation changes the requests that match it: headers as they go to the unit, the
// body in OpenAI's form before it is put into the provider's. Names are unique. A
// mutation of which a part cannot apply leaves the request as it was.
type Mutation struct {
	Name    string         `json:"name"`
	Match   MutationMatch  `json:"match,omitzero"`
	Headers []HeaderChange `json:"headers,omitempty"`
	Body    []BodyChange   `json:"body,omitempty"`
}

// MutationMatch says which requests a mutation is for: those that every field which
// is set allows.
type MutationMatch struct {
	// Models are logical models, by their names.
	Models []string `json:"models,omitempty"`
	// Variants are those that serve, by their names.
	Variants []string      `json:"variants,omitempty"`
	Clients  []ClientMatch `json:"clients,omitempty"`
	// SubjectsPercent is the share of the subjects, always the same ones for a
	// mutation's name; the default is 100.
	SubjectsPercent *float64 `json:"subjectsPercent,omitempty"`
}

// HeaderChange changes one header field of the request to the unit.
type HeaderChange struct {
	// Op is OpSet, OpAdd or OpRemove.
	Op    string `json:"op"`
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// BodyChange changes one field of the body.
type BodyChange struct {
	// Op is OpSet, OpDefault, OpRemove, OpMin, OpMax or OpAppend.
	Op string `json:"op"`
	// Path names a field, or one within objects: max_tokens, logit_bias.50256.
	Path string `json:"path"`
	// Value is JSON: a number for OpMin and OpMax, an element for OpAppend.
	Value json.RawMessage `json:"value,omitempty"`
}

// The values of [HeaderChange.Op] and [BodyChange.Op].
const (
	OpSet     = "Set"     // whatever it was
	OpAdd     = "Add"     // a header field beside those of that name
	OpDefault = "Default" // if it is missing or null
	OpRemove  = "Remove"
	OpMin     = "Min"    // a number: at least the value
	OpMax     = "Max"    // a number: at most the value
	OpAppend  = "Append" // to a list, which is made if it is missing
)
