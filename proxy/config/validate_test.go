package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestValidate breaks a good config in one way each. The message must begin a
// line with the field's path and say what would be right.
func TestValidate(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, tc := range []struct {
		path  string
		spoil func(*Config)
		right string
	}{
		{"requires[0]", func(c *Config) { c.Requires = []string{"mirrors"} }, "update the proxy"},
		{"region", func(c *Config) { c.Region = "" }, "it must be 1 to 63 letters"},
		{"region", func(c *Config) { c.Region = "-west" }, "begin and end with a letter or digit"},
		{"failover[1]", func(c *Config) { c.Failover[1] = "no where" }, "it must be 1 to 63 letters"},
		{"failover[1]", func(c *Config) { c.Failover[1] = "westeurope" }, "other regions, each once"},
		{"failover[1]", func(c *Config) { c.Failover[1] = "northeurope" }, "other regions, each once"},

		{"tokens.issuer", func(c *Config) { c.Tokens.Issuer = "" }, "such as https://tokens.example.com"},
		{"tokens.audience", func(c *Config) { c.Tokens.Audience = "" }, "such as completions.example.com"},
		{"tokens.keySet", func(c *Config) { c.Tokens.KeySet = KeySet{} }, "exactly one of url and file"},
		{"tokens.keySet", func(c *Config) { c.Tokens.KeySet.File = "jwks.json" }, "exactly one of url and file"},
		{"tokens.keySet.url", func(c *Config) { c.Tokens.KeySet.URL = "http://tokens.example.com/jwks.json" }, "must be https except on loopback"},
		{"tokens.keySet.url", func(c *Config) { c.Tokens.KeySet.URL = "tokens.example.com" }, "such as https://host/path"},
		{"tokens.keySet.caFile", func(c *Config) { c.Tokens.KeySet = KeySet{File: "a", CAFile: "b"} }, "goes only with url"},
		{"tokens.deniedSubjects.file", func(c *Config) { c.Tokens.DeniedSubjects.File = "" }, "one subject a line"},

		{"models", func(c *Config) { c.Models = nil }, "it must have 1 to 16"},
		{"models", func(c *Config) { c.Models = make([]Model, maxModels+1) }, "it must have 1 to 16"},
		{"models[0].name", func(c *Config) { c.Models[0].Name = "" }, "it must be 1 to 63 letters"},
		{"models[0].name", func(c *Config) { c.Models[0].Name = long }, "it must be 1 to 63 letters"},
		{"models[1].name", func(c *Config) { c.Models[1].Name = "ghost-code" }, "must differ"},
		{"models[1].name", func(c *Config) { c.Models[1].Name = "copilot-codex" }, "must differ"},
		{"models[0].aliases[0]", func(c *Config) { c.Models[0].Aliases[0] = "ghost-code" }, "must differ"},
		{"models[0].aliases[1]", func(c *Config) { c.Models[0].Aliases[1] = "a/b" }, "it must be 1 to 63 letters"},
		{"models[0].aliases", func(c *Config) { c.Models[0].Aliases = names(maxAliases + 1) }, "at most 16 are allowed"},
		{"models[0].split.by", func(c *Config) { c.Models[0].Split.By = "subject" }, "it must be one of Subject, Request"},
		{"models[0].variants", func(c *Config) { c.Models[0].Variants = nil }, "it must have 1 to 8"},
		{"models[0].variants", func(c *Config) { c.Models[0].Variants = make([]Variant, maxVariants+1) }, "it must have 1 to 8"},
		{"models[0].variants", func(c *Config) { c.Models[0].Variants[0].Weight = 0; c.Models[0].Variants[1].Weight = 0 }, "at least one must be above 0"},
		{"models[0].variants[0].name", func(c *Config) { c.Models[0].Variants[0].Name = "a b" }, "it must be 1 to 63 letters"},
		{"models[0].variants[1].name", func(c *Config) { c.Models[0].Variants[1].Name = "stable" }, "already the name of a variant"},
		{"models[0].variants[1].weight", func(c *Config) { c.Models[0].Variants[1].Weight = -1 }, "it must be 0 to 1000000"},
		{"models[0].variants[1].weight", func(c *Config) { c.Models[0].Variants[1].Weight = maxWeight + 1 }, "it must be 0 to 1000000"},
		{"models[0].variants[1].fallback", func(c *Config) { c.Models[0].Variants[1].Fallback = "v1" }, "is no variant of this model"},
		{"models[0].variants[1].fallback", func(c *Config) { c.Models[0].Variants[1].Fallback = "next" }, "fallbacks must end"},
		{"models[0].variants[0].fallback", func(c *Config) { c.Models[0].Variants[0].Fallback = "next" }, "fallbacks must end"},

		{"units", func(c *Config) { c.Units = nil }, "it must have 1 to 512"},
		{"units", func(c *Config) { c.Units = make([]Unit, maxUnits+1) }, "it must have 1 to 512"},
		{"units[0].name", func(c *Config) { c.Units[0].Name = "weu_1_" }, "it must be 1 to 63 letters"},
		{"units[1].name", func(c *Config) { c.Units[1].Name = "weu-1" }, "already the name of a unit"},
		{"units[1].region", func(c *Config) { c.Units[1].Region = "mars" }, `neither the region "westeurope" nor in failover`},
		{"units[0].serves", func(c *Config) { c.Units[0].Serves = "ghost-code" }, "it must be MODEL/VARIANT"},
		{"units[0].serves", func(c *Config) { c.Units[0].Serves = "copilot-codex/stable" }, "it must be MODEL/VARIANT"},
		{"units[0].provider", func(c *Config) { c.Units[0].Provider = "" }, "it must be one of OpenAI, AzureOpenAI, VLLM, LlamaCpp, Ollama, Mistral, DeepSeek"},
		{"units[0].api", func(c *Config) { c.Units[0].API = APIInfill }, "it must be one of Completions"},
		{"units[1].api", func(c *Config) { c.Units[1].API = APIGenerate }, "it must be one of Infill, Completions"},
		{"units[0].url", func(c *Config) { c.Units[0].URL = "https://weu-1" }, "has no path; it must be the whole endpoint, which of OpenAI's API Completions ends in /completions"},
		{"units[0].url", func(c *Config) { c.Units[0].URL = "https://weu-1/v1/chat/completions" }, "ends in /chat/completions, which is an API for chats; it must be the endpoint of completions, which of OpenAI's API Completions ends in /completions"},
		{"units[1].url", func(c *Config) { c.Units[1].URL = "http://neu-1:8000/infill" }, "is LlamaCpp's API Infill; set api to that, or have the url end in /completions"},
		{"units[0].fillInTheMiddle", func(c *Config) { c.Units[0].FillInTheMiddle.Template = "Qwen" }, "either template or prefix, suffix and middle"},
		{"units[0].fillInTheMiddle.suffix", func(c *Config) { c.Units[0].FillInTheMiddle.Suffix = "" }, "cannot tell the text behind the cursor"},
		{"units[0].fillInTheMiddle.middle", func(c *Config) { c.Units[0].FillInTheMiddle.Middle = strings.Repeat("x", maxMark+1) }, "at most 256"},
		{"units[1].fillInTheMiddle.template", func(c *Config) { c.Units[1].FillInTheMiddle.Template = "qwen" }, "it must be one of CodeGemma, CodeLlama, Codestral, DeepSeek, None, Qwen, StarCoder"},
		{"units[1].fillInTheMiddle", func(c *Config) { c.Units[1].FillInTheMiddle = nil }, "refuses the field suffix, so it must name the model's template"},
		{"units[1].fillInTheMiddle", func(c *Config) { c.Units[1].Provider, c.Units[1].FillInTheMiddle = ProviderVLLM, nil }, "refuses the field suffix"},
		{"units[1].fillInTheMiddle", func(c *Config) { c.Units[1].API, c.Units[1].URL = APIInfill, "http://neu-1/infill" }, "takes the field suffix; remove it"},
		{"units[1].fillInTheMiddle", func(c *Config) {
			c.Units[1].Provider, c.Units[1].URL = ProviderMistral, "https://neu-1/v1/fim/completions"
		}, "remove it"},
		{"units[1].fillInTheMiddle", func(c *Config) { c.Units[1].Provider = ProviderOllama }, "remove it"},
		{"units[0].maxTokens", func(c *Config) { c.Units[0].MaxTokens = -1 }, "it must be 1 to 2147483647"},
		{"units[0].url", func(c *Config) { c.Units[0].URL = "" }, "it must be an http or https URL"},
		{"units[0].url", func(c *Config) { c.Units[0].URL = "ftp://weu-1/x" }, "is no absolute http or https URL"},
		{"units[0].url", func(c *Config) { c.Units[0].URL = "https:///x" }, "is no absolute http or https URL"},
		{"units[0].url", func(c *Config) { c.Units[0].URL = "https://weu-1/%zz" }, "is no absolute http or https URL"},
		{"units[0].url", func(c *Config) { c.Units[0].URL = "https://user:pass@weu-1/x" }, "credentials come from the credentials directory"},
		{"units[0].url", func(c *Config) { c.Units[0].URL = "https://weu-1/x#y" }, "remove it"},
		{"units[0].protocol", func(c *Config) { c.Units[0].Protocol = "h2" }, "it must be one of Auto, HTTP2, H2C, HTTP1"},
		{"units[0].protocol", func(c *Config) { c.Units[0].Protocol = ProtocolH2C }, "use HTTP2 or Auto"},
		{"units[1].protocol", func(c *Config) { c.Units[1].Protocol = ProtocolHTTP2 }, "use H2C"},
		{"units[1].tls", func(c *Config) { c.Units[1].TLS = &UnitTLS{} }, "goes only with an https URL"},
		{"units[0].credential", func(c *Config) { c.Units[0].Credential = "../key" }, "a file's name without a path"},
		{"units[0].credential", func(c *Config) { c.Units[0].Credential = `a\b` }, "a file's name without a path"},
		{"units[0].credential", func(c *Config) { c.Units[0].Credential = ".." }, "a file's name without a path"},
		{"units[0].capacity.inFlight", func(c *Config) { c.Units[0].Capacity.InFlight = -1 }, "or 0 for no limit"},

		{"units[0].capacity.requestsPerSecond", func(c *Config) { c.Units[0].Capacity.RequestsPerSecond = -0.5 }, "or 0 for no limit"},

		{"objectives.successPercent", func(c *Config) { c.Objectives.SuccessPercent = 100 }, "is 100; it must be above 0 and below 100, such as 99.9"},
		{"objectives.successPercent", func(c *Config) { c.Objectives.SuccessPercent = -1 }, "it must be above 0 and below 100"},
		{"objectives.firstByte.percent", func(c *Config) { c.Objectives.FirstByte.Percent = 0 }, "is 0; it must be above 0 and below 100"},
		{"objectives.firstByte.under", func(c *Config) { c.Objectives.FirstByte.Under = 0 }, "is 0s; it must be above 0"},
		{"objectives.firstByte.under", func(c *Config) { c.Objectives.FirstByte.Under = notDuration }, "is no duration"},
		{"healthProbe.interval", func(c *Config) { c.HealthProbe.Interval = Duration(time.Millisecond) }, "it must be 1s to 10m0s"},
		{"healthProbe.interval", func(c *Config) { c.HealthProbe.Interval = maxTimeout + 1 }, "it must be 1s to 10m0s"},
		{"healthProbe.prompt", func(c *Config) { c.HealthProbe.Prompt = strings.Repeat("x", maxProbePrompt+1) }, "it must be at most 4096"},
		{"healthProbe.maxTokens", func(c *Config) { c.HealthProbe.MaxTokens = -1 }, "it must be 1 to 64"},
		{"healthProbe.maxTokens", func(c *Config) { c.HealthProbe.MaxTokens = maxProbeTokens + 1 }, "it must be 1 to 64"},
		{"trustedEdges[1]", func(c *Config) { c.TrustedEdges[1] = "10.0.0.1" }, "such as 10.0.0.0/8"},
		{"trustedEdges[0]", func(c *Config) { c.TrustedEdges[0] = "::ffff:10.0.0.0/104" }, "such as 10.0.0.0/8"},
		{"units[0].capacity.inFlight", func(c *Config) { c.Units[0].Capacity.InFlight = maxCapacity + 1 }, "at most 1000000"},
		{"units[0].capacity.requestsPerSecond", func(c *Config) { c.Units[0].Capacity.RequestsPerSecond = maxCapacity + 1 }, "at most 1000000"},
		{"trustedEdges[0]", func(c *Config) { c.TrustedEdges[0] = "10.0.0.0/33" }, "such as 10.0.0.0/8"},
		{"trustedEdges", func(c *Config) { c.TrustedEdges = slices.Repeat([]string{"10.0.0.0/8"}, maxTrustedEdges+1) }, "at most 64"},

		{"models[0].mirrors[0].of", func(c *Config) { c.Models[0].Mirrors[0].Of = "v1" }, "is no variant of this model"},
		{"models[0].mirrors[0].of", func(c *Config) { c.Models[0].Variants[0].Weight = 0 }, "has weight 0"},
		{"models[0].mirrors[0].to", func(c *Config) { c.Models[0].Mirrors[0].To = "" }, "is no variant of this model"},
		{"models[0].mirrors[0].to", func(c *Config) { c.Models[0].Mirrors[0].To = "stable" }, "is the variant that is mirrored"},
		{"models[0].mirrors[0].percent", func(c *Config) { c.Models[0].Mirrors[0].Percent = 0 }, "above 0 and at most 100"},
		{"models[0].mirrors[0].percent", func(c *Config) { c.Models[0].Mirrors[0].Percent = 100.5 }, "above 0 and at most 100"},
		{"models[0].mirrors[0].onCancel", func(c *Config) { c.Models[0].Mirrors[0].OnCancel = "Stop" }, "one of Cancel, Complete"},
		{"models[0].mirrors[1]", func(c *Config) { c.Models[0].Mirrors = slices.Repeat(c.Models[0].Mirrors, 2) }, "as one above does"},
		{"models[0].mirrors[1].percent", func(c *Config) {
			c.Models[0].Variants = append(c.Models[0].Variants, Variant{Name: "candidate"})
			c.Models[0].Mirrors = append(c.Models[0].Mirrors, Mirror{Of: "stable", To: "candidate", Percent: 98, OnCancel: OnCancelCancel})
		}, "makes 100.5 percent of what stable serves"},
		{"models[0].mirrors", func(c *Config) { c.Models[0].Mirrors = slices.Repeat(c.Models[0].Mirrors, maxMirrors+1) }, "at most 8"},

		{"limits.maxBodyBytes", func(c *Config) { c.Limits.MaxBodyBytes = -1 }, "it must be 1 to 67108864"},
		{"limits.maxBodyBytes", func(c *Config) { c.Limits.MaxBodyBytes = maxBody + 1 }, "it must be 1 to 67108864"},
		{"limits.inFlight", func(c *Config) { c.Limits.InFlight = -1 }, "it must be above 0"},
		{"limits.perSubject.inFlight", func(c *Config) { c.Limits.PerSubject.InFlight = -1 }, "it must be 1 to 1000000"},
		{"limits.perSubject.sessions", func(c *Config) { c.Limits.PerSubject.Sessions = -1 }, "it must be 1 to 1000"},
		{"limits.perSubject.sessions", func(c *Config) { c.Limits.PerSubject.Sessions = maxSessions + 1 }, "it must be 1 to 1000"},
		{"limits.perSubject.requestsPerSecond", func(c *Config) { c.Limits.PerSubject.RequestsPerSecond = -0.5 }, "it must be above 0"},
		{"limits.perSubject.burst", func(c *Config) { c.Limits.PerSubject.Burst = -1 }, "it must be above 0"},

		{"timeouts.connect", func(c *Config) { c.Timeouts.Connect = -1 }, "above 0 and at most 10m0s"},
		{"timeouts.readBody", func(c *Config) { c.Timeouts.ReadBody = -1 }, "above 0 and at most 10m0s"},
		{"timeouts.firstByte", func(c *Config) { c.Timeouts.FirstByte = -1 }, "above 0 and at most 10m0s"},
		{"timeouts.idle", func(c *Config) { c.Timeouts.Idle = maxTimeout + 1 }, "above 0 and at most 10m0s"},
		{"timeouts.write", func(c *Config) { c.Timeouts.Write = maxTimeout + 1 }, "above 0 and at most 10m0s"},
		{"timeouts.total", func(c *Config) { c.Timeouts.Total = maxTimeout + 1 }, "above 0 and at most 10m0s"},
		{"timeouts.total", func(c *Config) { c.Timeouts.Total = Duration(time.Second) }, "less than firstByte, which is 2s"},
	} {
		t.Run(tc.path+" "+tc.right, func(t *testing.T) {
			c := full()
			tc.spoil(c)
			data, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			assertProblem(t, "strict", modes["strict"](data), tc.path, tc.right)
			if _, ofUnit := strings.CutPrefix(tc.path, "units["); !ofUnit || strings.HasSuffix(tc.path, ".name") {
				assertProblem(t, "lenient", modes["lenient"](data), tc.path, tc.right)
			} else if err := modes["lenient"](data); err != nil {
				t.Errorf("lenient: a unit that can be left out is refused: %v", err)
			}
		})
	}
}

