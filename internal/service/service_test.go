package service

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/localca"
	"github.com/prometheus/client_golang/prometheus"
)

// writeCertificate writes a certificate and its key and returns their files.
func writeCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := ca.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
}

// exec runs a command and returns what it printed.
func exec(t *testing.T, c Command, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = c.Exec(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

// nothing is a service that ends at once.
func nothing() Command {
	return Command{Name: "thing", Run: func(_ context.Context, env Env) error { env.Listeners.Close(); return nil }}
}

func TestBadFlags(t *testing.T) {
	cert, key := writeCertificate(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no listener", nil, "thing: nothing to listen on; give -listen-tls or -listen-cleartext, as in -listen-cleartext 127.0.0.1:8080"},
		{"only admin", []string{"-listen-admin", "127.0.0.1:0"}, "nothing to listen on"},
		{"unknown flag", []string{"-listen", "x"}, "thing: flag provided but not defined: -listen"},
		{"argument", []string{"-listen-cleartext", "127.0.0.1:0", "config.yaml"}, `unexpected argument "config.yaml"; everything is given by flags`},
		{"no certificate", []string{"-listen-tls", "127.0.0.1:0", "-tls-key", key}, "-listen-tls needs -tls-cert and -tls-key"},
		{"no key", []string{"-listen-tls", "127.0.0.1:0", "-tls-cert", cert}, "-listen-tls needs -tls-cert and -tls-key"},
		{"certificate of no use", []string{"-listen-cleartext", "127.0.0.1:0", "-tls-cert", cert}, "of no use without -listen-tls"},
		{"certificate missing", []string{"-listen-tls", "127.0.0.1:0", "-tls-cert", cert + "x", "-tls-key", key}, "-tls-cert, -tls-key: open "},
		{"certificate that is none", []string{"-listen-tls", "127.0.0.1:0", "-tls-cert", key, "-tls-key", key}, "-tls-cert, -tls-key: tls: "},
		{"bad level", []string{"-listen-cleartext", "127.0.0.1:0", "-log-level", "loud"}, `invalid value "loud" for flag -log-level: it must be debug, info, warn or error`},
		{"bad address", []string{"-listen-cleartext", "nowhere"}, "-listen-cleartext: listen tcp: address nowhere: missing port in address"},
		{"taken port", []string{"-listen-cleartext", "127.0.0.1:0", "-listen-admin", taken.Addr().String()}, "-listen-admin: listen tcp " + taken.Addr().String()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := nothing()
			c.Run = func(context.Context, Env) error { t.Error("it ran"); return nil }
			code, stdout, stderr := exec(t, c, tc.args...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, tc.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("code %d, stdout %q, stderr %q; want %d and one line with %q", code, stdout, stderr, exitUsage, tc.want)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		code int
		want string
	}{
		{"clean", nil, exitOK, ""},
		{"failed", errors.New("broken"), exitFailed, "thing: broken\n"},
		{"configuration", fmt.Errorf("%w: no such model", ErrConfig), exitUsage, "thing: configuration: no such model\n"},
	} {
		c := nothing()
		c.Run = func(_ context.Context, env Env) error { env.Listeners.Close(); return tc.err }
		if code, _, stderr := exec(t, c, "-listen-cleartext", "127.0.0.1:0"); code != tc.code || stderr != tc.want {
			t.Errorf("%s: code %d, stderr %q; want %d, %q", tc.name, code, stderr, tc.code, tc.want)
		}
	}
}

func TestCheckComesBeforePorts(t *testing.T) {
	c := nothing()
	c.Check = func() error { return errors.New("-config is missing") }
	if code, _, stderr := exec(t, c, "-listen-cleartext", "nowhere"); code != exitUsage || stderr != "thing: -config is missing\n" {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
}

func TestVersionAndHelp(t *testing.T) {
	c := nothing()
	c.Flags = func(set *flag.FlagSet) { set.String("config", "", "`FILE` with the config") }
	if code, stdout, stderr := exec(t, c, "-version"); code != exitOK || stdout != "thing "+Version()+"\n" || stderr != "" || Version() == "" {
		t.Errorf("version: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, stderr := exec(t, c, "-help")
	if code != exitOK || stderr != "" {
		t.Errorf("help: code %d, stderr %q", code, stderr)
	}
	for _, name := range []string{"-listen-tls ADDR", "-listen-cleartext ADDR", "-listen-admin ADDR", "-tls-cert FILE", "-tls-key FILE", "-version", "-config FILE", "-log-level LEVEL", "/healthz", "/readyz", "/metrics", "/statusz"} {
		if !strings.Contains(stdout, name) {
			t.Errorf("the help lacks %q:\n%s", name, stdout)
		}
	}
}

func TestLogLevel(t *testing.T) {
	levels := []string{"debug", "info", "warn", "error"}
	c := nothing()
	c.Run = func(ctx context.Context, env Env) error {
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			env.Log.Log(ctx, level, "hello")
		}
		env.Listeners.Close()
		return nil
	}
	for i, level := range levels {
		if _, _, stderr := exec(t, c, "-listen-cleartext", "127.0.0.1:0", "-log-level", level); strings.Count(stderr, "hello") != len(levels)-i {
			t.Errorf("with level %s the log is %s", level, stderr)
		}
	}
	if _, _, stderr := exec(t, c, "-listen-cleartext", "127.0.0.1:0"); strings.Count(stderr, "hello") != 3 {
		t.Errorf("without a level the log is %s", stderr)
	}
}

// TestSecondInterrupt has a service that never ends its drain, in a process of
// its own: the test's, which TestMain turns into the service.
func TestSecondInterrupt(t *testing.T) {
	cmd := osexec.Command(os.Args[0], "-listen-cleartext", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), beService+"=1")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	giveUp := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() }) // then the test fails below
	defer giveUp.Stop()
	interrupt := func() { _ = cmd.Process.Signal(os.Interrupt) } // it may have ended
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		switch {
		case strings.Contains(lines.Text(), "running"):
			interrupt()
		case strings.Contains(lines.Text(), "draining"):
			// The second signal may overtake the first one's last effect.
			interrupt()
		}
	}
	var exit *osexec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != os.Interrupt {
		t.Errorf("it ended with %v, want an interrupt", err)
	}
}

// beService is set in the environment of a process that is the service.
const beService = "GHOSTLINE_TEST_BE_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(beService) == "" {
		os.Exit(m.Run())
	}
	c := nothing()
	c.Run = func(ctx context.Context, env Env) error {
		env.Log.Info("running")
		<-ctx.Done()
		for tick := time.Tick(10 * time.Millisecond); ; <-tick {
			env.Log.Info("draining")
		}
	}
	c.Main()
}

