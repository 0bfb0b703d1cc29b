package proxy

import (
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestShed is when a request is refused before its body is known. The units of
// the model m are full where a case says so, the one of the model other is free.
func TestShed(t *testing.T) {
	unit := func(serves string) config.Unit {
		return config.Unit{Name: serves, Region: "here", Serves: serves, Capacity: config.Capacity{InFlight: 1}}
	}
	variants := []config.Variant{{Name: "stable", Weight: 1}, {Name: "next", Weight: 1}, {Name: "spare"}, {Name: "candidate", Fallback: "old"}, {Name: "old"}}
	variants[1].Fallback = "spare"
	model := config.Model{Name: "m", Aliases: []string{"alias"}, Variants: variants}
	other := config.Model{Name: "other", Variants: []config.Variant{{Name: "v", Weight: 1}}}
	users := []string{"m/stable", "m/next", "m/spare"}
	for name, tc := range map[string]struct {
		models []config.Model
		full   []string
		engine string
		shed   bool
		may    []string // models, of the token; none is all
	}{
		"nothing is full":                        {models: []config.Model{model}},
		"all that serve users are":               {models: []config.Model{model}, full: users, shed: true},
		"the token does not allow it":            {models: []config.Model{model}, full: users, may: []string{"other"}},
		"the fallback is free":                   {models: []config.Model{model}, full: users[:2]},
		"another variant is free":                {models: []config.Model{model}, full: users[1:]},
		"the path names it":                      {models: []config.Model{model, other}, full: users, engine: "m", shed: true},
		"the path names it by an alias":          {models: []config.Model{model, other}, full: users, engine: "alias", shed: true},
		"the path names another":                 {models: []config.Model{model, other}, full: users, engine: "other"},
		"the path names none that is known":      {models: []config.Model{model}, full: users, engine: "gone"},
		"only the body tells which of two it is": {models: []config.Model{model, other}, full: append(users, "other/v")},
	} {
		t.Run(name, func(t *testing.T) {
			s := testUnits(unit("m/stable"), unit("m/next"), unit("m/spare"), unit("m/candidate"), unit("m/old"), unit("other/v"))
			s.config.Models, s.variants = tc.models, nil
			s.link()
			for _, full := range tc.full {
				s.unit(full).endpoint.inFlight.Store(1)
			}
			x := &exchange{snapshot: s, engine: tc.engine, start: time.Now(), claims: &token.Claims{Models: tc.may}}
			err := new(proxy).shed(x)
			if !tc.shed {
				if err != nil || x.model != nil {
					t.Errorf("got %v, model %v; want it let through", err, x.model)
				}
				return
			}
			if e := asClientError(err); err == nil || e.status != 503 || e.outcome != outcomeNoCapacity || e.retryAfter != retryWhenFull || x.modelName() != "m" {
				t.Errorf("got %+v for model %s; want 503 for m", err, x.modelName())
			}
		})
	}
}

// TestShedTellsWhenToCome: when all units asked to be left alone, the first of
// them says when to come again. One that only failed is asked, one that is free
// for mirrored requests alone is not.
func TestShedTellsWhenToCome(t *testing.T) {
	s := testUnits(config.Unit{Name: "a", Region: "here", Serves: "m/stable"}, config.Unit{Name: "b", Region: "here", Serves: "m/next"},
		config.Unit{Name: "c", Region: "here", Serves: "m/candidate"})
	m := s.models["m"]
	m.variants = append(m.variants, &variant{Variant: config.Variant{Name: "candidate"}, model: m, units: []*unit{s.unit("c")}, onlyMirrored: true})
	now := time.Now()
	x := &exchange{snapshot: s, start: now, claims: &token.Claims{}}
	s.unit("a").endpoint.health.Cool(now, now.Add(30*time.Second))
	for range 5 {
		s.unit("b").endpoint.health.Failed(now)
	}
	if err := new(proxy).shed(x); err != nil {
		t.Errorf("while one is ejected: %v", err)
	}
	s.unit("b").endpoint.health.Cool(now, now.Add(20*time.Second))
	err := new(proxy).shed(x)
	if err == nil || asClientError(err).retryAfter != 20*time.Second {
		t.Errorf("got %+v, want to be told to come in 20s", err)
	}
}
