// Package alerts_test holds the rules for Prometheus, their runbooks and the dashboard
// to the metrics that there are, and tests what the rules do.
package alerts_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build builds a command of the module hack/promtool, which pins Prometheus without
// making it a dependency of Ghostline.
func build(t *testing.T, pkg string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), filepath.Base(pkg))
	// Without the service discoveries, which are most of what there is to compile.
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "remove_all_sd", "-o", file, pkg)
	cmd.Dir = "../../hack/promtool"
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s is not built: %v\n%s", pkg, err, out)
	}
	return file
}

// expression is what hack/promtool/expressions makes of one.
type expression struct {
	Error     string
	Selectors []struct {
		Metric   string
		Matchers []struct{ Label, Type, Value string }
	}
	Groupings []struct{ Labels, Metrics []string }
}

// reader parses expressions.
type reader struct {
	t    *testing.T
	file string
}

func newReader(t *testing.T) reader {
	t.Helper()
	return reader{t, build(t, "./expressions")}
}

func (r reader) read(texts ...string) (out []expression) {
	r.t.Helper()
	in, err := json.Marshal(texts)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), r.file)
	cmd.Stdin = bytes.NewReader(in)
	written, err := cmd.Output()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := json.Unmarshal(written, &out); err != nil {
		r.t.Fatal(err)
	}
	if len(out) != len(texts) {
		r.t.Fatalf("%d expressions were read, want %d", len(out), len(texts))
	}
	return out
}

// TestRules has Prometheus' own tool check the rules, and run their unit tests.
func TestRules(t *testing.T) {
	promtool := build(t, "github.com/prometheus/prometheus/cmd/promtool")
	tests, err := filepath.Glob("testdata/*.test.yaml")
	if err != nil || len(tests) == 0 {
		t.Fatalf("no unit tests of rules are in testdata: %v", err)
	}
	run := func(name string, args ...string) {
		t.Run(name, func(t *testing.T) {
			if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
				t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		})
	}
	run("check", "check", "rules", "--lint=all", "--lint-fatal", rulesFile)
	for _, file := range tests {
		run(filepath.Base(file), "test", "rules", file)
	}
}

// TestWrongExpressions are mistakes that the other tests are there to find.
func TestWrongExpressions(t *testing.T) {
	known, r := knownMetrics(t), newReader(t)
	for text, want := range map[string]string{
		`ghostline_requests_total{outcome=~"ok|timeout"}`:                                           "",
		`sum by (unit) (ghostline_unit_state{state="ejected"})`:                                     "",
		`ghostline_mirror_total{result="misconfigured"} + ghostline_mirror_total{result="dropped"}`: "",
		`ghostline_operator_route_condition{condition="Programmed"}`:                                "",
		`sum by (le) (rate(ghostline_first_byte_seconds_bucket[5m]))`:                               "",
		`sum by (`:                                                                     "parse error",
		`rate(ghostline_request_total[5m])`:                                            "there is no metric ghostline_request_total",
		`ghostline_inflight_sum`:                                                       "there is no metric ghostline_inflight_sum",
		`ghostline_requests_total{result="ok"}`:                                        "ghostline_requests_total has no label result",
		`ghostline_requests_total{outcome=~"ok|error"}`:                                "the label outcome of ghostline_requests_total is never error",
		`ghostline_unit_state{state="down"}`:                                           "the label state of ghostline_unit_state is never down",
		`ghostline_operator_route_condition{condition="Good"}`:                         "the label condition of ghostline_operator_route_condition is never Good",
		`sum by (le) (rate(ghostline_requests_total[5m]))`:                             "none of ghostline_requests_total has a label le",
		`ghostline_inflight / on (unit) group_left () ghostline_unit_state`:            "none of ghostline_inflight has a label unit",
		`ghostline_inflight * on (instance) group_left (version) ghostline_build_info`: "",
		`ghostline_inflight * on (instance) group_left (commit) ghostline_build_info`:  "none of ghostline_build_info, ghostline_inflight has a label commit",
	} {
		problems := strings.Join(known.check(r.read(text)[0]), "; ")
		if want == "" && problems != "" || !strings.Contains(problems, want) {
			t.Errorf("%s: the problems are %q, want %q", text, problems, want)
		}
	}
}