func assertProblem(t *testing.T, mode string, err error, path, right string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: accepted", mode)
		return
	}
	for line := range strings.Lines(err.Error()) {
		if strings.HasPrefix(line, path+": ") && strings.Contains(line, right) {
			return
		}
	}
	t.Errorf("%s: no line of the error begins %q and has %q:\n%v", mode, path+": ", right, err)
}

func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("alias-%d", i))
	}
	return out
}

// TestWrongTypes are mistakes that a Config cannot hold.
func TestWrongTypes(t *testing.T) {
	for _, tc := range []struct{ old, new, path, right string }{
		{"region: westeurope\ntokens", "region: [westeurope]\ntokens", "region", "it must be a string"},
		{"keySet: {file: jwks.json}", "keySet: jwks.json", "tokens.keySet", "it must be an object"},
		{"weight: 1", "weight: heavy", "models[0].variants[0].weight", "it must be a whole number"},
		{"weight: 1", "weight: 1.5", "models[0].variants[0].weight", "it must be a whole number"},
		{"weight: 1", "weight: [1]", "models[0].variants[0].weight", "it must be a whole number"},
		{"weight: 1}", "weight: 1}\n  - []", "models[0].variants[1]", "it must be an object"},
		{"weight: 1}", "weight: 1}\n  - {name: a, weight: {}}", "models[0].variants[1].weight", "it must be a whole number"},
		{"models:", "route: {generation: 99999999999999999999}\nmodels:", "route.generation", "it must be a whole number"},
		{"models:", "failover: [a, b, 3]\nmodels:", "failover[2]", "it must be a string"},
		{"provider: OpenAI", "provider: 7", "units[0].provider", "it must be a string"},
		{"units:", "timeouts: {connect: 5}\nunits:", "timeouts.connect", `such as "5s"`},
		{"units:", "timeouts: {connect: fast}\nunits:", "timeouts.connect", `such as "5s"`},
		{"units:", "timeouts: {idle: [1s]}\nunits:", "timeouts.idle", `such as "5s"`},
		{"units:", "timeouts: {total: 9999999h}\nunits:", "timeouts.total", `such as "5s"`},
		{"units:", "limits: {maxBodyBytes: 1Mi}\nunits:", "limits.maxBodyBytes", "it must be a whole number"},
		{"units:", "limits: {perSubject: {requestsPerSecond: many}}\nunits:", "limits.perSubject.requestsPerSecond", "it must be a number"},
	} {
		t.Run(tc.new, func(t *testing.T) {
			text := strings.Replace(least, tc.old, tc.new, 1)
			if text == least {
				t.Fatalf("%q is not in the config", tc.old)
			}
			for mode, decode := range modes {
				assertProblem(t, mode, decode([]byte(text)), tc.path, tc.right)
			}
		})
	}
}

func TestAllProblemsAreNamedAtOnce(t *testing.T) {
	c := full()
	c.Region, c.Tokens.Issuer, c.Units[1].Provider = "", "", "?"
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Decode(data)
	for _, path := range []string{"region", "tokens.issuer", "units[1].provider"} {
		assertProblem(t, "strict", err, path, "must be")
	}
}

// TestSecretsAreNotRepeated holds that an URL, which may have a key in it, is
// not in the error.
func TestSecretsAreNotRepeated(t *testing.T) {
	for _, url := range []string{"https://user:hunter2@weu-1/x", "weu-1/x?key=hunter2", "https://weu-1/x?key=hunter2#y", "https://weu-1/%zz?key=hunter2"} {
		_, err := Decode([]byte(strings.Replace(least, "https://weu-1.example.com/v1/completions", "'"+url+"'", 1)))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v", url, err)
		}
	}
}
