package proxy

import (
	"bytes"
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/internal/jsonedit"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"
)

// mutation is a change of requests, made ready.
type mutation struct {
	name    string
	clients []clientMatch // empty is any
	share   float64       // of the subjects; 1 is all
	headers []config.HeaderChange
	body    []bodyChange
	// asks says that the changes may be to fields that the proxy reads itself.
	asks    bool
	results map[mutationResult]prometheus.Counter
	// problem says why the mutation is left out; empty if it is not.
	problem string
}

// mutationResult is what a mutation did to a request that it matches, as
// ghostline_mutations_total names it.
type mutationResult string

const (
	mutationApplied   mutationResult = "applied"
	mutationUnchanged mutationResult = "unchanged" // the request was already as it should be
	// The request is as it was before the mutation.
	mutationNotApplicable mutationResult = "not_applicable"
)

var mutationResults = []mutationResult{mutationApplied, mutationUnchanged, mutationNotApplicable}

// addMutations makes the config's mutations ready and gives each to the variants
// that it is for. One that cannot be made ready is left out with its problem named.
func (l *loader) addMutations(s *snapshot) {
	for i, cfg := range s.config.Mutations {
		m := &mutation{name: cfg.Name}
		err := s.config.CheckMutation(i)
		if err == nil {
			err = m.ready(cfg, fmt.Sprintf("mutations[%d]", i))
		}
		s.mutations = append(s.mutations, m)
		if err != nil {
			m.problem = err.Error()
			continue
		}
		m.results = l.metrics.mutationOf(cfg.Name)
		for _, v := range s.variants {
			if isMeant(cfg.Match.Models, v.model.Name) && isMeant(cfg.Match.Variants, v.Name) {
				v.mutations = append(v.mutations, m)
			}
		}
	}
}

// isMeant says whether a list names something; an empty one means all.
func isMeant(names []string, name string) bool {
	return len(names) == 0 || slices.Contains(names, name)
}

// ready fills in a mutation that the config's own checks have passed.
func (m *mutation) ready(cfg config.Mutation, path string) error {
	m.share = 1
	if cfg.Match.SubjectsPercent != nil {
		m.share = *cfg.Match.SubjectsPercent / 100
	}
	for i, client := range cfg.Match.Clients {
		match, err := newClientMatch(client)
		if err != nil {
			return fmt.Errorf("%s.match.clients[%d].versions: %w", path, i, err)
		}
		m.clients = append(m.clients, match)
	}
	for _, h := range cfg.Headers {
		h.Name = textproto.CanonicalMIMEHeaderKey(h.Name)
		m.headers = append(m.headers, h)
	}
	for i, b := range cfg.Body {
		change, asks, err := newBodyChange(b)
		if err != nil {
			return fmt.Errorf("%s.body[%d].%w", path, i, err)
		}
		m.body, m.asks = append(m.body, change), m.asks || asks
	}
	return nil
}

// bodyChange is one change of a body, made ready.
type bodyChange struct {
	op     string
	path   jsonedit.Path
	value  []byte  // JSON
	number float64 // that value is, for Min and Max
	// growsText says that what is at path may be a text in place of a list of one.
	growsText bool
}

// newBodyChange also says whether the change is to a field that the proxy reads
// itself. What would make every request one that the proxy refuses is an error.
func newBodyChange(cfg config.BodyChange) (c bodyChange, asks bool, err error) {
	c = bodyChange{op: cfg.Op, value: cfg.Value, number: gjson.ParseBytes(cfg.Value).Num}
	if c.path, err = jsonedit.ParsePath(cfg.Path); err != nil {
		return c, false, fmt.Errorf("path: %w", err)
	}
	name, isField := c.path[0], len(c.path) == 1
	c.growsText = isField && name == "stop"
	for _, f := range fields {
		switch {
		case !strings.EqualFold(f.name, name):
		case f.name != name:
			return c, false, fmt.Errorf("path: the field %q must be written %q", name, f.name)
		case !isField:
			return c, false, fmt.Errorf("path: the field %q must be %s, which has no fields within it", name, f.want)
		case c.op == config.OpRemove && name == "prompt":
			return c, false, fmt.Errorf("path: the field %q cannot be removed: there is no completion without it", name)
		case !c.suits(f):
			return c, false, fmt.Errorf("value: the field %q must be %s", name, f.want)
		default:
			asks = true
		}
	}
	return c, asks, nil
}

// suits says whether a field that the proxy reads itself can be what the change makes it.
func (c *bodyChange) suits(f field) bool {
	switch c.op {
	case config.OpRemove:
		return true
	case config.OpAppend:
		return f.take(new(ask), jsonedit.Append([]byte("[]"), c.value))
	}
	return f.take(new(ask), c.value)
}

// apply returns the body, or a copy that is changed. An error says why the change
// cannot be made; it holds nothing of the request but names of fields.
func (c *bodyChange) apply(body []byte) ([]byte, error) {
	if c.op == config.OpSet || c.op == config.OpRemove {
		return c.overwrite(body)
	}
	at, err := jsonedit.Find(body, c.path)
	if err != nil {
		return nil, err
	}
	missing := at == nil || string(at) == "null"
	switch c.op {
	case config.OpDefault:
		if !missing {
			return body, nil
		}
	case config.OpAppend:
		return c.append(body, at, missing)
	default: // Min, Max
		if missing {
			return body, nil
		}
		number := gjson.ParseBytes(at)
		if number.Type != gjson.Number {
			return nil, fmt.Errorf("%s is no number", c.path)
		}
		if c.op == config.OpMin && number.Num >= c.number || c.op == config.OpMax && number.Num <= c.number {
			return body, nil
		}
	}
	return jsonedit.Put(body, c.path, c.value)
}

// overwrite is apply for what is done whatever the value was; even if the field
// stands twice.
func (c *bodyChange) overwrite(body []byte) ([]byte, error) {
	at, err := jsonedit.Find(body, c.path)
	switch {
	case c.op == config.OpRemove && at == nil && err == nil, c.op == config.OpSet && at != nil && sameJSON(at, c.value):
		return body, nil
	case c.op == config.OpRemove:
		return jsonedit.Drop(body, c.path)
	}
	return jsonedit.Put(body, c.path, c.value)
}

// append is apply for OpAppend. A list that has the element does not get it again.
func (c *bodyChange) append(body, at []byte, missing bool) ([]byte, error) {
	list := []byte("[]")
	switch {
	case missing:
	case at[0] == '[':
		list = at
	case at[0] == '"' && c.growsText:
		list = jsonedit.Append(list, at)
	default:
		return nil, fmt.Errorf("%s is no list", c.path)
	}
	for element := range jsonedit.Elements(list) {
		if sameJSON(element, c.value) {
			return body, nil
		}
	}
	return jsonedit.Put(body, c.path, jsonedit.Append(list, c.value))
}

// sameJSON says whether two values are written alike, or are the same text.
func sameJSON(a, b []byte) bool {
	return bytes.Equal(a, b) || isText(a) && isText(b) && gjson.ParseBytes(a).Str == gjson.ParseBytes(b).Str
}
