package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/ghostline-dev/ghostline/controllers/compile"
	"github.com/ghostline-dev/ghostline/controllers/routefile"
	"github.com/spf13/cobra"
)

// routeOptions say which CompletionRoute, and for which of its regions.
type routeOptions struct {
	files  []string
	region string
	// strict does without placeholders for what no file has.
	strict bool
}

// addRegionFlag adds --region to cmd.
func (o *routeOptions) addRegionFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.region, "region", "", "the route's region, by `name`; it may be left out if the route has only one")
}

// compiledRoute is a route in one of its regions.
type compiledRoute struct {
	route  *v1alpha1.CompletionRoute
	region string
	// placeholders are the references that no file has.
	placeholders []compile.Reference
	compile.Result
}

// readFiles reads files into memory.
func readFiles(names []string) ([]routefile.File, error) {
	var files []routefile.File
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, routefile.File{Name: name, Data: data})
	}
	return files, nil
}

// compile compiles the route that files hold.
func (o *routeOptions) compile(ctx context.Context, files []routefile.File) (*compiledRoute, error) {
	content, err := routefile.Read(ctx, files...)
	if err != nil {
		return nil, err
	}
	c := &compiledRoute{route: content.Route}
	if c.region, err = o.regionOf(content.Route); err != nil {
		return nil, err
	}
	if !o.strict {
		if c.placeholders, err = content.AddPlaceholders(c.region); err != nil {
			return nil, err
		}
	}
	c.Result = compile.Region(content.Route, c.region, content.References)
	return c, nil
}

// regionOf is the region that is asked for, or the only one.
func (o *routeOptions) regionOf(route *v1alpha1.CompletionRoute) (string, error) {
	var names []string
	for _, region := range route.Spec.Regions {
		names = append(names, string(region.Name))
	}
	switch {
	case o.region == "" && len(names) == 1:
		return names[0], nil
	case o.region == "":
		return "", usageError{fmt.Errorf("the route has several regions: set --region to %s", strings.Join(names, " or "))}
	case !slices.Contains(names, o.region):
		return "", usageError{fmt.Errorf("--region: the route has no region %q; it has %s", o.region, strings.Join(names, ", "))}
	}
	return o.region, nil
}

// notePlaceholders says what no file has.
func (c *compiledRoute) notePlaceholders(out io.Writer) {
	for _, use := range c.placeholders {
		fmt.Fprintf(out, "note: no file has the %s %q, whose entry %q is for %s; a placeholder takes its place\n", use.Kind, use.Name, use.Key, use.Path)
	}
}

// noteProblems says what is left out, if there is a rest that is served.
func (c *compiledRoute) noteProblems(out io.Writer) error {
	if c.Config == nil {
		return c.problemsError()
	}
	for _, p := range c.Problems {
		fmt.Fprintf(out, "left out: %s\n", p)
	}
	return nil
}

// problemsError is all that is wrong with the route.
func (c *compiledRoute) problemsError() error {
	var errs []error
	for _, p := range c.Problems {
		errs = append(errs, errors.New(p.String()))
	}
	return errors.Join(errs...)
}
