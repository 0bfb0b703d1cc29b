//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package privatefile

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestLockDirectory(t *testing.T) {
	dir := t.TempDir()
	unlock, err := LockDirectory(dir)
	must(t, err)
	if _, err := LockDirectory(dir); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("locked twice: %v", err)
	}
	other, err := LockDirectory(t.TempDir())
	must(t, err)
	other()
	unlock()
	again, err := LockDirectory(dir)
	must(t, err)
	again()
	if all := names(t, dir); len(all) != 0 {
		t.Errorf("left behind: %q", all)
	}
	if _, err := LockDirectory(filepath.Join(dir, "missing")); err == nil {
		t.Error("a directory that is not there was locked")
	}
}
