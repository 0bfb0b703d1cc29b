package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newLogout(sys *system) *cobra.Command {
	to := &endpoints{sys: sys}
	cmd := &cobra.Command{
		Use:   "logout",
		Short: "Forget the login for a token issuer",
		Long: `Logout removes what login stored for a token issuer from this machine. The token
itself stays good until it expires; to end it at once, revoke it where you logged in,
as in GitHub's settings under "Authorized OAuth Apps".`,
		Example:           `  ghostline logout --issuer https://tokens.example.com`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := to.needIssuer(); err != nil {
				return err
			}
			store, err := sys.credentials()
			if err != nil {
				return err
			}
			found, err := store.remove(cmd.Context(), to.issuer)
			if err != nil {
				return fmt.Errorf("forget the login: %w", err)
			}
			said := "Logged out of %s\n"
			if !found {
				said = "There was no login for %s\n"
			}
			fmt.Fprintf(sys.stderr, said, to.issuer)
			if sys.getenv(envOAuth) != "" {
				fmt.Fprintf(sys.stderr, "But %s is set, and goes on being used.\n", envOAuth)
			}
			return nil
		},
	}
	// Not addIssuerFlags: nobody is asked, so --ca would say nothing.
	cmd.Flags().StringVar(&to.issuer, "issuer", sys.getenv(envIssuer), "base URL of the token issuer ($"+envIssuer+")")
	return cmd
}
