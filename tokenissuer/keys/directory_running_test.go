package keys

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestDirectoryWhileRunning is the same as a person does it, with files.
func TestDirectoryWhileRunning(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	store, err := OpenDirectory(dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := OpenDirectory(dir, discard); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second issuer in the same directory: %v", err)
	}
	k, err := Open(t.Context(), store, testPolicy, discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	defer running.Wait()
	defer cancel()

	first := k.Ring().Signer.KeyID
	if err := AskRotation(dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a key waits", func() bool { return stages(k) == "signing waiting" })
	waits := k.Ring().Keys[1].ID
	s, err := ReadDirectory(dir)
	if err != nil || len(s.Keys) != 2 || s.RotationAsked {
		t.Fatalf("%+v, %v", s, err)
	}
	if err := Withdraw(dir, s.Keys[0]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the one that waited signs", func() bool { return stages(k) == "signing" && k.Ring().Signer.KeyID == waits })
	eventually(t, "its file says so", func() bool {
		s, err := ReadDirectory(dir)
		return err == nil && len(s.Keys) == 1 && !s.Keys[0].waits()
	})
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files, want 1", len(files))
	}
	if err := os.Rename(dir, dir+".gone"); err != nil { // at once, whatever is being written there
		t.Fatal(err)
	}
	eventually(t, "it is told that the directory is gone", func() bool { return !k.Status().Loaded })
	if k.Ring().Signer.KeyID != waits || waits == first {
		t.Error("the last good key does not sign")
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so in 20s: %s", what)
		}
	}
}
