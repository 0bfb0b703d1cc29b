//go:build unix

package proxy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ghostline-dev/ghostline/proxy/config"
)

// TestPipesAreRefused would wait for ever if a load opened one.
func TestPipesAreRefused(t *testing.T) {
	l, write := newTestLoader(t)
	keys := func(c *config.Config) { c.Tokens.KeySet = config.KeySet{URL: "https://127.0.0.1:1/keys"} }
	write(keys)
	if err := l.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(l.file+".pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	write(func(c *config.Config) {
		keys(c)
		c.Tokens.DeniedSubjects = &config.DeniedSubjects{File: l.file + ".pipe"}
	})
	if err := l.load(t.Context()); err == nil || !strings.Contains(err.Error(), "tokens.deniedSubjects: "+l.file+".pipe is a pipe; it must be a file") {
		t.Errorf("a pipe of denied subjects: %v", err)
	}
	if err := os.Rename(l.file+".pipe", l.file); err != nil {
		t.Fatal(err)
	}
	if err := l.load(t.Context()); err == nil || !strings.HasSuffix(err.Error(), l.file+" is a pipe; it must be a file") {
		t.Errorf("a pipe for a config: %v", err)
	}
}

// TestOutOfFiles: when the process can open no file, what is in use stays whole.
// Its units must not be left out because their credentials cannot be read anew.
func TestOutOfFiles(t *testing.T) {
	l, write := newTestLoader(t)
	l.credentials = t.TempDir()
	credential := filepath.Join(l.credentials, "u")
	if err := os.WriteFile(credential, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(func(c *config.Config) {
		c.Tokens.KeySet = config.KeySet{URL: "https://127.0.0.1:1/keys"}
		c.Units[0].Credential = "u"
	})
	if err := l.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	inUse := l.current.Load()
	openNone(t, func() {
		if err := l.load(t.Context()); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("a load without files: %v", err)
		}
	})
	if now := l.current.Load(); now != inUse {
		t.Errorf("another snapshot is in use, its unit's problem is %q", now.units[0].problem)
	}
	if err := os.Remove(credential); err != nil {
		t.Fatal(err)
	}
	if err := l.load(t.Context()); err != nil || l.current.Load().units[0].problem == "" {
		t.Errorf("a credential that is gone is still in use; the load's error is %v", err)
	}
}

// openNone calls f while the process can open no file.
func openNone(t *testing.T, f func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	none := before
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}
