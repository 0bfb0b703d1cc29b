//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package privatefile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// LockDirectory takes a directory for this process until unlock is called or the
// process ends, however it ends. It leaves no trace in the directory. The lock
// holds against those who lock, not against those who write.
func LockDirectory(path string) (unlock func(), err error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		dir.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is %w: stop that one, or choose another directory", path, ErrInUse)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { dir.Close() }, nil
}
