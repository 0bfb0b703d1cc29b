package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/client/login"
	"golang.org/x/term"
)

const maxOAuthToken = 64 << 10

// withToken stores a token that the person has from elsewhere.
func (o *loginOptions) withToken(ctx context.Context) error {
	kind, err := tokenType("--token-type", o.tokenType)
	if err != nil {
		return err
	}
	token, err := readSecret(ctx, o.sys, "OAuth token for "+o.issuer+": ")
	if err != nil {
		return err
	}
	l := login.Login{Token: token, Obtained: time.Now(), Provider: login.Provider{Type: kind}}
	if err := o.prove(ctx, l); err != nil {
		var refusal *client.IssuerError
		if errors.As(err, &refusal) && refusal.Refused() && !refusal.Denied() {
			return fmt.Errorf("the issuer refused this OAuth token (%d %s), so it was not stored: check that it is whole and meant for %s",
				refusal.Status, strings.TrimSpace(refusal.Code+" "+refusal.Description), o.issuer)
		}
		return fmt.Errorf("nothing was stored: %w", err)
	}
	return o.store(ctx, l)
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
