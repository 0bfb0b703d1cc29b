package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"slices"

	"github.com/ghostline-dev/ghostline/internal/strictyaml"
)

// MaxModels bounds the models of one identity, as a route's are.
const MaxModels = 16

var (
	idPattern    = regexp.MustCompile(`^[!-~]{1,255}$`)
	modelPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)
	tierPattern  = regexp.MustCompile(`^[A-Za-z0-9._-]{0,63}$`)
)

// Static knows the credentials that are listed in a file. It is for local use
// and for tests, and for machines that have no other identity.
type Static struct {
	name string
	// known is keyed by SHA-256, so that no credential stays in memory and
	// looking one up tells nothing by its time.
	known map[[sha256.Size]byte]Identity
}

type staticFile struct {
	Tokens []staticToken `json:"tokens"`
}

// staticToken is one credential. A hash is as good as its credential is long
// and random: one that can be guessed can be found from the hash.
type staticToken struct {
	SHA256   string   `json:"sha256"`
	Token    string   `json:"token"`
	Subject  string   `json:"subject"`
	ClientID string   `json:"clientID"`
	Models   []string `json:"models"`
	Tier     string   `json:"tier"`
}

// LoadStatic reads the credentials of a file. The error holds every problem of
// the file. It warns in the log if others on the machine can read credentials
// that stand there in plain.
func LoadStatic(name, path string, log *slog.Logger) (*Static, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("static credentials: %w", err)
	}
	var file staticFile
	if err := strictyaml.Decode(data, &file); err != nil {
		return nil, fmt.Errorf("static credentials %s: %w", path, err)
	}
	static := &Static{name: name, known: make(map[[sha256.Size]byte]Identity, len(file.Tokens))}
	if err := static.addAll(file.Tokens); err != nil {
		return nil, fmt.Errorf("static credentials %s: %w", path, err)
	}
	if err := warnIfOpen(path, file.Tokens, log); err != nil {
		return nil, fmt.Errorf("static credentials: %w", err)
	}
	return static, nil
}

// Name is the provider's name.
func (s *Static) Name() string { return s.name }

// Identify looks the credential up, whatever its type. It is never out of order.
func (s *Static) Identify(_ context.Context, credential Credential) (Identity, error) {
	identity, ok := s.known[sha256.Sum256([]byte(credential.Value))]
	if !ok {
		return Identity{}, ErrUnknownCredential
	}
	identity.Models = slices.Clone(identity.Models)
	return identity, nil
}

func (s *Static) addAll(tokens []staticToken) error {
	if len(tokens) == 0 {
		return errors.New("tokens: it lists no credential, so nobody could log in")
	}
	var problems []error
	for i, entry := range tokens {
		if err := s.add(entry); err != nil {
			problems = append(problems, fmt.Errorf("tokens[%d]: %w", i, err))
		}
	}
	return errors.Join(problems...)
}

func (s *Static) add(entry staticToken) error {
	hash, err := entry.hash()
	if err != nil {
		return err
	}
	if _, taken := s.known[hash]; taken {
		return errors.New("the credential is that of an earlier entry")
	}
	switch {
	case !idPattern.MatchString(entry.Subject):
		return errors.New("subject: it must be 1 to 255 visible ASCII characters")
	case !idPattern.MatchString(entry.ClientID):
		return errors.New("clientID: it must be 1 to 255 visible ASCII characters")
	case !tierPattern.MatchString(entry.Tier):
		return errors.New("tier: it must be at most 63 letters, digits, dots, dashes and underscores")
	case len(entry.Models) > MaxModels:
		return fmt.Errorf("models: there are %d, more than %d", len(entry.Models), MaxModels)
	case !allMatch(modelPattern, entry.Models):
		return errors.New("models: a name must be 1 to 128 letters, digits, dots, dashes, underscores and slashes")
	}
	s.known[hash] = Identity{Subject: entry.Subject, ClientID: entry.ClientID, Models: entry.Models, Tier: entry.Tier}
	return nil
}

// hash is the SHA-256 of the entry's credential, given or worked out.
func (t *staticToken) hash() (hash [sha256.Size]byte, err error) {
	if (t.SHA256 == "") == (t.Token == "") {
		return hash, errors.New("give one of sha256 (better) and token")
	}
	if t.Token != "" {
		return sha256.Sum256([]byte(t.Token)), nil
	}
	decoded, err := hex.DecodeString(t.SHA256)
	if err != nil || len(decoded) != sha256.Size {
		return hash, errors.New("sha256: it must be 64 hexadecimal digits, as sha256sum prints them")
	}
	return [sha256.Size]byte(decoded), nil
}

func allMatch(pattern *regexp.Regexp, values []string) bool {
	return !slices.ContainsFunc(values, func(value string) bool { return !pattern.MatchString(value) })
}

// othersMayRead is group and others: neither has business with credentials.
const othersMayRead fs.FileMode = 0o044

func warnIfOpen(path string, tokens []staticToken, log *slog.Logger) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	plain := slices.ContainsFunc(tokens, func(t staticToken) bool { return t.Token != "" })
	if plain && info.Mode()&othersMayRead != 0 {
		log.Warn("others can read credentials in plain; chmod 600 the file, or list sha256 instead of token",
			"file", path, "mode", info.Mode().Perm().String())
	}
	return nil
}
