package api

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// rule is one of the CRD's CEL rules: a part of its message, and what it refuses and
// lets pass, as changes of config/samples/full.yaml.
type rule struct {
	message      string
	wrong, right []change
}

// In full.yaml, units 0 to 3 of region 0 are AzureOpenAI, OpenAI, VLLM with https and
// LlamaCpp with http; the one of region 1 is Mistral's.
const (
	unit0   = "spec.regions[0].units[0]"
	vllm    = "spec.regions[0].units[2]"
	llama   = "spec.regions[0].units[3]"
	mistral = "spec.regions[1].units[0]"
)

func rules() []rule {
	return slices.Concat(routeRules(), tokenRules(), valueRules(), modelRules(), mutationRules(), clientRules(), limitRules(), proxyRules(), regionRules(), unitRules())
}

func routeRules() []rule {
	return []rule{
		{
			"metadata.name must be 1 to 40 lower-case letters",
			[]change{{"metadata.name": "ghost.1"}, {"metadata.name": "1ghost"}, {"metadata.name": strings.Repeat("a", 41)}},
			[]change{{"metadata.name": "g"}, {"metadata.name": "g-1"}, {"metadata.name": strings.Repeat("a", 40)}},
		}, {
			"regions[].failover must name other regions",
			[]change{{"spec.regions[0].failover": "[westeurope]"}, {"spec.regions[0].failover": "[northeurope, nowhere]"}},
			[]change{{"spec.regions[1].failover": "[westeurope]"}, {"spec.regions[0].failover": removed}},
		}, {
			"models[].aliases must not repeat the name of a model",
			[]change{
				{"spec.models[0].aliases": "[ghost-code]"},
				{"spec.models[1]": "{name: copilot-codex, variants: [{name: stable, weight: 1}]}"},
			},
			[]change{{"spec.models[0].aliases": removed}},
		}, {
			"models[].aliases must differ between models",
			[]change{{"spec.models[1]": "{name: other, aliases: [copilot-codex], variants: [{name: stable, weight: 1}]}"}},
			[]change{{"spec.models[1]": "{name: other, aliases: [another], variants: [{name: stable, weight: 1}]}"}},
		}, {
			"mutations[].match.models must name models of this route by their names",
			[]change{{"spec.mutations[0].match.models": "[copilot-codex]"}, {"spec.mutations[1].match": "{models: [ghost-code, nothing]}"}},
			[]change{{"spec.mutations[0].match.models": removed}, {"spec.mutations": removed}},
		}, {
			"must be a DNS name in lower case",
			[]change{{"spec.hostname": "https://completions.example.com"}, {"spec.hostname": "a:443"}, {"spec.hostname": "A.example"}, {"spec.hostname": "a..example"}},
			[]change{{"spec.hostname": "localhost"}, {"spec.hostname": "a-1.example.com"}},
		},
	}
}

func tokenRules() []rule {
	return []rule{
		{
			"must have exactly one of url and configMapRef",
			[]change{{"spec.tokens.keySet.url": removed}, {"spec.tokens.keySet.configMapRef": "{name: a, key: b}"}},
			[]change{{"spec.tokens.keySet": "{configMapRef: {name: a, key: b}}"}},
		}, {
			"caRef goes only with url",
			[]change{{"spec.tokens.keySet": "{configMapRef: {name: a, key: b}, caRef: {name: a, key: b}}"}},
			[]change{{"spec.tokens.keySet.caRef": "{name: a, key: b}"}},
		}, {
			"must be an https URL without a user or password",
			[]change{
				{"spec.tokens.keySet.url": "http://tokens.example.com/"}, {"spec.tokens.keySet.url": "https://user@tokens.example.com/"},
				{"spec.tokens.keySet.url": "http://localhost.example.com/"}, {"spec.tokens.keySet.url": "tokens.example.com"},
			},
			[]change{
				{"spec.tokens.keySet.url": "https://tokens.example.com"}, {"spec.tokens.keySet.url": "http://localhost:8080/jwks"},
				{"spec.tokens.keySet.url": "http://127.0.0.1"}, {"spec.tokens.keySet.url": "'http://[::1]:80/?a'"},
			},
		}, {
			"must be letters, digits, '-', '_' or '.', as the keys",
			[]change{{"spec.tokens.deniedSubjects.configMapRef.key": "a/b"}, {unit0 + ".secretRef.key": "a b"}},
			[]change{{"spec.tokens.deniedSubjects.configMapRef.key": "._-aZ9"}},
		},
	}
}

