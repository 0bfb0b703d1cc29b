package feature

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/service"
	"github.com/ghostline-dev/ghostline/proxy"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// lastConfig has a stack's config be the last one that was in use, and changes
// the newest one.
func lastConfig(t *testing.T, change func(newest string) error) func(*stack) {
	return func(s *stack) {
		t.Helper()
		newest := filepath.Join(s.dir, "config.json")
		data, err := os.ReadFile(newest)
		if err == nil {
			s.write("last.json", string(data))
			err = change(newest)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func withLastConfig(o *proxy.Options) {
	o.LastConfigFile = filepath.Join(filepath.Dir(o.ConfigFile), "last.json")
}

// TestStartWithTheLastConfig: a proxy that starts while the newest config is bad
// serves by the last one, says so, and takes the newest once it is mended.
func TestStartWithTheLastConfig(t *testing.T) {
	for _, tc := range []struct {
		name, problem string
		change        func(newest string) error
	}{
		{"bad", "region: is a number", func(newest string) error { return os.WriteFile(newest, []byte(`{"region": 1}`), 0o600) }},
		{"missing", "no such file", os.Remove},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, setup{before: lastConfig(t, tc.change), options: withLastConfig})
			s.complete()
			s.reloaded(false)
			last, err := os.ReadFile(filepath.Join(s.dir, "last.json"))
			if err != nil {
				t.Fatal(err)
			}
			status := s.status()
			if status.ConfigHash != config.Hash(last) {
				t.Errorf("the config in use is %s, want the last one", status.ConfigHash)
			}
			newest, _ := os.ReadFile(filepath.Join(s.dir, "config.json")) // nothing, if it is missing
			if r := status.RefusedConfig; r == nil || !strings.Contains(r.Problem, tc.problem) || r.Hash != config.Hash(newest) {
				t.Errorf("the refused config is %+v, want %s with %q", r, config.Hash(newest), tc.problem)
			}
			s.wantLog(`"level":"ERROR"`, "the one in -last-config is in use", tc.problem)

			s.reconfigure(func(c *config.Config) { c.Units[0].Name = "mended" })
			s.reloaded(true)
			s.complete()
			if s.metric("ghostline_requests_total", "unit", "mended", "outcome", "ok") == 0 {
				t.Error("the mended config is not what serves")
			}
			if r := s.status().RefusedConfig; r != nil {
				t.Errorf("the refused config is %+v, want none", r)
			}
		})
	}
}

// TestGoodConfigNeedsNoLast: a last config that is bad or missing is not read.
func TestGoodConfigNeedsNoLast(t *testing.T) {
	s := start(t, setup{options: withLastConfig, before: func(s *stack) { s.write("last.json", "{") }})
	s.complete()
	if status := s.status(); status.ConfigHash != s.configHash() || status.RefusedConfig != nil {
		t.Errorf("the config in use is %s, %+v is refused", status.ConfigHash, status.RefusedConfig)
	}
}

// TestStartWithNoGoodConfig ends at once, and names both files.
func TestStartWithNoGoodConfig(t *testing.T) {
	s := start(t, setup{})
	dir := t.TempDir()
	opts := s.options()
	opts.Metrics = nil
	opts.ConfigFile, opts.LastConfigFile = filepath.Join(dir, "config.json"), filepath.Join(dir, "last.json")
	for name, content := range map[string]string{opts.ConfigFile: `{"region": 1}`, opts.LastConfigFile: `{}`} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := proxy.Run(ctx, opts)
	if !errors.Is(err, service.ErrConfig) {
		t.Fatalf("got %v, want an error of the config", err)
	}
	for _, part := range []string{opts.ConfigFile, "region: is a number", opts.LastConfigFile, "tokens.issuer: is missing"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}
