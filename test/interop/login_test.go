package interop

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGhostlineLogin has a person log in by the command line at a certified provider,
// with the test as their browser, and complete with the token that comes of it.
func TestGhostlineLogin(t *testing.T) {
	p := startOpenIDProvider(t)
	s := p.withStack()
	program := filepath.Join(t.TempDir(), "ghostline")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/ghostline").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	home := t.TempDir()
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "GHOSTLINE_CA="+s.files.CA(), "GHOSTLINE_ISSUER_URL="+s.files.IssuerURL())
		return cmd
	}

	login := command("login")
	stderr, err := login.StderrPipe()
	check(t, err)
	check(t, login.Start())
	said := bufio.NewScanner(stderr)
	for said.Scan() {
		if page := strings.TrimSpace(said.Text()); strings.HasPrefix(page, p.issuer) && strings.Contains(page, "user_code=") {
			p.browse(page, "alice")
		}
	}
	if err := login.Wait(); err != nil {
		t.Fatalf("login: %v", err)
	}

	token, err := command("token").Output()
	check(t, err)
	if a := <-s.beginWith(t.Context(), strings.TrimSpace(string(token)), completion(8)); a.status != http.StatusOK || a.text(0) == "" {
		t.Errorf("the proxy says %s", a)
	}
	check(t, command("logout").Run())
	if out, err := command("token").CombinedOutput(); err == nil || !strings.Contains(string(out), "ghostline login") {
		t.Errorf("after logout: %v, %s; want an error that names the way back", err, out)
	}
}
