package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ghostline-dev/ghostline/internal/privatefile"
	"github.com/spf13/cobra"
)

type compileOptions struct {
	routeOptions
	sys *system
	dir string
}

func newCompile(sys *system) *cobra.Command {
	o := &compileOptions{sys: sys}
	cmd := &cobra.Command{
		Use:   "compile -f ROUTE",
		Short: "Show the config that a CompletionRoute gives the proxies of a region",
		Long: `Compile checks a CompletionRoute as an API server would, and prints the config that
the operator would write for the proxies of one region. No cluster is asked.

A --file may hold several objects. The Secrets and ConfigMaps that the route refers to
are taken from the files; placeholders take the place of those that no file has, which
a note says, so that a route can be checked without its keys. The config only names
the entries with keys; with --output-dir all is written as a proxy reads it.

Problems go to the standard error. What they leave out is not in the config; the rest
is. The exit status is 0 if there is none, else 1.`,
		Example: `  ghostline compile -f route.yaml --region westeurope
  ghostline compile -f route.yaml -f secrets.yaml --strict-references --output-dir ~/proxy
  proxy -config ~/proxy/config.json -credentials ~/proxy/credentials`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "file", "f", nil, "a `file` with the route, or with what it refers to; may be given several times")
	o.addRegionFlag(cmd)
	flags.BoolVar(&o.strict, "strict-references", false, "take it for a problem if no file has what the route refers to")
	flags.StringVarP(&o.dir, "output-dir", "o", "", "write the config, its files and credentials to this `directory`, which is made or must be yours alone, instead of printing the config")
	// The flags exist, so these cannot fail.
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
	_ = cmd.MarkFlagDirname("output-dir")
	return cmd
}

func (o *compileOptions) run(ctx context.Context) error {
	if len(o.files) == 0 {
		return usageError{errors.New("no route: set --file")}
	}
	files, err := readFiles(o.files)
	if err != nil {
		return err
	}
	c, err := o.compile(ctx, files)
	if err != nil {
		return err
	}
	c.notePlaceholders(o.sys.stderr)
	if c.Config != nil {
		if err := o.write(c); err != nil {
			return err
		}
	}
	return c.problemsError()
}

// write writes the config to where it is wanted.
func (o *compileOptions) write(c *compiledRoute) error {
	if o.dir != "" {
		return writeCompiled(o.dir, c)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, c.Data, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err := out.WriteTo(o.sys.stdout)
	return err
}

// writeCompiled writes all that a proxy reads. The config comes last, so that a proxy
// that runs already finds what a new one names.
func writeCompiled(dir string, c *compiledRoute) error {
	credentials := filepath.Join(dir, "credentials")
	for _, dir := range []string{dir, credentials} {
		if err := privatefile.MakeDirectory(dir); err != nil {
			return err
		}
	}
	for name, value := range c.Credentials {
		if err := privatefile.Write(filepath.Join(credentials, name), value); err != nil {
			return fmt.Errorf("credential: %w", err)
		}
	}
	for name, value := range c.Files {
		if err := privatefile.Write(filepath.Join(dir, name), value); err != nil {
			return err
		}
	}
	return privatefile.Write(filepath.Join(dir, "config.json"), c.Data)
}
