// Package client is the Go client of Ghostline: it exchanges an OAuth token for
// completion tokens and keeps them fresh ([TokenSource]), holds one HTTP/2
// connection to the proxy, and streams completions over it ([Client.Complete]).
// Cancelling is a stream reset and never costs the connection.
package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/ghostline-dev/ghostline/internal/oauthhttp"
	"github.com/google/uuid"
)

// Tokens is where a [Client] gets the completion token of each request.
// [TokenSource] is the one to use outside tests.
type Tokens interface {
	// Token returns a token that is good now.
	Token(ctx context.Context) (string, error)
	// Invalidate says that the proxy refused token (status 401).
	Invalidate(token string)
}

// Product is a name and a version as HTTP headers carry them: "vscode/1.99.0".
type Product struct {
	Name    string
	Version string
}

func (p Product) String() string {
	if p.Version == "" {
		return p.Name
	}
	return p.Name + "/" + p.Version
}

// Options configure a [Client].
type Options struct {
	// ProxyURL is the proxy's base URL. https:// means HTTP/2 by ALPN, http://
	// HTTP/2 by prior knowledge (RFC 9113 section 3.3), which only a loopback
	// host may have: the token goes with every request.
	ProxyURL string
	// Tokens authenticates the requests.
	Tokens Tokens
	// RootCAs are the certificates to trust; nil means the system's.
	RootCAs *x509.CertPool
	// Plugin is the program that asks, sent as User-Agent and
	// Editor-Plugin-Version. Proxies decide by it whether a client is too old.
	Plugin Product
	// Editor is the editor around it, if any, sent as Editor-Version.
	Editor Product
}

// Client asks one proxy for completions, all over one connection. It is one editor
// session: the proxy bounds how many of its completions run at once (8 by default)
// and supersedes the oldest that wait. It is safe for concurrent use.
type Client struct {
	base   string
	tokens Tokens
	plugin Product
	editor Product
	// session names this client to the proxy: of its requests, the newest win.
	session string
	conn    *connection
}

// New makes a client. It opens no connection: the first completion does, or
// [Client.Warm].
func New(o Options) (*Client, error) {
	base, err := parseBaseURL("proxy URL", o.ProxyURL)
	if err != nil {
		return nil, err
	}
	if o.Tokens == nil {
		return nil, errors.New("client options: Tokens is missing; use a TokenSource")
	}
	if o.Plugin == (Product{}) {
		o.Plugin.Name = "ghostline-go"
	}
	for _, p := range []Product{o.Plugin, o.Editor} {
		if !headerSafe(p.String()) {
			return nil, fmt.Errorf("client options: product %q must be printable ASCII without spaces", p)
		}
	}
	conn, err := newConnection(base, o.RootCAs)
	if err != nil {
		return nil, err
	}
	return &Client{
		base:    strings.TrimRight(base.String(), "/"),
		tokens:  o.Tokens,
		plugin:  o.Plugin,
		editor:  o.Editor,
		session: uuid.NewString(),
		conn:    conn,
	}, nil
}

// Warm opens the connection, if there is none, so that the first completion
// does not pay for DNS, TCP and TLS. Call it when an editor gains the focus.
func (c *Client) Warm(ctx context.Context) error {
	l, err := c.conn.acquire(ctx)
	if err != nil {
		return err
	}
	c.conn.release(l)
	return nil
}

// Connections is how many connections the client has opened so far. It stays 1
// until the proxy says GOAWAY or the network breaks.
func (c *Client) Connections() int { return c.conn.count() }

// Close ends running completions and closes the connection. It does not close
// the token source.
func (c *Client) Close() error {
	c.conn.close()
	return nil
}

// parseBaseURL reads a base URL that what names in the error.
func parseBaseURL(what, raw string) (*url.URL, error) {
	u, err := oauthhttp.ParseURL(what, raw, "https://completions.example.com")
	if err == nil && u.RawQuery != "" {
		return nil, fmt.Errorf("%s %q must have no query", what, u.Redacted())
	}
	return u, err
}

// hostPort is where to connect to for u.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// headerSafe says whether s can stand in a header as one word.
func headerSafe(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
