package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/client/login"
)

// atProvider logs in at an identity provider, by its device flow.
func (o *loginOptions) atProvider(ctx context.Context) error {
	people, err := o.people()
	if err != nil {
		return err
	}
	defer people.Close()
	provider, err := o.choose(ctx, people)
	if err != nil {
		return err
	}
	code, err := people.Start(ctx, provider)
	if err != nil {
		return err
	}
	o.show(provider, code)
	l, err := people.Wait(ctx, code)
	switch {
	case errors.Is(err, login.ErrDenied):
		return fmt.Errorf("%w: nothing was stored", err)
	case errors.Is(err, login.ErrExpired):
		return fmt.Errorf("%w: run `ghostline login` again", err)
	case err != nil:
		return err
	}
	return o.finish(ctx, l)
}

// finish stores a login, unless the issuer refuses it. One that could not be proved,
// because the issuer is out, is worth keeping: it cost the person some work.
func (o *loginOptions) finish(ctx context.Context, l login.Login) error {
	err := o.prove(ctx, l)
	var refusal *client.IssuerError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refusal) && refusal.Refused():
		return fmt.Errorf("%s let you in, but the issuer refuses you (%d %s), so nothing was stored: ask whoever runs %s",
			l.Provider.Name, refusal.Status, strings.TrimSpace(refusal.Code+" "+refusal.Description), o.issuer)
	}
	if storeErr := o.store(ctx, l); storeErr != nil {
		return storeErr
	}
	if err != nil {
		return fmt.Errorf("the login is stored, but could not be tried: %w", err)
	}
	return nil
}

// choose asks the issuer for its providers, and takes the one that is named, or the
// only one.
func (o *loginOptions) choose(ctx context.Context, people *login.Client) (login.Provider, error) {
	all, err := people.Providers(ctx, o.issuer)
	if errors.Is(err, login.ErrNoLogin) {
		return login.Provider{}, fmt.Errorf("%w: get an OAuth token from whoever runs it, and use `ghostline login --with-token`", err)
	}
	if err != nil {
		return login.Provider{}, err
	}
	var names []string
	for _, p := range all {
		if p.Name == o.provider {
			return p, nil
		}
		names = append(names, p.Name)
	}
	switch {
	case o.provider != "":
		return login.Provider{}, usageError{fmt.Errorf("--provider: the issuer has no %q, but %s", o.provider, strings.Join(names, ", "))}
	case len(all) > 1:
		return login.Provider{}, usageError{fmt.Errorf("choose where to log in by --provider: %s", strings.Join(names, ", "))}
	}
	return all[0], nil
}

// show tells the person what to do. All that comes from the provider is printable
// ASCII, which login.Start sees to.
func (o *loginOptions) show(provider login.Provider, code *login.Code) {
	page := code.URL
	fmt.Fprintf(o.sys.stderr, "To log in to %s by %s, open\n\n    %s\n\nand enter the code\n\n    %s\n\n",
		o.issuer, provider.Name, page, code.UserCode)
	if code.CompleteURL != "" {
		page = code.CompleteURL
		fmt.Fprintf(o.sys.stderr, "or open this, and see that it shows the same code:\n\n    %s\n\n", page)
	}
	if o.browser {
		if err := o.sys.browse(page); err != nil {
			fmt.Fprintf(o.sys.stderr, "No browser could be opened (%v): open the page yourself.\n", err)
		}
	}
	fmt.Fprintf(o.sys.stderr, "The code is good for %s. Waiting; Ctrl-C gives up.\n", code.Life)
}
