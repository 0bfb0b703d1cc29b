package proxy

import (
	"maps"
	"slices"
	"time"

	"github.com/ghostline-dev/ghostline/internal/service"
	"github.com/ghostline-dev/ghostline/proxy/upstream"
)

// Status is what GET /statusz on the admin port answers, in JSON.
type Status struct {
	// Version is the program's, as Go's build information has it.
	Version string `json:"version"`
	// ConfigHash is the SHA-256 of the config in use, Generation its route's.
	ConfigHash string    `json:"configHash"`
	Generation int64     `json:"generation,omitempty"`
	Region     string    `json:"region"`
	Loaded     time.Time `json:"loaded"`
	// RefusedConfig is the newest config, if another one is in use.
	RefusedConfig *RefusedConfig `json:"refusedConfig,omitempty"`
	// Keys are the ids of the token issuer's keys; none before they are known.
	Keys        []string `json:"keys"`
	Draining    bool     `json:"draining"`
	InFlight    int64    `json:"inFlight"`
	Connections int64    `json:"connections"` // of clients
	// ReadyProxies is how many proxies share the units' capacity.
	ReadyProxies int64        `json:"readyProxies"`
	RegionVote   RegionStatus `json:"regionVote"`
	Units        []UnitStatus `json:"units"`
	// MutationsLeftOut are those of the config in use that cannot be used.
	MutationsLeftOut []MutationStatus `json:"mutationsLeftOut,omitempty"`
}

// MutationStatus is a mutation that is left out, and why.
type MutationStatus struct {
	Name    string `json:"name"`
	Problem string `json:"problem"`
}

// RefusedConfig is a config that is not in use, and why.
type RefusedConfig struct {
	// Hash is that of the config; that of nothing if it cannot be read.
	Hash    string `json:"hash"`
	Problem string `json:"problem"`
}

// UnitStatus is one unit in a Status.
type UnitStatus struct {
	Name   string `json:"name"`
	Region string `json:"region"`
	Serves string `json:"serves"`
	// State is "active"; "slow" if it is much slower than its peers; "cooling" if
	// it asked to be left alone, or "ejected" if it failed too often, until Until;
	// "on_trial" when that is over and it has not answered since;
	// "misconfigured" if it last answered 401, 403 or 404; or "unreachable" or
	// "left_out" for the reason in Problem.
	State       string    `json:"state"`
	Until       time.Time `json:"until,omitzero"`
	Problem     string    `json:"problem,omitempty"`
	InFlight    int64     `json:"inFlight"`
	Connections int       `json:"connections"` // open
	Opened      int       `json:"opened"`      // connections, ever
}

func (p *proxy) status() Status {
	s := p.loader.current.Load()
	out := Status{
		Version:     service.Version(),
		ConfigHash:  s.hash,
		Region:      s.config.Region,
		Loaded:      s.loaded,
		Keys:        append([]string{}, s.keyIDs...),
		Draining:    p.draining.Load(),
		InFlight:    p.inFlight.Load(),
		Connections: p.connections.Load(),

		RefusedConfig: p.loader.refused.Load(),
		ReadyProxies:  p.peers.ready(),
		RegionVote:    p.vote.status(),
	}
	if s.config.Route != nil {
		out.Generation = s.config.Route.Generation
	}
	for _, u := range s.units {
		out.Units = append(out.Units, u.status())
	}
	for _, m := range s.mutations {
		if m.problem != "" {
			out.MutationsLeftOut = append(out.MutationsLeftOut, MutationStatus{m.name, m.problem})
		}
	}
	return out
}

func (u *unit) status() UnitStatus {
	out := UnitStatus{Name: u.Name, Region: u.Region, Serves: u.Serves, Problem: u.problem, State: u.state(time.Now())}
	if u.endpoint != nil {
		stats := u.endpoint.pool.Stats()
		out.InFlight, out.Connections, out.Opened = u.endpoint.inFlight.Load(), stats.Open, stats.Opened
		if out.State == stateCooling || out.State == stateEjected {
			_, out.Until = u.endpoint.health.State(time.Now())
		}
		out.Problem = stats.Problem
	}
	return out
}

// The states of a unit, as metrics and the status name them.
const (
	stateActive        = "active"
	stateSlow          = "slow"
	stateCooling       = "cooling"
	stateEjected       = "ejected"
	stateOnTrial       = "on_trial"
	stateUnreachable   = "unreachable"
	stateMisconfigured = "misconfigured"
	stateLeftOut       = "left_out"
)

var unitStates = []string{stateActive, stateSlow, stateCooling, stateEjected, stateOnTrial, stateUnreachable, stateMisconfigured, stateLeftOut}

// state is the unit's state, the one that tells most if it is in several.
func (u *unit) state(now time.Time) string {
	if u.problem != "" {
		return stateLeftOut
	}
	health, _ := u.endpoint.health.State(now)
	switch {
	case u.endpoint.misconfigured.Load():
		return stateMisconfigured
	case u.endpoint.pool.Unreachable():
		return stateUnreachable
	case health == upstream.Ejected:
		return stateEjected
	case health == upstream.OnTrial:
		return stateOnTrial
	case health == upstream.Cooling:
		return stateCooling
	case u.endpoint.slow.Load() != 0:
		return stateSlow
	}
	return stateActive
}

// modelList is the answer to GET /v1/models, in OpenAI's form.
type modelList struct {
	Object string       `json:"object"`
	Data   []modelEntry `json:"data"`
}

type modelEntry struct {
	ID     string `json:"id"`
	Object string `json:"object"`
	// Created is always 0: a logical model has no date, and clients cache by it.
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// modelList lists the logical models and aliases that the subject may use.
func (x *exchange) modelList() modelList {
	list := modelList{Object: "list", Data: []modelEntry{}}
	for _, name := range slices.Sorted(maps.Keys(x.snapshot.models)) {
		if x.claims.AllowsModel(x.snapshot.models[name].Name) {
			list.Data = append(list.Data, modelEntry{ID: name, Object: "model", OwnedBy: "ghostline"})
		}
	}
	return list
}