// valueRules are of types that many fields have.
func valueRules() []rule {
	return []rule{
		{
			"must be 1 to 63 letters, digits",
			[]change{{"spec.mutations[0].name": "-a"}, {"spec.mutations[0].name": "a b"}, {"spec.mutations[0].name": "a."}, {unit0 + ".name": "a/b"}},
			[]change{{"spec.mutations[0].name": "A.b_c-9"}, {"spec.mutations[0].name": "a"}, {unit0 + ".name": "A"}},
		}, {
			"must be 1 to 32 lower-case letters",
			[]change{{"spec.regions[1].name": "NorthEurope"}, {"spec.regions[0].failover[0]": "north.europe"}},
			[]change{{"spec.regions[1].name": "n-1", "spec.regions[0].failover": "[n-1]"}},
		}, {
			"must be a number with a unit, such as 5s",
			[]change{{"spec.timeouts.connect": "'5'"}, {"spec.timeouts.idle": "soon"}, {"spec.timeouts.write": "-5s"}, {"spec.timeouts.write": "1d"}},
			[]change{{"spec.timeouts.connect": "1.5s"}, {"spec.timeouts.idle": "1m30s"}},
		}, {
			"must be above 0s and at most 10m",
			[]change{{"spec.timeouts.connect": "0s"}, {"spec.timeouts.total": "10m1ms"}, {"spec.timeouts.total": "1h"}},
			[]change{{"spec.timeouts.connect": "1us"}, {"spec.timeouts.total": "10m"}},
		}, {
			"must be text, above 0 and below 100",
			[]change{{"spec.objectives.successPercent": "'100'"}, {"spec.objectives.successPercent": "'0.0'"}, {"spec.objectives.firstByte.percent": "99%"}},
			[]change{{"spec.objectives.successPercent": "'99.999999'"}, {"spec.objectives.firstByte.percent": "'0.1'"}},
		},
	}
}

func modelRules() []rule {
	return []rule{
		{
			"at least one of variants must have a weight above 0",
			[]change{{"spec.models[0].variants[0].weight": "0", "spec.models[0].variants[1].weight": "0", "spec.models[0].mirrors": removed}},
			[]change{{"spec.models[0].variants[1].weight": "0"}},
		}, {
			"variants[].fallback must name another variant",
			[]change{{"spec.models[0].variants[1].fallback": "next"}, {"spec.models[0].variants[1].fallback": "none"}},
			[]change{{"spec.models[0].variants[1].fallback": "candidate"}, {"spec.models[0].variants[1].fallback": removed}},
		}, {
			"mirrors[].of must name a variant of this model with a weight above 0",
			[]change{
				{"spec.models[0].mirrors[0].of": "candidate", "spec.models[0].mirrors[0].to": "next"}, {"spec.models[0].mirrors[0].of": "none"},
				{"spec.models[0].mirrors[0].to": "none"}, {"spec.models[0].mirrors[0].to": "stable"},
			},
			[]change{{"spec.models[0].mirrors[0].to": "next"}},
		}, {
			"mirrors must not repeat a pair of of and to",
			[]change{{"spec.models[0].mirrors[1]": "{of: stable, to: candidate, percent: 1}"}},
			[]change{{"spec.models[0].mirrors[1]": "{of: stable, to: next, percent: 1}"}},
		}, {
			"must be above 0 and at most 100, such as 2",
			[]change{
				{"spec.models[0].mirrors[0].percent": "0"}, {"spec.models[0].mirrors[0].percent": "101"}, {"spec.models[0].mirrors[0].percent": "'0.0'"},
				{"spec.models[0].mirrors[0].percent": "'100.5'"}, {"spec.models[0].mirrors[0].percent": "2%"},
			},
			[]change{{"spec.models[0].mirrors[0].percent": "100"}, {"spec.models[0].mirrors[0].percent": "'100'"}, {"spec.models[0].mirrors[0].percent": "'0.001'"}},
		},
	}
}

