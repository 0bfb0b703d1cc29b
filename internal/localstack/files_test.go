package localstack

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWriteFilesRefusesOpenDirectory: whoever could enter the directory could
// take the login and the keys from it, or put others there.
func TestWriteFilesRefusesOpenDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteFiles(dir, Addresses{}); err == nil || !strings.Contains(err.Error(), "run `chmod 700 "+dir+"`") {
		t.Errorf("an open directory: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v were written, error %v", entries, err)
	}
}

// TestWriteFilesReplaces: what an earlier run or another program left takes no
// part in who can read the new files.
func TestWriteFilesReplaces(t *testing.T) {
	t.Parallel()
	dir, target := filepath.Join(t.TempDir(), "stack"), filepath.Join(t.TempDir(), "target")
	for _, err := range []error{
		os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "issuer.yaml"), nil, 0o644),
		os.Symlink(target, filepath.Join(dir, "identities.yaml")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := WriteFiles(dir, Addresses{}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 6 {
		t.Errorf("%v were written, error %v", entries, err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v, error %v; want 0600", entry.Name(), info.Mode(), err)
		}
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("a link was followed out of the directory")
	}
}

// TestRunRemovesStaleEnv: an env that a killed stack left is gone before
// anything else can fail.
func TestRunRemovesStaleEnv(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := filepath.Join(t.TempDir(), "stack")
	env := filepath.Join(dir, "env")
	for _, err := range []error{os.Mkdir(dir, 0o700), os.WriteFile(env, []byte("old"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	err = Run(t.Context(), Options{Dir: dir, Addresses: Addresses{Model: taken.Addr().String()}})
	if err == nil || !strings.Contains(err.Error(), "port of the model: ") {
		t.Errorf("a port that is taken: %v", err)
	}
	if _, err := os.Lstat(env); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old env: %v, want it gone", err)
	}
}

// TestRunTwiceInOneDirectory: the second stack is refused, and what the first
// one has there stays.
func TestRunTwiceInOneDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "stack")
	_, release, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	env := filepath.Join(dir, envFile)
	if err := os.WriteFile(env, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a directory that a stack has: %v", err)
	}
	if _, err := WriteFiles(dir, Addresses{}); err == nil {
		t.Error("its files were written anew")
	}
	if got, err := os.ReadFile(env); err != nil || string(got) != "first" {
		t.Errorf("env holds %q, error %v", got, err)
	}
	release()
	if _, err := WriteFiles(dir, Addresses{}); err != nil {
		t.Errorf("after it: %v", err)
	}
}
