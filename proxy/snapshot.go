package proxy

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ghostline-dev/ghostline/internal/loopback"
	"github.com/ghostline-dev/ghostline/proxy/auth"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/ghostline-dev/ghostline/proxy/provider"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
	"golang.org/x/time/rate"
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
	// mutations are the config's, in its order.
	mutations []*mutation
	// variants and mirrors are those of all models.
	variants []*variant
	mirrors  []*mirror
	// auth is nil until the issuer's keys are known.
	auth   *auth.Authenticator
	keys   []byte // the key set that auth was made of
	keyIDs []string
	denied map[string]bool // subjects
	edges  []netip.Prefix  // trusted
	// clientRules are the config's, in its order.
	clientRules    []clientRule
	clientCounters *clientCounters
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
	units    []*unit   // as they are to be tried: by region, then by priority
	mirrors  []*mirror // of it
	feedback feedbackCounts
	// mutations are those that may be for its requests.
	mutations []*mutation
	// onlyMirrored says that it serves no user.
	onlyMirrored bool
	// regions are the same units by region, alike by region and priority.
	regions, alike [][]*unit
}

// unit is one piece of capacity as this config describes it.
type unit struct {
	config.Unit
	variant    *variant // that it serves; nil if it is left out
	dialect    provider.Dialect
	url        *url.URL
	model      string // the name that the provider knows
	credential string
	endpoint   *endpoint
	metrics    unitMetrics
	// probed says that it is asked for a completion now and then, see probe.go.
	probed bool
	// problem says why the unit is left out; empty if it serves.
	problem string
}

// endpoint is what outlives a config: a unit's connections, counts and health. Units of
// successive configs that reach the same place in the same way share it.
type endpoint struct {
	pool *upstream.Pool
	// trust is how the unit's certificate is checked; with another one, new
	// connections must be made.
	trust string
	// setup is what the unit was asked by last; guarded by loader.mu.
	setup setup
	// inFlight and bucket are shared with the endpoint that this one replaced.
	inFlight *atomic.Int64
	bucket   *rate.Limiter // of requests a second; see [proxy.bucket]

	health     upstream.Health
	firstBytes upstream.FirstBytes
	// slow has bit s set while the unit is slow with requests of upstream.Size s.
	slow atomic.Uint32
	// misconfigured is set while the unit answers that it is not meant.
	misconfigured atomic.Bool
	// outOfReach is whether the log says that the unit cannot be reached; see
	// [proxy.logReach], to which it belongs.
	outOfReach bool
	warnings   warnings
}

// setup is what a unit that refuses our credential, or does not know what it is
// asked for, may find fault with.
type setup struct{ url, model, credential string }

// newSnapshot makes ready what of a valid config needs nothing beside it.
func newSnapshot(cfg *config.Config) (*snapshot, error) {
	s := &snapshot{config: cfg}
	for _, network := range cfg.TrustedEdges {
		s.edges = append(s.edges, netip.MustParsePrefix(network).Masked()) // the config is valid
	}
	for i, cfg := range cfg.Clients {
		rule, err := newClientRule(cfg)
		if err != nil {
			return nil, fmt.Errorf("clients[%d].match.versions: %w", i, err)
		}
		s.clientRules = append(s.clientRules, rule)
	}
	return s, nil
}

// link connects models, variants and units by their names, in a valid config.
func (s *snapshot) link() {
	s.models = map[string]*model{}
	for i := range s.config.Models {
		m := &model{Model: s.config.Models[i]}
		byName := map[string]*variant{}
		for _, v := range m.Variants {
			linked := &variant{Variant: v, model: m, units: s.unitsOf(m.Name + "/" + v.Name)}
			for _, u := range linked.units {
				u.variant = linked
			}
			linked.regions = groups(linked.units, func(a, b *unit) bool { return a.Region == b.Region })
			linked.alike = groups(linked.units, func(a, b *unit) bool { return a.Region == b.Region && a.Priority == b.Priority })
			s.variants = append(s.variants, linked)
			m.variants = append(m.variants, linked)
			byName[v.Name] = linked
		}
		for _, v := range m.variants {
			v.fallback, v.onlyMirrored = byName[v.Fallback], true
		}
		for _, wanted := range m.variants {
			for v := wanted; wanted.Weight > 0 && v != nil; v = v.fallback {
				v.onlyMirrored = false
			}
		}
		for _, cfg := range m.Mirrors {
			linked := &mirror{Mirror: cfg, of: byName[cfg.Of], to: byName[cfg.To]}
			linked.of.mirrors = append(linked.of.mirrors, linked)
			s.mirrors = append(s.mirrors, linked)
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

// groups splits units where two that follow each other are not the same.
func groups(units []*unit, same func(a, b *unit) bool) (out [][]*unit) {
	for i, u := range units {
		if i == 0 || !same(units[i-1], u) {
			out = append(out, nil)
		}
		last := &out[len(out)-1]
		*last = append(*last, u)
	}
	return out
}

// tellsCredential says whether everybody on the way to the unit can read its
// credential.
func (u *unit) tellsCredential() bool {
	return u.credential != "" && u.url.Scheme == "http" && !loopback.Is(u.url.Hostname())
}
