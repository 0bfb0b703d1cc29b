package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/client/login"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	goodOAuth = "gho_good"
	badOAuth  = "gho_bad"
)

// service is a token issuer and a proxy at one address.
type service struct {
	*httptest.Server
	asked     chan map[string]any // bodies of completions
	cancelled chan struct{}
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{asked: make(chan map[string]any, 10), cancelled: make(chan struct{}, 10)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("subject_token") != goodOAuth {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":"invalid_request","error_description":"unknown token"}`)
			return
		}
		io.WriteString(w, `{"access_token":"completion-token","token_type":"Bearer","expires_in":1500}`)
	})
	mux.HandleFunc("POST /v1/completions", s.complete)
	s.serve(t, mux)
	return s
}

// startService is one that does what a handler does.
func startService(t *testing.T, handler http.Handler) *service {
	t.Helper()
	s := &service{}
	s.serve(t, handler)
	return s
}

func (s *service) serve(t *testing.T, handler http.Handler) {
	s.Server = httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
}

func (s *service) complete(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if r.Header.Get("Authorization") != "Bearer completion-token" || json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.asked <- body
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"text\":\"fmt.\\u001b[31mPrintln()\\n\"}]}\n\n")
	http.NewResponseController(w).Flush()
	if body["model"] == "slow" {
		<-r.Context().Done()
		s.cancelled <- struct{}{}
		return
	}
	io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

// shell runs ghostline with an environment and a home of its own.
type shell struct {
	t   *testing.T
	dir string
	env map[string]string

	browsed   []string // pages that were opened
	browse    func()   // what the browser does, if anything
	browseErr error
}

func (s *service) shell(t *testing.T) *shell {
	t.Helper()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return &shell{t: t, dir: dir, env: map[string]string{envProxy: s.URL, envIssuer: s.URL, envCA: ca, envOAuth: goodOAuth}}
}

func (s *shell) run(ctx context.Context, stdin string, args ...string) (status int, stdout, stderr string) {
	s.t.Helper()
	var out, err bytes.Buffer
	status = run(ctx, &system{
		stdin: strings.NewReader(stdin), stdout: &out, stderr: &err,
		getenv:    func(name string) string { return s.env[name] },
		configDir: func() (string, error) { return filepath.Join(s.dir, "config"), nil },
		browse: func(page string) error {
			s.browsed = append(s.browsed, page)
			if s.browse != nil {
				s.browse()
			}
			return s.browseErr
		},
	}, args)
	if strings.Contains(out.String()+err.String(), "gho_") {
		s.t.Error("an OAuth token was printed")
	}
	return status, out.String(), err.String()
}

// expect runs ghostline and checks its status and what it prints.
func (s *shell) expect(status int, says string, args ...string) (stdout string) {
	s.t.Helper()
	got, stdout, stderr := s.run(s.t.Context(), "", args...)
	if got != status || !strings.Contains(stdout+stderr, says) {
		s.t.Errorf("%q: status %d, stdout %q, stderr %q; want %d and %q", args, got, stdout, stderr, status, says)
	}
	return stdout
}

func (s *shell) file(name, content string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func TestComplete(t *testing.T) {
	t.Parallel()
	s := newService(t)
	sh := s.shell(t)
	path := sh.file("main.go", "package main\n\nfunc main() {\n\t\n}\n")
	stdout := sh.expect(exitOK, "", "complete", "--max-tokens", "9", path+":4:2")
	if want := "fmt.\x1b[31mPrintln()\n"; stdout != want {
		t.Errorf("printed %q, want %q", stdout, want)
	}
	got := <-s.asked
	for name, want := range map[string]any{"model": "ghost-code", "prompt": "package main\n\nfunc main() {\n\t", "suffix": "\n}\n", "max_tokens": 9.0} {
		if got[name] != want {
			t.Errorf("asked with %s %q, want %q", name, got[name], want)
		}
	}
}

func TestCompleteInterrupted(t *testing.T) {
	t.Parallel()
	s := newService(t)
	sh := s.shell(t)
	path := sh.file("main.go", "x")
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		<-s.asked
		interrupt()
	}()
	status, _, stderr := sh.run(ctx, "", "complete", "--model", "slow", path+":1:1")
	if status != exitFailure || stderr != "ghostline: interrupted\n" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	<-s.cancelled
}

// TestCompleteOutputGone: a reader that goes away stops the model.
func TestCompleteOutputGone(t *testing.T) {
	t.Parallel()
	s := newService(t)
	sh := s.shell(t)
	read, write := io.Pipe()
	read.Close()
	status := run(t.Context(), &system{stdin: strings.NewReader(""), stdout: write, stderr: io.Discard,
		getenv: func(name string) string { return sh.env[name] }}, []string{"complete", "--model", "slow", sh.file("a", "x") + ":1:1"})
	if status != exitFailure {
		t.Errorf("status %d, want %d", status, exitFailure)
	}
	<-s.cancelled
}

func TestGhostTextAtTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	g := &ghostText{out: &out, atTerminal: true}
	for _, text := range []string{"a\x1b]0;title\a", "\tb\n\r\u009b"} {
		if err := g.write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.end(); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[2ma]0;title\tb\n\x1b[0m\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	s := newService(t)
	sh := s.shell(t)
	delete(sh.env, envOAuth)
	sh.expect(exitFailure, "not logged in to "+s.URL+": run `ghostline login", "token")

	status, _, stderr := sh.run(t.Context(), badOAuth, "login", "--with-token")
	if status != exitFailure || !strings.Contains(stderr, "refused this OAuth token (400 invalid_request unknown token), so it was not stored") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	sh.expect(exitFailure, "not logged in", "token")

	status, _, stderr = sh.run(t.Context(), goodOAuth+"\n", "login", "--with-token", "--issuer", s.URL+"/")
	if status != exitOK || !strings.Contains(stderr, "Logged in") {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	if stdout := sh.expect(exitOK, "", "token"); stdout != "completion-token\n" {
		t.Errorf("token printed %q", stdout)
	}
	path := filepath.Join(sh.dir, "config", "ghostline", "credentials.json")
	for name, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %04o", name, info.Mode(), err, want)
		}
	}

	sh.env[envOAuth] = badOAuth
	sh.expect(exitFailure, envOAuth+" is set and comes before a stored login", "token")
	delete(sh.env, envOAuth)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	sh.expect(exitFailure, "run `chmod 600 ", "token")
	sh.file("config/ghostline/credentials.json", "{")
	os.Chmod(path, 0o600)
	sh.expect(exitFailure, "is not the JSON that login writes", "token")
}

// TestLoginKeepsOthers: logging in to one issuer keeps the others' logins.
func TestLoginKeepsOthers(t *testing.T) {
	t.Parallel()
	store := &credentials{path: filepath.Join(t.TempDir(), "ghostline", "credentials.json")}
	for i := range 3 {
		if err := store.save(t.Context(), fmt.Sprint("https://issuer-", i), login.Login{Token: fmt.Sprint("token-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if got, err := store.load(fmt.Sprint("https://issuer-", i, "/")); err != nil || got.Token != fmt.Sprint("token-", i) {
			t.Errorf("issuer %d: %v, %v", i, got, err)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	s := newService(t)
	sh := s.shell(t)
	path := sh.file("main.go", "package main\n")
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	unset := func(names ...string) *shell {
		other := s.shell(t)
		for _, name := range names {
			delete(other.env, name)
		}
		return other
	}
	for _, test := range []struct {
		sh     *shell
		status int
		says   string
		args   []string
	}{
		{sh, exitUsage, `there is no command "complte"; did you mean compile or complete`, []string{"complte"}},
		{sh, exitUsage, "unknown flag: --oauth-token\nSee `ghostline complete --help`", []string{"complete", "--oauth-token", "x"}},
		{sh, exitUsage, "complete takes one place such as main.go:12:5, not 0", []string{"complete"}},
		{sh, exitUsage, "should look like main.go:12:5", []string{"complete", path}},
		{sh, exitUsage, "--max-tokens is 0, want at least 1", []string{"complete", path + ":1:1", "--max-tokens", "0"}},
		{sh, exitUsage, `token takes no argument, but got "x"`, []string{"token", "x"}},
		{sh, exitFailure, "ask the issuer how to log in: it answered 404: check the issuer's URL", []string{"login"}},
		{sh, exitUsage, "leave --provider and --browser out", []string{"login", "--with-token", "--provider", "x"}},
		{sh, exitUsage, `--token-type is "saml"; it must be access_token, id_token or jwt`, []string{"login", "--with-token", "--token-type", "saml"}},
		{sh, exitUsage, "--token-type is for --with-token", []string{"login", "--token-type", "jwt"}},
		{sh, exitOK, "There was no login for " + s.URL, []string{"logout"}},
		{unset(envIssuer), exitUsage, "no token issuer", []string{"logout"}},
		{sh, exitUsage, "should hold the OAuth token, one word", []string{"login", "--with-token"}},
		{sh, exitUsage, "set --dir", []string{"up"}},
		{sh, exitUsage, `--listen-proxy: ":8443" is not 127.0.0.1, ::1 or localhost`, []string{"up", "--dir", sh.dir, "--listen-proxy", ":8443"}},
		{sh, exitFailure, "is open to others (mode 0755)", []string{"up", "--dir", open}},
		{unset(envProxy), exitUsage, "no proxy: set --proxy or GHOSTLINE_PROXY_URL", []string{"complete", path + ":1:1"}},
		{unset(envIssuer), exitUsage, "no token issuer: set --issuer or GHOSTLINE_ISSUER_URL", []string{"complete", path + ":1:1"}},
		{unset(envCA), exitFailure, "name that CA by --ca or GHOSTLINE_CA", []string{"complete", path + ":1:1"}},
		{sh, exitFailure, "main.go: line 7 is outside the file, which has 2 lines", []string{"complete", path + ":7:1"}},
		{sh, exitFailure, "no such file", []string{"complete", path + ".x:1:1"}},
		{sh, exitFailure, "holds no certificate in PEM form", []string{"token", "--ca", path}},
		{sh, exitFailure, "should look like https://completions.example.com", []string{"complete", "--proxy", "localhost", path + ":1:1"}},
		{sh, exitFailure, "check that the server runs", []string{"complete", "--proxy", "https://127.0.0.1:1", path + ":1:1"}},
		{sh, exitOK, "Ctrl-C stops the model", []string{"complete", "--help"}},
		{sh, exitOK, "Available Commands", nil},
		{sh, exitOK, "ghostline ", []string{"version"}},
		{sh, exitOK, "bash completion", []string{"completion", "bash"}},
		{sh, exitOK, "--with-token", []string{"__complete", "login", "--w"}},
	} {
		test.sh.expect(test.status, test.says, test.args...)
	}
}
