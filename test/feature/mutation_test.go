package feature

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/tidwall/gjson"
)

// mutate adds a mutation of the body to a config.
func mutate(c *config.Config, name string, match config.MutationMatch, changes ...config.BodyChange) {
	c.Mutations = append(c.Mutations, config.Mutation{Name: name, Match: match, Body: changes})
}

func bodyChange(op, path, value string) config.BodyChange {
	return config.BodyChange{Op: op, Path: path, Value: json.RawMessage(value)}
}

// wantField checks what a unit got of a body's field, as JSON; empty is nothing.
func (a arrival) wantField(t *testing.T, path, want string) {
	t.Helper()
	if got := gjson.Get(a.body, path).Raw; got != want {
		t.Errorf("the unit got %s = %s, want %s, in %s", path, got, want, a.body)
	}
}

// theRequest answers a request to a unit in the way that it wants.
func theRequest(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if gjson.GetBytes(body, "stream").Bool() {
		says(whole("ab"))(w, r)
	} else {
		unary("ab")(w, r)
	}
}

// TestMutationOfEachPath is the sample of a model's bad token, on each path and
// way to ask.
func TestMutationOfEachPath(t *testing.T) {
	s := start(t, setup{unit: http.HandlerFunc(theRequest), config: func(c *config.Config) {
		mutate(c, "stop-the-bad-token", config.MutationMatch{Models: []string{"ghost-code"}, Variants: []string{"stable"}}, bodyChange("Set", "logit_bias.50256", "-100"))
	}})
	for i, tc := range []struct{ path, body, also string }{
		{"/v1/completions", prompt, ""},
		{"/v1/completions", `{"model":"copilot-codex","prompt":"a","logit_bias":{"50256": 5, "7":1}}`, `{"50256": -100, "7":1}`},
		{"/v1/engines/copilot-codex/completions", `{"prompt":"a","stream":true,"logit_bias":null}`, ""},
		{"/v1/fim/completions", `{"model":"ghost-code","prompt":"a","random_seed":7}`, ""},
	} {
		if got := s.post(tc.path, tc.body); got.status != http.StatusOK || got.err != nil {
			t.Errorf("%s: %d %s, %v", tc.path, got.status, got.body, got.err)
		}
		want := tc.also
		if want == "" {
			want = `{"50256":-100}`
		}
		s.arrived.last(t).wantField(t, "logit_bias", want)
		s.wantMetric(float64(i+1), "ghostline_mutations_total", "mutation", "stop-the-bad-token", "result", "applied")
	}
	s.arrived.last(t).wantField(t, "seed", "7")
}

// TestMutationOfOldClients caps what an old plug-in asks for, and nobody else.
func TestMutationOfOldClients(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		mutate(c, "cap-old-plugins", config.MutationMatch{Clients: []config.ClientMatch{{Name: "copilot.vim", Versions: "<1.40.0"}}}, bodyChange("Max", "max_tokens", "3"))
	}})
	for _, tc := range []struct{ header, client, want string }{
		{"Editor-Plugin-Version", "copilot.vim/1.39.0", "3"},
		{"User-Agent", "copilot.vim/1.2", "3"},
		{"Editor-Plugin-Version", "copilot.vim/1.40.0", "8"},
		{"Editor-Plugin-Version", "copilot/1.39.0", "8"},
		{"Editor-Plugin-Version", "copilot.vim/old", "8"},
		{"Editor-Plugin-Version", "", "8"},
	} {
		req := s.request(t.Context(), s.plainURL, "/v1/completions", prompt)
		req.Header.Set(tc.header, tc.client)
		s.wantWhole(s.do(s.h2c(), req))
		s.arrived.last(t).wantField(t, "max_tokens", tc.want)
	}
	s.outcomes("ok", 6)
	s.wantMetric(2, "ghostline_mutations_total")
}

