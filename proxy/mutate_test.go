package proxy

import (
	"encoding/json"
	"log/slog"
	"math"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// withMutations is a proxy whose snapshot has two units, weu of the variant stable
// and next of the variant next, and these mutations.
func withMutations(t testing.TB, mutations ...config.Mutation) (*proxy, *snapshot) {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	s := testUnits(config.Unit{Name: "weu", Region: "here", Serves: "m/stable"}, config.Unit{Name: "next", Region: "here", Serves: "m/next"})
	s.config.Mutations = mutations
	(&loader{metrics: m}).addMutations(s)
	return &proxy{log: slog.New(slog.DiscardHandler), metrics: m}, s
}

// asked is a client's request as the stages before the tries leave it.
func (s *snapshot) asked(t testing.TB, variant, body string) *exchange {
	t.Helper()
	x := &exchange{
		snapshot: s, form: openAIForm{}, header: textproto.MIMEHeader{}, claims: &token.Claims{Subject: "u-1"}, body: []byte(body),
		variant: s.variant(variant), wanted: s.variant(variant),
	}
	if err := parseAsk(x.body, &x.ask); err != nil {
		t.Fatal(err)
	}
	return x
}

func change(op, path, value string) config.BodyChange {
	return config.BodyChange{Op: op, Path: path, Value: json.RawMessage(value)}
}

func changing(name string, body ...config.BodyChange) config.Mutation {
	return config.Mutation{Name: name, Body: body}
}

// TestBodyChanges is each op on a request, and what it counts as.
func TestBodyChanges(t *testing.T) {
	const keeps = `{"prompt":"a", "x":{ "1": 1e2 }`
	for _, tc := range []struct {
		name       string
		body       string // the client's, after keeps
		changes    []config.BodyChange
		want       string // after keeps
		result     mutationResult
		complaints string
	}{
		{"set", `}`, []config.BodyChange{change("Set", "logit_bias.50256", "-100")}, `,"logit_bias":{"50256":-100}}`, mutationApplied, ""},
		{"set in null", `,"logit_bias":null}`, []config.BodyChange{change("Set", "logit_bias.50256", "-100")}, `,"logit_bias":{"50256":-100}}`, mutationApplied, ""},
		{"set beside", `, "logit_bias" : {"1":2}}`, []config.BodyChange{change("Set", "logit_bias.50256", "-100")}, `, "logit_bias" : {"1":2,"50256":-100}}`, mutationApplied, ""},
		{"set again", `,"logit_bias":{"50256":-100}}`, []config.BodyChange{change("Set", "logit_bias.50256", "-100")}, "", mutationUnchanged, ""},
		{"set the same text", `,"user":"<a>"}`, []config.BodyChange{change("Set", "user", `"\u003ca\u003e"`)}, "", mutationUnchanged, ""},
		{"set a field twice there", `,"y":1,"z":0,"y":2}`, []config.BodyChange{change("Set", "y", "2")}, `,"y":2,"z":0}`, mutationApplied, ""},
		{"set in a text", `,"logit_bias":"x"}`, []config.BodyChange{change("Set", "logit_bias.50256", "-100")}, "", mutationNotApplicable, "logit_bias is no object"},
		{"set in a list", `,"y":[1]}`, []config.BodyChange{change("Set", "y.0", "2")}, "", mutationNotApplicable, "y is no object"},
		{"set null", `,"suffix":"b"}`, []config.BodyChange{change("Set", "suffix", "null")}, `,"suffix":null}`, mutationApplied, ""},

		{"default", `}`, []config.BodyChange{change("Default", "max_tokens", "200")}, `,"max_tokens":200}`, mutationApplied, ""},
		{"default of null", `,"max_tokens":null}`, []config.BodyChange{change("Default", "max_tokens", "200")}, `,"max_tokens":200}`, mutationApplied, ""},
		{"no default", `,"max_tokens":7}`, []config.BodyChange{change("Default", "max_tokens", "200")}, "", mutationUnchanged, ""},
		{"default of which", `,"y":1,"y":1}`, []config.BodyChange{change("Default", "y", "2")}, "", mutationNotApplicable, "y stands twice"},

		{"remove", `,"nwo":"a/b"}`, []config.BodyChange{change("Remove", "nwo", "")}, `}`, mutationApplied, ""},
		{"remove both", `,"y":1,"y":2}`, []config.BodyChange{change("Remove", "y", "")}, `}`, mutationApplied, ""},
		{"remove nothing", `}`, []config.BodyChange{change("Remove", "extra.language", "")}, "", mutationUnchanged, ""},

		{"max lowers", `,"max_tokens":500}`, []config.BodyChange{change("Max", "max_tokens", "200")}, `,"max_tokens":200}`, mutationApplied, ""},
		{"max of less", `,"max_tokens":2e2}`, []config.BodyChange{change("Max", "max_tokens", "200")}, "", mutationUnchanged, ""},
		{"max of nothing", `}`, []config.BodyChange{change("Max", "max_tokens", "200")}, "", mutationUnchanged, ""},
		{"max of null", `,"max_tokens":null}`, []config.BodyChange{change("Max", "max_tokens", "200")}, "", mutationUnchanged, ""},
		{"max of a text", `,"seed":"x"}`, []config.BodyChange{change("Max", "seed", "200")}, "", mutationNotApplicable, "seed is no number"},
		{"max of too much", `,"seed":1e999}`, []config.BodyChange{change("Max", "seed", "200")}, `,"seed":200}`, mutationApplied, ""},
		{"min raises", `,"top_p":0.1}`, []config.BodyChange{change("Min", "top_p", "0.5")}, `,"top_p":0.5}`, mutationApplied, ""},
		{"min of more", `,"top_p":0.5}`, []config.BodyChange{change("Min", "top_p", "0.5")}, "", mutationUnchanged, ""},

		{"append", `,"stop":["a"]}`, []config.BodyChange{change("Append", "stop", `"b"`)}, `,"stop":["a","b"]}`, mutationApplied, ""},
		{"append to nothing", `}`, []config.BodyChange{change("Append", "stop", `"b"`)}, `,"stop":["b"]}`, mutationApplied, ""},
		{"append to null", `,"stop":null}`, []config.BodyChange{change("Append", "stop", `"b"`)}, `,"stop":["b"]}`, mutationApplied, ""},
		{"append to a text", `,"stop":"a"}`, []config.BodyChange{change("Append", "stop", `"b"`)}, `,"stop":["a","b"]}`, mutationApplied, ""},
		{"append what is there", `,"stop":["\u0062"]}`, []config.BodyChange{change("Append", "stop", `"b"`)}, "", mutationUnchanged, ""},
		{"append the same text", `,"stop":"b"}`, []config.BodyChange{change("Append", "stop", `"b"`)}, "", mutationUnchanged, ""},
		{"append to another text", `,"user":"a"}`, []config.BodyChange{change("Append", "user", `"b"`)}, "", mutationNotApplicable, "user is no list"},
		{"append to a number", `,"stop_token_ids":1}`, []config.BodyChange{change("Append", "stop_token_ids", `2`)}, "", mutationNotApplicable, "stop_token_ids is no list"},
		{"append one too many", `,"stop":["` + strings.Repeat(`a","`, 15) + `"]}`, []config.BodyChange{change("Append", "stop", `"b"`)}, "", mutationNotApplicable, `the field "stop" must be text`},

		{"too many answers", `,"n":16}`, []config.BodyChange{change("Set", "prompt", `["a","b","c","d","e"]`)}, "", mutationNotApplicable, "is 80; it must be at most 64"},
		{"all or nothing", `,"max_tokens":500,"y":1}`, []config.BodyChange{change("Max", "max_tokens", "200"), change("Set", "y.x", "1")}, "", mutationNotApplicable, "y is no object"},
		{"one after the other", `,"max_tokens":500}`, []config.BodyChange{change("Remove", "max_tokens", ""), change("Default", "max_tokens", "3")}, `,"max_tokens":3}`, mutationApplied, ""},
		{"there and back", `,"y":1}`, []config.BodyChange{change("Set", "y", "2"), change("Set", "y", "1")}, "", mutationUnchanged, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, s := withMutations(t, changing("m", tc.changes...))
			if problem := s.mutations[0].problem; problem != "" {
				t.Fatal(problem)
			}
			x := s.asked(t, "stable", keeps+tc.body)
			x.unit = s.unit("weu")
			before := x.ask
			want := tc.want
			if want == "" {
				want = tc.body
			}
			if got := string(p.mutate(x)); got != keeps+want {
				t.Errorf("%s\nbecame %s\nwant   %s", keeps+tc.body, got, keeps+want)
			}
			met := x.mutated.met[0]
			if met.result != tc.result || (met.err == nil) != (tc.complaints == "") || met.err != nil && !strings.Contains(met.err.Error(), tc.complaints) {
				t.Errorf("it is %s, %v; want %s, %s", met.result, met.err, tc.result, tc.complaints)
			}
			if tc.result != mutationApplied && x.ask != before {
				t.Errorf("the proxy's view is %+v, was %+v", x.ask, before)
			}
			for _, result := range mutationResults {
				want := 0.0
				if result == tc.result {
					want = 1
				}
				if got := testutil.ToFloat64(s.mutations[0].results[result]); got != want {
					t.Errorf("%v are %s, want %v", got, result, want)
				}
			}
			if string(x.body) != keeps+tc.body {
				t.Errorf("the client's request became %s", x.body)
			}
		})
	}
}

