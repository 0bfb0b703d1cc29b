// Command proxy serves completions between editors and units of model capacity.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/ghostline-dev/ghostline/internal/service"
	"github.com/ghostline-dev/ghostline/proxy"
)

func main() { command().Main() }

func command() service.Command {
	var opts proxy.Options
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
			opts.Listeners, opts.Log, opts.Metrics = env.Listeners, env.Log, env.Metrics
			return proxy.Run(ctx, opts)
		},
	}
}

// collectLess has the garbage collector run a third as often, unless GOGC says
// something else: the proxy's heap is some ten MiB of which requests make new
// ones fast, and memory is what it needs least.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}
