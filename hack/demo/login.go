package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/internal/localstack"
	"github.com/ghostline-dev/ghostline/internal/token"
)

var plugin = client.Product{Name: "ghostline-demo", Version: "0.0.0"}

// logIn exchanges the stack's OAuth login for a token and shows what it claims,
// never the token itself.
func (d *demo) logIn(ctx context.Context) error {
	d.section("Log in", "The editor's OAuth login buys a token that is good for minutes.")
	roots, err := readRoots(d.stack.files.CA())
	if err != nil {
		return err
	}
	d.tokens, err = client.NewTokenSource(client.TokenOptions{
		IssuerURL: d.stack.files.IssuerURL(), OAuthToken: d.stack.files.OAuthToken, RootCAs: roots, UserAgent: plugin.String(),
	})
	if err != nil {
		return err
	}
	began := time.Now()
	d.token, err = d.tokens.Token(ctx)
	if err != nil {
		return err
	}
	took := time.Since(began)
	keys, err := fetchKeys(ctx, newHTTPClient(roots, http2Only), d.stack.files.IssuerURL())
	if err != nil {
		return err
	}
	verifier := token.Verifier{Issuer: d.stack.files.IssuerURL(), Audience: localstack.Audience}
	claims, err := verifier.Verify(d.token, keys, time.Now())
	if err != nil {
		return fmt.Errorf("the issuer's token does not verify with the keys that it publishes: %w", err)
	}
	d.row("subject", "%s", claims.Subject)
	d.row("client", "%s", claims.ClientID)
	d.row("models", "%s", models(claims))
	d.row("expires", "in %s", time.Until(claims.Expires).Round(time.Second))
	d.row("signature", "verified with the %s that the issuer publishes", plural(keys.Len(), "key"))
	d.row("exchange took", "%s", milliseconds(took))
	d.client, err = client.New(client.Options{ProxyURL: d.stack.files.ProxyURL(), Tokens: d.tokens, RootCAs: roots, Plugin: plugin})
	return err
}

func plural(n int, thing string) string {
	if n == 1 {
		return thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func models(c token.Claims) string {
	if c.Models == nil {
		return "all"
	}
	return strings.Join(c.Models, ", ")
}

// fetchKeys reads the keys that the issuer publishes.
func fetchKeys(ctx context.Context, c *http.Client, issuer string) (token.KeySet, error) {
	defer c.CloseIdleConnections()
	resp, err := get(ctx, c, issuer+"/.well-known/jwks.json")
	if err != nil {
		return token.KeySet{}, err
	}
	if resp.status != http.StatusOK {
		return token.KeySet{}, fmt.Errorf("the issuer's keys: status %d", resp.status)
	}
	return token.ParseKeySet(resp.body)
}

func http2Only(p *http.Protocols) { p.SetHTTP2(true) }
func http1Only(p *http.Protocols) { p.SetHTTP1(true) }

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}