// TestMutationsThatNeverApply are left out: each request would be one that the
// proxy itself refuses.
func TestMutationsThatNeverApply(t *testing.T) {
	for _, tc := range []struct {
		change config.BodyChange
		want   string
	}{
		{change("Set", "max_tokens", `"many"`), `mutations[1].body[0].value: the field "max_tokens" must be a whole number from 1`},
		{change("Default", "temperature", "3"), `mutations[1].body[0].value: the field "temperature" must be a number from 0 to 2`},
		{change("Set", "Max_Tokens", "3"), `mutations[1].body[0].path: the field "Max_Tokens" must be written "max_tokens"`},
		{change("Set", "n", "17"), `mutations[1].body[0].value: the field "n" must be a whole number from 1 to 16`},
		{change("Max", "max_tokens", "0"), `mutations[1].body[0].value: the field "max_tokens" must be a whole number from 1`},
		{change("Min", "n", "2.5"), `mutations[1].body[0].value: the field "n" must be a whole number from 1 to 16`},
		{change("Min", "suffix", "1"), `mutations[1].body[0].value: the field "suffix" must be text`},
		{change("Append", "stop", "1"), `mutations[1].body[0].value: the field "stop" must be text, or a list`},
		{change("Append", "max_tokens", "1"), `mutations[1].body[0].value: the field "max_tokens" must be a whole number from 1`},
		{change("Remove", "prompt", ""), `mutations[1].body[0].path: the field "prompt" cannot be removed`},
		{change("Set", "stop.0", `"x"`), `mutations[1].body[0].path: the field "stop" must be text, or a list of up to 16 texts, which has no fields within it`},
		{change("Set", "model", `"x"`), `mutations[1].body[0].path: the field "model" cannot be changed`},
	} {
		_, s := withMutations(t, changing("good", change("Set", "a", "1")), changing("bad", tc.change))
		if got := s.mutations[1].problem; !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s %s %s: %q, want %q", tc.change.Op, tc.change.Path, tc.change.Value, got, tc.want)
		}
		if on := s.variant("stable").mutations; len(on) != 1 || on[0].name != "good" {
			t.Errorf("the variant has %d mutations", len(on))
		}
	}
}

