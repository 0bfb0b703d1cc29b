package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// fullMutations has every field set.
func fullMutations() []Mutation {
	share := 12.5
	return []Mutation{
		{
			Name: "stop-the-bad-token",
			Match: MutationMatch{
				Models: []string{"ghost-code"}, Variants: []string{"next"}, SubjectsPercent: &share,
				Clients: []ClientMatch{{Name: "copilot.vim", Versions: "<1.40.0"}},
			},
			Headers: []HeaderChange{{Op: OpSet, Name: "X-Team", Value: "editors & tools"}, {Op: OpAdd, Name: "x-flag", Value: "a"}, {Op: OpRemove, Name: "User-Agent"}},
			Body:    []BodyChange{{Op: OpSet, Path: "logit_bias.50256", Value: json.RawMessage(`-100`)}, {Op: OpRemove, Path: `extra.a\.b`}},
		},
		{
			Name: "other-ops",
			Body: []BodyChange{
				{Op: OpDefault, Path: "max_tokens", Value: json.RawMessage(`200`)}, {Op: OpMin, Path: "top_p", Value: json.RawMessage(`0.5`)},
				{Op: OpMax, Path: "max_tokens", Value: json.RawMessage(`500`)}, {Op: OpAppend, Path: "stop", Value: json.RawMessage(`"\n\n"`)},
				{Op: OpSet, Path: "metadata", Value: json.RawMessage(`{"a":[1,null]}`)},
			},
		},
	}
}

// TestValidateMutations spoils a good config in one way each. A proxy leaves such
// a mutation out, unless it cannot even be named.
func TestValidateMutations(t *testing.T) {
	header := func(change func(*HeaderChange)) func(*Config) {
		return func(c *Config) { change(&c.Mutations[0].Headers[0]) }
	}
	body := func(change func(*BodyChange)) func(*Config) {
		return func(c *Config) { change(&c.Mutations[1].Body[0]) }
	}
	value := func(op, value string) func(*Config) {
		return body(func(b *BodyChange) { b.Op, b.Value = op, json.RawMessage(value) })
	}
	match := func(change func(*MutationMatch)) func(*Config) {
		return func(c *Config) { change(&c.Mutations[0].Match) }
	}
	for _, tc := range []struct {
		path  string
		spoil func(*Config)
		right string
	}{
		{"mutations", func(c *Config) { c.Mutations = slices.Repeat(c.Mutations, 33) }, "at most 64"},
		{"mutations[1].name", func(c *Config) { c.Mutations[1].Name = "a b" }, "it must be 1 to 63 letters"},
		{"mutations[1].name", func(c *Config) { c.Mutations[1].Name = c.Mutations[0].Name }, "already the name of a mutation"},

		{"mutations[0]", func(c *Config) { c.Mutations[0].Headers, c.Mutations[0].Body = nil, nil }, "it must have headers or body"},
		{"mutations[0]", func(c *Config) { c.Mutations[0].Body = slices.Repeat(c.Mutations[0].Body, 7) }, "has 17 changes; at most 16"},
		{"mutations[0].match.models[0]", match(func(m *MutationMatch) { m.Models[0] = "ghost" }), "is no model"},
		{"mutations[0].match.models[0]", match(func(m *MutationMatch) { m.Models[0] = "copilot-codex" }), `name the model itself, "ghost-code"`},
		{"mutations[0].match.variants[0]", match(func(m *MutationMatch) { m.Variants[0] = "v1" }), "which have stable, next"},
		{"mutations[0].match.variants[0]", match(func(m *MutationMatch) { m.Models, m.Variants[0] = nil, "v2" }), "which have stable, next, v1"},
		{"mutations[0].match.clients", match(func(m *MutationMatch) { m.Clients = slices.Repeat(m.Clients, 17) }), "at most 16"},
		{"mutations[0].match.clients[0].name", match(func(m *MutationMatch) { m.Clients[0].Name = "" }), "is no client's name"},
		{"mutations[0].match.clients[0].versions", match(func(m *MutationMatch) { m.Clients[0].Versions = "old" }), "range"},
		{"mutations[0].match.subjectsPercent", match(func(m *MutationMatch) { *m.SubjectsPercent = -1 }), "it must be 0 to 100"},
		{"mutations[0].match.subjectsPercent", match(func(m *MutationMatch) { *m.SubjectsPercent = 100.5 }), "it must be 0 to 100"},

		{"mutations[0].headers[0].op", header(func(h *HeaderChange) { h.Op = OpMax }), "one of Set, Add, Remove"},
		{"mutations[0].headers[0].op", header(func(h *HeaderChange) { h.Op, h.Name = OpAdd, "user-agent" }), "user-agent has one value only; use Set"},
		{"mutations[0].headers[0].name", header(func(h *HeaderChange) { h.Name = "" }), "is no name of a header field"},
		{"mutations[0].headers[0].name", header(func(h *HeaderChange) { h.Name = ":path" }), "is no name of a header field"},
		{"mutations[0].headers[0].name", header(func(h *HeaderChange) { h.Name = "X Team" }), "is no name of a header field"},
		{"mutations[0].headers[0].name", header(func(h *HeaderChange) { h.Name = "X-Team\n" }), "is no name of a header field"},
		{"mutations[0].headers[0].name", header(func(h *HeaderChange) { h.Name = strings.Repeat("x", 129) }), "it must be 1 to 128"},
		{"mutations[0].headers[0].value", header(func(h *HeaderChange) { h.Value = "" }), "it must have 1 to 4096"},
		{"mutations[0].headers[0].value", header(func(h *HeaderChange) { h.Value = strings.Repeat("x", 4097) }), "it must have 1 to 4096"},
		{"mutations[0].headers[0].value", header(func(h *HeaderChange) { h.Value = "a\r\nHost: b" }), "visible ASCII"},
		{"mutations[0].headers[0].value", header(func(h *HeaderChange) { h.Value = "ä" }), "visible ASCII"},
		{"mutations[0].headers[0].value", header(func(h *HeaderChange) { h.Value = " a" }), "spaces only between"},
		{"mutations[0].headers[2].value", func(c *Config) { c.Mutations[0].Headers[2].Value = "a" }, "goes only with Set and Add"},

		{"mutations[1].body[0].op", body(func(b *BodyChange) { b.Op = OpAdd }), "one of Set, Default, Remove, Min, Max, Append"},
		{"mutations[1].body[0].path", body(func(b *BodyChange) { b.Path = "" }), "empty name"},
		{"mutations[1].body[0].path", body(func(b *BodyChange) { b.Path = "a..b" }), "empty name"},
		{"mutations[1].body[0].path", body(func(b *BodyChange) { b.Path = `a\b` }), "backslash"},
		{"mutations[1].body[0].path", body(func(b *BodyChange) { b.Path = strings.Repeat("x", 257) }), "at most 256"},
		{"mutations[1].body[0].path", body(func(b *BodyChange) { b.Path = strings.Repeat("x.", 16) + "x" }), "goes 17 objects deep; at most 16"},
		{"mutations[1].body[0].path", body(func(b *BodyChange) { b.Path = "model" }), "upstreamModel"},
		{"mutations[1].body[0].path", body(func(b *BodyChange) { b.Path = "Stream" }), "as the client asked for it"},
		{"mutations[1].body[0].path", body(func(b *BodyChange) { b.Path = "stream_options.include_usage" }), "the proxy sets it"},
		{"mutations[1].body[0].value", value(OpSet, ""), "is missing; it must be JSON"},
		{"mutations[1].body[0].value", value(OpRemove, "1"), "does not go with Remove"},
		{"mutations[1].body[0].value", value(OpMin, `"1"`), "is no number, which Min needs"},
		{"mutations[1].body[0].value", value(OpMax, `null`), "is no number, which Max needs"},
		{"mutations[1].body[0].value", value(OpMax, `1e999`), "is no number, which Max needs"},
		{"mutations[1].body[0].value", value(OpDefault, `null`), "use Set to set it"},
		{"mutations[1].body[0].value", value(OpSet, `"`+strings.Repeat("x", 16<<10)+`"`), "at most 16384"},
		{"mutations[1].body[0].value", value(OpSet, strings.Repeat("[", 17)+strings.Repeat("]", 17)), "nests at most 16 levels"},
	} {
		t.Run(tc.path+" "+tc.right, func(t *testing.T) {
			c := full()
			c.Mutations = fullMutations()
			tc.spoil(c)
			data, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			assertProblem(t, "strict", modes["strict"](data), tc.path, tc.right)
			if tc.path == "mutations" || strings.HasSuffix(tc.path, "].name") && strings.Count(tc.path, "[") == 1 {
				assertProblem(t, "lenient", modes["lenient"](data), tc.path, tc.right)
			} else if err := modes["lenient"](data); err != nil {
				t.Errorf("lenient: a mutation that can be left out is refused: %v", err)
			}
		})
	}
}

