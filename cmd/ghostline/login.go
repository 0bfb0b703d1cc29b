package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const maxOAuthToken = 64 << 10

func newLogin(sys *system) *cobra.Command {
	to := &endpoints{sys: sys}
	withToken := false
	cmd := &cobra.Command{
		Use:   "login --with-token",
		Short: "Store an OAuth token for a token issuer",
		Long: `Login reads an OAuth token from standard input, proves it by one exchange at the
token issuer, and stores it in your configuration directory, readable by you only.
At a terminal it asks for the token and does not show it.

The token is one that your identity provider gave you. Logging in through a
browser is not possible yet.`,
		Example: `  gh auth token | ghostline login --with-token --issuer https://tokens.example.com
  ghostline login --with-token    # asks for the token`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !withToken {
				return usageError{errors.New("login needs --with-token and the token on standard input; there is no other way yet")}
			}
			return runLogin(cmd.Context(), to)
		},
	}
	to.addIssuerFlags(cmd)
	cmd.Flags().BoolVar(&withToken, "with-token", false, "read the OAuth token from standard input")
	return cmd
}

func runLogin(ctx context.Context, to *endpoints) error {
	if err := to.needIssuer(); err != nil {
		return err
	}
	oauth, err := readSecret(ctx, to.sys, "OAuth token for "+to.issuer+": ")
	if err != nil {
		return err
	}
	tokens, err := to.exchange(oauth)
	if err != nil {
		return err
	}
	defer tokens.Close()
	var refusal *client.IssuerError
	if _, err := tokens.Token(ctx); errors.As(err, &refusal) && refusal.Refused() {
		return fmt.Errorf("the issuer refused this OAuth token (%d %s), so it was not stored: check that it is whole and meant for %s",
			refusal.Status, strings.TrimSpace(refusal.Code+" "+refusal.Description), to.issuer)
	} else if err != nil {
		return fmt.Errorf("nothing was stored: %w", err)
	}
	store, err := to.sys.credentials()
	if err != nil {
		return err
	}
	if err := store.save(to.issuer, oauth); err != nil {
		return fmt.Errorf("store the login: %w", err)
	}
	fmt.Fprintf(to.sys.stderr, "Logged in to %s; stored in %s\n", to.issuer, store.path)
	return nil
}

// readSecret reads one word from standard input, at a terminal without echo.
func readSecret(ctx context.Context, sys *system, question string) (string, error) {
	read := func() ([]byte, error) { return io.ReadAll(io.LimitReader(sys.stdin, maxOAuthToken)) }
	if fd, ok := terminal(sys.stdin); ok {
		state, err := term.GetState(fd)
		if err != nil {
			return "", err
		}
		// Ctrl-C must not leave a terminal that shows nothing.
		stop := context.AfterFunc(ctx, func() { _ = term.Restore(fd, state) })
		defer stop()
		fmt.Fprint(sys.stderr, question)
		defer fmt.Fprintln(sys.stderr)
		read = func() ([]byte, error) { return term.ReadPassword(fd) }
	}
	type result struct {
		secret []byte
		err    error
	}
	done := make(chan result, 1)
	go func() {
		secret, err := read() // a read of stdin cannot be interrupted, only left
		done <- result{secret, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case r := <-done:
		if r.err != nil {
			return "", fmt.Errorf("read the OAuth token from standard input: %w", r.err)
		}
		secret := strings.TrimSpace(string(r.secret))
		if secret == "" || strings.ContainsAny(secret, " \t\r\n") {
			return "", usageError{errors.New("standard input should hold the OAuth token, one word")}
		}
		return secret, nil
	}
}