// TestTheProxysViewFollows: how the answer is read goes by what the unit is asked
// for, and only for the variant whose mutation it is.
func TestTheProxysViewFollows(t *testing.T) {
	next := changing("next", change("Set", "n", "3"), change("Set", "temperature", "0"))
	next.Match.Variants = []string{"next"}
	stable := changing("stable", change("Set", "prompt", `["a","b"]`))
	stable.Match.Variants = []string{"stable"}
	p, s := withMutations(t, next, stable)
	x := s.asked(t, "next", `{"model":"m","prompt":"a","stream":true,"stream_options":{"include_usage":true}}`)
	client := x.ask
	for _, tc := range []struct {
		variant, unit   string
		answers, counts int
		exact           bool
	}{
		{"next", "next", 3, 1, true}, {"next", "next", 3, 1, true}, {"stable", "weu", 2, 1, false}, {"next", "next", 3, 1, true},
	} {
		x.variant, x.unit = s.variant(tc.variant), s.unit(tc.unit)
		x.tried = append(x.tried, x.unit)
		p.mutate(x)
		if x.ask.answers() != tc.answers || x.ask.exact != tc.exact || !x.ask.stream || !x.ask.usage || x.ask.model != "m" || x.mutated.ask != client {
			t.Errorf("%s: %+v; the client's %+v", tc.variant, x.ask, x.mutated.ask)
		}
		if got := len(x.mutated.met); got != 1 || x.mutated.met[0].name != tc.variant {
			t.Errorf("%s: %d mutations", tc.variant, got)
		}
	}
	// Each counts once, although next was tried anew after its fallback.
	for _, m := range s.mutations {
		if got := testutil.ToFloat64(m.results[mutationApplied]); got != 1 {
			t.Errorf("%s counts as applied %v times", m.name, got)
		}
	}
}