// TestMutationOfAFallback: the variant whose unit is tried decides, and begins with
// what the client sent.
func TestMutationOfAFallback(t *testing.T) {
	var next, stable arrivals
	full := answers(http.StatusServiceUnavailable, nil, "{}")
	s, _ := cast(t, setup{config: func(c *config.Config) {
		c.Models[0].Variants = []config.Variant{{Name: "next", Weight: 1, Fallback: "stable"}, {Name: "stable"}}
		c.Units[0].Serves, c.Units[1].Serves, c.Units[2].Serves = "ghost-code/next", "ghost-code/next", "ghost-code/stable"
		mutate(c, "of-next", config.MutationMatch{Variants: []string{"next"}}, bodyChange("Set", "max_tokens", "5"), bodyChange("Set", "next", "true"))
		mutate(c, "of-all", config.MutationMatch{}, bodyChange("Min", "max_tokens", "7"))
	}}, next.record(full), next.record(full), stable.record(says(whole("a"))))
	s.complete()
	if next.count() != 2 || stable.count() != 1 {
		t.Fatalf("%d requests at next, %d at stable", next.count(), stable.count())
	}
	next.last(t).wantField(t, "max_tokens", "7")
	next.last(t).wantField(t, "next", "true")
	stable.last(t).wantField(t, "max_tokens", "8")
	stable.last(t).wantField(t, "next", "")
	for _, tc := range []struct {
		mutation, result string
		want             float64
	}{
		{"of-next", "applied", 1}, {"of-all", "applied", 1}, {"of-all", "unchanged", 1},
	} {
		s.wantMetric(tc.want, "ghostline_mutations_total", "mutation", tc.mutation, "result", tc.result)
	}
	s.wantMetric(3, "ghostline_mutations_total")
}

// TestMutationOfAMirror: a copy has the mutations of the variant that is judged, by
// the user's client and subject, and is counted; the user's request has its own.
func TestMutationOfAMirror(t *testing.T) {
	var user, copied arrivals
	s, _ := judge(t, func(c *config.Config) {
		all := 100.0
		mutate(c, "users", config.MutationMatch{Variants: []string{"stable"}}, bodyChange("Set", "temperature", "0.5"))
		mutate(c, "copys", config.MutationMatch{
			Variants: []string{"candidate"}, Clients: []config.ClientMatch{{Name: "copilot"}}, SubjectsPercent: &all,
		}, bodyChange("Set", "max_tokens", "5"))
	}, user.record(http.HandlerFunc(theRequest)), copied.record(http.HandlerFunc(theRequest)))
	req := s.request(t.Context(), s.plainURL, "/v1/completions", exactPrompt)
	req.Header.Set("Editor-Plugin-Version", "copilot/1.300.0")
	s.wantWhole(s.do(s.h2c(), req))
	s.mirrored("ok", 1, 1)
	user.last(t).wantField(t, "temperature", "0.5")
	user.last(t).wantField(t, "max_tokens", "8")
	copied.last(t).wantField(t, "temperature", "0")
	copied.last(t).wantField(t, "max_tokens", "5")
	s.wantMetric(1, "ghostline_mutations_total", "mutation", "users", "result", "applied")
	s.wantMetric(1, "ghostline_mutations_total", "mutation", "copys", "result", "applied")
	s.compared(0, 0, 1) // the user's has another temperature now
}

// TestMutationOfAProbe: a unit that refuses a field must not look ill.
func TestMutationOfAProbe(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		probing(c)
		mutate(c, "no-temperature", config.MutationMatch{}, bodyChange("Remove", "temperature", ""))
		mutate(c, "clients", config.MutationMatch{Clients: []config.ClientMatch{{Name: "copilot"}}}, bodyChange("Set", "client", "true"))
	}})
	s.probed("unit-1", "ok", 2)
	s.arrived.last(t).wantField(t, "temperature", "")
	s.arrived.last(t).wantField(t, "client", "")
	if got := s.metric("ghostline_mutations_total"); got != 0 {
		t.Errorf("probes are counted %v times", got)
	}
}

