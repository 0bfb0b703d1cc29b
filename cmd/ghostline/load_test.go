package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/load"
)

// loadFlags are users who type far too fast and wait for every answer.
func loadFlags(more ...string) []string {
	return append([]string{"load", "--users", "2", "--requests", "20", "--think", "1ms", "--keystroke", "2ms", "--debounce", "1ms", "--cancel-percent", "0"}, more...)
}

// plain is a server in clear text that wants what authorization says.
func plain(t *testing.T, authorization string) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != authorization {
			t.Errorf("authorized by %q, want %q", got, authorization)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write([]byte("data: {\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// drained throws away what the fake proxy was asked.
func (s *service) drained(t *testing.T) {
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		for {
			select {
			case <-s.asked:
			case <-done:
				return
			}
		}
	}()
}

func TestLoad(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.drained(t)
	sh := s.shell(t)
	table := strings.Join(strings.Fields(sh.expect(exitOK, "", loadFlags()...)), " ")
	for _, want := range []string{s.URL + "/v1/completions HTTP/2.0, 2 users", "requests 20", "whole 20 100.0 %", "connections 2 0 opened again", "tokens 1 0 refreshed"} {
		if !strings.Contains(table, want) {
			t.Errorf("the report does not say %q: %s", want, table)
		}
	}
	var report load.Report
	if err := json.Unmarshal([]byte(sh.expect(exitOK, "", loadFlags("--json", "--seed", "9")...)), &report); err != nil {
		t.Fatal(err)
	}
	if report.Requests.Whole != 20 || report.Seed != 9 || report.Errors["timeout"].Count != 0 || report.FirstByte.Count != 20 {
		t.Errorf("%+v", report)
	}
	logins := sh.file("logins", goodOAuth+"\n\n"+goodOAuth+"\n")
	sh.expect(exitOK, "tokens                                2", loadFlags("--oauth-file", logins)...)
}

// TestLoadAnyServer: a peer gets its own key, or none, and never a token that is
// for the proxy.
func TestLoadAnyServer(t *testing.T) {
	t.Parallel()
	s := newService(t)
	sh := s.shell(t)
	sh.env["PEER_KEY"] = "peer"
	keyFile := sh.file("key", "filed\n")
	for _, test := range []struct {
		authorization string
		flags         []string
	}{
		{"", nil},
		{"", []string{"--protocol", "h1"}},
		{"Bearer peer", []string{"--key-env", "PEER_KEY"}},
		{"Bearer filed", []string{"--key-file", keyFile}},
		{"Bearer completion-token", []string{"--issuer", s.URL}},
		{"", []string{"--issuer", s.URL, "--no-token"}},
	} {
		peer := plain(t, test.authorization)
		sh.expect(exitOK, "whole                              20", loadFlags(append(test.flags, "--url", peer.URL+"/v1")...)...)
	}
}

func TestLoadWithErrors(t *testing.T) {
	t.Parallel()
	s := newService(t)
	sh := s.shell(t)
	stdout := sh.expect(exitFailure, "ghostline: 20 of 20 requests ended in an error", loadFlags("--no-token")...)
	if !strings.Contains(strings.Join(strings.Fields(stdout), " "), "status 401 20 100.0 % 401") {
		t.Errorf("the report does not tell the error:\n%s", stdout)
	}
}

// TestLoadInterrupted: Ctrl-C prints what there is.
func TestLoadInterrupted(t *testing.T) {
	t.Parallel()
	s := newService(t)
	sh := s.shell(t)
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		<-s.asked
		<-s.asked
		interrupt()
	}()
	status, stdout, stderr := sh.run(ctx, "", loadFlags("--model", "slow")...)
	if status != exitFailure || stderr != "ghostline: interrupted\n" ||
		!strings.Contains(stdout, "seed 1, interrupted") || !strings.Contains(stdout, "cut off by the interruption") {
		t.Errorf("status %d, stderr %q, stdout:\n%s", status, stderr, stdout)
	}
	<-s.cancelled
	<-s.cancelled
}

func TestLoadMistakes(t *testing.T) {
	t.Parallel()
	s := newService(t)
	sh := s.shell(t)
	bare := &shell{t: t, dir: t.TempDir(), env: map[string]string{}}
	empty := sh.file("empty", "\n")
	for _, test := range []struct {
		sh     *shell
		status int
		says   string
		args   []string
	}{
		{bare, exitUsage, "no server: set --url or GHOSTLINE_PROXY_URL", []string{"load"}},
		{bare, exitUsage, "no token issuer: set --issuer", []string{"load", "--url", s.URL, "--oauth-file", empty}},
		{sh, exitUsage, `load takes no argument, but got "x"`, []string{"load", "x"}},
		{sh, exitUsage, "the users are 0", []string{"load", "--users", "0"}},
		{sh, exitUsage, "should look like https://completions.example.com", []string{"load", "--url", "localhost:80"}},
		{sh, exitUsage, "only one of --oauth-file, --key-env", []string{"load", "--key-env", "X", "--no-token"}},
		{sh, exitUsage, "--key-env names no key", []string{"load", "--key-env", "NOT_SET"}},
		{sh, exitUsage, "in clear text", []string{"load", "--url", "http://192.0.2.1", "--key-file", sh.file("key", "k")}},
		{sh, exitFailure, "--oauth-file: " + empty + " holds no token", []string{"load", "--oauth-file", empty}},
		{sh, exitFailure, "no such file", []string{"load", "--key-file", empty + "x"}},
		{sh, exitFailure, "check that the server runs", []string{"load", "--url", "http://127.0.0.1:1"}},
		{sh, exitFailure, "the issuer refused the OAuth token (unknown token)", []string{"load", "--oauth-file", sh.file("bad", badOAuth)}},
		{sh, exitFailure, "no request was sent", []string{"load", "--duration", "1ms"}},
		{sh, exitOK, "--cancel-percent share", []string{"load", "--help"}},
	} {
		test.sh.expect(test.status, test.says, test.args...)
	}
}

func TestProgressLine(t *testing.T) {
	t.Parallel()
	p := load.Progress{
		Elapsed: 12_400 * time.Millisecond, Users: 2000, PerSecond: 661.2, InFlight: 412, CancelPercent: 44.6, Errors: 3,
		FirstByteP50: 63 * time.Millisecond, FirstByteP99: 120 * time.Millisecond, WarmingUp: true,
	}
	const want = "  12s  2000 users  661 req/s  412 in flight  45 % cancelled  3 errors  first byte 63/120 ms  (warm-up)"
	var out bytes.Buffer
	for _, line := range []*progressLine{{out: &out}, {out: &out, live: true}} {
		line.show(p)
		line.end()
	}
	if out.String() != want+"\n"+clearLine+want+clearLine {
		t.Errorf("%q", &out)
	}
	if line := newProgressLine(&out); line.live || line.every != logEvery {
		t.Errorf("to a file: %+v", line)
	}
}