// TestMutationsMeet is which requests a mutation is for.
func TestMutationsMeet(t *testing.T) {
	some, none := 50.0, 0.0
	vim := []config.ClientMatch{{Name: "copilot.vim", Versions: "<1.40.0"}, {Name: "Zed"}}
	for _, tc := range []struct {
		name  string
		match config.MutationMatch
		make  func(x *exchange)
		want  bool
	}{
		{"all", config.MutationMatch{}, func(*exchange) {}, true},
		{"the model", config.MutationMatch{Models: []string{"m"}}, func(*exchange) {}, true},
		{"the variant", config.MutationMatch{Models: []string{"m"}, Variants: []string{"stable"}}, func(*exchange) {}, true},
		{"another variant", config.MutationMatch{Variants: []string{"next"}}, func(*exchange) {}, false},
		{"an old client", config.MutationMatch{Clients: vim}, func(x *exchange) { x.header.Set("Editor-Plugin-Version", "copilot.vim/1.39.9") }, true},
		{"a new client", config.MutationMatch{Clients: vim}, func(x *exchange) { x.header.Set("Editor-Plugin-Version", "copilot.vim/1.40.0") }, false},
		{"another client of the list", config.MutationMatch{Clients: vim}, func(x *exchange) { x.header.Set("User-Agent", "zed/0.1") }, true},
		{"a client that says nothing", config.MutationMatch{Clients: vim}, func(*exchange) {}, false},
		{"no subjects", config.MutationMatch{SubjectsPercent: &none}, func(*exchange) {}, false},
		{"a probe", config.MutationMatch{}, func(x *exchange) { x.isProbe, x.claims, x.header = true, nil, nil }, true},
		{"a probe has no client", config.MutationMatch{Clients: vim}, func(x *exchange) { x.isProbe, x.claims, x.header = true, nil, nil }, false},
		{"a probe has no subject", config.MutationMatch{SubjectsPercent: &some}, func(x *exchange) { x.isProbe, x.claims, x.header = true, nil, nil }, false},
		{"a copy", config.MutationMatch{Clients: vim}, func(x *exchange) {
			x.isMirror, x.header, x.programs = true, nil, []clientInfo{newClientInfo("Zed", "1")}
		}, true},
	} {
		p, s := withMutations(t, config.Mutation{Name: "m", Match: tc.match, Body: []config.BodyChange{change("Set", "y", "1")}})
		if problem := s.mutations[0].problem; problem != "" {
			t.Fatalf("%s: %s", tc.name, problem)
		}
		x := s.asked(t, "stable", `{"prompt":"a"}`)
		x.unit = s.unit("weu")
		tc.make(x)
		if got := string(p.mutate(x)) == `{"prompt":"a","y":1}`; got != tc.want {
			t.Errorf("%s: it met the request: %t, want %t", tc.name, got, tc.want)
		}
		counted := testutil.ToFloat64(s.mutations[0].results[mutationApplied])
		if want := tc.want && !x.isProbe; (counted == 1) != want {
			t.Errorf("%s: counted %v times", tc.name, counted)
		}
	}
}

