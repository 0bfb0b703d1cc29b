package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
)

const (
	maxMutations       = 64
	maxChanges         = 16
	maxMutationClients = 16
	maxPath            = 256
	maxValue           = 16 << 10
	maxValueDepth      = 16
	maxHeaderName      = 128
	maxHeaderValue     = 4 << 10
)

// checkMutations checks what no mutation can be left out for.
func (c *Config) checkMutations(p *problems) {
	if len(c.Mutations) > maxMutations {
		p.add("mutations", "has %d entries; at most %d are allowed", len(c.Mutations), maxMutations)
	}
	seen := map[string]bool{}
	for i, m := range c.Mutations {
		path := fmt.Sprintf("mutations[%d].name", i)
		p.name(path, m.Name)
		if seen[m.Name] {
			p.add(path, "%q is already the name of a mutation", m.Name)
		}
		seen[m.Name] = true
	}
}

// CheckMutation returns what is wrong with a mutation apart from its name, one line
// a problem, or nil. A proxy leaves such a mutation out and serves the rest: it may
// have an op that only a newer proxy knows.
func (c *Config) CheckMutation(i int) error {
	p, m, path := new(problems), &c.Mutations[i], fmt.Sprintf("mutations[%d]", i)
	c.checkMatch(p, path+".match", &m.Match)
	switch n := len(m.Headers) + len(m.Body); {
	case n == 0:
		p.add(path, "changes nothing; it must have headers or body")
	case n > maxChanges:
		p.add(path, "has %d changes; at most %d are allowed", n, maxChanges)
	}
	for j := range m.Headers {
		m.Headers[j].check(p, fmt.Sprintf("%s.headers[%d]", path, j))
	}
	for j := range m.Body {
		m.Body[j].check(p, fmt.Sprintf("%s.body[%d]", path, j))
	}
	return errors.Join(*p...)
}

// badMutations are the problems of the mutations that have some.
func (c *Config) badMutations() error {
	var errs []error
	for i := range c.Mutations {
		errs = append(errs, c.CheckMutation(i))
	}
	return errors.Join(errs...)
}

func (c *Config) checkMatch(p *problems, path string, m *MutationMatch) {
	var variants []string // of the models that match
	for _, model := range c.Models {
		if len(m.Models) == 0 || slices.Contains(m.Models, model.Name) {
			for _, v := range model.Variants {
				variants = append(variants, v.Name)
			}
		}
	}
	for j, name := range m.Models {
		at := fmt.Sprintf("%s.models[%d]", path, j)
		switch i := slices.IndexFunc(c.Models, func(model Model) bool { return model.Name == name || slices.Contains(model.Aliases, name) }); {
		case i < 0:
			p.add(at, "%q is no model", name)
		case c.Models[i].Name != name:
			p.add(at, "%q is an alias; name the model itself, %q", name, c.Models[i].Name)
		}
	}
	for j, name := range m.Variants {
		if !slices.Contains(variants, name) {
			p.add(fmt.Sprintf("%s.variants[%d]", path, j), "%q is no variant of the models that match, which have %s", name, strings.Join(variants, ", "))
		}
	}
	if len(m.Clients) > maxMutationClients {
		p.add(path+".clients", "has %d entries; at most %d are allowed", len(m.Clients), maxMutationClients)
	}
	for j := range m.Clients {
		m.Clients[j].check(p, fmt.Sprintf("%s.clients[%d]", path, j))
	}
	if share := m.SubjectsPercent; share != nil && !(*share >= 0 && *share <= 100) {
		p.add(path+".subjectsPercent", "is %g; it must be 0 to 100", *share)
	}
}

