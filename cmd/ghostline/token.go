package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newToken(sys *system) *cobra.Command {
	to := &endpoints{sys: sys}
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Print a fresh completion token",
		Long: `Token exchanges your OAuth token for a completion token and prints it, for use in
scripts. It is a secret that is good for about 25 minutes: keep it out of logs, and
out of arguments, which every user of the machine can see.`,
		Example: `  printf 'Authorization: Bearer %s\n' "$(ghostline token)" |
    curl -H @- -H 'Content-Type: application/json' --http2 --cacert "$` + envCA + `" \
    -d '{"model":"ghost-code","prompt":"func main() {","stream":true}' \
    "$` + envProxy + `/v1/completions"`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tokens, err := to.tokens()
			if err != nil {
				return err
			}
			defer tokens.Close()
			token, err := tokens.Token(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(sys.stdout, token)
			return err
		},
	}
	to.addIssuerFlags(cmd)
	return cmd
}