// TestSubjectsPercent: the share holds, the same subjects stay in it as it grows,
// and two mutations share no more subjects than chance has it.
func TestSubjectsPercent(t *testing.T) {
	x, both := &exchange{claims: &token.Claims{}}, 0
	for i := range manySubjects {
		x.claims.Subject = subject(i)
		if x.misses(&mutation{name: "a", share: .3}) == "" && x.misses(&mutation{name: "a", share: .31}) != "" {
			t.Fatalf("%s left as the share grew", x.claims.Subject)
		}
		if x.misses(&mutation{name: "a", share: .3}) == "" && x.misses(&mutation{name: "b", share: .5}) == "" {
			both++
		}
	}
	if !within(both, manySubjects, .3*.5) {
		t.Errorf("%d of %d subjects are in both", both, manySubjects)
	}
	for _, share := range []float64{0, .001, .25, .999, 1} {
		in := 0
		for i := range manySubjects {
			x.claims.Subject = subject(i)
			if x.misses(&mutation{name: "a", share: share}) == "" {
				in++
			}
		}
		if !within(in, manySubjects, share) {
			t.Errorf("%d of %d subjects are in a share of %v", in, manySubjects, share)
		}
	}
}

// TestMutationsInOrder: each finds what the ones before made, and one that cannot
// be applied stops none.
func TestMutationsInOrder(t *testing.T) {
	p, s := withMutations(t,
		changing("default", change("Default", "max_tokens", "900")),
		changing("broken", change("Set", "max_tokens", "1"), change("Set", "y.x", "1"), change("Append", "y", "1")),
		changing("cap", change("Max", "max_tokens", "200")),
	)
	x := s.asked(t, "stable", `{"prompt":"a"}`)
	x.unit = s.unit("weu")
	if got := string(p.mutate(x)); got != `{"prompt":"a","max_tokens":200}` {
		t.Error(got)
	}
	var results []mutationResult
	for _, met := range x.mutated.met {
		results = append(results, met.result)
	}
	if !slices.Equal(results, []mutationResult{mutationApplied, mutationNotApplicable, mutationApplied}) {
		t.Error(results)
	}
}

// TestNoMutationCostsNothing holds for requests that none is for.
func TestNoMutationCostsNothing(t *testing.T) {
	half := math.SmallestNonzeroFloat64
	other := changing("other", change("Set", "y", "1"))
	other.Match.Variants = []string{"next"}
	share := changing("share", change("Set", "y", "1"))
	share.Match.SubjectsPercent = &half
	p, s := withMutations(t, other, share)
	x := s.asked(t, "stable", `{"prompt":"a"}`)
	x.unit = s.unit("weu")
	if n := testing.AllocsPerRun(100, func() {
		x.mutated = mutated{}
		p.mutate(x)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMutate(b *testing.B) {
	p, s := withMutations(b,
		changing("cap", change("Max", "max_tokens", "200")),
		changing("bias", change("Set", "logit_bias.50256", "-100")),
		changing("stop", change("Append", "stop", `"\n\n"`)),
	)
	benchSizes(b, func(b *testing.B, body []byte) {
		x := s.asked(b, "stable", string(body))
		x.unit = s.unit("weu")
		for b.Loop() {
			x.mutated = mutated{}
			p.mutate(x)
		}
	})
}

// FuzzMutate holds that what goes on is a request that the proxy would take from a
// client, that it is what the proxy believes it to be, and that one to which a
// mutation is not applicable is as it was.
func FuzzMutate(f *testing.F) {
	for _, op := range []string{"Set", "Default", "Remove", "Min", "Max", "Append"} {
		for _, path := range []string{"n", "stop", "prompt", "x.y", "temperature"} {
			f.Add([]byte(`{"model":"m","prompt":["a"],"n":2,"stop":"x","x":{"y":1},"temperature":0.5}`), op, path, []byte(`7`), "suffix", []byte(`"b"`))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, op, path string, value []byte, then string, thenValue []byte) {
		if parseAsk(body, new(ask)) != nil || !json.Valid(value) || !json.Valid(thenValue) {
			return
		}
		if op == config.OpRemove {
			value = nil
		}
		p, s := withMutations(t, changing("m", change(op, path, string(value)), change("Set", then, string(thenValue))))
		if s.mutations[0].problem != "" {
			return
		}
		x := s.asked(t, "stable", string(body))
		x.unit = s.unit("weu")
		got := p.mutate(x)
		want := ask{}
		if err := parseAsk(got, &want); err != nil {
			t.Fatalf("%s %s %s made %q, which is refused: %v", op, path, value, got, err)
		}
		if x.ask != want {
			t.Errorf("%q is taken for %+v, want %+v", got, x.ask, want)
		}
		if x.mutated.met[0].result != mutationApplied && string(got) != string(body) {
			t.Errorf("%q became %q, although it is %s", body, got, x.mutated.met[0].result)
		}
	})
}