func mutationRules() []rule {
	return []rule{
		{
			"must have headers or body, else it changes nothing",
			[]change{{"spec.mutations[0].body": removed}},
			[]change{{"spec.mutations[2].body": "[{op: Remove, path: user}]"}},
		}, {
			"must be 0 to 100, such as 5",
			[]change{{"spec.mutations[0].match.subjectsPercent": "-1"}, {"spec.mutations[0].match.subjectsPercent": "101"}, {"spec.mutations[0].match.subjectsPercent": "1e1x"}},
			[]change{{"spec.mutations[0].match.subjectsPercent": "0"}, {"spec.mutations[0].match.subjectsPercent": "'0.5'"}},
		}, {
			"value is required with op Set and Add, and does not go with Remove",
			[]change{{"spec.mutations[2].headers[0].value": removed}, {"spec.mutations[2].headers[0]": "{op: Add, name: a}"}, {"spec.mutations[2].headers[0].op": "Remove"}},
			[]change{{"spec.mutations[2].headers[0].op": "Add"}, {"spec.mutations[2].headers[0]": "{op: Remove, name: a}"}},
		},
	}
}

func clientRules() []rule {
	return []rule{
		{
			"must be letters, digits or any of '.', '_', '/'",
			[]change{{"spec.clients[0].match.name": "a b"}, {"spec.mutations[1].match.clients[0].name": "copilot,vim"}},
			[]change{{"spec.clients[0].match.name": "A9._/:+=-"}},
		}, {
			"message is required with action Upgrade and Warn",
			[]change{{"spec.clients[0].message": removed}, {"spec.clients[0]": "{match: {name: a}, action: Warn}"}, {"spec.clients[0].action": "Allow"}},
			[]change{{"spec.clients[0]": "{match: {name: a}, action: Allow}"}, {"spec.clients[0].action": "Warn"}},
		}, {
			"dryRun goes only with action Upgrade and Warn",
			[]change{{"spec.clients[0]": "{match: {name: a}, action: Allow, dryRun: true}"}},
			[]change{{"spec.clients[0].dryRun": "true"}, {"spec.clients[0]": "{match: {name: a}, action: Allow, dryRun: false}"}},
		},
	}
}

func limitRules() []rule {
	return []rule{
		{
			"must be above 0 and at most 64Mi",
			[]change{
				{"spec.limits.maxBodyBytes": "0"}, {"spec.limits.maxBodyBytes": "67108865"}, {"spec.limits.maxBodyBytes": "65Mi"},
				{"spec.limits.maxBodyBytes": "'-1'"}, {"spec.limits.maxBodyBytes": "much"},
			},
			[]change{{"spec.limits.maxBodyBytes": "67108864"}, {"spec.limits.maxBodyBytes": "64Mi"}, {"spec.limits.maxBodyBytes": "100k"}},
		}, {
			"total must be at least firstByte",
			[]change{{"spec.timeouts.total": "4999ms"}, {"spec.timeouts": "{firstByte: 61s}"}},
			[]change{{"spec.timeouts.total": "5s"}, {"spec.timeouts": "{firstByte: 60s}"}, {"spec.timeouts": "{}"}},
		},
	}
}

