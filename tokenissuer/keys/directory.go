package keys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ghostline-dev/ghostline/internal/filewatch"
	"github.com/ghostline-dev/ghostline/internal/privatefile"
)

const (
	othersMayAnything fs.FileMode = 0o077
	othersMayWrite    fs.FileMode = 0o022
)

// Directory is a Store in a directory, one file for each entry. One issuer at a
// time has it; other programs may add and remove files.
type Directory struct {
	path   string
	log    *slog.Logger
	unlock func()
}

// OpenDirectory takes a directory, which is made if it is absent. Close gives it
// back.
func OpenDirectory(path string, log *slog.Logger) (*Directory, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	unlock, err := privatefile.LockDirectory(path)
	if err != nil {
		return nil, err
	}
	return &Directory{path: path, log: log, unlock: unlock}, nil
}

// Close lets another process have the directory.
func (d *Directory) Close() { d.unlock() }

// Leads is true: there is no other.
func (d *Directory) Leads() bool { return true }

// Watch calls changed when a file has come or gone.
func (d *Directory) Watch(ctx context.Context, changed func()) {
	filewatch.Watch(ctx, d.log, []string{d.path}, time.Hour, changed)
}

// Load reads the directory. A file that is no key, or that others may read, is
// broken.
func (d *Directory) Load(context.Context) (State, error) { return ReadDirectory(d.path) }

// ReadDirectory reads a directory that an issuer may have.
func ReadDirectory(path string) (State, error) {
	info, err := os.Stat(path)
	if err != nil {
		return State{}, err
	}
	if info.Mode()&othersMayWrite != 0 {
		return State{}, fmt.Errorf("%s: others may put keys there (mode %v); chmod 700 it", path, info.Mode().Perm())
	}
	names, err := entries(path)
	if err != nil {
		return State{}, err
	}
	s := Decode(names, strings.Join(names, "\n"), func(name string) ([]byte, error) { return readPrivate(filepath.Join(path, name)) })
	if err := firstUnreadable(s.Broken); err != nil {
		return State{}, err
	}
	return s, nil
}

// firstUnreadable is an error that says nothing of a file, such as that the process
// has too many open.
func firstUnreadable(broken map[string]error) error {
	for name, err := range broken {
		var failed *fs.PathError
		if errors.As(err, &failed) && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", name, err)
		}
		// One that was removed since the directory was read is no longer there.
		if errors.Is(err, fs.ErrNotExist) {
			delete(broken, name)
		}
	}
	return nil
}

// entries are the names of the files that count.
func entries(dir string) ([]string, error) {
	files, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		if name := file.Name(); name == RotateEntry || filepath.Ext(name) == KeySuffix {
			names = append(names, name)
		}
	}
	return names, nil
}

// readPrivate reads a small regular file that only its owner may use.
func readPrivate(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Mode()&othersMayAnything != 0:
		return nil, fmt.Errorf("others may use this signing key (mode %v); chmod 600 it, and replace the key if they could have read it", info.Mode().Perm())
	case info.Size() > MaxEntryBytes:
		return nil, fmt.Errorf("it has more than %d bytes", MaxEntryBytes)
	}
	return os.ReadFile(file)
}

// Save adds, renames and removes files, in that order, each of which happens whole
// or not at all. Who stops in between has done a part of it, and finds what is
// left to do when it looks again.
func (d *Directory) Save(_ context.Context, from, to State) error {
	names, err := entries(d.path)
	if err != nil {
		return err
	}
	if strings.Join(names, "\n") != from.Version {
		return ErrConflict
	}
	changes := Diff(from, to)
	for _, key := range changes.Put {
		content, err := key.Encode()
		if err != nil {
			return err
		}
		if err := writeAtomically(d.at(key.EntryName()), content); err != nil {
			return err
		}
	}
	for was, name := range changes.Rename {
		if err := os.Rename(d.at(was), d.at(name)); err != nil {
			return conflict(err)
		}
	}
	for _, name := range changes.Remove {
		if err := os.Remove(d.at(name)); err != nil {
			return conflict(err)
		}
	}
	return syncDirectory(d.path)
}

// conflict is for a file that somebody took away.
func conflict(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrConflict
	}
	return err
}

func (d *Directory) at(name string) string { return filepath.Join(d.path, name) }

// AskRotation asks the issuer that has a directory for a rotation.
func AskRotation(dir string) error {
	return writeAtomically(filepath.Join(dir, RotateEntry), nil)
}

// Withdraw takes a key out of a directory, at once and for good.
func Withdraw(dir string, key Key) error {
	if err := os.Remove(filepath.Join(dir, key.EntryName())); err != nil {
		return err
	}
	return syncDirectory(dir)
}

// writeAtomically leaves either nothing or the whole file, also if the machine
// stops in between: content and name are both synced.
func writeAtomically(file string, content []byte) error {
	temporary, err := writeTemporary(filepath.Dir(file), content)
	if err != nil {
		return err
	}
	if err := os.Rename(temporary, file); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return syncDirectory(filepath.Dir(file))
}

// writeTemporary writes a file with mode 0600 that does not count as a key yet.
func writeTemporary(dir string, content []byte) (string, error) {
	file, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

func syncDirectory(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
