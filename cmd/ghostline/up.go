package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/internal/localstack"
	"github.com/spf13/cobra"
)

type upOptions struct {
	localstack.Options
	route   routeOptions
	sys     *system
	verbose bool
}

func newUp(sys *system) *cobra.Command {
	o := &upOptions{sys: sys}
	cmd := &cobra.Command{
		Use:   "up --dir DIR",
		Short: "Run a token issuer, a proxy and a model server on this machine",
		Long: `Up runs the whole of Ghostline in one process: a token issuer, a proxy and a
model server, each on a loopback port of its own, with TLS by a CA made for the
purpose. It listens nowhere else: its certificate is for loopback and its one
login for local use. The model server is a stand-in for a GPU: it completes from
an n-gram model that it trains at start, on its own source or on --corpus.

It writes certificates, configuration and a login to DIR, and last DIR/env,
which sets what the other commands and curl need and is there for as long as up
serves. Ctrl-C stops it.

With --file it serves a CompletionRoute's models, aliases, splits, mirrors, mutations,
rules about clients, limits and timeouts, to try them before they are applied. All
units are played by the model server, and the tokens are those of the stack's issuer:
no key is needed, and nothing leaves this machine.

Whoever reads DIR can use the stack as you, so it must be yours and closed to
others (mode 0700), as up makes it: a place in your home rather than in /tmp, and
one that git ignores if it is in a repository.`,
		Example: `  ghostline up --dir ~/.ghostline &
  . ~/.ghostline/env
  ghostline complete main.go:12:5
  ghostline up --dir ~/.ghostline -f route.yaml --region westeurope`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Dir, "dir", "", "`directory` for the stack's files; made if it does not exist, else yours alone")
	flags.StringArrayVarP(&o.route.files, "file", "f", nil, "a `file` with a CompletionRoute to serve; may be given several times")
	o.route.addRegionFlag(cmd)
	flags.StringVar(&o.Addresses.Proxy, "listen-proxy", "", "`address` of the proxy (default: a free loopback port)")
	flags.StringVar(&o.Addresses.Admin, "listen-admin", "", "`address` of the proxy's admin port (default: a free loopback port)")
	flags.StringVar(&o.Addresses.Issuer, "listen-issuer", "", "`address` of the token issuer (default: a free loopback port)")
	flags.StringVar(&o.Addresses.Model, "listen-model", "", "`address` of the model server (default: a free loopback port)")
	flags.StringArrayVar(&o.Model.Corpus, "corpus", nil, "`path` of source to train the model server on; may be repeated")
	flags.DurationVar(&o.Model.FirstToken, "first-token", 60*time.Millisecond, "how long the model server takes to its first token")
	flags.Float64Var(&o.Model.TokensPerSecond, "tokens-per-second", 120, "how fast the model server is after that; 0 is as fast as it goes")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "show the services' logs")
	// The flags exist, so these cannot fail.
	_ = cmd.MarkFlagDirname("dir")
	_ = cmd.MarkFlagFilename("corpus")
	return cmd
}

func (o *upOptions) run(ctx context.Context) error {
	if o.Dir == "" {
		return usageError{fmt.Errorf("no directory for the stack's files: set --dir")}
	}
	if err := o.Addresses.Validate(); err != nil {
		return usageError{fmt.Errorf("--listen-%w", err)}
	}
	about, err := o.readRoute(ctx)
	if err != nil {
		return err
	}
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelDebug
	}
	o.Log = slog.New(slog.NewTextHandler(o.sys.stderr, &slog.HandlerOptions{Level: level}))
	o.Ready = func(files *localstack.Files) { announceUp(o.sys.stdout, files, about) }
	return localstack.Run(ctx, o.Options)
}

// readRoute compiles the route that is to be tried, if there is one, and returns what
// there is to say of it.
func (o *upOptions) readRoute(ctx context.Context) (about string, err error) {
	switch {
	case len(o.route.files) == 0 && o.route.region != "":
		return "", usageError{errors.New("--region goes with --file, which names a CompletionRoute")}
	case len(o.route.files) == 0:
		return "", nil
	}
	files, err := readFiles(o.route.files)
	if err != nil {
		return "", err
	}
	c, err := o.route.compile(ctx, files)
	if err != nil {
		return "", err
	}
	if err := c.noteProblems(o.sys.stderr); err != nil {
		return "", err
	}
	o.Route = c.Config
	return describeLocal(c), nil
}

// describeLocal says what of a route is served, and by whom.
func describeLocal(c *compiledRoute) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\nIt serves the CompletionRoute %s as in the region %s:\n\n", c.route.Name, c.region)
	for _, model := range c.Config.Models {
		fmt.Fprintf(&out, "  model  %s\n", strings.Join(append([]string{model.Name}, model.Aliases...), ", "))
	}
	for _, unit := range c.Config.Units {
		fmt.Fprintf(&out, "  unit   %s for %s (region %s), played by the model server\n", unit.Name, unit.Serves, unit.Region)
	}
	out.WriteString("\nThe units of the route are not asked. Tokens are those of the token issuer above.\n")
	return out.String()
}

// announceUp says how to use the stack. The login is only in the file.
func announceUp(out io.Writer, files *localstack.Files, about string) {
	fmt.Fprintf(out, `Ghostline is up.

  proxy         %s
  proxy admin   %s
  token issuer  %s
  model server  %s
  CA            %s
%[8]s
Point a shell at it:

  . "%[6]s/env"
  %[7]s complete FILE:LINE:COL

An editor or SDK needs the proxy's URL with /v1, the CA, and as its API key what
"%[7]s token" prints; it is good for 25 minutes. Ctrl-C stops everything.
`, files.ProxyURL(), files.AdminURL(), files.IssuerURL(), files.ModelURL(), files.CA(), files.Dir, os.Args[0], about)
}
