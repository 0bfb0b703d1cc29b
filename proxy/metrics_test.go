package proxy

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestLabelValuesAreDocumented holds the page of the metrics to the lists that
// the labels' values come from. That it has all names, labels and meanings is
// tested in test/docs.
func TestLabelValuesAreDocumented(t *testing.T) {
	const page = "../docs/metrics.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		metric, label string
		values        []any
	}{
		{"ghostline_requests_total", "outcome", list(outcomes)},
		{"ghostline_cancelled_total", "phase", list(phases)},
		{"ghostline_unit_state", "state", list(unitStates)},
		{"ghostline_unit_attempts_total", "result", list(attemptResults)},
		{"ghostline_client_requests_total", "client", append(list(wellKnown), otherLabel)},
		{"ghostline_client_requests_total", "action", []any{actionAllow, actionWarn, actionUpgrade, actionWarnDryRun, actionUpgradeDryRun}},
		{"ghostline_auth_total", "result", []any{authOK, authMissing, authInvalid, authExpired}},
		{"ghostline_tokens_total", "kind", []any{tokensPrompt, tokensCompletion, tokensUnmetered}},
		{"ghostline_spill_total", "reason", []any{spillFull, spillCooling, spillEjected, spillUnreachable, spillSlow, spillRefused, spillFailed, spillUnable}},
	} {
		_, section, _ := strings.Cut(string(data), "\n### `"+tc.metric+"`\n")
		section, _, _ = strings.Cut(section, "\n### ")
		line := regexp.MustCompile("\n- `" + tc.label + "`: ([^\n]*)\n").FindStringSubmatch(section)
		if line == nil {
			t.Errorf("%s: %s has no list of its label %s", page, tc.metric, tc.label)
			continue
		}
		for _, value := range tc.values {
			if !strings.Contains(line[1], fmt.Sprintf("`%s`", value)) {
				t.Errorf("%s: %s lacks the %s %s", page, tc.metric, tc.label, value)
			}
		}
	}
}

func list[T any](values []T) (out []any) {
	for _, v := range values {
		out = append(out, v)
	}
	return out
}
