package proxy

import (
	"fmt"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestHeaderChanges is what becomes of the header that goes to a unit.
func TestHeaderChanges(t *testing.T) {
	header := func(op, name, value string) config.HeaderChange {
		return config.HeaderChange{Op: op, Name: name, Value: value}
	}
	for name, tc := range map[string]struct {
		mutation config.Mutation
		want     map[string][]string
	}{
		"set, add and remove": {
			config.Mutation{Headers: []config.HeaderChange{header("Set", "x-team", "a"), header("Add", "X-TEAM", "b"), header("Set", "X-Old", "c"), header("Remove", "x-gone", "")}},
			map[string][]string{"User-Agent": {"ghostline"}, "X-Old": {"c"}, "X-Team": {"a", "b"}},
		},
		"no user agent": {
			config.Mutation{Headers: []config.HeaderChange{header("Remove", "user-agent", "")}},
			map[string][]string{"User-Agent": {""}, "X-Old": {"1"}, "X-Gone": {"2"}},
		},
		"with a body that cannot be changed": {
			config.Mutation{Headers: []config.HeaderChange{header("Set", "X-Old", "c")}, Body: []config.BodyChange{change("Set", "y", "1"), change("Set", "y.x", "1")}},
			map[string][]string{"User-Agent": {"ghostline"}, "X-Old": {"1"}, "X-Gone": {"2"}},
		},
		"with a body that need not be": {
			config.Mutation{Headers: []config.HeaderChange{header("Set", "X-Old", "c")}, Body: []config.BodyChange{change("Default", "prompt", `"x"`)}},
			map[string][]string{"User-Agent": {"ghostline"}, "X-Old": {"c"}, "X-Gone": {"2"}},
		},
	} {
		tc.mutation.Name = "m"
		p, s := withMutations(t, tc.mutation)
		if problem := s.mutations[0].problem; problem != "" {
			t.Fatalf("%s: %s", name, problem)
		}
		x := s.asked(t, "stable", `{"prompt":"a"}`)
		x.unit = s.unit("weu")
		p.mutate(x)
		got := map[string][]string{"User-Agent": {"ghostline"}, "X-Old": {"1"}, "X-Gone": {"2"}}
		x.changeHeaders(got)
		if fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
