package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/client/login"
	"github.com/ghostline-dev/ghostline/internal/privatefile"
)

// credentials is the file that logins are stored in, by issuer.
type credentials struct{ path string }

type credentialsFile struct {
	Issuers map[string]login.Login `json:"issuers"`
}

// lockWait is above how long another process may take to renew a login.
const lockWait = 30 * time.Second

// load returns the login for issuer.
func (c *credentials) load(issuer string) (login.Login, error) {
	file, err := c.read()
	if err != nil {
		return login.Login{}, err
	}
	stored, ok := file.Issuers[issuerKey(issuer)]
	if !ok {
		return login.Login{}, fmt.Errorf("not logged in to %s: run `ghostline login --issuer %s`, or set %s", issuer, issuer, envOAuth)
	}
	return stored, nil
}

// save stores the login for issuer.
func (c *credentials) save(ctx context.Context, issuer string, l login.Login) error {
	return c.update(ctx, func(issuers map[string]login.Login) error {
		issuers[issuerKey(issuer)] = l
		return nil
	})
}

// remove forgets the login for issuer, and says whether there was one.
func (c *credentials) remove(ctx context.Context, issuer string) (found bool, err error) {
	// Without a file there is no directory to lock, and none is made for this.
	if _, err := os.Stat(c.path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	err = c.update(ctx, func(issuers map[string]login.Login) error {
		_, found = issuers[issuerKey(issuer)]
		delete(issuers, issuerKey(issuer))
		return nil
	})
	return found, err
}

// update changes the file, while no other process does. It is replaced as a whole, so
// that an interruption leaves the old one, and left alone if change fails.
func (c *credentials) update(ctx context.Context, change func(map[string]login.Login) error) error {
	dir := filepath.Dir(c.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	unlock, err := lock(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	file, err := c.read()
	if err != nil {
		return err
	}
	if file.Issuers == nil {
		file.Issuers = make(map[string]login.Login)
	}
	if err := change(file.Issuers); err != nil {
		return err
	}
	content, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	return privatefile.Write(c.path, append(content, '\n'))
}

// lock waits until no other process has dir.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		unlock, err := privatefile.LockDirectory(dir)
		if !errors.Is(err, privatefile.ErrInUse) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another process to leave its logins: %w", err)
		case <-again.C:
		}
	}
}

// storedLogin is the login for one issuer, as a login.Store.
type storedLogin struct {
	*credentials
	issuer string
}

func (s storedLogin) Load() (login.Login, error) { return s.load(s.issuer) }

func (s storedLogin) Update(ctx context.Context, change func(login.Login) (login.Login, error)) (l login.Login, err error) {
	err = s.update(ctx, func(issuers map[string]login.Login) error {
		stored, ok := issuers[issuerKey(s.issuer)]
		if !ok {
			return fmt.Errorf("logged out of %s meanwhile", s.issuer)
		}
		if l, err = change(stored); err != nil {
			return err
		}
		issuers[issuerKey(s.issuer)] = l
		return nil
	})
	return l, err
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