// TestMutationOfHeaders is what arrives of them, over HTTP/2 and HTTP/1.1.
func TestMutationOfHeaders(t *testing.T) {
	for _, protocol := range []string{config.ProtocolH2C, config.ProtocolHTTP1} {
		t.Run(protocol, func(t *testing.T) {
			s := start(t, setup{config: func(c *config.Config) {
				c.Units[0].Protocol = protocol
				c.Mutations = []config.Mutation{
					{Name: "first", Headers: []config.HeaderChange{{Op: "Set", Name: "x-team", Value: "editors"}, {Op: "Set", Name: "X-Gone", Value: "1"}, {Op: "Remove", Name: "user-agent"}}},
					{Name: "second", Headers: []config.HeaderChange{{Op: "Add", Name: "X-Team", Value: "a, b"}, {Op: "Remove", Name: "x-gone"}}},
					{Name: "third", Headers: []config.HeaderChange{{Op: "Set", Name: "X-Never", Value: "1"}}, Body: []config.BodyChange{bodyChange("Set", "y", "1"), bodyChange("Set", "y.x", "1")}},
				}
			}})
			s.wantWhole(s.post("/v1/completions", prompt))
			got := s.arrived.last(t).header
			for name, want := range map[string][]string{"X-Team": {"editors", "a, b"}, "X-Gone": nil, "X-Never": nil, "User-Agent": nil, "Authorization": {"Bearer " + unitKey}} {
				if !reflect.DeepEqual(got[name], want) {
					t.Errorf("%s is %q, want %q", name, got[name], want)
				}
			}
			s.wantMetric(1, "ghostline_mutations_total", "mutation", "third", "result", "not_applicable")
		})
	}
}

// TestMutationOfAShare: the same subjects each time, about as many as is said, and
// independent of another mutation's.
func TestMutationOfAShare(t *testing.T) {
	const subjects = 150
	s := start(t, setup{unit: says(whole("a")), config: func(c *config.Config) {
		half := 50.0
		mutate(c, "one", config.MutationMatch{SubjectsPercent: &half}, bodyChange("Set", "one", "true"))
		mutate(c, "two", config.MutationMatch{SubjectsPercent: &half}, bodyChange("Set", "two", "true"))
	}})
	client := s.h2c()
	in := func() (one, both int, which string) {
		for i := range subjects {
			req := s.request(t.Context(), s.plainURL, "/v1/completions", prompt)
			req.Header.Set("Authorization", "Bearer "+s.token(func(c *token.Claims) { c.Subject = fmt.Sprintf("subject-%d", i) }))
			s.do(client, req)
			body := s.arrived.last(t).body
			isOne, isTwo := gjson.Get(body, "one").Bool(), gjson.Get(body, "two").Bool()
			if isOne {
				one++
			}
			if isOne && isTwo {
				both++
			}
			which += fmt.Sprint(isOne, isTwo, " ")
		}
		return one, both, which
	}
	one, both, which := in()
	// Six standard deviations of a binomial distribution.
	if one < subjects/2-37 || one > subjects/2+37 || both < subjects/4-32 || both > subjects/4+32 {
		t.Errorf("of %d subjects %d are in one, and %d in both", subjects, one, both)
	}
	if _, _, again := in(); again != which {
		t.Error("other subjects are in the second time")
	}
	s.reconfigure(func(c *config.Config) { *c.Mutations[0].Match.SubjectsPercent = 100 })
	if all, _, _ := in(); all != subjects {
		t.Errorf("%d of %d subjects are in all", all, subjects)
	}
}

// TestMutationThatCannotApply leaves the request as it was, byte for byte.
func TestMutationThatCannotApply(t *testing.T) {
	const odd = `{ "prompt" : "a\u0062", "stop":"x", "n":2.0,"logit_bias" : 7, "unknown":1e400 }`
	s := start(t, setup{unit: http.HandlerFunc(theRequest)})
	s.post("/v1/engines/ghost-code/completions", odd)
	plain := s.arrived.last(t).body
	for i, changes := range [][]config.BodyChange{
		{bodyChange("Set", "logit_bias.50256", "-100")},
		{bodyChange("Set", "seed", "1"), bodyChange("Append", "unknown", "1")},
		{bodyChange("Set", "seed", "1"), bodyChange("Set", "y", `"x"`), bodyChange("Max", "y", "1")},
		{bodyChange("Set", "prompt", `["`+strings.Repeat(`a","`, 15)+`"]`), bodyChange("Set", "n", "16")},
	} {
		s.reconfigure(func(c *config.Config) {
			c.Mutations = nil
			mutate(c, fmt.Sprintf("m-%d", i), config.MutationMatch{}, changes...)
		})
		if got := s.post("/v1/engines/ghost-code/completions", odd); got.status != http.StatusOK {
			t.Errorf("%v: %d %s", changes, got.status, got.body)
		}
		if got := s.arrived.last(t).body; got != plain {
			t.Errorf("%s %s: the unit got %s\nwant %s", changes[0].Op, changes[0].Path, got, plain)
		}
		s.wantMetric(1, "ghostline_mutations_total", "mutation", fmt.Sprintf("m-%d", i), "result", "not_applicable")
		s.wantMetric(1, "ghostline_mutations_total") // those that are gone are forgotten
	}
	s.outcomes("ok", 5)
}