// headerName is a field name (RFC 9110 section 5.1).
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// ownHeaders are header fields that no mutation may touch, in lower case, and why.
var ownHeaders = []struct {
	reason string
	names  []string
}{
	{"credentials come from the credentials directory", []string{"authorization", "proxy-authorization", "api-key", "x-api-key",
		"x-goog-api-key", "ocp-apim-subscription-key", "x-auth-token", "cookie"}},
	{"it is of the connection, not of the request", []string{"connection", "expect", "http2-settings", "keep-alive", "proxy-authenticate",
		"proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}},
	{"the unit's url says it", []string{"host"}},
	{"it follows from the body", []string{"content-length", "content-type", "content-encoding"}},
	{"the proxy must be able to read the answer", []string{"accept", "accept-encoding", "range"}},
	{"the logs of both sides are joined by it", []string{"x-request-id"}},
	{"some servers go on with an answer that has it, though nobody waits", []string{"x-conversation-id"}},
}

// whyOwn is why no mutation may touch a header field; empty if one may.
func whyOwn(name string) string {
	for _, own := range ownHeaders {
		if slices.Contains(own.names, strings.ToLower(name)) {
			return own.reason
		}
	}
	return ""
}

func (h *HeaderChange) check(p *problems, path string) {
	p.oneOf(path+".op", h.Op, OpSet, OpAdd, OpRemove)
	if h.Op == OpAdd && strings.EqualFold(h.Name, "User-Agent") { // net/http sends the first only
		p.add(path+".op", "%s has one value only; use %s", h.Name, OpSet)
	}
	switch reason := whyOwn(h.Name); {
	case len(h.Name) > maxHeaderName || !headerName.MatchString(h.Name):
		p.add(path+".name", "%.*q is no name of a header field; it must be 1 to %d letters, digits, '-' or other characters of a token",
			maxHeaderName, h.Name, maxHeaderName)
	case reason != "":
		p.add(path+".name", "%s cannot be changed: %s", h.Name, reason)
	}
	switch {
	case h.Op == OpRemove && h.Value != "":
		p.add(path+".value", "goes only with %s and %s", OpSet, OpAdd)
	case h.Op == OpRemove:
	case h.Value == "" || len(h.Value) > maxHeaderValue:
		p.add(path+".value", "has %d bytes; it must have 1 to %d", len(h.Value), maxHeaderValue)
	case strings.ContainsFunc(h.Value, func(r rune) bool { return r < ' ' || r > '~' }), strings.Trim(h.Value, " ") != h.Value:
		p.add(path+".value", "must be visible ASCII characters, with spaces only between them")
	}
}

// ownFields are fields of the body that no mutation may touch, and why.
var ownFields = map[string]string{
	"model":          "the unit's upstreamModel says it",
	"stream":         "the answer goes out as the client asked for it",
	"stream_options": "the proxy sets it, to meter what a stream cost",
}

func (b *BodyChange) check(p *problems, path string) {
	p.oneOf(path+".op", b.Op, OpSet, OpDefault, OpRemove, OpMin, OpMax, OpAppend)
	b.checkPath(p, path+".path")
	switch value := string(b.Value); {
	case b.Op == OpRemove && value != "":
		p.add(path+".value", "does not go with %s", OpRemove)
	case b.Op == OpRemove:
	case value == "":
		p.add(path+".value", "is missing; it must be JSON, such as 200, \"text\" or [1, 2]")
	case len(value) > maxValue:
		p.add(path+".value", "has %d bytes; at most %d are allowed", len(value), maxValue)
	case !b.hasPlainValue():
		p.add(path+".value", "must be JSON in UTF-8 that nests at most %d levels", maxValueDepth)
	case (b.Op == OpMin || b.Op == OpMax) && !isFinite(value):
		p.add(path+".value", "is no number, which %s needs", b.Op)
	case b.Op == OpDefault && value == "null":
		p.add(path+".value", "is null, which %s takes for a missing field; use %s to set it", b.Op, OpSet)
	}
}

func (b *BodyChange) checkPath(p *problems, at string) {
	if len(b.Path) > maxPath || !utf8.ValidString(b.Path) {
		p.add(at, "has %d bytes; it must be at most %d, in UTF-8", len(b.Path), maxPath)
		return
	}
	path, err := jsonedit.ParsePath(b.Path)
	if err != nil {
		p.add(at, "%q %s", b.Path, err)
		return
	}
	if len(path) > maxValueDepth {
		p.add(at, "goes %d objects deep; at most %d are allowed", len(path), maxValueDepth)
	}
	for field, reason := range ownFields {
		if strings.EqualFold(path[0], field) {
			p.add(at, "the field %q cannot be changed: %s", field, reason)
		}
	}
}

func (b *BodyChange) hasPlainValue() bool {
	ok, _ := jsonedit.Valid(b.Value, maxValueDepth)
	return ok && utf8.Valid(b.Value)
}

// isFinite says whether a JSON value is a number that a float64 can hold.
func isFinite(value string) bool {
	n, err := strconv.ParseFloat(value, 64)
	return err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}
