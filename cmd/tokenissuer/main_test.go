package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/localca"
)

func TestBadCommandLines(t *testing.T) {
	config, certs := writeFiles(t)
	absent := filepath.Join(t.TempDir(), "absent")
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("isuer: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(filepath.Dir(config), "secret.yaml")
	withSecret, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	withSecret = bytes.Replace(withSecret, []byte("{directory: keys}"), []byte("{secret: signing-keys}"), 1)
	if err := os.WriteFile(secret, withSecret, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", absent) // this test is in no cluster
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "-config is missing"},
		{[]string{"-confg", "x"}, 2, "flag provided but not defined: -confg"},
		{[]string{"-config", config, "extra"}, 2, `unexpected argument "extra"`},
		{[]string{"-config", config}, 2, "nothing to listen on"},
		{[]string{"-config", config, "-listen-tls", "127.0.0.1:0"}, 2, "needs -tls-cert and -tls-key"},
		{[]string{"-config", config, "-listen-cleartext", "127.0.0.1:0", "-tls-cert", "x"}, 2, "of no use without -listen-tls"},
		{[]string{"-config", config, "-listen-tls", "127.0.0.1:0", "-tls-cert", absent, "-tls-key", absent}, 2, "-tls-cert, -tls-key: open"},
		{[]string{"-config", config, "-listen-tls", "127.0.0.1:0", "-tls-cert", certs + "/tls.key", "-tls-key", certs + "/tls.crt"}, 2, "-tls-cert, -tls-key"},
		{[]string{"-config", absent, "-listen-cleartext", "127.0.0.1:0"}, 2, "no such file"},
		{[]string{"-config", broken, "-listen-cleartext", "127.0.0.1:0"}, 2, `unknown field "isuer"`},
		{[]string{"-config", secret, "-listen-cleartext", "127.0.0.1:0"}, 2, "keys.secret: kubernetes: "},
		{[]string{"-config", config, "-listen-cleartext", "127.0.0.1:none"}, 2, "-listen-cleartext: listen tcp"},
	} {
		var stderr bytes.Buffer
		code := command().Exec(t.Context(), tc.args, io.Discard, &stderr)
		if code != tc.code || strings.Count(stderr.String(), tc.want) != 1 {
			t.Errorf("%q: exit %d, %q; want exit %d and %q once", tc.args, code, stderr.String(), tc.code, tc.want)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := command().Exec(t.Context(), []string{"-version"}, &stdout, &stderr); code != 0 || !strings.HasPrefix(stdout.String(), "tokenissuer ") {
		t.Errorf("-version: exit %d, %q", code, stdout.String())
	}
	if code := command().Exec(t.Context(), []string{"-h"}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "-listen-tls ADDR") {
		t.Errorf("-h: exit %d, %q", code, stderr.String())
	}
}

// TestServesUntilTold finds the admin address in the log, as callers that start
// this program do.
func TestServesUntilTold(t *testing.T) {
	config, certs := writeFiles(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	logged, stderr := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- command().Exec(ctx, []string{
			"-config", config, "-listen-tls", "127.0.0.1:0", "-tls-cert", certs + "/tls.crt", "-tls-key", certs + "/tls.key",
			"-listen-cleartext", "127.0.0.1:0", "-listen-admin", "127.0.0.1:0",
		}, io.Discard, stderr)
		_ = stderr.Close()
	}()
	addr := adminAddr(t, logged)
	go func() { _, _ = io.Copy(io.Discard, logged) }()
	response, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || !strings.Contains(string(metrics), "go_goroutines") || !strings.Contains(string(metrics), "ghostline_issuer_keys 1") {
		t.Errorf("metrics %.200s, %v", metrics, err)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if got := <-code; got != 0 {
		t.Errorf("exit %d after a clean end, want %d", got, 0)
	}
}

func adminAddr(t *testing.T, log io.Reader) string {
	t.Helper()
	serving := regexp.MustCompile(`"msg":"serving","listener":"admin","addr":"([^"]+)"`)
	var seen []byte
	buffer := make([]byte, 4096)
	for {
		n, err := log.Read(buffer)
		seen = append(seen, buffer[:n]...)
		if found := serving.FindSubmatch(seen); found != nil {
			return string(found[1])
		}
		if err != nil {
			t.Fatalf("no admin address in the log %q: %v", seen, err)
		}
	}
}

// writeFiles makes a configuration file, and a directory of certificates.
func writeFiles(t *testing.T) (config, certs string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"tokens.yaml": "tokens: [{token: local-login, subject: u-1, clientID: editor}]",
		"issuer.yaml": `
issuer: https://tokens.example.com
audiences: [completions.example.com]
keys: {directory: keys}
identityProviders: [{name: local, type: Static, static: {file: tokens.yaml}}]
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "issuer.yaml"), dir
}
