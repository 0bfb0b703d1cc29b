package feature

import (
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// h2specPath is asked by all of h2spec's cases. What they send has no token, so
// they get a 405 or a 401, with a body that is long enough for each of them.
const h2specPath = "/v1/completions"

// deviations are the cases of h2spec that fail, each with its reason.
var deviations = map[string]string{
	// The case sends HEADERS of 17 KiB without looking at the limit that it was
	// given, which is 1 MiB: golang.org/issue/25023, and number 102 of h2spec.
	"http2/4.2/3": "not over our SETTINGS_MAX_FRAME_SIZE",
	// RFC 9113, section 6.5.3, has repeated values take effect one after the
	// other. x/net takes the repetition for an attack and ends the connection
	// with PROTOCOL_ERROR: golang.org/issue/56760.
	"http2/6.5.3/1": "a setting twice in one frame",
	// Such requests are malformed, says RFC 9113 in section 8.2.2, and wants
	// their streams reset. x/net answers them with 400, which section 8.1.1
	// allows, and then resets nothing: golang.org/issue/26321.
	"http2/8.1.2.2/1": "a Connection field",
	"http2/8.1.2.2/2": "a TE field that is not trailers",
}

// deviationsInTheClear are those of the listener that speaks HTTP/1.1 too.
var deviationsInTheClear = map[string]string{
	// RFC 9113, section 3.4: what does not begin with the preface is not
	// HTTP/2, so it gets HTTP/1.1's 400 before the end. The case looks for
	// frames: number 112 of h2spec.
	"http2/3.5/2": "an invalid preface",
}

// TestH2Spec runs the conformance tests of h2spec against both listeners. A
// case that fails and one that no longer does are both news.
func TestH2Spec(t *testing.T) {
	s := start(t, setup{})
	command := buildH2Spec(t)
	inTheClear := maps.Clone(deviations)
	maps.Copy(inTheClear, deviationsInTheClear)
	for name, run := range map[string]h2spec{
		"TLS":          {command: command, base: s.tlsURL, known: deviations},
		"in the clear": {command: command, base: s.plainURL, known: inTheClear},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run.check(t)
		})
	}
}

func buildH2Spec(t *testing.T) string {
	t.Helper()
	command := filepath.Join(t.TempDir(), "h2spec")
	build := exec.CommandContext(t.Context(), "go", "build", "-modfile=hack/tools/go.mod", "-o", command, "github.com/summerwind/h2spec/cmd/h2spec")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building h2spec: %v\n%s", err, out)
	}
	return command
}

// h2spec is a run against one listener.
type h2spec struct {
	command, base string
	known         map[string]string
}

// verdicts are what h2spec found, by case: empty if it passed.
type verdicts map[string]string

func (h h2spec) check(t *testing.T) {
	t.Helper()
	got := h.run(t)
	if len(got) < 140 {
		t.Errorf("h2spec ran %d cases, want at least 140", len(got))
	}
	for id := range h.known {
		if _, ok := got[id]; !ok {
			t.Errorf("h2spec has no case %s", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if what := got[id]; h.news(id, what) && h.again(t, id) {
			if what == "" {
				t.Errorf("%s passes: it is no deviation any more (%s)", id, h.known[id])
			} else {
				t.Errorf("%s fails: %s", id, what)
			}
		}
	}
}

func (h h2spec) news(id, what string) bool {
	_, known := h.known[id]
	return known == (what == "")
}

// again is true if a verdict that is news stays so. Some cases send more for a
// stream that is answered already, and what comes first is a matter of chance;
// others wait for a time that may be too short on a busy machine.
func (h h2spec) again(t *testing.T, id string) bool {
	t.Helper()
	for range 5 {
		if what, ran := h.run(t, id)[id]; ran && !h.news(id, what) {
			return false
		}
	}
	return true
}

// run runs the cases with these ids, or all.
func (h h2spec) run(t *testing.T, ids ...string) verdicts {
	t.Helper()
	at, err := url.Parse(h.base)
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.xml")
	args := append([]string{"--host", at.Hostname(), "--port", at.Port(), "--path", h2specPath, "--strict", "--junit-report", report}, ids...)
	if at.Scheme == "https" {
		args = append(args, "--tls", "--insecure")
	}
	// That cases failed is its exit status 1.
	out, err := exec.CommandContext(t.Context(), h.command, args...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	data, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("h2spec left no report: %v\n%s", err, out)
	}
	got, err := readReport(data, ids)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// readReport reads a report of all cases, or of one by its id. A case's number
// in its section is not in the report, but its place there is.
func readReport(data []byte, ids []string) (verdicts, error) {
	var report struct {
		Sections []struct {
			ID    string `xml:"package,attr"`
			Cases []struct {
				Name    string    `xml:"classname,attr"`
				Skipped *struct{} `xml:"skipped"`
				Failure *string   `xml:"failure"`
				Error   *string   `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(data, &report); err != nil {
		return nil, err
	}
	got := verdicts{}
	for _, section := range report.Sections {
		for i, c := range section.Cases {
			id := fmt.Sprintf("%s/%d", section.ID, i+1)
			if len(ids) == 1 {
				id = ids[0]
			}
			got[id] = ""
			for _, fault := range []*string{c.Failure, c.Error} {
				if fault != nil {
					got[id] = c.Name + ": " + *fault
				}
			}
			if c.Skipped != nil {
				got[id] = c.Name + ": skipped"
			}
		}
	}
	return got, nil
}
