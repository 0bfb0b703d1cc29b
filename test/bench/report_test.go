package main

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testLanes() []*lane {
	named := func(name string) *competitor { return &competitor{name: name} }
	return []*lane{
		{competitor: named(nameDirect), rates: []float64{5000, 4000, 6000}, cancels: []time.Duration{40 * time.Microsecond}},
		{competitor: named(nameGhostline), costs: []float64{110, 330, 240}, rates: []float64{2000, 2100, 2200},
			firsts: []quantiles{{0.3, 1.2}, {0.4, 1.4}, {0.5, 1.3}}, cancels: []time.Duration{150 * time.Microsecond}, resident: 30.4},
		{competitor: named(nameReverseProxy), costs: []float64{100, 300, 200}, rates: []float64{2500},
			firsts: []quantiles{{0.25, 1.5}}, cancels: []time.Duration{140 * time.Microsecond}, resident: 15},
		{competitor: named(nameHAProxy), failure: errors.New("not installed: haproxy")},
		{competitor: named(nameNghttpx), costs: []float64{100}, rates: []float64{3000}, slow: errors.New("it does not keep up"), resident: 20},
	}
}

func TestTable(t *testing.T) {
	c := base()
	var out strings.Builder
	printHead(&out)
	printCell(&out, c, results(c, testLanes()))
	printNotes(&out, testLanes())
	const want = `
                                    CPU                   first byte added            cancel   memory
cell                             µs/req  ratio     req/s      p50   p99 ms      p50   p99 ms      MiB
------------------------------------------------------------------------------------------------------
base             direct               -      -      5000                 -      0.04    0.04        -
                 Ghostline          240   1.10      2100      0.40    1.30      0.15    0.15       30
                 ReverseProxy       200   1.00      2500      0.25    1.50      0.14    0.14       15
                 nghttpx            100   1.00      3000                 -                 -       20
                 HAProxy       left out: not installed: haproxy
                 nghttpx       first byte not taken: it does not keep up
`
	if diff := cmp.Diff(want, "\n"+out.String()); diff != "" {
		t.Errorf("the table differs (-want +got):\n%s", diff)
	}
}

func TestVerdict(t *testing.T) {
	all := results(base(), testLanes())
	var out strings.Builder
	printVerdict(&out, all)
	for _, want := range []string{
		"processor time against ReverseProxy: 1.10 (bar 1.10)", "first byte added, p99: 1.30 ms against 1.50 ms", "cancel, p99: 0.15 ms against 0.14 ms",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("said %q; want %q in it", out.String(), want)
		}
	}
	out.Reset()
	printVerdict(&out, all[:2])
	other := base()
	other.tls = true
	printVerdict(&out, results(other, testLanes()))
	if out.Len() > 0 {
		t.Errorf("compared with nothing, or not at the base: %q", out.String())
	}
}

// TestJSON holds the file to its form: fields, units and what is null.
func TestJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench.json")
	if err := writeJSON(file, results(base(), testLanes())); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	fields := []string{"cancel_ms", "cancels", "connections", "cpu_us_per_request", "events", "first_byte_added_ms", "name",
		"prompt_bytes", "requests_per_second", "rss_mb", "tls"}
	for _, r := range all {
		if got := slices.Sorted(maps.Keys(r)); !slices.Equal(got, fields) {
			t.Errorf("%v has %v; want %v", r["name"], got, fields)
		}
	}
	want := map[string]any{
		"name": "Ghostline", "tls": false, "events": 10.0, "prompt_bytes": 4096.0, "connections": 4.0, "cancels": 0.0,
		"cpu_us_per_request": 240.0, "requests_per_second": 2100.0, "rss_mb": 30.4,
		"first_byte_added_ms": map[string]any{"p50": 0.4, "p99": 1.3}, "cancel_ms": map[string]any{"p50": 0.15, "p99": 0.15},
	}
	if diff := cmp.Diff(want, all[1]); diff != "" {
		t.Errorf("Ghostline's differs (-want +got):\n%s", diff)
	}
	direct := all[0]
	for _, name := range []string{"cpu_us_per_request", "first_byte_added_ms", "rss_mb"} {
		if direct[name] != nil {
			t.Errorf("direct has a %s of %v; want null", name, direct[name])
		}
	}
	if all[3]["name"] != "nghttpx" || all[3]["first_byte_added_ms"] != nil || all[3]["cancel_ms"] != nil {
		t.Errorf("what was not measured is not null: %v", all[3])
	}
}