func proxyRules() []rule {
	return []rule{
		{
			"must have one of replicas and autoscaling, not both",
			[]change{{"spec.proxy.replicas": "2"}, {"spec.regions[1].proxy.autoscaling": "{max: 3}"}},
			[]change{{"spec.proxy.autoscaling": removed, "spec.proxy.replicas": "2"}},
		}, {
			"must be networks, each an address and a prefix length",
			[]change{{"spec.proxy.trustedEdges": "[10.0.0.1]"}, {"spec.proxy.trustedEdges": "[10.0.0.0/8, edge]"}, {"spec.proxy.trustedEdges": "[10.0.0.0/33]"}},
			[]change{{"spec.proxy.trustedEdges": "['2001:db8::/32', 192.0.2.1/32]"}, {"spec.proxy.trustedEdges": "[]"}},
		}, {
			"resources.claims is not supported",
			[]change{{"spec.proxy.resources": "{claims: [{name: gpu}]}"}, {"spec.regions[1].proxy.resources": "{claims: [{name: gpu}]}"}},
			[]change{{"spec.proxy.resources": "{limits: {memory: 1Gi}}"}},
		}, {
			"key is required with operator Equal, and value does not go with Exists",
			[]change{{"spec.proxy.tolerations": "[{value: edge}]"}, {"spec.regions[1].proxy.tolerations": "[{key: pool, operator: Exists, value: edge}]"}},
			[]change{{"spec.proxy.tolerations": "[{operator: Exists}, {key: pool, value: edge, effect: NoSchedule}]"}},
		}, {
			"max must be at least min",
			[]change{{"spec.proxy.autoscaling.min": "13"}, {"spec.proxy.autoscaling": "{max: 1}"}},
			[]change{{"spec.proxy.autoscaling.min": "12"}, {"spec.proxy.autoscaling": "{max: 2}"}},
		},
	}
}

func regionRules() []rule {
	return []rule{
		{
			"must name each region once",
			[]change{{"spec.regions[0].failover": "[northeurope, northeurope]"}},
			[]change{{"spec.regions[0].failover": "[]"}},
		}, {
			"must be at least 1s",
			[]change{{"spec.regions[0].healthProbe.interval": "999ms"}},
			[]change{{"spec.regions[0].healthProbe.interval": "1s"}},
		},
	}
}

