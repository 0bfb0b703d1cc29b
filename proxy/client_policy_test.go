package proxy

import (
	"fmt"
	"net/textproto"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// withRules is a snapshot with rules that are written as ACTION NAME VERSIONS, a ?
// behind the action being a dry run. Their message is what they are written as.
func withRules(tb testing.TB, rules ...string) *snapshot {
	tb.Helper()
	s := &snapshot{}
	for _, text := range rules {
		action, rest, _ := strings.Cut(text, " ")
		name, versions, _ := strings.Cut(rest, " ")
		action, dryRun := strings.CutSuffix(action, "?")
		rule, err := newClientRule(config.ClientRule{
			Match: config.ClientMatch{Name: name, Versions: versions}, Action: action, Message: text, DryRun: dryRun,
		})
		if err != nil {
			tb.Fatal(err)
		}
		s.clientRules = append(s.clientRules, rule)
	}
	s.clientCounters = newClientCounters(counters("clients", "Help.", "client", "version_major", "action"), s.clientRules)
	return s
}

func TestRuleOn(t *testing.T) {
	for _, tc := range []struct {
		name         string
		rules        []string
		clients      []clientInfo
		rule, client string // the message of the one, the name of the other
		dryRun       string
		dryRunClient string
	}{
		{"no rules", nil, []clientInfo{newClientInfo("copilot", "1.2")}, "", "", "", ""},
		{"no client", []string{"Upgrade copilot"}, nil, "", "", "", ""},
		{"none matches", []string{"Upgrade copilot <1", "Warn vim"}, []clientInfo{newClientInfo("copilot", "1.2")}, "", "", "", ""},
		{"the first rule counts", []string{"Allow copilot =1.2.0", "Upgrade copilot"}, []clientInfo{newClientInfo("Copilot", "1.2")}, "Allow copilot =1.2.0", "Copilot", "", ""},
		{"rules are asked before names", []string{"Warn vscode", "Upgrade copilot"},
			[]clientInfo{newClientInfo("copilot", "1"), newClientInfo("vscode", "1")}, "Warn vscode", "vscode", "", ""},
		{"the most telling of two", []string{"Warn vim <9"},
			[]clientInfo{newClientInfo("vim", "1"), newClientInfo("vim", "2")}, "Warn vim <9", "vim", "", ""},
		{"a dry run is passed over", []string{"Upgrade? copilot", "Warn vscode"},
			[]clientInfo{newClientInfo("copilot", "1"), newClientInfo("vscode", "1")}, "Warn vscode", "vscode", "Upgrade? copilot", "copilot"},
		{"the first dry run counts", []string{"Warn? copilot", "Upgrade? copilot"}, []clientInfo{newClientInfo("copilot", "1")}, "", "", "Warn? copilot", "copilot"},
		{"a dry run behind the rule does not count", []string{"Allow copilot", "Upgrade? copilot"}, []clientInfo{newClientInfo("copilot", "1")}, "Allow copilot", "copilot", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := withRules(t, tc.rules...).ruleOn(tc.clients)
			message := func(r *clientRule) string {
				if r == nil {
					return ""
				}
				return r.message
			}
			if message(got.rule) != tc.rule || got.client.name != tc.client {
				t.Errorf("%q for %q, want %q for %q", message(got.rule), got.client.name, tc.rule, tc.client)
			}
			if message(got.dryRun) != tc.dryRun || got.dryRunClient.name != tc.dryRunClient {
				t.Errorf("the dry run %q for %q, want %q for %q", message(got.dryRun), got.dryRunClient.name, tc.dryRun, tc.dryRunClient)
			}
		})
	}
}

