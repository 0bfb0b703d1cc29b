package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// least is the shortest config there is, as a person writes it.
const least = `
region: westeurope
tokens:
  issuer: https://tokens.example.com
  audience: completions.example.com
  keySet: {file: jwks.json}
models:
- name: ghost-code
  variants:
  - {name: stable, weight: 1}
units:
- name: weu-1
  region: westeurope
  serves: ghost-code/stable
  provider: OpenAI
  url: https://weu-1.example.com/v1/completions
`

// full has every field set, each to something else than its default.
func full() *Config {
	return &Config{
		Requires: Features(),
		Route:    &Route{Namespace: "ghostline", Name: "ghost", Generation: 7},
		Region:   "westeurope",
		Failover: []string{"northeurope", "eastus"},
		Tokens: Tokens{
			Issuer: "https://tokens.example.com", Audience: "completions.example.com",
			KeySet:         KeySet{URL: "https://tokens.example.com/.well-known/jwks.json", CAFile: "issuer.pem"},
			DeniedSubjects: &DeniedSubjects{File: "denied"},
		},
		Models: []Model{
			{
				Name: "ghost-code", Aliases: []string{"copilot-codex", "gpt-41-copilot"},
				Split:    Split{By: SplitByRequest, Salt: "2026-11"},
				Variants: []Variant{{Name: "stable", Weight: 95}, {Name: "next", Weight: 5, Fallback: "stable"}},
				Mirrors:  []Mirror{{Of: "stable", To: "next", Percent: 2.5, OnCancel: OnCancelComplete}},
			},
			{Name: "ghost-prose", Split: Split{By: SplitBySubject}, Variants: []Variant{{Name: "v1", Weight: 1}}},
		},
		Units: []Unit{
			{
				Name: "weu-1", Region: "westeurope", Serves: "ghost-code/stable", Provider: ProviderOpenAI, API: APICompletions,
				FillInTheMiddle: &FillInTheMiddle{Prefix: "<a>", Suffix: "<b>", Middle: "<c>", SuffixFirst: true}, MaxTokens: 400,
				URL: "https://weu-1.example.com/v1/completions?api-version=1", Protocol: ProtocolHTTP2,
				TLS: &UnitTLS{CAFile: "weu-1.pem", ServerName: "weu-1"}, UpstreamModel: "gpt-41", Credential: "weu-1-0123abcd",
				Capacity: Capacity{InFlight: 200, RequestsPerSecond: 12.5}, Priority: -1,
			},
			{
				Name: "neu-1", Region: "northeurope", Serves: "ghost-code/next", Provider: ProviderLlamaCpp, API: APICompletions,
				URL: "http://neu-1:8000/v1/completions", Protocol: ProtocolH2C, Priority: 2, FillInTheMiddle: &FillInTheMiddle{Template: "Qwen"},
			},
		},
		Limits: Limits{
			MaxBodyBytes: 2 << 20, InFlight: 77,
			PerSubject: SubjectLimits{InFlight: 3, Sessions: 2, RequestsPerSecond: 1.5, Burst: 4},
		},
		Timeouts: Timeouts{
			Connect: Duration(250 * time.Millisecond), ReadBody: Duration(time.Second), FirstByte: Duration(2 * time.Second),
			Idle: Duration(3 * time.Second), Write: Duration(4 * time.Second), Total: Duration(90 * time.Second),
		},
		Objectives:   Objectives{SuccessPercent: 99.95, FirstByte: &FirstByteObjective{Percent: 99, Under: Duration(300 * time.Millisecond)}},
		HealthProbe:  &HealthProbe{Interval: Duration(time.Minute), Prompt: "func add(", MaxTokens: 3},
		TrustedEdges: []string{"10.0.0.0/8", "fd00::/8"},
		Clients: []ClientRule{
			{Match: ClientMatch{Name: "copilot.vim", Versions: "<1.40.0"}, Action: ActionUpgrade, Message: "Update copilot.vim.", DryRun: true},
			{Match: ClientMatch{Name: "vscode"}, Action: ActionAllow},
		},
		Mutations: fullMutations(),
	}
}

func TestFullRoundTrip(t *testing.T) {
	want := full()
	assertAllSet(t, "config", reflect.ValueOf(*want))
	asJSON, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"JSON": asJSON, "YAML": asYAML} {
		got, err := Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		lenient, unknown, err := DecodeLenient(data)
		if err != nil || len(unknown) > 0 {
			t.Fatalf("%s, lenient: %v, unknown %v", name, err, unknown)
		}
		if diff := cmp.Diff(want, lenient); diff != "" {
			t.Errorf("%s, lenient: (-want +got)\n%s", name, diff)
		}
	}
}

// assertAllSet holds full to its promise, so that a new field cannot be
// forgotten. Left out is what excludes another field: the key set's file, a template.
func assertAllSet(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			t.Errorf("%s is not set", path)
			return
		}
		assertAllSet(t, path, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if at := path + "." + v.Type().Field(i).Name; at != "config.Tokens.KeySet.File" && at != "config.Units[0].FillInTheMiddle.Template" {
				assertAllSet(t, at, v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			t.Errorf("%s is empty", path)
			return
		}
		// The first has everything but what only another may have.
		if v.Type() == reflect.TypeFor[[]Variant]() {
			v = v.Slice(1, 2)
		}
		assertAllSet(t, path+"[0]", v.Index(0))
	default:
		if v.IsZero() {
			t.Errorf("%s is not set", path)
		}
	}
}