// TestMutationOfN: an answer is whole once as many choices as the unit was asked
// for have ended.
func TestMutationOfN(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		mutate(c, "three", config.MutationMatch{}, bodyChange("Set", "n", "3"))
	}})
	seen := map[int64]bool{}
	for _, data := range s.post("/v1/completions", prompt).events() {
		for _, choice := range gjson.Get(data, "choices").Array() {
			seen[choice.Get("index").Int()] = true
		}
	}
	if len(seen) != 3 {
		t.Errorf("choices %v, want three", seen)
	}
	s.outcomes("ok", 1)
}

// TestMutationIsReloaded: the next request has what the new config says.
func TestMutationIsReloaded(t *testing.T) {
	s, log := startLogged(t, setup{})
	for i, value := range []string{"5", "6", ""} {
		s.reconfigure(func(c *config.Config) {
			c.Mutations = nil
			if value != "" {
				mutate(c, "max", config.MutationMatch{}, bodyChange("Max", "max_tokens", value))
				mutate(c, "idle", config.MutationMatch{}, bodyChange("Min", "max_tokens", "1"))
			}
		})
		s.wantWhole(s.post("/v1/completions", prompt))
		s.eventually("the request is logged", func() bool { return len(accessLines(t, log)) == i+1 })
		want, names := value, any([]any{"max"})
		if value == "" {
			want, names = "8", nil
		}
		s.arrived.last(t).wantField(t, "max_tokens", want)
		if got := accessLines(t, log)[i]["mutations"]; !reflect.DeepEqual(got, names) {
			t.Errorf("the access log names the mutations %v, want %v", got, names)
		}
	}
	if got := s.series("ghostline_mutations_total"); len(got) != 0 {
		t.Errorf("%d series of mutations that are gone", len(got))
	}
}

// TestMutationOfANewerProxy: one that this proxy cannot use is left out and named,
// and the rest is served.
func TestMutationOfANewerProxy(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		mutate(c, "later", config.MutationMatch{}, bodyChange("Double", "max_tokens", "2"))
		mutate(c, "never", config.MutationMatch{}, bodyChange("Set", "max_tokens", `"many"`))
		mutate(c, "good", config.MutationMatch{}, bodyChange("Max", "max_tokens", "5"))
	}})
	s.complete()
	s.arrived.last(t).wantField(t, "max_tokens", "5")
	out := s.status().MutationsLeftOut
	if len(out) != 2 || out[0].Name != "later" || !strings.Contains(out[0].Problem, "mutations[0].body[0].op") ||
		out[1].Name != "never" || !strings.Contains(out[1].Problem, "mutations[1].body[0].value") {
		t.Errorf("left out are %+v", out)
	}
	s.wantLog("a mutation is left out", `"mutation":"later"`, "one of Set, Default")
}

// countsMutations has one of each result.
func countsMutations(t *testing.T) {
	s := start(t, setup{config: func(c *config.Config) {
		mutate(c, "cap", config.MutationMatch{}, bodyChange("Max", "max_tokens", "100"))
		mutate(c, "bias", config.MutationMatch{}, bodyChange("Set", "logit_bias.50256", "-100"))
	}})
	s.complete()
	s.wantMetric(1, "ghostline_mutations_total", "mutation", "cap", "result", "unchanged")
	s.post("/v1/completions", `{"model":"ghost-code","prompt":"a","max_tokens":101,"logit_bias":"odd"}`)
	s.wantMetric(1, "ghostline_mutations_total", "mutation", "cap", "result", "applied")
	s.wantMetric(1, "ghostline_mutations_total", "mutation", "bias", "result", "not_applicable")
	s.wantMetric(1, "ghostline_mutations_total", "mutation", "bias", "result", "applied")
	s.wantMetric(4, "ghostline_mutations_total")
}
