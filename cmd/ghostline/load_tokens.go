package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/internal/load"
	"github.com/ghostline-dev/ghostline/internal/loopback"
	"github.com/spf13/cobra"
)

// loadTokens are the flags that say where users have their tokens from. No secret
// is a flag, because everybody on the machine sees arguments.
type loadTokens struct {
	oauthFile string
	keyEnv    string
	keyFile   string
	none      bool
	clearText bool
}

func (l *loadTokens) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&l.oauthFile, "oauth-file", "", "`file` of OAuth tokens for the issuer, one a line, that the users share out")
	flags.StringVar(&l.keyEnv, "key-env", "", "`name` of the environment variable that holds a key to send")
	flags.StringVar(&l.keyFile, "key-file", "", "`file` that holds a key to send")
	flags.BoolVar(&l.none, "no-token", false, "send no token")
	flags.BoolVar(&l.clearText, "clear-text", false, "send tokens to an http:// URL of another machine, which everybody on the way can read")
	// The flags exist, so these cannot fail.
	_ = cmd.MarkFlagFilename("oauth-file")
	_ = cmd.MarkFlagFilename("key-file")
}

// tokenSources are where users have their tokens from; none is no token.
type tokenSources []client.Tokens

// close closes those that refresh.
func (s tokenSources) close() {
	for _, tokens := range s {
		if source, ok := tokens.(*client.TokenSource); ok {
			source.Close()
		}
	}
}

// sources makes the sources for a server. byIssuer says that its tokens come from
// the issuer if no flag says otherwise.
func (l *loadTokens) sources(to *endpoints, server string, byIssuer bool) (tokenSources, error) {
	if l.count() > 1 {
		return nil, usageError{errors.New("only one of --oauth-file, --key-env, --key-file and --no-token can be meant")}
	}
	var sources tokenSources
	var err error
	switch {
	case l.none:
		return nil, nil
	case l.keyEnv != "":
		sources, err = staticSource("--key-env", to.sys.getenv(l.keyEnv))
	case l.keyFile != "":
		sources, err = keyFromFile(l.keyFile)
	case l.oauthFile != "":
		sources, err = l.subjects(to)
	case byIssuer:
		var source *client.TokenSource
		if source, err = to.tokens(); err == nil {
			sources = tokenSources{source}
		}
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(server); err == nil && u.Scheme == "http" && !loopback.Is(u.Hostname()) && !l.clearText {
		sources.close()
		return nil, usageError{errors.New("tokens would go over the network in clear text: use https://, or --clear-text if that network is yours alone")}
	}
	return sources, nil
}

// count is how many of the flags are given.
func (l *loadTokens) count() (n int) {
	for _, given := range []bool{l.oauthFile != "", l.keyEnv != "", l.keyFile != "", l.none} {
		if given {
			n++
		}
	}
	return n
}

func keyFromFile(file string) (tokenSources, error) {
	content, err := readText(file)
	if err != nil {
		return nil, fmt.Errorf("--key-file: %w", err)
	}
	return staticSource("--key-file", strings.TrimSpace(content))
}

func staticSource(flag, key string) (tokenSources, error) {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, usageError{fmt.Errorf("%s names no key: what it names must be there and hold one word of printable ASCII", flag)}
	}
	return tokenSources{load.StaticKey(key)}, nil
}

// subjects makes a source of each line of the file of OAuth tokens.
func (l *loadTokens) subjects(to *endpoints) (tokenSources, error) {
	if err := to.needIssuer(); err != nil {
		return nil, err
	}
	content, err := readText(l.oauthFile)
	if err != nil {
		return nil, fmt.Errorf("--oauth-file: %w", err)
	}
	var sources tokenSources
	for line := range strings.Lines(content) {
		token := strings.TrimSpace(line)
		if token == "" {
			continue
		}
		source, err := to.exchange(client.TokenOptions{OAuthToken: token})
		if err != nil {
			sources.close()
			return nil, err
		}
		sources = append(sources, source)
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("--oauth-file: %s holds no token; it should have one a line", l.oauthFile)
	}
	return sources, nil
}
