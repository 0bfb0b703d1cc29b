package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/client/login"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// The environment's settings.
const (
	envProxy  = "GHOSTLINE_PROXY_URL"
	envIssuer = "GHOSTLINE_ISSUER_URL"
	envCA     = "GHOSTLINE_CA"
	envOAuth  = "GHOSTLINE_OAUTH_TOKEN"
	envType   = "GHOSTLINE_OAUTH_TOKEN_TYPE"
)

// system is what the commands see of the machine.
type system struct {
	stdin     io.Reader
	stdout    io.Writer
	stderr    io.Writer
	getenv    func(string) string
	configDir func() (string, error)
	// browse opens a page in the user's browser.
	browse func(page string) error
}

// credentials is where logins are kept.
func (s *system) credentials() (*credentials, error) {
	dir, err := s.configDir()
	if err != nil {
		return nil, fmt.Errorf("find the directory for logins (or set %s instead): %w", envOAuth, err)
	}
	return &credentials{path: filepath.Join(dir, "ghostline", "credentials.json")}, nil
}

// terminal returns the file descriptor of f if it is a terminal.
func terminal(f any) (fd int, ok bool) {
	file, ok := f.(*os.File)
	if !ok {
		return 0, false
	}
	return int(file.Fd()), term.IsTerminal(int(file.Fd()))
}

// endpoints are the flags that say whom to talk to.
type endpoints struct {
	sys    *system
	proxy  string
	issuer string
	ca     string
}

// addIssuerFlags adds --issuer and --ca to cmd.
func (e *endpoints) addIssuerFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&e.issuer, "issuer", e.sys.getenv(envIssuer), "base URL of the token issuer ($"+envIssuer+")")
	flags.StringVar(&e.ca, "ca", e.sys.getenv(envCA), "PEM `file` of certificates to trust besides the system's ($"+envCA+")")
	// The flag exists, so this cannot fail.
	_ = cmd.MarkFlagFilename("ca", "pem", "crt")
}

// addProxyFlag adds --proxy to cmd.
func (e *endpoints) addProxyFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.proxy, "proxy", e.sys.getenv(envProxy), "base URL of the proxy ($"+envProxy+")")
}

// roots are the certificates to trust; nil means the system's.
func (e *endpoints) roots() (*x509.CertPool, error) {
	if e.ca == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(e.ca)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system without certificates of its own
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca: %s holds no certificate in PEM form", e.ca)
	}
	return pool, nil
}

// tokens makes a token source from the environment's OAuth token or the stored
// login, which is renewed if need be.
func (e *endpoints) tokens() (*client.TokenSource, error) {
	if err := e.needIssuer(); err != nil {
		return nil, err
	}
	if oauth := e.sys.getenv(envOAuth); oauth != "" {
		kind, err := tokenType(envType, e.sys.getenv(envType))
		if err != nil {
			return nil, err
		}
		return e.exchange(client.TokenOptions{OAuthToken: oauth, OAuthTokenType: kind})
	}
	store, err := e.sys.credentials()
	if err != nil {
		return nil, err
	}
	if _, err := store.load(e.issuer); err != nil {
		return nil, err
	}
	people, err := e.people()
	if err != nil {
		return nil, err
	}
	return e.exchange(client.TokenOptions{Credentials: login.NewSource(people, storedLogin{store, e.issuer})})
}

// exchange makes a token source from options that say what is exchanged.
func (e *endpoints) exchange(o client.TokenOptions) (*client.TokenSource, error) {
	roots, err := e.roots()
	if err != nil {
		return nil, err
	}
	o.IssuerURL, o.RootCAs, o.UserAgent = e.issuer, roots, product().String()
	return client.NewTokenSource(o)
}

// people makes what logs people in.
func (e *endpoints) people() (*login.Client, error) {
	roots, err := e.roots()
	if err != nil {
		return nil, err
	}
	return login.New(login.Options{RootCAs: roots, UserAgent: product().String()}), nil
}

// tokenType reads a credential's type, in the short form that people write; where
// says whence it comes.
func tokenType(where, name string) (client.TokenType, error) {
	switch name {
	case "":
		return "", nil
	case "access_token":
		return client.TypeAccessToken, nil
	case "id_token":
		return client.TypeIDToken, nil
	case "jwt":
		return client.TypeJWT, nil
	}
	return "", usageError{fmt.Errorf("%s is %q; it must be access_token, id_token or jwt", where, name)}
}

func (e *endpoints) needIssuer() error {
	if e.issuer == "" {
		return usageError{errors.New("no token issuer: set --issuer or " + envIssuer)}
	}
	return nil
}

func (e *endpoints) needProxy() error {
	if e.proxy == "" {
		return usageError{errors.New("no proxy: set --proxy or " + envProxy)}
	}
	return nil
}
