package feature

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestReport16InterleavedChoices has the choices of one answer come in any order,
// alone and together: each event leaves as it came, and the end is that of all.
func TestReport16InterleavedChoices(t *testing.T) {
	both := strings.Replace(chunk(1, "d", "null"), `"choices":[`, `"choices":[{"index":0,"text":"e","finish_reason":null},`, 1)
	events := event(chunk(1, "a", "null")) + event(chunk(0, "b", "null")) + event(chunk(1, "c", "null")) + event(both) +
		event(chunk(1, "", `"length"`)) + event(chunk(0, "f", "null")) + event(chunk(0, "", `"stop"`))
	unit := newSwitched(says(events + event("[DONE]")))
	s := withUnit(t, unit)
	two := `{"n":2,` + prompt[1:]
	for name, parts := range map[string][]string{
		"with the mark": {events + event("[DONE]")}, "without it": {events}, "byte by byte": singleBytes(events + event("[DONE]")),
	} {
		unit.is(says(parts...))
		if got, want := s.post("/v1/completions", two), events+event("[DONE]"); got.err != nil || got.body != want {
			t.Errorf("%s: got %q, %v\nwant %q", name, got.body, got.err, want)
		}
	}
	var texts [2]string
	for _, e := range s.post("/v1/fim/completions", two).events() {
		for _, c := range gjson.Get(e, "choices").Array() {
			texts[c.Get("index").Int()] += c.Get("delta.content").String()
		}
	}
	if want := [2]string{"bef", "acd"}; texts != want {
		t.Errorf("in Mistral's form the choices are %q, want %q", texts, want)
	}
	// One of the choices has its end, the other not.
	unit.is(says(event(chunk(0, "a", "null")) + event(chunk(1, "b", "null")) + event(chunk(0, "", `"stop"`)) + event("[DONE]")))
	s.wantBroken(s.post("/v1/completions", two), event(chunk(0, "a", "null"))+event(chunk(1, "b", "null"))+event(chunk(0, "", `"stop"`)))
	s.outcomes("upstream_error", 1)
}

// TestReport16ChoicesKeepTheirIndices has several choices come in turn.
func TestReport16ChoicesKeepTheirIndices(t *testing.T) {
	s := start(t, setup{})
	texts, ends := map[int64]string{}, map[int64]string{}
	got := s.post("/v1/completions", `{"n":3,"temperature":1,"seed":3,`+prompt[1:])
	s.wantWhole(got)
	for _, e := range got.events() {
		for _, c := range gjson.Get(e, "choices").Array() {
			texts[c.Get("index").Int()] += c.Get("text").String()
			ends[c.Get("index").Int()] += c.Get("finish_reason").String()
		}
	}
	if indices := slices.Sorted(maps.Keys(texts)); !slices.Equal(indices, []int64{0, 1, 2}) {
		t.Fatalf("indices %v, want 0, 1 and 2", indices)
	}
	unary := s.post("/v1/completions", `{"n":3,"temperature":1,"seed":3,`+unaryPrompt[1:])
	for i, c := range gjson.Get(unary.body, "choices").Array() {
		index := c.Get("index").Int()
		if index != int64(i) || c.Get("text").String() != texts[index] || c.Get("finish_reason").String() != ends[index] {
			t.Errorf("choice %d is %s; streamed it was %q and ended by %q", i, c.Raw, texts[index], ends[index])
		}
	}
}

// TestAzureFilterChunks: what the content filter says, before, between and behind the
// text, is about the request. It goes to clients that ask for such chunks, and is the
// first byte of nothing.
func TestAzureFilterChunks(t *testing.T) {
	first := event(openAIFilter)
	offsets := event(`{"id":"","object":"","created":0,"model":"","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"check_offset":1},"content_filter_results":{}}]}`)
	text := event(strings.Replace(chunk(0, "a", "null"), `"index"`, `"content_filter_results":{},"index"`, 1))
	usage := event(`{"id":"cmpl-1","choices":[],` + metered + `}`)
	p := speakerNamed("Azure")
	unit := newSwitched(p.says(first+offsets, text+offsets+text, p.event(p.last)+offsets+usage+event("[DONE]")))
	s := p.start(t, overOne[0], unit)
	client, base := overH2C(s)
	if got, want := p.ask(s, client, base, prompt), text+text+p.gotEnd(); got.err != nil || got.body != want {
		t.Errorf("got %q, %v\nwant %q", got.body, got.err, want)
	}
	asks := `{"stream_options":{"include_usage":true},` + prompt[1:]
	want := created.ReplaceAllString(first+offsets+text+offsets+text+p.event(p.last)+offsets+usage+event("[DONE]"), `"created":1`)
	if got := p.ask(s, client, base, asks); got.err != nil || got.body != want {
		t.Errorf("asked for usage: got %q, %v\nwant %q", got.body, got.err, want)
	}
	s.outcomes("ok", 2)
	if kinds := s.metric("ghostline_tokens_total", "kind", "completion"); kinds != 14 {
		t.Errorf("metered %v completion tokens, want 14", kinds)
	}
	unit.is(p.says(first+offsets, offsets))
	p.ask(s, client, base, prompt).wantError(t, 502, "upstream_error")
	// The filter's end is an end.
	stopped := event(chunk(0, "", `"content_filter"`))
	unit.is(p.says(first + text + stopped + event("[DONE]")))
	if got := p.ask(s, client, base, prompt); got.err != nil || got.body != text+stopped+event("[DONE]") {
		t.Errorf("filtered: got %q, %v", got.body, got.err)
	}
}
