//go:build unix

package proxy

import (
	"os"
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
