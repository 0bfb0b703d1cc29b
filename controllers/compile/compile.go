// Package compile turns a CompletionRoute into the config of one region's proxies. It
// is pure: the same route, references and region give the same bytes. The operator
// and the ghostline command use it alike.
package compile

import (
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// References is what the Secrets and ConfigMaps that a route refers to hold, by their
// names. One that does not exist is missing from its map.
type References struct {
	Secrets    map[string]map[string][]byte
	ConfigMaps map[string]map[string]string
}

// Result is what a route means in one region.
type Result struct {
	// Config is what the region's proxies are to use; nil if nothing can be served,
	// which the problems say why.
	Config *config.Config
	// Data is Config as it is written to a file, and Hash the name of its content
	// (see [config.Hash]).
	Data []byte
	Hash string
	// Files are the files that Config names, to stand beside it: certificates, a key
	// set, a list of denied subjects. Their names tell of their content, so that
	// another content is another config.
	Files map[string][]byte
	// Credentials are the entries of the credentials directory, named after the unit
	// and the content.
	Credentials map[string][]byte
	// Problems are what is wrong, sorted by path.
	Problems []Problem
}

// Problem is something wrong with a route.
type Problem struct {
	// Condition is the one that tells of it, ConditionAccepted or
	// ConditionResolvedRefs, and Reason one of its reasons.
	Condition, Reason string
	// Path is the field's, such as spec.regions[westeurope].units[weu-1].url.
	Path string
	// Message says what is wrong and what would be right.
	Message string
	// Unit or Mutation is the part that is left out because of it. With neither,
	// nothing can be served.
	Unit, Mutation string
}

// String is the problem as people read it.
func (p Problem) String() string { return p.Path + ": " + p.Message }
