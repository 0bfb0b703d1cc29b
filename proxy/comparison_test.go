package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func transcriptOf(choices ...string) *transcript {
	var t transcript
	for _, text := range choices {
		t.choices = append(t.choices, []byte(text))
		t.size += len(text)
	}
	return &t
}

func TestAgreement(t *testing.T) {
	for _, tc := range []struct {
		name string
		a, b []string
		want float64
	}{
		{"equal", []string{"abcd"}, []string{"abcd"}, 1},
		{"nothing at all", nil, nil, 1},
		{"empty", []string{""}, []string{""}, 1},
		{"empty, and no choice", []string{""}, nil, 1},
		{"one says nothing", []string{"abcd"}, []string{""}, 0},
		{"a half", []string{"abcd"}, []string{"abXd"}, .5},
		{"one is longer", []string{"abcd"}, []string{"ab"}, .5},
		{"from the first byte on", []string{"abcd"}, []string{"Xbcd"}, 0},
		{"what comes after a difference does not count", []string{"aXcd"}, []string{"abcd"}, .25},
		{"multibyte, equal", []string{"héß→"}, []string{"héß→"}, 1},
		{"multibyte, alike in the first byte of a character", []string{"é"}, []string{"è"}, .5},
		{"several choices", []string{"ab", "cd"}, []string{"ab", "cX"}, .75},
		{"choices in another order", []string{"ab", "cd"}, []string{"cd", "ab"}, 0},
		{"a choice is missing", []string{"ab", "cd"}, []string{"ab"}, .5},
		{"an empty choice is missing", []string{"ab", ""}, []string{"ab"}, 1},
		{"unequal lengths weigh", []string{"a", "bbb"}, []string{"a", "ccc"}, .25},
	} {
		a, b := transcriptOf(tc.a...), transcriptOf(tc.b...)
		if got, turned := agreement(a, b), agreement(b, a); got != tc.want || turned != tc.want {
			t.Errorf("%s: %v, turned round %v; want %v", tc.name, got, turned, tc.want)
		}
	}
}

func TestTranscript(t *testing.T) {
	for _, tc := range []struct {
		name   string
		events []string
		want   []string
	}{
		{"events follow each other", []string{`{"choices":[{"index":0,"text":"a"}]}`, `{"choices":[{"index":0,"text":"b"}]}`}, []string{"ab"}},
		{"choices in turn", []string{`{"choices":[{"index":1,"text":"b"},{"index":0,"text":"a"}]}`, `{"choices":[{"index":1,"text":"c"}]}`}, []string{"a", "bc"}},
		{"no index", []string{`{"choices":[{"text":"a"}]}`}, []string{"a"}},
		{"escapes", []string{`{"choices":[{"index":0,"text":"\u00e9\n\ud83d\ude00"}]}`}, []string{"é\n😀"}},
		{"nothing to say", []string{`{"choices":[]}`, `{"usage":{}}`, `{"choices":[{"index":0,"text":null}]}`}, []string{""}},
		{"an index beyond all bounds", []string{`{"choices":[{"index":1e18,"text":"a"}]}`}, append(make([]string, maxAnswers-1), "a")},
		{"an index below all bounds", []string{`{"choices":[{"index":-1,"text":"a"}]}`}, []string{"a"}},
	} {
		var got transcript
		for _, e := range tc.events {
			got.add([]byte(e))
		}
		if fmt.Sprintf("%q", got.choices) != fmt.Sprintf("%q", tc.want) || got.size != len(strings.Join(tc.want, "")) {
			t.Errorf("%s: %q, size %d; want %q", tc.name, got.choices, got.size, tc.want)
		}
	}
}

// TestTranscriptIsBounded: of an answer that is too long nothing is kept.
func TestTranscriptIsBounded(t *testing.T) {
	var long transcript
	event := []byte(`{"choices":[{"index":0,"text":"` + strings.Repeat("x", 1<<10) + `"}]}`)
	for range maxTranscript >> 10 {
		long.add(event)
	}
	if long.tooLong() || len(long.choices[0]) != maxTranscript {
		t.Fatalf("as long as it may be: %d bytes, too long: %t", long.size, long.tooLong())
	}
	for range 1000 {
		long.add(event)
	}
	if !long.tooLong() || long.choices != nil {
		t.Errorf("a longer one is kept: %d choices", len(long.choices))
	}
}

