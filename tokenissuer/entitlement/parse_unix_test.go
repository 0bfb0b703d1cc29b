//go:build unix

package entitlement

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestPipeIsRefused(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(pipe); err == nil || !strings.Contains(err.Error(), "it must be a file") {
		t.Errorf("a pipe: %v", err)
	}
}
