package proxy

import (
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/internal/loopback"
	"github.com/ghostline-dev/ghostline/proxy/auth"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

// snapshot is a config made ready to serve. A request loads it once and keeps
// it to its end; it never changes.
type snapshot struct {
	config *config.Config
	source []byte // what config was decoded from
	hash   string
	loaded time.Time
	models map[string]*model // by name and by alias
	units  []*unit
	// auth is nil until the issuer's keys are known.
	auth   *auth.Authenticator
	keys   []byte // the key set that auth was made of
	keyIDs []string
	denied map[string]bool // subjects
}

// model is a logical model.
type model struct {
	config.Model
	variants []*variant
}

// variant is one version of a model, with what can serve it.
type variant struct {
	config.Variant
	model    *model
	fallback *variant
	units    []*unit // as they are to be tried: by region, then by priority
}

// unit is one piece of capacity as this config describes it.
type unit struct {
	config.Unit
	dialect    provider.Dialect
	url        *url.URL
	model      string // the name that the provider knows
	credential string
	endpoint   *endpoint
	metrics    unitMetrics
	// problem says why the unit is left out; empty if it serves.
	problem string
}

// endpoint is what outlives a config: a unit's connections and counts. Units of
// successive configs that reach the same place in the same way share it.
type endpoint struct {
	pool *upstream.Pool
	// trust is how the unit's certificate is checked; with another one, new
	// connections must be made.
	trust string
	// inFlight is shared with the endpoint that this one replaced.
	inFlight *atomic.Int64
	// misconfigured is set while the unit answers that it is not meant.
	misconfigured atomic.Bool
	warnings      warnings
}

// link connects models, variants and units by their names, in a valid config.
func (s *snapshot) link() {
	s.models = map[string]*model{}
	for i := range s.config.Models {
		m := &model{Model: s.config.Models[i]}
		byName := map[string]*variant{}
		for _, v := range m.Variants {
			linked := &variant{Variant: v, model: m, units: s.unitsOf(m.Name + "/" + v.Name)}
			m.variants = append(m.variants, linked)
			byName[v.Name] = linked
		}
		for _, v := range m.variants {
			v.fallback = byName[v.Fallback]
		}
		s.models[m.Name] = m
		for _, alias := range m.Aliases {
			s.models[alias] = m
		}
	}
}

// unitsOf returns a variant's units in the order in which they are to be tried.
func (s *snapshot) unitsOf(serves string) []*unit {
	var units []*unit
	for _, u := range s.units {
		if u.Serves == serves && u.problem == "" {
			units = append(units, u)
		}
	}
	distance := func(u *unit) int { return slices.Index(s.config.Failover, u.Region) } // -1 is here
	slices.SortStableFunc(units, func(a, b *unit) int {
		if d := distance(a) - distance(b); d != 0 {
			return d
		}
		return a.Priority - b.Priority
	})
	return units
}

// tellsCredential says whether everybody on the way to the unit can read its
// credential.
func (u *unit) tellsCredential() bool {
	return u.credential != "" && u.url.Scheme == "http" && !loopback.Is(u.url.Hostname())
}