func TestDefaults(t *testing.T) {
	got, err := Decode([]byte(least))
	if err != nil {
		t.Fatal(err)
	}
	wantLimits := Limits{MaxBodyBytes: 1 << 20, InFlight: 10_000, PerSubject: SubjectLimits{InFlight: 8, Sessions: 4, RequestsPerSecond: 30, Burst: 90}}
	wantTimeouts := Timeouts{
		Connect: Duration(time.Second), ReadBody: Duration(5 * time.Second), FirstByte: Duration(5 * time.Second),
		Idle: Duration(10 * time.Second), Write: Duration(10 * time.Second), Total: Duration(time.Minute),
	}
	if got.Limits != wantLimits || got.Timeouts != wantTimeouts {
		t.Errorf("defaults are %+v and %+v", got.Limits, got.Timeouts)
	}
	if by, protocol := got.Models[0].Split.By, got.Units[0].Protocol; by != SplitBySubject || protocol != ProtocolAuto {
		t.Errorf("the split is by %q, the protocol %q", by, protocol)
	}
	once := *got
	got.SetDefaults()
	if !reflect.DeepEqual(&once, got) {
		t.Error("setting defaults twice changes something")
	}
}

func TestUnknownFields(t *testing.T) {
	text := least + "  retries: 3\nsurprise: {a: 1}\n"
	_, err := Decode([]byte(text))
	for _, path := range []string{"units[0].retries", "surprise"} {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("unknown field %q", path)) {
			t.Errorf("error %v does not name %s", err, path)
		}
	}
	c, unknown, err := DecodeLenient([]byte(text))
	if err != nil || c == nil || len(unknown) != 2 {
		t.Errorf("lenient: config %v, unknown %v, error %v", c, unknown, err)
	}
	// What is refused names them too: they may be why.
	_, _, err = DecodeLenient([]byte(strings.Replace(text, "weight: 1", "weight: -1", 1)))
	if err == nil || !strings.Contains(err.Error(), "weight") || !strings.Contains(err.Error(), unknown[0].Error()) {
		t.Errorf("lenient, with a weight below 0: error %v", err)
	}
}

// TestNames holds that names match by case: what one reader takes for a field
// no other may take for none.
func TestNamesMatchByCase(t *testing.T) {
	if _, err := Decode([]byte(strings.Replace(least, "region: west", "Region: west", 1))); err == nil || !strings.Contains(err.Error(), `unknown field "Region"`) {
		t.Errorf("error %v", err)
	}
}

func TestNoConfig(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"empty":         {"", "it is empty, or no object"},
		"only comments": {"# nothing\n", "it is empty, or no object"},
		"null":          {"null", "it is empty, or no object"},
		"text":          {"hello", "it is empty, or no object"},
		"list":          {"- a", "it is empty, or no object"},
		"no YAML":       {"a: [", "it is neither YAML nor JSON"},
		"a tab":         {"\ta: 1", "it is neither YAML nor JSON"},
		"binary":        {"\x00\x01", "it is neither YAML nor JSON"},
		"a field twice": {least + "region: other\n", `the field "region" stands twice`},
		"too large":     {strings.Repeat("#", MaxBytes) + "\n", fmt.Sprintf("it is %d bytes long; at most %d are allowed", MaxBytes+1, MaxBytes)},
	} {
		for mode, decode := range modes {
			if err := decode([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s, %s: error %v, want %q", name, mode, err, tc.want)
			}
		}
	}
	if _, err := Decode([]byte(least + strings.Repeat("#", MaxBytes-len(least)))); err != nil {
		t.Errorf("a config of %d bytes: %v", MaxBytes, err)
	}
}

var modes = map[string]func([]byte) error{
	"strict":  func(data []byte) error { _, err := Decode(data); return err },
	"lenient": func(data []byte) error { _, _, err := DecodeLenient(data); return err },
}

func TestHash(t *testing.T) {
	// SHA-256 of "abc", from FIPS 180-2.
	if got := Hash([]byte("abc")); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("hash %s", got)
	}
}

// FuzzDecode holds that what is accepted is valid and comes back the same.
func FuzzDecode(f *testing.F) {
	asJSON, err := json.Marshal(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(least))
	f.Add(asJSON)
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte(strings.Replace(least, "weight: 1", "weight: 1e0", 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		lenient, unknown, lenientErr := DecodeLenient(data)
		c, err := Decode(data)
		good := lenientErr == nil && len(unknown) == 0
		if good { // a proxy leaves out what is bad of these
			units, _ := lenient.badUnits()
			good = len(units) == 0 && lenient.badMutations() == nil
		}
		if (err == nil) != good {
			t.Fatalf("strict %v, lenient %v with unknown %v", err, lenientErr, errors.Join(unknown...))
		}
		if err != nil {
			return
		}
		if err := c.check(); err != nil {
			t.Fatalf("accepted, but: %v", err)
		}
		if !reflect.DeepEqual(c, lenient) {
			t.Fatalf("strict %+v, lenient %+v", c, lenient)
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if diff := cmp.Diff(normal(t, c), normal(t, back)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// normal is a config without the difference between no list and an empty one.
func normal(t *testing.T, c *Config) map[string]any {
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestProblems: each problem has its path apart, and what is none is not lost.
func TestProblems(t *testing.T) {
	_, err := Decode([]byte("region: a b\nregoin: c\n"))
	problems, rest := Problems(err)
	if len(problems) == 0 || problems[0].Path != "region" || !strings.HasPrefix(problems[0].Message, `"a b" is no name`) {
		t.Errorf("the problems are %v", problems)
	}
	if rest == nil || !strings.Contains(rest.Error(), `unknown field "regoin"`) {
		t.Errorf("the rest is %v", rest)
	}
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Error())
	}
	if want := rest.Error() + "\n" + strings.Join(texts, "\n"); err.Error() != want {
		t.Errorf("the error is %q, its parts are %q", err, want)
	}
	if problems, rest := Problems(nil); problems != nil || rest != nil {
		t.Errorf("of no error: %v, %v", problems, rest)
	}
}