// comparing is a comparison, and the registry of its metrics.
func comparing(t *testing.T) (*comparison, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	vecs := newMirrorVecs()
	if err := register(registry, vecs.collectors()...); err != nil {
		t.Fatal(err)
	}
	_, cancel := context.WithCancel(t.Context())
	return &comparison{mirror: &mirror{metrics: vecs.of("m", "stable", "next")}, cancel: cancel}, registry
}

// sums are the counters by name and last label, and the histograms' sums.
func sums(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "ghostline_mirror_")
			for _, label := range m.GetLabel() {
				if label.GetName() == "result" || label.GetName() == "side" {
					name += " " + label.GetValue()
				}
			}
			if family.GetType() == dto.MetricType_HISTOGRAM {
				got[name+" n"] = float64(m.GetHistogram().GetSampleCount())
				got[name] = m.GetHistogram().GetSampleSum()
			} else {
				got[name] = m.GetCounter().GetValue()
			}
		}
	}
	return got
}

// TestComparison compares two answers, whichever ends first.
func TestComparison(t *testing.T) {
	asked := time.Now()
	side := func(exact bool, firstByte time.Duration, text *transcript) *exchange {
		return &exchange{ask: ask{exact: exact}, asked: asked, firstByte: asked.Add(firstByte), transcript: text}
	}
	long, both := &transcript{size: maxTranscript + 1}, [2]bool{true, true}
	for _, tc := range []struct {
		name              string
		exact             [2]bool
		primary, mirrored *transcript
		want              map[string]float64
	}{
		{"equal", both, transcriptOf("ab"), transcriptOf("ab"), map[string]float64{
			"compared_total equal": 1, "agreement": 1, "agreement n": 1, "length_bytes primary": 2, "length_bytes mirror": 2}},
		{"different", both, transcriptOf("abcd"), transcriptOf("ab"), map[string]float64{
			"compared_total different": 1, "agreement": .5, "agreement n": 1, "length_bytes primary": 4, "length_bytes mirror": 2}},
		{"sampled", [2]bool{}, transcriptOf("abcd"), transcriptOf("x"), map[string]float64{
			"compared_total sampled": 1, "length_bytes primary": 4, "length_bytes mirror": 1}},
		{"the user's is sampled", [2]bool{false, true}, transcriptOf("a"), transcriptOf("a"), map[string]float64{
			"compared_total sampled": 1, "length_bytes primary": 1, "length_bytes mirror": 1}},
		{"the copy's is sampled", [2]bool{true, false}, transcriptOf("a"), transcriptOf("a"), map[string]float64{
			"compared_total sampled": 1, "length_bytes primary": 1, "length_bytes mirror": 1}},
		{"the user's is too long", both, long, transcriptOf("x"), nil},
		{"the copy's is too long", both, transcriptOf("x"), long, nil},
	} {
		for _, mirrorFirst := range []bool{false, true} {
			c, registry := comparing(t)
			ends := []func(){
				func() { c.over(&c.primary, side(tc.exact[0], time.Second, tc.primary)) },
				func() { c.over(&c.mirrored, side(tc.exact[1], 3*time.Second, tc.mirrored)) },
			}
			if mirrorFirst {
				ends[0], ends[1] = ends[1], ends[0]
			}
			ends[0]()
			for name, n := range sums(t, registry) {
				if n != 0 {
					t.Errorf("%s: %s is %v after one of the answers", tc.name, name, n)
				}
			}
			ends[1]()
			got := sums(t, registry)
			for _, name := range []string{"compared_total equal", "compared_total different", "compared_total sampled", "agreement", "agreement n",
				"length_bytes primary", "length_bytes mirror"} {
				if got[name] != tc.want[name] {
					t.Errorf("%s, mirror first: %t: %s is %v, want %v", tc.name, mirrorFirst, name, got[name], tc.want[name])
				}
			}
			if got["first_byte_seconds primary"] != 1 || got["first_byte_seconds mirror"] != 3 {
				t.Errorf("%s: first bytes after %v and %v, want 1 and 3", tc.name, got["first_byte_seconds primary"], got["first_byte_seconds mirror"])
			}
		}
	}
}
