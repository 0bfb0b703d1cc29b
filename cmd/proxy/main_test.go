package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	goodKeys = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`

	goodConfig = `
region: here
tokens: {issuer: https://tokens.example.com, audience: completions.example.com, keySet: {file: jwks.json}}
models: [{name: ghost-code, variants: [{name: stable, weight: 1}]}]
units: [{name: unit-1, region: "here", serves: ghost-code/stable, provider: OpenAI, url: "http://127.0.0.1:9/v1/completions"}]
`
)

// edit is a mistake in the good config: old becomes new.
type edit struct{ name, old, new, want string }

// wrongConfigs are mistakes, and what the message must say of each: the field's
// path or what is wrong with the text, and what would be right.
var wrongConfigs = []edit{
	{"empty", goodConfig, "", "it is empty, or no object"},
	{"only a comment", goodConfig, "# nothing", "it is empty, or no object"},
	{"a list", goodConfig, "[]", "it is empty, or no object"},
	{"text", goodConfig, "region", "it is empty, or no object"},
	{"broken YAML", "models: [", "models: ", "neither YAML nor JSON"},
	{"broken JSON", goodConfig, `{"region": "here",`, "neither YAML nor JSON"},
	{"binary", goodConfig, "\x00\x01\x02", "neither YAML nor JSON"},
	{"a tab", "region: here", "region: here\n\tx: 1", "neither YAML nor JSON"},
	{"a field twice", "region: here", "region: here\nregion: there", `the field "region" stands twice`},
	{"two documents", "region: here", "region: here\n---\nregion: there", "more than one document"},
	{"too long", "region: here", "region: here\n#" + strings.Repeat("x", 1<<20), "at most 1048576 are allowed"},
	{"a feature that is needed", "region: here", "region: here\nrequires: [mirrors]", `requires[0]: this proxy does not have the feature "mirrors"; update the proxy`},

	{"no region", "region: here", "", "region: "},
	{"an empty name", "name: unit-1", `name: ""`, "units[0].name: "},
	{"a name with a slash", "name: ghost-code", "name: ghost/code", "models[0].name: "},
	{"another case", "region: here", "Region: here", "region: "},
	{"a failover that is no name", "region: here", "region: here\nfailover: [a b]", "failover[0]: "},
	{"failover to itself", "region: here", "region: here\nfailover: [there, here]", "failover[1]: "},
	{"failover twice", "region: here", "region: here\nfailover: [there, there]", "failover[1]: "},

	{"no issuer", "issuer: https://tokens.example.com, ", "", "tokens.issuer: is missing"},
	{"no audience", "audience: completions.example.com, ", "", "tokens.audience: is missing"},
	{"no key set", "{file: jwks.json}", "{}", "tokens.keySet: must have exactly one of url and file"},
	{"two key sets", "{file: jwks.json}", "{file: jwks.json, url: https://x/y}", "tokens.keySet: must have exactly one of url and file"},
	{"a key set's URL that is none", "{file: jwks.json}", "{url: tokens.example.com}", "tokens.keySet.url: is no absolute http or https URL"},
	{"a CA without URL", "{file: jwks.json}", "{file: jwks.json, caFile: x}", "tokens.keySet.caFile: goes only with url"},
	{"a CA that is not there", "{file: jwks.json}", "{url: https://x/y, caFile: absent}", "tokens.keySet: open"},
	{"a CA that is none", "{file: jwks.json}", "{url: https://x/y, caFile: jwks.json}", "holds no PEM certificate"},
	{"keys that are not there", "jwks.json", "absent.json", "tokens.keySet: open"},
	{"keys that are a directory", "jwks.json", ".", "is a directory"},
	{"keys that are none", "jwks.json", "config.yaml", "tokens.keySet: key set: not a JSON Web Key Set"},
	{"denied subjects without file", "keySet:", "deniedSubjects: {}, keySet:", "tokens.deniedSubjects.file: is missing"},
	{"denied subjects that are not there", "keySet:", "deniedSubjects: {file: absent}, keySet:", "tokens.deniedSubjects: open"},

	{"no models", "models: [{name: ghost-code, variants: [{name: stable, weight: 1}]}]", "models: []", "models: has 0 entries; it must have 1 to 16"},
	{"models that are text", "models: [{name: ghost-code, variants: [{name: stable, weight: 1}]}]", "models: ghost-code", "models: is a string; it must be a list"},
	{"no variants", "[{name: stable, weight: 1}]", "[]", "models[0].variants: has 0 entries"},
	{"no weight", ", weight: 1", "", "models[0].variants: all have weight 0"},
	{"a negative weight", "weight: 1", "weight: -1", "models[0].variants[0].weight: is -1; it must be 0 to"},
	{"a weight in text", "weight: 1", "weight: heavy", "weight: is a string; it must be a whole number"},
	{"a fallback to nothing", "weight: 1", "weight: 1, fallback: next", `models[0].variants[0].fallback: "next" is no variant`},
	{"a fallback to itself", "weight: 1", "weight: 1, fallback: stable", "fallbacks must end"},
	{"two variants alike", "{name: stable, weight: 1}", "{name: stable, weight: 1}, {name: stable, weight: 1}", "models[0].variants[1].name: "},
	{"an alias that is taken", "name: ghost-code,", "name: ghost-code, aliases: [ghost-code],", "models[0].aliases[0]: "},
	{"an unknown split", "name: ghost-code,", "name: ghost-code, split: {by: Colour},", "must be one of Subject, Request"},

	{"no units", "units: [{", "x: [{", "units: has 0 entries"},
	{"a unit of another region", `"here"`, "there", `units[0].region: "there" is neither`},
	{"a unit that serves nothing", "serves: ghost-code/stable", "serves: ghost-code/next", "units[0].serves: "},
	{"an unknown provider", "provider: OpenAI", "provider: Open", "units[0].provider: \"Open\" is not known; it must be one of OpenAI"},
	{"an unknown protocol", "provider: OpenAI", "provider: OpenAI, protocol: h2", "units[0].protocol: "},
	{"HTTP2 without TLS", "provider: OpenAI", "provider: OpenAI, protocol: HTTP2", "HTTP2 needs an https URL"},
	{"TLS without TLS", "provider: OpenAI", "provider: OpenAI, tls: {serverName: x}", "units[0].tls: goes only with an https URL"},
	{"no URL", `, url: "http://127.0.0.1:9/v1/completions"`, "", "units[0].url: is missing"},
	{"an URL without scheme", "http://127.0.0.1:9/v1", "127.0.0.1:9/v1", "units[0].url: is no absolute http or https URL"},
	{"an URL with a password", "http://127", "http://user:sesame@127", "units[0].url: holds a user name or password"},
	{"a port that is none", "127.0.0.1:9/", "127.0.0.1:99999/", "units[0].url: "},
	{"a credential with a path", "provider: OpenAI", "provider: OpenAI, credential: ../key", "units[0].credential: "},
	{"a negative capacity", "provider: OpenAI", "provider: OpenAI, capacity: {inFlight: -1}", "units[0].capacity.inFlight: is -1"},

	{"a negative limit", "region: here", "limits: {maxBodyBytes: -1}\nregion: here", "limits.maxBodyBytes: is -1; it must be 1 to"},
	{"a limit with a unit", "region: here", "limits: {maxBodyBytes: 1Mi}\nregion: here", "maxBodyBytes: is a string; it must be a whole number"},
	{"a limit that is no number", "region: here", "limits: {perSubject: {requestsPerSecond: .nan}}\nregion: here", "neither YAML nor JSON"},
	{"a limit without end", "region: here", "limits: {perSubject: {requestsPerSecond: .inf}}\nregion: here", "neither YAML nor JSON"},
	{"a timeout without unit", "region: here", "timeouts: {idle: 5}\nregion: here", "timeouts.idle: is no duration"},
	{"a timeout in words", "region: here", "timeouts: {idle: soon}\nregion: here", "timeouts.idle: is no duration"},
	{"a negative timeout", "region: here", "timeouts: {idle: -5s}\nregion: here", "timeouts.idle: is -5s; it must be above 0"},
	{"a timeout of a day", "region: here", "timeouts: {total: 24h}\nregion: here", "timeouts.total: is 24h0m0s; it must be above 0 and at most"},
	{"total below first byte", "region: here", "timeouts: {total: 1s}\nregion: here", "timeouts.total: is 1s, less than firstByte"},
}

func TestWrongConfigs(t *testing.T) {
	for _, tc := range wrongConfigs {
		t.Run(tc.name, func(t *testing.T) {
			if strings.Count(goodConfig, tc.old) != 1 {
				t.Fatalf("%q stands %d times in the good config", tc.old, strings.Count(goodConfig, tc.old))
			}
			file := writeFiles(t, strings.Replace(goodConfig, tc.old, tc.new, 1))
			code, stderr := exec(t.Context(), "-config", file, "-listen-cleartext", "127.0.0.1:0")
			if code != 2 || !strings.Contains(stderr, tc.want) || !strings.HasPrefix(stderr, "proxy: ") {
				t.Errorf("exit %d, %q; want exit 2 and %q", code, stderr, tc.want)
			}
			if strings.Contains(stderr, "sesame") || strings.Contains(stderr, "Go struct") {
				t.Errorf("the message %q holds a secret, or Go's own types", stderr)
			}
		})
	}
}

// TestAllMistakesAtOnce: whoever mends a config should not have to start the
// proxy once for each mistake.
func TestAllMistakesAtOnce(t *testing.T) {
	wrong := strings.NewReplacer("OpenAI", "Open", "weight: 1", "weight: -1", "region: here\n", "region: no region\n").Replace(goodConfig)
	_, stderr := exec(t.Context(), "-config", writeFiles(t, wrong), "-listen-cleartext", "127.0.0.1:0")
	for _, want := range []string{"region: ", "models[0].variants[0].weight: ", "units[0].provider: ", "units[0].region: "} {
		if !strings.Contains(stderr, "\n"+want) && !strings.Contains(stderr, " "+want) {
			t.Errorf("%q is not in %q", want, stderr)
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	file := writeFiles(t, goodConfig)
	for _, tc := range []struct {
		want string
		args []string
	}{
		{"-config is missing", nil},
		{"flag provided but not defined: -confg", []string{"-confg", file}},
		{`unexpected argument "extra"`, []string{"-config", file, "extra"}},
		{"nothing to listen on", []string{"-config", file}},
		{"-listen-tls needs -tls-cert and -tls-key", []string{"-config", file, "-listen-tls", "127.0.0.1:0"}},
		{"-tls-cert, -tls-key: ", []string{"-config", file, "-listen-tls", "127.0.0.1:0", "-tls-cert", file, "-tls-key", file}},
		{"of no use without -listen-tls", []string{"-config", file, "-listen-cleartext", "127.0.0.1:0", "-tls-cert", file}},
		{"-listen-cleartext: ", []string{"-config", file, "-listen-cleartext", "127.0.0.1:none"}},
		{"no such file", []string{"-config", file + ".absent", "-listen-cleartext", "127.0.0.1:0"}},
		{"is a directory", []string{"-config", filepath.Dir(file), "-listen-cleartext", "127.0.0.1:0"}},
		{"-access-log: ", []string{"-config", file, "-listen-cleartext", "127.0.0.1:0", "-access-log", filepath.Dir(file)}},
		{`invalid value "soon" for flag -drain-delay`, []string{"-config", file, "-listen-cleartext", "127.0.0.1:0", "-drain-delay", "soon"}},
	} {
		if code, stderr := exec(t.Context(), tc.args...); code != 2 || !strings.Contains(stderr, tc.want) {
			t.Errorf("%q: exit %d, %q; want exit 2 and %q", tc.args, code, stderr, tc.want)
		}
	}
}

// TestGoodConfig is what the mistakes are made in: it must serve, and end well.
func TestGoodConfig(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log, stderr := io.Pipe()
	code := make(chan int, 1)
	accessLog := filepath.Join(t.TempDir(), "access.log")
	args := []string{"-config", writeFiles(t, goodConfig), "-listen-cleartext", "127.0.0.1:0", "-drain-delay", "0s", "-access-log", accessLog}
	go func() { code <- command().Exec(ctx, args, io.Discard, stderr); stderr.Close() }()
	for seen, buffer := "", make([]byte, 4096); !strings.Contains(seen, `"msg":"serving"`); {
		n, err := log.Read(buffer)
		if seen += string(buffer[:n]); err != nil {
			t.Fatalf("it ended with %q", seen)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	stop()
	if got := <-code; got != 0 {
		t.Errorf("exit %d after a clean end, want 0", got)
	}
	if _, err := os.Stat(accessLog); err != nil {
		t.Error(err)
	}
}

func exec(ctx context.Context, args ...string) (code int, stderr string) {
	var out bytes.Buffer
	ctx, stop := context.WithCancel(ctx)
	stop() // so that a config that is taken after all ends at once
	code = command().Exec(ctx, append([]string{"-drain-delay=0s"}, args...), io.Discard, &out)
	return code, out.String()
}

// writeFiles writes a config and its key set, and returns the config's name.
func writeFiles(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"config.yaml": config, "jwks.json": goodKeys} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "config.yaml")
}
