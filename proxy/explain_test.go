package proxy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// explained is a config with something of all that is explained.
func explained(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Decode([]byte(`
region: here
failover: [near]
tokens: {issuer: "https://i", audience: a, keySet: {file: there-is-none.json}, deniedSubjects: {file: nor-here}}
models:
- name: ghost-code
  aliases: [copilot-codex]
  variants: [{name: next, weight: 1, fallback: stable}, {name: stable, weight: 0}]
- name: one-answer
  variants: [{name: v1, weight: 1}]
units:
- {name: far, region: near, serves: ghost-code/next, provider: OpenAI, url: "https://far/v1/completions?key=hunter2", credential: far}
- {name: b, region: here, serves: ghost-code/next, provider: OpenAI, url: "https://b/v1/completions", credential: b}
- {name: a, region: here, serves: ghost-code/next, provider: OpenAI, url: "https://a/v1/completions", credential: a}
- {name: last, region: here, serves: ghost-code/next, provider: OpenAI, url: "https://last/v1/completions", priority: 1}
- {name: old, region: here, serves: ghost-code/stable, provider: AzureOpenAI, url: "https://old/completions", credential: old}
- {name: fim, region: here, serves: one-answer/v1, provider: Mistral, url: "https://fim/v1/fim/completions", credential: fim}
mutations:
- {name: bias, match: {variants: [next]}, body: [{op: Set, path: logit_bias.50256, value: -100}]}
- {name: vim, match: {clients: [{name: copilot.vim}]}, headers: [{op: Set, name: X-Team, value: vim}]}
- {name: nobody, match: {subjectsPercent: 0}, body: [{op: Set, path: a, value: 1}]}
- {name: elsewhere, match: {models: [one-answer]}, body: [{op: Set, path: a, value: 1}]}
- {name: never, body: [{op: Set, path: w, value: text}, {op: Max, path: w, value: 1}]}
- {name: idle, body: [{op: Max, path: max_tokens, value: 500}]}
clients:
- {match: {name: copilot.vim, versions: "<2"}, action: Warn, message: Update it., dryRun: true}
- {match: {name: copilot.vim, versions: "<1"}, action: Upgrade, message: Too old.}
limits: {maxBodyBytes: 1000}
`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func explain(t *testing.T, q Question) *Explanation {
	t.Helper()
	if q.Config = explained(t); q.Path == "" {
		q.Path = "/v1/completions"
	}
	e, err := Explain(q)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestExplain(t *testing.T) {
	header := map[string][]string{
		"Editor-Plugin-Version": {"copilot.vim/1.5"}, "User-Agent": {"node/20"}, "X-Request-Id": {"r-1"}, "Authorization": {"Bearer SECRET"}, "X-Team": {"mine"},
	}
	e := explain(t, Question{Header: header, Subject: "u-1", Body: []byte(`{"model":"copilot-codex","prompt":"a"}`)})
	if e.Refusal != nil || e.RequestID != "r-1" || e.Subject != "u-1" || e.Model != "ghost-code" || e.Variant != "next" ||
		!slices.Equal(e.Clients, []ExplainedClient{{"copilot.vim", "1.5"}, {"node", "20"}}) || e.ClientRule != nil || e.DryRun == nil || e.DryRun.Index != 0 {
		t.Errorf("%+v", e)
	}
	const units = "[{next here 0 [b a] map[]} {next here 1 [last] map[]} {next near 0 [far] map[]} {stable here 0 [old] map[]}]"
	if got := fmt.Sprint(e.Units); got != units {
		t.Errorf("units %s, want %s", got, units)
	}
	want := []ExplainedMutation{
		{"bias", "applied", ""}, {"vim", "applied", ""}, {"nobody", "not_matched", "the subject is not in its share"},
		{"elsewhere", "not_matched", "it is for other models or variants"}, {"never", "not_applicable", "w is no number"}, {"idle", "unchanged", ""},
	}
	if !slices.Equal(e.Mutations, want) {
		t.Errorf("mutations %v", e.Mutations)
	}
	const headers = "[{Accept application/json} {Accept-Encoding identity} {Authorization Bearer (the unit's credential)} " +
		"{Content-Type application/json} {User-Agent ghostline} {X-Request-Id r-1} {X-Team vim}]"
	if got := fmt.Sprint(e.Sent.Headers); got != headers {
		t.Errorf("headers %s\nwant    %s", got, headers)
	}
	if got := string(e.Sent.Body); e.Sent.Unit != "b" || e.Sent.URL != "https://b/v1/completions" || got != `{"model":"ghost-code","prompt":"a","logit_bias":{"50256":-100}}` {
		t.Errorf("%s gets %s %s", e.Sent.Unit, e.Sent.URL, got)
	}
}

// TestExplainIsTheSameEachTime although units alike are drawn.
func TestExplainIsTheSameEachTime(t *testing.T) {
	q := Question{Header: map[string][]string{"X-Request-Id": {"r-1"}}, Body: []byte(`{"model":"ghost-code","prompt":"a"}`)}
	first, err := json.Marshal(explain(t, q))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, err := json.Marshal(explain(t, q)); err != nil || string(again) != string(first) {
			t.Fatalf("%s\nthen %s, %v", first, again, err)
		}
	}
}

// TestExplainRefusal is each stage's no.
func TestExplainRefusal(t *testing.T) {
	for _, tc := range []struct {
		name     string
		question Question
		status   int
		message  string
	}{
		{"no JSON", Question{Body: []byte(`{`)}, 400, "not valid JSON"},
		{"too large", Question{Body: []byte(strings.Repeat(" ", 1001))}, 413, "1000"},
		{"no such model", Question{Body: []byte(`{"model":"x","prompt":"a"}`)}, 404, "ghost-code, one-answer"},
		{"too old", Question{Header: map[string][]string{"Editor-Plugin-Version": {"copilot.vim/0.5"}}, Body: []byte(`{"model":"ghost-code","prompt":"a"}`)}, 466, "Too old."},
		{"what no unit can do", Question{Body: []byte(`{"model":"one-answer","prompt":"a","n":2}`)}, 400, `"n" must be 1`},
	} {
		e := explain(t, tc.question)
		if e.Sent != nil || e.Refusal == nil || e.Refusal.Status != tc.status || !strings.Contains(e.Refusal.Message, tc.message) {
			t.Errorf("%s: %+v, sent %v", tc.name, e.Refusal, e.Sent)
		}
		if _, err := json.Marshal(e); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestExplainPassesOver: as in serving, a unit that cannot be asked is no end.
func TestExplainPassesOver(t *testing.T) {
	c := explained(t)
	for i, name := range []string{"b", "a"} {
		u := &c.Units[i+1]
		u.Provider, u.URL = config.ProviderMistral, "https://"+name+"/v1/fim/completions"
	}
	e, err := Explain(Question{Config: c, Path: "/v1/completions", Body: []byte(`{"model":"ghost-code","prompt":"a","n":2}`)})
	if err != nil {
		t.Fatal(err)
	}
	if e.Refusal != nil || e.Sent == nil || e.Sent.Unit != "last" || len(e.Units[0].Problems) != 2 || !strings.Contains(e.Units[0].Problems["b"], `"n" must be 1`) {
		t.Errorf("refused %v, sent to %+v, passed over %v", e.Refusal, e.Sent, e.Units)
	}
}

func TestExplainErrors(t *testing.T) {
	c := explained(t)
	if _, err := Explain(Question{Config: c, Path: "/v1/chat/completions"}); err == nil || !strings.Contains(err.Error(), "/v1/fim/completions") {
		t.Errorf("another path: %v", err)
	}
	c.Mutations[0].Body[0] = config.BodyChange{Op: "Set", Path: "n", Value: json.RawMessage("99")}
	if _, err := Explain(Question{Config: c, Path: "/v1/completions"}); err == nil || !strings.Contains(err.Error(), "mutations[0].body[0].value") {
		t.Errorf("a mutation that never applies: %v", err)
	}
}
