package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ghostline-dev/ghostline/internal/privatefile"
)

// credentials is the file that logins are stored in, by issuer.
type credentials struct{ path string }

type credentialsFile struct {
	Issuers map[string]login `json:"issuers"`
}

type login struct {
	OAuthToken string `json:"oauth_token"`
}

// load returns the OAuth token for issuer.
func (c *credentials) load(issuer string) (string, error) {
	file, err := c.read()
	if err != nil {
		return "", err
	}
	stored, ok := file.Issuers[issuerKey(issuer)]
	if !ok {
		return "", fmt.Errorf("not logged in to %s: run `ghostline login --with-token --issuer %s`, or set %s", issuer, issuer, envOAuth)
	}
	return stored.OAuthToken, nil
}

// save stores the OAuth token for issuer. The file is replaced as a whole, so
// that an interruption leaves the old one.
func (c *credentials) save(issuer, oauthToken string) error {
	file, err := c.read()
	if err != nil {
		return err
	}
	if file.Issuers == nil {
		file.Issuers = make(map[string]login)
	}
	file.Issuers[issuerKey(issuer)] = login{OAuthToken: oauthToken}
	content, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(c.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return privatefile.Write(c.path, append(content, '\n'))
}

// read returns the file's content; a file that does not exist is empty.
func (c *credentials) read() (credentialsFile, error) {
	var file credentialsFile
	info, err := os.Stat(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return file, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return file, fmt.Errorf("%s holds secrets, but others may read it (mode %04o): run `chmod 600 %s`", c.path, mode, c.path)
	}
	content, err := os.ReadFile(c.path)
	if err != nil {
		return file, err
	}
	// The cause is left out: it may quote the file, and so a token.
	if json.Unmarshal(content, &file) != nil {
		return file, fmt.Errorf("%s is not the JSON that login writes: remove it and log in again", c.path)
	}
	return file, nil
}

// issuerKey is the same for all spellings of an issuer's URL that occur.
func issuerKey(issuer string) string { return strings.TrimRight(issuer, "/") }
