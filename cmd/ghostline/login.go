package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/client/login"
	"github.com/spf13/cobra"
)

type loginOptions struct {
	endpoints
	provider   string
	browser    bool
	tokenGiven bool
	tokenType  string
}

func newLogin(sys *system) *cobra.Command {
	o := &loginOptions{endpoints: endpoints{sys: sys}}
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Log in to a token issuer",
		Long: `Login asks the token issuer at which identity provider people log in, gets a code
there, and shows it with the page to enter it at: on this machine or on any other.
What the provider gives is proved by one exchange at the issuer and stored in your
configuration directory, readable by you only, for ` + "`ghostline token`" + ` and the other
commands. It is renewed when it expires, if the provider allows that.

With --with-token it reads an OAuth token that you have from elsewhere from standard
input. At a terminal it asks for the token and does not show it.`,
		Example: `  ghostline login --issuer https://tokens.example.com
  ghostline login --provider github --browser
  gh auth token | ghostline login --with-token`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addIssuerFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.provider, "provider", "", "`name` of the identity provider, if the issuer has several")
	flags.BoolVar(&o.browser, "browser", false, "open the provider's page in a browser")
	flags.BoolVar(&o.tokenGiven, "with-token", false, "read the OAuth token from standard input")
	flags.StringVar(&o.tokenType, "token-type", "", "with --with-token: access_token (the default), id_token or jwt")
	// The flags exist, so these cannot fail.
	_ = cmd.RegisterFlagCompletionFunc("provider", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("token-type", cobra.FixedCompletions([]string{"access_token", "id_token", "jwt"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *loginOptions) run(ctx context.Context) error {
	if err := o.needIssuer(); err != nil {
		return err
	}
	switch {
	case o.tokenGiven && (o.provider != "" || o.browser):
		return usageError{errors.New("--with-token takes the token from standard input; leave --provider and --browser out")}
	case o.tokenGiven:
		return o.withToken(ctx)
	case o.tokenType != "":
		return usageError{errors.New("--token-type is for --with-token; a provider's login has a type of its own")}
	}
	return o.atProvider(ctx)
}

// prove exchanges l once.
func (o *loginOptions) prove(ctx context.Context, l login.Login) error {
	tokens, err := o.exchange(client.TokenOptions{OAuthToken: l.Token, OAuthTokenType: l.Provider.Type})
	if err != nil {
		return err
	}
	defer tokens.Close()
	_, err = tokens.Token(ctx)
	return err
}

func (o *loginOptions) store(ctx context.Context, l login.Login) error {
	store, err := o.sys.credentials()
	if err != nil {
		return err
	}
	if err := store.save(ctx, o.issuer, l); err != nil {
		return fmt.Errorf("store the login: %w", err)
	}
	fmt.Fprintf(o.sys.stderr, "Logged in to %s; stored in %s\n", o.issuer, store.path)
	if o.sys.getenv(envOAuth) != "" {
		fmt.Fprintf(o.sys.stderr, "But %s is set and comes before a stored login: unset it.\n", envOAuth)
	}
	return nil
}
