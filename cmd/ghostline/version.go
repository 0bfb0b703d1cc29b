package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/spf13/cobra"
)

func newVersion(sys *system) *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Print the version",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(sys.stdout, "ghostline %s (%s %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// version is the module's version that this binary was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return strings.Trim(info.Main.Version, "()") // "(devel)" is no version for a header
	}
	return "devel"
}

// product is how this program names itself to the proxy and the issuer.
func product() client.Product {
	return client.Product{Name: "ghostline-cli", Version: version()}
}