// TestOwnHeaders are those that a mutation could break a request by, or tell a
// secret with.
func TestOwnHeaders(t *testing.T) {
	for _, name := range []string{
		"Authorization", "API-KEY", "x-api-key", "Cookie", "Proxy-Authorization", "Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding",
		"Upgrade", "Host", "Content-Length", "content-type", "Content-Encoding", "Accept", "Accept-Encoding", "Expect", "X-Request-ID", "X-Conversation-Id",
	} {
		for _, op := range []string{OpSet, OpAdd, OpRemove} {
			h, p := HeaderChange{Op: op, Name: name}, new(problems)
			if op != OpRemove {
				h.Value = "x"
			}
			h.check(p, "h")
			if len(*p) != 1 || !strings.Contains((*p)[0].Error(), fmt.Sprintf("h.name: %s cannot be changed: ", name)) {
				t.Errorf("%s %s: %v", op, name, *p)
			}
		}
	}
}

// TestMutationsInYAML are values as a person writes them.
func TestMutationsInYAML(t *testing.T) {
	for text, want := range map[string]string{
		"-100": "-100", "0.5": "0.5", "'a'": `"a"`, `"\n"`: `"\n"`, "[1, a]": `[1,"a"]`, "{a: {b: true}}": `{"a":{"b":true}}`, "null": "null", "~": "null",
	} {
		c, err := Decode([]byte(least + "mutations:\n- {name: m, body: [{op: Set, path: a.50256, value: " + text + "}]}\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := string(c.Mutations[0].Body[0].Value); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}
