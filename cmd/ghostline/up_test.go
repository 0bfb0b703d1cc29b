package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// stack is a running `ghostline up`, and what its env says to a stranger.
type stack struct {
	*shell
	t         *testing.T
	client    *http.Client
	announced string // what it says of itself
}

// startUp runs up until the test interrupts it, by the function that is returned,
// and reads DIR/env as a shell does.
func startUp(t *testing.T, args ...string) (s *stack, interrupt func()) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "up")
	ctx, cancel := context.WithCancel(t.Context())
	stdout, write := io.Pipe()
	var stderr bytes.Buffer
	status := make(chan int, 1)
	go func() {
		got := run(ctx, &system{stdin: strings.NewReader(""), stdout: write, stderr: &stderr, getenv: func(string) string { return "" }},
			append([]string{"up", "--dir", dir, "--first-token", "1ms", "--tokens-per-second", "0"}, args...))
		write.Close()
		status <- got
	}()
	var announced strings.Builder
	for lines := bufio.NewScanner(stdout); !strings.Contains(lines.Text(), "stops everything"); announced.WriteString(lines.Text() + "\n") {
		if !lines.Scan() {
			cancel()
			t.Fatalf("up ended with status %d and %q", <-status, stderr.String())
		}
	}
	s = &stack{shell: &shell{t: t, dir: t.TempDir(), env: source(t, filepath.Join(dir, "env"))}, t: t, announced: announced.String()}
	s.client = s.httpClient()
	return s, func() {
		s.client.CloseIdleConnections()
		cancel()
		if got := <-status; got != exitOK || stderr.Len() > 0 {
			t.Errorf("interrupted, up ended with status %d and %q; want 0 and nothing", got, stderr.String())
		}
		if _, err := os.Lstat(filepath.Join(dir, "env")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("env after the end: %v, want it gone", err)
		}
	}
}

// source is what a shell without a variable of its own has after `. file`.
func source(t *testing.T, file string) map[string]string {
	t.Helper()
	sh := exec.CommandContext(t.Context(), "sh", "-c", `. "$0"; env`, file)
	sh.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := sh.Output()
	if err != nil {
		t.Fatal(err)
	}
	env := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok && strings.HasPrefix(name, "GHOSTLINE_") {
			env[name] = value
		}
	}
	return env
}

