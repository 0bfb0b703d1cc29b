//go:build unix

package main

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestAccessLogThatNobodyReads: a FIFO without a reader must not keep the proxy
// from its start, nor from its end.
func TestAccessLogThatNobodyReads(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	config := writeFiles(t, goodConfig)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if code, stderr := exec(t.Context(), "-config", config, "-listen-cleartext", "127.0.0.1:0", "-access-log", fifo); code != 0 {
			t.Errorf("exit %d: %s", code, stderr)
		}
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the proxy does not end")
	}
}