func TestEnv(t *testing.T) {
	cert, key := writeCertificate(t)
	config := ""
	c := Command{
		Name:  "thing",
		Flags: func(set *flag.FlagSet) { set.StringVar(&config, "config", "", "") },
		Run: func(ctx context.Context, env Env) error {
			defer env.Listeners.Close()
			env.Log.Info("hello", "config", config)
			l := env.Listeners
			if l.TLS == nil || l.Cleartext == nil || l.Admin == nil || l.Certificate == nil {
				t.Errorf("listeners %+v", l)
			}
			wantProcessMetrics(t, env.Metrics)
			fmt.Fprint(env.Stdout, "said")
			<-ctx.Done()
			return nil
		},
	}
	ctx, stop := context.WithCancel(t.Context())
	stop() // an interrupt
	var out, log bytes.Buffer
	code := c.Exec(ctx, []string{"-listen-tls", "127.0.0.1:0", "-tls-cert", cert, "-tls-key", key,
		"-listen-cleartext", "127.0.0.1:0", "-listen-admin", "127.0.0.1:0", "-config", "x.yaml"}, &out, &log)
	if code != exitOK || !strings.Contains(log.String(), `"msg":"hello","config":"x.yaml"`) || out.String() != "said" {
		t.Errorf("code %d, log %s, output %q", code, log.String(), out.String())
	}
}

// wantProcessMetrics checks what every service tells of its process.
func wantProcessMetrics(t *testing.T, metrics *prometheus.Registry) {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Error(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			values[family.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			if l := m.GetLabel(); family.GetName() == "ghostline_build_info" && (len(l) != 1 || l[0].GetName() != "version" || l[0].GetValue() != Version()) {
				t.Errorf("the version is told as %v, want %s", l, Version())
			}
		}
	}
	if values["ghostline_build_info"] != 1 || values["go_goroutines"] < 1 || values["process_resident_memory_bytes"] < 1 {
		t.Errorf("metrics of the process: %v", values)
	}
}
