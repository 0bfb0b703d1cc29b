package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/localca"
)

func TestBadCommandLines(t *testing.T) {
	const cleartext = "-listen-cleartext=127.0.0.1:0"
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "nothing to listen on; give -listen-tls or -listen-cleartext"},
		{[]string{"-listen-admin=127.0.0.1:0"}, "nothing to listen on"},
		{[]string{"-nonsense"}, "flag provided but not defined: -nonsense"},
		{[]string{cleartext, "extra"}, `unexpected argument "extra"`},
		{[]string{cleartext, "-slots=many"}, `invalid value "many" for flag -slots`},
		{[]string{cleartext, "-slots=-1"}, "the slots are -1"},
		{[]string{cleartext, "-step=-5ms"}, "the step is -5ms"},
		{[]string{cleartext, "-fault=nonsense"}, "there is no such fault"},
		{[]string{cleartext, "-corpus=/nowhere"}, "corpus: stat /nowhere: no such file"},
		{[]string{"-listen-cleartext=nowhere:none"}, "-listen-cleartext: listen tcp"},
		{[]string{"-listen-tls=127.0.0.1:0"}, "-listen-tls needs -tls-cert and -tls-key"},
		{[]string{"-listen-tls=127.0.0.1:0", "-tls-cert=/nowhere", "-tls-key=/nowhere"}, "-tls-cert, -tls-key: open /nowhere"},
		{[]string{cleartext, "-tls-key=k"}, "-tls-cert and -tls-key are of no use without -listen-tls"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			var stdout, stderr strings.Builder
			if status := command().Exec(t.Context(), test.args, &stdout, &stderr); status != 2 {
				t.Errorf("exit status %d; want %d", status, 2)
			}
			if !strings.Contains(stderr.String(), test.want) {
				t.Errorf("said %q; want %q in it", stderr.String(), test.want)
			}
		})
	}
}

func TestVersionAndHelp(t *testing.T) {
	for _, test := range []struct{ flag, stdout, stderr string }{
		{"-version", "\n", ""},
		{"-help", "-tokens-per-second rate", ""},
	} {
		var stdout, stderr strings.Builder
		status := command().Exec(t.Context(), []string{test.flag}, &stdout, &stderr)
		if status != 0 || !strings.Contains(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.stderr) {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", test.flag, status, stdout.String(), stderr.String())
		}
	}
}

func TestServesUntilInterrupted(t *testing.T) {
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := ca.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	log, stderr := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- command().Exec(ctx, []string{
			"-listen-tls=127.0.0.1:0", "-listen-cleartext=127.0.0.1:0", "-listen-admin=127.0.0.1:0",
			"-tls-cert", filepath.Join(dir, "tls.crt"), "-tls-key", filepath.Join(dir, "tls.key"),
			"-model=only", "-fault=status=418",
		}, io.Discard, stderr)
		stderr.Close()
	}()

	lines := bufio.NewScanner(log)
	addresses := map[string]string{}
	for len(addresses) < 3 && lines.Scan() {
		var line struct{ Msg, Listener, Addr string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("log line %q: %v", lines.Text(), err)
		}
		if line.Msg == "serving" {
			addresses[line.Listener] = line.Addr
		}
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	response, err := http.Post("http://"+addresses["cleartext"]+"/v1/completions", "application/json",
		strings.NewReader(`{"model":"only","prompt":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if response.StatusCode != http.StatusTeapot || addresses["tls"] == "" || addresses["admin"] == "" {
		t.Errorf("got %s from one of %v", response.Status, addresses)
	}
	interrupt()
	if got := <-status; got != 0 {
		t.Errorf("exit status %d; want %d", got, 0)
	}
}
