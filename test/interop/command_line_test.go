package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// commandLine is a program that asks for a completion: arguments for a body in a file.
type commandLine struct {
	name string
	args func(s *stack, body string) []string
}

// A token among the arguments is for all users of a machine to see. curl reads it from
// a file; nghttp cannot, and has that of a test.
var commandLines = []commandLine{
	{"curl", func(s *stack, body string) []string {
		header := filepath.Join(s.t.TempDir(), "header")
		check(s.t, os.WriteFile(header, []byte("Authorization: Bearer "+s.token()+"\n"), 0o600))
		return []string{"--http2", "--no-buffer", "--silent", "--show-error", "--fail-with-body", "--cacert", s.files.CA(),
			"--header", "@" + header, "--header", "Content-Type: application/json", "--data", "@" + body, s.files.ProxyURL() + "/v1/completions"}
	}},
	{"nghttp", func(s *stack, body string) []string {
		return []string{"--no-verify-peer", "--header=authorization: Bearer " + s.token(), "--header=content-type: application/json",
			"--data=" + body, s.files.ProxyURL() + "/v1/completions"}
	}},
}

// TestCommandLine has curl and nghttp stream over HTTP/2, and then leave in mid-stream.
func TestCommandLine(t *testing.T) {
	for _, program := range commandLines {
		t.Run(program.name, func(t *testing.T) {
			path, err := exec.LookPath(program.name)
			if err != nil {
				installed(t, engineVariable) // make test-interop installs it
				t.Fatal(err)
			}
			e := startEngine(t, "-np", "1", "-c", "32768")
			s := start(t, setup{config: e.infill()})
			want := s.complete(t.Context(), completion(40)).text(0)
			command := func(maxTokens int) *exec.Cmd {
				body := filepath.Join(t.TempDir(), "body.json")
				check(t, os.WriteFile(body, []byte(completion(maxTokens, "stream", true)), 0o600))
				return exec.CommandContext(t.Context(), path, program.args(s, body)...)
			}
			out, err := command(40).Output()
			check(t, err)
			if got := readStream(out); got.text(0) != want || got.finish(0) != "length" || !got.done {
				t.Errorf("got %v; want %q, length and [DONE]", got, want)
			}

			leaving := command(endless)
			stdout, err := leaving.StdoutPipe()
			check(t, err)
			check(t, leaving.Start())
			first := make([]byte, 64)
			n, err := stdout.Read(first)
			check(t, err)
			if !strings.HasPrefix(string(first[:n]), "data: ") {
				t.Errorf("the answer begins %q; want an event", first[:n])
			}
			check(t, leaving.Process.Signal(os.Interrupt))
			_, _ = leaving.Process.Wait()
			looking(t, quiet, "the slot is free", func() bool { return e.processing() == 0 })
			eventually(t, "the proxy counts a cancel", func() bool { return s.outcomes("cancelled") == 1 })
			if made := e.metric("tokens_predicted_total"); made >= endless/2 {
				t.Errorf("the engine made %v tokens", made)
			}
		})
	}
}
