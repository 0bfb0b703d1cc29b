// Package privatefile keeps files that only their owner reads: keys and logins.
package privatefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrInUse is of a directory that somebody has locked.
var ErrInUse = errors.New("in use by another process")

// Write makes or replaces the file at path, with mode 0600. The new file takes
// the old one's place as a whole: an interruption leaves the old one, a link is
// replaced and not followed, and who could read the old file gains nothing.
func Write(path string, content []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // fails once it is renamed, as it should
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

// MakeDirectory makes a directory with mode 0700, and its parents. One that is
// there already must be this user's and closed to others, because nothing that
// is written into it would be private otherwise. It is left as it is: whoever
// opened it may have had a reason.
func MakeDirectory(path string) error {
	path = filepath.Clean(path) // a slash at the end would have a link followed
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a link, and others may point it elsewhere: name the directory itself", path)
	}
	return checkPrivate(path, info)
}
