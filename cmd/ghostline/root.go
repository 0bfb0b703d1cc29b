package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// newRoot is the whole command line.
func newRoot(sys *system) *cobra.Command {
	root := &cobra.Command{
		Use:   "ghostline",
		Short: "Code completions from a Ghostline proxy",
		Long: `Ghostline serves code completions ("ghost text") to editors. This command line
logs in, fetches completion tokens, completes at a cursor, runs the whole of
Ghostline on one machine, compiles a CompletionRoute, and explains what a proxy
would do with a request.

Settings come from flags, or from the environment:
  ` + envProxy + `    the proxy's base URL
  ` + envIssuer + `   the token issuer's base URL
  ` + envCA + `           a PEM file of certificates to trust besides the system's
  ` + envOAuth + `  the OAuth token, instead of the one that login stored
  ` + envType + `  what it is: access_token (the default), id_token or jwt`,
		Example: `  ghostline up --dir ~/.ghostline
  ghostline login
  ghostline complete main.go:12:5
  ghostline compile -f route.yaml --region westeurope
  ghostline explain -f route.yaml --region westeurope request.json`,
		Args:              knownCommand,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		Version:           version(),

		SuggestionsMinimumDistance: 2,
	}
	root.AddCommand(
		newCompile(sys),
		newComplete(sys),
		newEntitlements(sys),
		newExplain(sys),
		newKeys(),
		newLoad(sys),
		newLogin(sys),
		newLogout(sys),
		newToken(sys),
		newUp(sys),
		newVersion(sys),
	)
	root.SetIn(sys.stdin)
	root.SetOut(sys.stdout)
	root.SetErr(sys.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	return root
}

// run executes args and returns the exit status.
func run(ctx context.Context, sys *system, args []string) int {
	root := newRoot(sys)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil {
		fmt.Fprintln(sys.stderr, "ghostline: interrupted")
		return exitFailure
	}
	fmt.Fprintf(sys.stderr, "ghostline: %s\n", explain(sys, err))
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(sys.stderr, "See `%s --help`.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailure
}

// usageError is a mistake in how ghostline was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no argument, but got %q", cmd.Name(), args[0])}
	}
	return nil
}

// knownCommand refuses arguments of the root, which can only be commands that do
// not exist.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("there is no command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return usageError{err}
}
