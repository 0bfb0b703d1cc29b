// Package localstack sets up the whole of Ghostline on one machine: certificates,
// configuration and a login for a token issuer, a proxy and a model server on
// loopback, which meet only over sockets. `ghostline up` runs the three in one
// process, the demo as three.
package localstack

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ghostline-dev/ghostline/internal/localca"
	"github.com/ghostline-dev/ghostline/internal/privatefile"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// What the stack is set up with.
const (
	Audience = "completions.local"
	Model    = "ghost-code"
	subject  = "local-user"
	clientID = "ghostline-local"
)

// envFile is written last, and is there only while the stack serves.
const envFile = "env"

// Files are the stack's files, all in one directory that only its owner reads.
type Files struct {
	Dir   string
	at    Addresses
	route *config.Config // of a route that is tried; nil for the stack's own
	// OAuthToken is the login of the stack's one user. It is a secret.
	OAuthToken string
}

// The files' names.
func (f *Files) path(name string) string { return filepath.Join(f.Dir, name) }

// CA is the certificate to trust.
func (f *Files) CA() string { return f.path("ca.pem") }

// Certificate and Key are the services' own, for loopback names.
func (f *Files) Certificate() string { return f.path("tls.crt") }

// Key is the key of Certificate.
func (f *Files) Key() string { return f.path("tls.key") }

// IssuerConfig is the token issuer's configuration.
func (f *Files) IssuerConfig() string { return f.path("issuer.yaml") }

// ProxyConfig is the proxy's config.
func (f *Files) ProxyConfig() string { return f.path("proxy.json") }

// The services' URLs.

// ProxyURL is where completions are asked for.
func (f *Files) ProxyURL() string { return "https://" + f.at.Proxy }

// AdminURL is the proxy's admin port.
func (f *Files) AdminURL() string { return "http://" + f.at.Admin }

// IssuerURL is where tokens come from.
func (f *Files) IssuerURL() string { return "https://" + f.at.Issuer }

// ModelURL is the model server.
func (f *Files) ModelURL() string { return "https://" + f.at.Model }

// WriteFiles writes all that the services of a stack read into dir, which is
// made if it does not exist; one that exists must be this user's and closed to
// others. Signing keys that are there already stay.
func WriteFiles(dir string, at Addresses) (*Files, error) {
	dir, release, err := claim(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	return writeFiles(&Files{Dir: dir, at: at})
}

// claim makes dir, or refuses it, and returns its absolute path. It is refused
// while another stack has it: that one would read the new files, and be led to
// services that are not its own. The env of an earlier stack is removed, which
// would lead to ports that are others' by now.
func claim(dir string) (path string, release func(), err error) {
	if path, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	if err := privatefile.MakeDirectory(path); err != nil {
		return "", nil, err
	}
	if release, err = privatefile.LockDirectory(path); err != nil {
		return "", nil, err
	}
	if err := removeEnv(path); err != nil {
		release()
		return "", nil, err
	}
	return path, release, nil
}

// removeEnv removes dir/env, if it is there.
func removeEnv(dir string) error {
	if err := os.Remove(filepath.Join(dir, envFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeFiles writes the files of a stack whose directory, addresses and route are set.
func writeFiles(f *Files) (*Files, error) {
	ca, err := localca.New()
	if err != nil {
		return nil, err
	}
	if err := ca.WriteFiles(f.Dir); err != nil {
		return nil, err
	}
	f.OAuthToken = "local-" + rand.Text()
	proxyConfig, err := json.MarshalIndent(f.proxyConfig(), "", "  ")
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{
		"identities.yaml": f.identities(),
		"issuer.yaml":     f.issuerConfig(),
		"proxy.json":      proxyConfig,
	} {
		if err := privatefile.Write(f.path(name), content); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// identities knows the one user by the hash of its OAuth token.
func (f *Files) identities() []byte {
	hash := sha256.Sum256([]byte(f.OAuthToken))
	return fmt.Appendf(nil, "tokens:\n- sha256: %s\n  subject: %s\n  clientID: %s\n", hex.EncodeToString(hash[:]), subject, clientID)
}

func (f *Files) issuerConfig() []byte {
	return fmt.Appendf(nil, `issuer: %s
audiences: [%s]
keys: {directory: keys}
identityProviders:
- {name: local, type: Static, static: {file: identities.yaml}}
endpoints: {proxy: %[3]q, api: %[3]q}
sku: local
`, f.IssuerURL(), Audience, f.ProxyURL())
}

func (f *Files) proxyConfig() config.Config {
	if f.route != nil {
		return f.localConfig()
	}
	return config.Config{
		Region: "local",
		Tokens: f.tokens(),
		Models: []config.Model{{
			Name: Model, Aliases: []string{"copilot-codex", "gpt-41-copilot"},
			Variants: []config.Variant{{Name: "stable", Weight: 100}},
		}},
		Units: []config.Unit{f.played(config.Unit{Name: "model-1", Region: "local", Serves: Model + "/stable"})},
	}
}

// tokens are those of the stack's own issuer.
func (f *Files) tokens() config.Tokens {
	return config.Tokens{
		Issuer: f.IssuerURL(), Audience: Audience,
		KeySet: config.KeySet{URL: f.IssuerURL() + "/.well-known/jwks.json", CAFile: "ca.pem"},
	}
}

// played is a unit as the stack's model server plays it: nothing of how the real one
// is reached is left, and no key of it.
func (f *Files) played(unit config.Unit) config.Unit {
	return config.Unit{
		Name: unit.Name, Region: unit.Region, Serves: unit.Serves, Capacity: unit.Capacity, Priority: unit.Priority,
		Provider: config.ProviderOpenAI, URL: f.ModelURL() + "/v1/completions", Protocol: config.ProtocolHTTP2,
		TLS: &config.UnitTLS{CAFile: "ca.pem"},
	}
}

// localConfig is the route's config on this machine: what is done with requests is
// the route's, whose tokens count and where they go is the stack's.
func (f *Files) localConfig() config.Config {
	c := *f.route
	c.Requires = nil // this very program serves it
	c.Tokens, c.TrustedEdges = f.tokens(), nil
	c.Units = nil
	for _, unit := range f.route.Units {
		c.Units = append(c.Units, f.played(unit))
	}
	return c
}

// Env is the stack as shell variables, for `. DIR/env`.
func (f *Files) Env() []byte {
	var out bytes.Buffer
	for _, variable := range [][2]string{
		{"GHOSTLINE_PROXY_URL", f.ProxyURL()},
		{"GHOSTLINE_ISSUER_URL", f.IssuerURL()},
		{"GHOSTLINE_MODEL_URL", f.ModelURL()},
		{"GHOSTLINE_ADMIN_URL", f.AdminURL()},
		{"GHOSTLINE_CA", f.CA()},
		{"GHOSTLINE_OAUTH_TOKEN", f.OAuthToken},
	} {
		fmt.Fprintf(&out, "export %s=%s\n", variable[0], shellQuote(variable[1]))
	}
	return out.Bytes()
}

// shellQuote quotes text for a POSIX shell, where only a quote ends a quote.
func shellQuote(text string) string {
	return "'" + string(bytes.ReplaceAll([]byte(text), []byte("'"), []byte(`'\''`))) + "'"
}