// TestSeriesOfClients: rules make the clients that they name known, and when they
// are gone so are the series, which a request that still runs does not bring back.
func TestSeriesOfClients(t *testing.T) {
	vec := counters("clients", "Help.", "client", "version_major", "action")
	count := func(c *clientCounters, name, version, action string) { c.count(newClientInfo(name, version), action) }
	want := func(series string, n float64) {
		t.Helper()
		labels := strings.Fields(series)
		if got := testutil.ToFloat64(vec.WithLabelValues(labels...)); got != n {
			t.Errorf("%s: %v, want %v", series, got, n)
		}
	}
	first := newClientCounters(vec, withRules(t, "Upgrade Mine <1", "Warn mine", "Warn jetbrains-PY", "Warn COPILOT").clientRules)
	for _, name := range []string{"mine", "MINE", "copilot", "Copilot", "JetBrains-IU", "jetbrains-pc", "JetBrains-PY", "JetBrainsX", "jetbrains", "other-one", strings.Repeat("x", 65), ""} {
		count(first, name, "1.2", actionAllow)
		count(first, name, "1.2", actionAllow)
	}
	count(first, "mine", "0.5", actionUpgrade)
	count(first, "mine", "0.5", actionUpgradeDryRun)
	want("Mine 1 allow", 4)
	want("Mine 0 upgrade", 1)
	want("Mine 0 upgrade_dry_run", 1)
	want("copilot 1 allow", 4)
	want("JetBrains 1 allow", 6)
	want("jetbrains-PY 1 allow", 2)
	want("other 1 allow", 8)

	second := newClientCounters(vec, withRules(t, "Warn jetbrains-PY", "Warn copilot").clientRules)
	first.replace(second)
	count(first, "mine", "0.5", actionUpgrade)
	count(first, "mine", "7", actionAllow)
	count(first, "mine", "1.2", actionAllow) // its counter is known
	count(second, "mine", "1.2", actionAllow)
	count(second, "jetbrains-py", "1.2", actionAllow)
	want("other 0 upgrade", 1)
	want("other 7 allow", 1)
	want("other 1 allow", 9)
	want("jetbrains-PY 1 allow", 3)
	if n := vec.DeletePartialMatch(prometheus.Labels{"client": "Mine"}); n != 0 {
		t.Errorf("%d series of a client that no rule names any more", n)
	}
}

// TestIdentifyClientAllocatesNothing for a config without rules, and little with.
func TestIdentifyClientAllocatesNothing(t *testing.T) {
	var p proxy
	for _, tc := range []struct {
		rules []string
		most  float64
	}{
		{nil, 0},
		{[]string{"Upgrade copilot.vim <1.40.0", "Warn ghostline"}, 1}, // the list of clients
	} {
		x := &exchange{header: copilotHeaders(), snapshot: withRules(t, tc.rules...)}
		got := testing.AllocsPerRun(100, func() {
			x.programs = nil
			if err := p.identifyClient(x); err != nil {
				t.Fatal(err)
			}
		})
		if got > tc.most {
			t.Errorf("%d rules: %v allocations, want at most %v", len(tc.rules), got, tc.most)
		}
	}
}

// copilotHeaders are those of Copilot in VS Code.
func copilotHeaders() textproto.MIMEHeader {
	return textproto.MIMEHeader{
		"Editor-Plugin-Version": {"copilot/1.300.0"}, "Editor-Version": {"vscode/1.99.0"},
		"Copilot-Language-Server-Version": {"1.280.0"}, "User-Agent": {"GithubCopilot/1.300.0"},
	}
}

// BenchmarkIdentifyClient meets no rule, rules for others, a rule that does not
// hold, and 64 of those.
func BenchmarkIdentifyClient(b *testing.B) {
	var p proxy
	var others, many []string
	for i := range 64 {
		others = append(others, fmt.Sprintf("Warn client-%d", i))
		many = append(many, fmt.Sprintf("Upgrade vscode <1.%d", i))
	}
	for _, bc := range []struct {
		name  string
		rules []string
	}{{"none", nil}, {"64 others", others}, {"one", many[:1]}, {"64", many}} {
		b.Run(bc.name, func(b *testing.B) {
			x := &exchange{header: copilotHeaders(), snapshot: withRules(b, bc.rules...)}
			b.ReportAllocs()
			for b.Loop() {
				x.programs = nil
				if err := p.identifyClient(x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzParseClient(f *testing.F) {
	for _, value := range []string{"copilot/1.300.0", "1.280.0", "OpenAI/Python 1.2.3", "AsyncOpenAI/Python 1", "a/b/c", "curl", "/1", " x/1", "vscode/1.99.0-insider+1 (linux)"} {
		f.Add(value, true)
		f.Add(value, false)
	}
	f.Fuzz(func(t *testing.T, value string, known bool) {
		program := ""
		if known {
			program = "copilot-language-server"
		}
		c, ok := parseClient(value, program)
		if !ok {
			if c != (clientInfo{}) {
				t.Errorf("%q: %+v cannot be read", value, c)
			}
			return
		}
		if len(c.name) > maxClientInfo || len(c.version) > maxClientInfo || !isWord(c.name) || c.version != "" && !isWord(c.version) {
			t.Errorf("%q: %+v", value, c)
		}
		if c.name != program && !strings.HasPrefix(value, c.name) || !strings.Contains(value, c.version) {
			t.Errorf("%q: %+v is not what it says", value, c)
		}
	})
}