func unitRules() []rule {
	return []rule{
		{
			"must be MODEL/VARIANT",
			[]change{{unit0 + ".serves": "stable"}, {unit0 + ".serves": "a/b/c"}, {unit0 + ".serves": "/b"}},
			[]change{{unit0 + ".serves": "A.b_c-9/9"}},
		}, {
			"must be the whole endpoint, an http or https URL with its path",
			[]change{
				{unit0 + ".url": "https://host"}, {unit0 + ".url": "https://user:word@host/"}, {unit0 + ".url": "'https://host/#a'"},
				{unit0 + ".url": "ftp://host/"}, {unit0 + ".url": "https:///v1"}, {unit0 + ".url": "https://host?a/b"},
			},
			[]change{{unit0 + ".url": "https://host/"}, {unit0 + ".url": "'http://[::1]:80/a?b=c@d'"}},
		}, {
			"api must be one that the provider has",
			[]change{{unit0 + ".api": "Infill"}, {llama + ".api": "Generate"}, {llama + ".provider": "Ollama"}},
			[]change{{unit0 + ".api": "Completions"}, {llama + ".provider": "Ollama", llama + ".api": "Generate"}, {llama + ".provider": "Ollama", llama + ".api": removed}},
		}, {
			"protocol HTTP2 needs an https url",
			[]change{{llama + ".protocol": "HTTP2"}, {unit0 + ".protocol": "H2C"}},
			[]change{{llama + ".protocol": "H2C"}, {unit0 + ".protocol": "HTTP2"}, {llama + ".protocol": "Auto"}},
		}, {
			"tls goes only with an https url",
			[]change{{vllm + ".url": "http://vllm/v1/completions"}},
			[]change{{vllm + ".url": "http://vllm/v1/completions", vllm + ".tls": removed}},
		}, {
			"must have caRef or serverName; remove tls",
			[]change{{vllm + ".tls": "{}"}},
			[]change{{vllm + ".tls": "{serverName: a}"}, {vllm + ".tls": "{caRef: {name: a, key: b}}"}},
		}, {
			"fillInTheMiddle is required with VLLM",
			[]change{{vllm + ".fillInTheMiddle": removed}, {llama + ".api": "Completions"}},
			[]change{{llama + ".api": "Completions", llama + ".fillInTheMiddle": "{template: Qwen}"}, {vllm + ".fillInTheMiddle": "{template: None}"}},
		}, {
			"fillInTheMiddle does not go with this provider and api",
			[]change{
				{mistral + ".fillInTheMiddle": "{template: Qwen}"}, {mistral + ".fillInTheMiddle": "{template: Qwen}", mistral + ".provider": "DeepSeek"},
				{llama + ".fillInTheMiddle": "{template: Qwen}"},
				{llama + ".fillInTheMiddle": "{template: Qwen}", llama + ".provider": "Ollama", llama + ".api": "Completions"},
			},
			[]change{
				{unit0 + ".fillInTheMiddle": "{template: Qwen}"}, {"spec.regions[0].units[1].fillInTheMiddle": "{template: Qwen}"},
				{llama + ".fillInTheMiddle": "{template: Qwen}", llama + ".provider": "Ollama", llama + ".api": removed},
			},
		}, {
			"must have either template, or the marks",
			[]change{
				{vllm + ".fillInTheMiddle.prefix": "a"}, {vllm + ".fillInTheMiddle.suffixFirst": "true"},
				{vllm + ".fillInTheMiddle": "{prefix: a, middle: b}"}, {vllm + ".fillInTheMiddle": "{}"},
			},
			[]change{{vllm + ".fillInTheMiddle": "{suffix: a}"}, {vllm + ".fillInTheMiddle": "{prefix: a, suffix: b, middle: c, suffixFirst: true}"}},
		},
	}
}

// TestRules: each CEL rule refuses what is wrong, with its message, and lets pass what
// is right.
func TestRules(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	for _, rule := range rules() {
		for _, wrong := range rule.wrong {
			object := route(t, namespace)
			wrong.to(t, object)
			causes := refusal(tryCreate(t, object))
			if !slices.ContainsFunc(causes, func(cause string) bool { return strings.Contains(cause, rule.message) }) {
				t.Errorf("%q is to be refused with %q, got %q", wrong, rule.message, causes)
			}
		}
		for _, right := range rule.right {
			object := route(t, namespace)
			right.to(t, object)
			if err := tryCreate(t, object); err != nil {
				t.Errorf("%q is right, got %q", right, refusal(err))
			}
		}
	}
}

// TestRulesAreAllTested: each rule of the CRD is in the table, and has both sides.
func TestRulesAreAllTested(t *testing.T) {
	t.Parallel()
	table := rules()
	found := map[string]int{}
	walkSchema(t, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		for _, validation := range schema.XValidations {
			i := slices.IndexFunc(table, func(r rule) bool { return strings.HasPrefix(validation.Message, r.message) })
			if i < 0 {
				t.Errorf("%s: the rule %q is not in the table", path, validation.Message)
				continue
			}
			found[table[i].message]++
		}
	})
	for _, rule := range table {
		if found[rule.message] == 0 || len(rule.wrong) == 0 || len(rule.right) == 0 {
			t.Errorf("%q: %d rules of the CRD, %d wrong and %d right objects; want some of each", rule.message, found[rule.message], len(rule.wrong), len(rule.right))
		}
	}
}
