// Command operator turns CompletionRoutes into the proxies of a cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/ghostline-dev/ghostline/controllers"
	"github.com/ghostline-dev/ghostline/internal/service"
	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// Exit codes.
const (
	exitFailed = 1 // while running
	exitUsage  = 2 // bad flags
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// settings are what the flags say.
type settings struct {
	namespace, region, image, admin, install string
	level                                    slog.Level
	version                                  bool
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	fail := func(code int, err error) int {
		fmt.Fprintf(stderr, "operator: %v\n", err)
		return code
	}
	var s settings
	set := s.flags(getenv)
	set.SetOutput(io.Discard)
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		set.SetOutput(stdout)
		set.Usage()
		return 0
	case err != nil:
		return fail(exitUsage, err)
	case s.version:
		fmt.Fprintln(stdout, "operator", service.Version())
		return 0
	case set.NArg() > 0:
		return fail(exitUsage, fmt.Errorf("unexpected argument %q; everything is given by flags", set.Arg(0)))
	}
	if err := s.check(); err != nil {
		return fail(exitUsage, err)
	}
	api, err := config.GetConfig()
	if err != nil {
		return fail(exitUsage, fmt.Errorf("no way to the API server, neither from a pod nor by KUBECONFIG: %w", err))
	}
	log := logr.FromSlogHandler(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: s.level}))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	host, _ := os.Hostname() // only to tell people which pod it is
	err = controllers.Run(ctx, controllers.Options{
		API: api, Namespace: s.namespace, OwnNamespace: getenv(envNamespace), Region: s.region, Install: s.install,
		Identity: host + "_" + uuid.NewString(), ProxyImage: s.image, AdminAddress: s.admin, Log: log,
	})
	if err != nil {
		return fail(exitFailed, err)
	}
	return 0
}

// envNamespace has the namespace of the operator's pod.
const envNamespace = "POD_NAMESPACE"

func (s *settings) flags(getenv func(string) string) *flag.FlagSet {
	set := flag.NewFlagSet("operator", flag.ContinueOnError)
	set.StringVar(&s.namespace, "watch-namespace", getenv(envNamespace),
		"`NAMESPACE` whose CompletionRoutes it runs; the default is that of its own pod, which $"+envNamespace+" has")
	set.StringVar(&s.region, "region", "", "`REGION` that it is for; the default is all regions of each route, in this cluster")
	set.StringVar(&s.image, "proxy-image", "", "`IMAGE` of the proxies, where a route names none")
	set.StringVar(&s.install, "install", "ghostline-operator",
		"`NAME` of this install; beside an operator of another install in the same namespace this one ends")
	set.StringVar(&s.admin, "listen-admin", ":9090", "`ADDR` for /healthz, /readyz and /metrics; empty is none")
	set.TextVar(&s.level, "log-level", slog.LevelInfo, "`LEVEL` of the log, JSON lines on stderr: debug, info, warn or error")
	set.BoolVar(&s.version, "version", false, "print the version and exit")
	return set
}

// check finds mistakes before anything is asked for.
func (s *settings) check() error {
	if s.namespace == "" {
		return errors.New("-watch-namespace is missing; name the namespace whose CompletionRoutes are to be run")
	}
	if problems := validation.IsDNS1123Label(s.namespace); len(problems) > 0 {
		return fmt.Errorf("-watch-namespace %q is no namespace: %s", s.namespace, problems[0])
	}
	if s.region != "" {
		if problems := validation.IsDNS1123Label(s.region); len(problems) > 0 || len(s.region) > 32 {
			return fmt.Errorf("-region %q is no region; it must be 1 to 32 lower-case letters, digits or '-', such as westeurope", s.region)
		}
	}
	if s.image == "" {
		return errors.New("-proxy-image is missing; name the image of this release's proxies")
	}
	return nil
}
