package identity

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// helloSHA256 is of "hello".
const helloSHA256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

// load writes a file, loads it, and returns the log too.
func load(t *testing.T, content string, mode os.FileMode) (*Static, string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	static, err := LoadStatic("local", file, slog.New(slog.NewTextHandler(&log, nil)))
	return static, log.String(), err
}

func TestIdentify(t *testing.T) {
	static, _, err := load(t, fmt.Sprintf(`
tokens:
- {sha256: %s, subject: u-1, clientID: editor, models: [ghost-code], tier: pro}
- {token: plain-one, subject: u-2, clientID: ci, models: []}
- {sha256: %s, subject: u-3, clientID: editor}
`, helloSHA256, strings.ToUpper("486ea46224d1bb4fb680f34f7c9ad96a8f24ec88be73ea8e5a6c65260e9cb8a7")), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for credential, want := range map[string]Identity{
		"hello":     {Subject: "u-1", ClientID: "editor", Models: []string{"ghost-code"}, Tier: "pro"},
		"plain-one": {Subject: "u-2", ClientID: "ci", Models: []string{}},
		"world":     {Subject: "u-3", ClientID: "editor"},
	} {
		got, err := static.Identify(t.Context(), Credential{Value: credential, Type: AccessToken})
		if err != nil {
			t.Errorf("%s: %v", credential, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", credential, diff)
		}
	}
	for _, unknown := range []string{"", "Hello", "hello ", helloSHA256, strings.Repeat("x", 1<<20)} {
		if got, err := static.Identify(t.Context(), Credential{Value: unknown, Type: AccessToken}); !errors.Is(err, ErrUnknownCredential) {
			t.Errorf("an unknown credential gives %+v, %v", got, err)
		}
	}
}

func TestWarnsOfCredentialsInPlain(t *testing.T) {
	const plain, hashed = "token: hunter22", "sha256: " + helloSHA256
	for _, tc := range []struct {
		entry string
		mode  os.FileMode
		warns bool
	}{
		{plain, 0o600, false}, {plain, 0o644, true}, {plain, 0o640, true}, {plain, 0o604, true}, {hashed, 0o644, false},
	} {
		_, log, err := load(t, "tokens: [{"+tc.entry+", subject: u, clientID: c}]", tc.mode)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log, "chmod 600") != tc.warns {
			t.Errorf("%s with mode %v: warns %v, want %v: %q", tc.entry, tc.mode, !tc.warns, tc.warns, log)
		}
		if strings.Contains(log, "hunter") {
			t.Errorf("the log has the credential: %q", log)
		}
	}
}

// TestLoadStaticRefuses also holds that no credential is quoted.
func TestLoadStaticRefuses(t *testing.T) {
	const good = "subject: u, clientID: c"
	for _, tc := range []struct{ content, want string }{
		{"", "it is empty, or no object"},
		{"tokens: []", "tokens: it lists no credential"},
		{"tokens: hunter22", "tokens: is a string; it must be a list"},
		{"users: [{token: hunter22}]", `unknown field "users"`},
		{"tokens: [{token: hunter22, secret: x, " + good + "}]", `unknown field "tokens[0].secret"`},
		{"tokens: [{token: 1234567, " + good + "}]", "token: is a number; it must be a string"},
		{"tokens: [{token: *hunter22, " + good + "}]", "it is neither YAML nor JSON"},
		{"tokens: [{" + good + "}]", "tokens[0]: give one of sha256"},
		{"tokens: [{token: hunter22, sha256: " + helloSHA256 + ", " + good + "}]", "tokens[0]: give one of sha256"},
		{"tokens: [{sha256: hunter22, " + good + "}]", "tokens[0]: sha256: it must be 64"},
		{"tokens: [{sha256: abcd, " + good + "}]", "tokens[0]: sha256: it must be 64"},
		{"tokens: [{token: hello, " + good + "}, {sha256: " + helloSHA256 + ", " + good + "}]", "tokens[1]: the credential is that of an earlier entry"},
		{"tokens: [{token: hunter22, clientID: c}]", "tokens[0]: subject"},
		{"tokens: [{token: hunter22, clientID: c, subject: a b}]", "tokens[0]: subject"},
		{"tokens: [{token: hunter22, subject: u}]", "tokens[0]: clientID"},
		{"tokens: [{token: hunter22, tier: 'a b', " + good + "}]", "tokens[0]: tier"},
		{"tokens: [{token: hunter22, models: [''], " + good + "}]", "tokens[0]: models"},
		{"tokens: [{token: hunter22, models: [a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a], " + good + "}]", "tokens[0]: models: there are 17"},
		{"tokens: [{token: hunter22}, {token: hunter23}]", "tokens[1]: subject"},
	} {
		_, _, err := load(t, tc.content, 0o600)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: error %v, want one with %q", tc.content, err, tc.want)
			continue
		}
		if strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "1234567") {
			t.Errorf("error %q quotes the credential", err)
		}
	}
	if _, err := LoadStatic("local", filepath.Join(t.TempDir(), "absent"), slog.New(slog.DiscardHandler)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: error %v", err)
	}
}
