// Command proxy serves completions between editors and units of model capacity.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/ghostline-dev/ghostline/internal/service"
	"github.com/ghostline-dev/ghostline/internal/tracing"
	"github.com/ghostline-dev/ghostline/proxy"
)

func main() { command().Main() }

func command() service.Command {
	var opts proxy.Options
	var accessLog string
	return service.Command{
		Name: "proxy",
		Flags: func(set *flag.FlagSet) {
			set.StringVar(&opts.ConfigFile, "config", "", "`FILE` with the config (YAML or JSON); it is read again when it changes")
			set.StringVar(&opts.LastConfigFile, "last-config", "",
				"`FILE` with the last config that all proxies had in use, for a start at which the one in -config is refused")
			set.StringVar(&opts.CredentialsDir, "credentials", "", "`DIR` with the units' credentials, a file each")
			set.IntVar(&opts.Proxies, "proxies", 1, "`N` proxies, this one among them, share the capacity of the region's units")
			set.StringVar(&opts.ProxiesDNS, "proxies-dns", "",
				"`HOST` that resolves to the region's ready proxies, as a headless Service does; they are counted all the time")
			set.StringVar(&accessLog, "access-log", "-", "`FILE` to append a line of JSON to for each completion request; - is the standard output, empty is none")
			set.DurationVar(&opts.DrainDelay, "drain-delay", 4*time.Second,
				"`TIME` between saying that it drains and taking no more connections, for load balancers to notice")
		},
		Check: func() error {
			if opts.ConfigFile == "" {
				return errors.New("-config is missing; name the proxy's config file")
			}
			if opts.Proxies < 1 {
				return fmt.Errorf("-proxies is %d; it must be at least 1", opts.Proxies)
			}
			return nil
		},
		Run: func(ctx context.Context, env service.Env) error {
			collectLess()
			out, closeLog, err := openAccessLog(accessLog, env.Stdout)
			if err != nil {
				env.Listeners.Close()
				return fmt.Errorf("-access-log: %w: %w", service.ErrConfig, err)
			}
			defer closeLog()
			tracer, stopTracing, err := tracing.FromEnvironment(ctx, "ghostline-proxy", service.Version(), env.Log)
			if err != nil {
				env.Listeners.Close()
				return fmt.Errorf("%w: %w", service.ErrConfig, err)
			}
			defer stopTracing()
			opts.AccessLog, opts.Tracer = out, tracer
			opts.Listeners, opts.Log, opts.Metrics = env.Listeners, env.Log, env.Metrics
			return proxy.Run(ctx, opts)
		},
	}
}

// openAccessLog opens what -access-log names.
func openAccessLog(name string, stdout io.Writer) (out io.Writer, closeLog func(), err error) {
	switch name {
	case "":
		return nil, func() {}, nil
	case "-":
		// Else a reader of the standard output that goes away ends the process.
		signal.Ignore(syscall.SIGPIPE)
		return stdout, func() {}, nil
	}
	mode := os.O_WRONLY
	if info, err := os.Stat(name); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		// Else to open it waits for a reader, and a reader that goes away and comes
		// back costs the lines in between.
		mode = os.O_RDWR
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|mode, 0o640)
	if err != nil {
		return nil, nil, err
	}
	return file, func() { file.Close() }, nil
}

// collectLess has the garbage collector run a third as often, unless GOGC says
// something else: the proxy's heap is some ten MiB of which requests make new
// ones fast, and memory is what it needs least.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}