// httpClient speaks HTTP/2 only, and trusts only the CA of the stack.
func (s *stack) httpClient() *http.Client {
	s.t.Helper()
	pem, err := os.ReadFile(s.env[envCA])
	if err != nil {
		s.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		s.t.Fatal("the CA is no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP2(true)
	return &http.Client{Transport: transport}
}

// ask returns the answer to a request, GET if there is no body.
func (s *stack) ask(wantStatus int, address, authorization, contentType, body string) string {
	s.t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != wantStatus || resp.ProtoMajor != 2 {
		s.t.Fatalf("%s %s: status %d over %s, %q; want %d over HTTP/2", method, address, resp.StatusCode, resp.Proto, answer, wantStatus)
	}
	return string(answer)
}

// admin is what the proxy's admin port says, which speaks in the clear.
func (s *stack) admin(path string) string {
	s.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.env["GHOSTLINE_ADMIN_URL"] + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: status %d, error %v", path, resp.StatusCode, err)
	}
	return string(answer)
}

// tokens are a token from each of the issuer's exchange endpoints.
func (s *stack) tokens() []string {
	s.t.Helper()
	form := url.Values{
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"subject_token":      {s.env[envOAuth]},
	}
	var standard struct {
		Token string `json:"access_token"`
	}
	var copilot struct{ Token string }
	for _, exchange := range []struct {
		answer string
		into   any
	}{
		{s.ask(http.StatusOK, s.env[envIssuer]+"/oauth/token", "", "application/x-www-form-urlencoded", form.Encode()), &standard},
		{s.ask(http.StatusOK, s.env[envIssuer]+"/copilot_internal/v2/token", "token "+s.env[envOAuth], "", ""), &copilot},
	} {
		if err := json.Unmarshal([]byte(exchange.answer), exchange.into); err != nil {
			s.t.Fatal(err)
		}
	}
	return []string{standard.Token, copilot.Token}
}

// stream asks for a completion and checks that all of it comes, as events.
func (s *stack) stream(path, token, body string) {
	s.t.Helper()
	answer := s.ask(http.StatusOK, s.env[envProxy]+path, "Bearer "+token, "application/json", body)
	var text strings.Builder
	for line := range strings.Lines(strings.TrimSuffix(answer, "data: [DONE]\n\n")) {
		var event struct {
			Choices []struct {
				Text  string                   // OpenAI's form
				Delta struct{ Content string } // Mistral's
			}
		}
		if line == "\n" {
			continue
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &event); err != nil || len(event.Choices) != 1 {
			s.t.Fatalf("%s: event %q, error %v", path, line, err)
		}
		text.WriteString(event.Choices[0].Text + event.Choices[0].Delta.Content)
	}
	if text.Len() == 0 || !strings.HasSuffix(answer, "\n\ndata: [DONE]\n\n") {
		s.t.Errorf("%s: %q, want text and then [DONE]", path, answer)
	}
}

// TestUp is a stranger with DIR/env and nothing else: it gets tokens, streams
// from every path over HTTP/2, and lets the other commands do the same.
func TestUp(t *testing.T) {
	t.Parallel()
	s, interrupt := startUp(t)
	defer interrupt()
	for _, token := range s.tokens() {
		for path, body := range map[string]string{
			"/v1/completions":                    `{"model":"ghost-code","prompt":"func main() {\n\t","max_tokens":8,"stream":true}`,
			"/v1/engines/ghost-code/completions": `{"prompt":"func main() {\n\t","suffix":"\n}\n","max_tokens":8,"stream":true}`,
			"/v1/fim/completions":                `{"model":"ghost-code","prompt":"func main() {\n\t","suffix":"\n}\n","max_tokens":8,"stream":true}`,
		} {
			s.stream(path, token, body)
		}
		if models := s.ask(http.StatusOK, s.env[envProxy]+"/v1/models", "Bearer "+token, "", ""); !strings.Contains(models, `"id": "ghost-code"`) {
			t.Errorf("models: %s", models)
		}
	}
	s.ask(http.StatusUnauthorized, s.env[envProxy]+"/v1/completions", "", "application/json", `{"model":"ghost-code","prompt":"x"}`)
	s.ask(http.StatusOK, s.env["GHOSTLINE_MODEL_URL"]+"/healthz", "", "", "")

	path := s.file("main.go", "package main\n\nfunc main() {\n\t\n}\n")
	if text := s.expect(exitOK, "", "complete", "--max-tokens", "8", path+":4:2"); strings.TrimSpace(text) == "" {
		t.Errorf("complete printed %q", text)
	}
	s.expect(exitOK, "connections                           3            0 opened again", "load", "--users", "3", "--requests", "30", "--think", "5ms")
	token := strings.TrimSpace(s.expect(exitOK, "", "token"))
	s.stream("/v1/completions", token, `{"model":"ghost-code","prompt":"x","max_tokens":8,"stream":true}`)
}

// TestTokenExample runs the example of token's help as it stands there, and
// looks at what curl gets.
func TestTokenExample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, script := range map[string]string{
		"ghostline": "#!/bin/sh\necho the-token\n",
		"curl":      "#!/bin/sh\nprintf '%s\\n' \"$@\"\ncat\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sh := exec.CommandContext(t.Context(), "sh", "-c", newToken(&system{getenv: func(string) string { return "" }}).Example)
	sh.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), envCA + "=/a/ca.pem", envProxy + "=https://proxy"}
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	arguments, stdin, ok := strings.Cut(string(out), "https://proxy/v1/completions\n")
	if !ok || !strings.Contains(arguments, "--cacert\n/a/ca.pem\n") || strings.Contains(arguments, "the-token") {
		t.Errorf("curl is given the arguments %q; want the proxy's URL and CA, and no token", arguments)
	}
	if stdin != "Authorization: Bearer the-token\n" {
		t.Errorf("curl reads %q", stdin)
	}
}
