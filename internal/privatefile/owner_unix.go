//go:build unix

package privatefile

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

const othersMayAnything fs.FileMode = 0o077

// checkPrivate refuses a directory that others own or may enter.
func checkPrivate(path string, info fs.FileInfo) error {
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to another user (uid %d), who could read and change what is written there: choose a directory of your own", path, owner.Uid)
	}
	if mode := info.Mode().Perm(); mode&othersMayAnything != 0 {
		return fmt.Errorf("%s is open to others (mode %04o), and secrets are kept there: run `chmod 700 %s`, or choose another directory", path, mode, path)
	}
	return nil
}
