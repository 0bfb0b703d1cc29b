// Package service is what the command lines of Ghostline's services have in
// common: listeners, the log, metrics, signals and exit codes.
package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // while running
	exitUsage  = 2 // bad flags, or what they name is bad
)

// ErrConfig is an error of what the service was told, not of its running: the
// program exits with 2 rather than 1.
var ErrConfig = errors.New("configuration")

// Env is what every service gets from its command line.
type Env struct {
	Listeners httpserver.Listeners
	Log       *slog.Logger
	Metrics   *prometheus.Registry
	// Stdout is for what the service was asked to write there; it never has the log.
	Stdout io.Writer
}

// Command is a service's program.
type Command struct {
	// Name is the program's.
	Name string
	// Flags adds the flags that only this service has.
	Flags func(*flag.FlagSet)
	// Check finds mistakes before a port is taken; nil checks nothing.
	Check func() error
	// Run serves until ctx is done. An error that is ErrConfig is a mistake of
	// whoever started the service.
	Run func(ctx context.Context, env Env) error
}

// Main runs the program until it is interrupted or terminated, and exits: 0
// after a clean end, 1 after a failure, 2 if it was started wrongly. A second
// signal ends it at once, without the drain.
func (c Command) Main() {
	// Nothing here writes to the standard log but net/http, which quotes there
	// what a server sends out of turn: that may be a completion.
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := c.Exec(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exec is Main without the process: it returns the exit code.
func (c Command) Exec(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var f flags
	set := c.flagSet(&f)
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		set.SetOutput(stdout)
		set.Usage()
		return exitOK
	case err != nil:
		return c.fail(stderr, exitUsage, err)
	case f.version:
		fmt.Fprintln(stdout, c.Name, Version())
		return exitOK
	case set.NArg() > 0:
		return c.fail(stderr, exitUsage, fmt.Errorf("unexpected argument %q; everything is given by flags", set.Arg(0)))
	}
	if c.Check != nil {
		if err := c.Check(); err != nil {
			return c.fail(stderr, exitUsage, err)
		}
	}
	listeners, cert, err := f.listen()
	if err != nil {
		return c.fail(stderr, exitUsage, err)
	}
	written := startLog(stderr)
	defer written.stop()
	log := slog.New(slog.NewJSONHandler(written, &slog.HandlerOptions{Level: f.level}))
	env := Env{Listeners: listeners, Log: log, Metrics: registry(), Stdout: stdout}
	switch err := c.run(ctx, env, cert); {
	case errors.Is(err, ErrConfig):
		return c.fail(written, exitUsage, err)
	case err != nil:
		return c.fail(written, exitFailed, err)
	}
	return exitOK
}

// run is Run with cert, if there is one, reloaded until the drain has ended.
func (c Command) run(ctx context.Context, env Env, cert *certificate) error {
	if cert == nil {
		return c.Run(ctx, env)
	}
	env.Metrics.MustRegister(cert.reloaded, cert.expiry)
	serving, served := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	watching.Go(func() { cert.watch(serving, env.Log) })
	defer watching.Wait()
	defer served()
	return c.Run(ctx, env)
}

func (c Command) fail(stderr io.Writer, code int, err error) int {
	fmt.Fprintf(stderr, "%s: %v\n", c.Name, err)
	return code
}

// flags are those of every service.
type flags struct {
	tls, cert, key, cleartext, admin string
	level                            slog.Level
	version                          bool
}

// setLevel is -log-level.
func (f *flags) setLevel(name string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[name]
	if !ok {
		return errors.New("it must be debug, info, warn or error")
	}
	f.level = level
	return nil
}

func (c Command) flagSet(f *flags) *flag.FlagSet {
	set := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // Exec prints the error, once
	set.StringVar(&f.tls, "listen-tls", "", "`ADDR` for TLS: HTTP/2 and HTTP/1.1")
	set.StringVar(&f.cert, "tls-cert", "", "`FILE` with the certificate chain for -listen-tls (PEM); it is read again when it changes")
	set.StringVar(&f.key, "tls-key", "", "`FILE` with the private key for -listen-tls (PEM); it is read again when it changes")
	set.StringVar(&f.cleartext, "listen-cleartext", "", "`ADDR` without TLS: h2c and HTTP/1.1, for behind an edge or on loopback")
	set.StringVar(&f.admin, "listen-admin", "", "`ADDR` for operators: /healthz, /readyz and /metrics, at the proxy /regionz, /statusz and /debug/pprof/ too")
	set.Func("log-level", "`LEVEL` of what is logged at least: debug, info, warn or error (default info)", f.setLevel)
	set.BoolVar(&f.version, "version", false, "print the version and exit")
	if c.Flags != nil {
		c.Flags(set)
	}
	return set
}

// listen opens the ports that the flags name: all of them or none. Without
// -listen-tls there is no certificate.
func (f *flags) listen() (listeners httpserver.Listeners, cert *certificate, err error) {
	switch {
	case f.tls == "" && f.cleartext == "":
		return listeners, nil, errors.New("nothing to listen on; give -listen-tls or -listen-cleartext, as in -listen-cleartext 127.0.0.1:8080")
	case f.tls != "" && (f.cert == "" || f.key == ""):
		return listeners, nil, errors.New("-listen-tls needs -tls-cert and -tls-key")
	case f.tls == "" && (f.cert != "" || f.key != ""):
		return listeners, nil, errors.New("-tls-cert and -tls-key are of no use without -listen-tls")
	}
	if f.tls != "" {
		if cert, err = loadCertificate(f.cert, f.key); err != nil {
			return listeners, nil, fmt.Errorf("-tls-cert, -tls-key: %w", err)
		}
		listeners.Certificate = cert.config()
	}
	for _, port := range []struct {
		flag, addr string
		listener   *net.Listener
	}{
		{"-listen-tls", f.tls, &listeners.TLS},
		{"-listen-cleartext", f.cleartext, &listeners.Cleartext},
		{"-listen-admin", f.admin, &listeners.Admin},
	} {
		if port.addr == "" {
			continue
		}
		if *port.listener, err = net.Listen("tcp", port.addr); err != nil {
			listeners.Close()
			return listeners, nil, fmt.Errorf("%s: %w", port.flag, err)
		}
	}
	return listeners, cert, nil
}

// registry has the metrics of the process itself.
func registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "ghostline_build_info",
		Help: "1 for the version that runs.", ConstLabels: prometheus.Labels{"version": Version()}})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Version is the program's version, as Go's build information has it.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
