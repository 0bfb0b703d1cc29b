package proxy

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/internal/httpserver"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

const testKeys = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`

// TestWrongConfigKeepsFetchingKeys: the keys of the config in use must still
// come when a newer config, which names others, is refused.
func TestWrongConfigKeepsFetchingKeys(t *testing.T) {
	var known atomic.Bool
	asked := make(chan struct{}, 100)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		if !known.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(testKeys))
	}))
	t.Cleanup(issuer.Close)
	l, write := newTestLoader(t)
	write(func(c *config.Config) { c.Tokens.KeySet = config.KeySet{URL: issuer.URL} })
	if err := l.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-asked
	write(func(c *config.Config) {
		c.Tokens.KeySet = config.KeySet{File: "absent"}
	})
	if err := l.load(t.Context()); err == nil || !strings.Contains(err.Error(), "tokens.keySet: open") {
		t.Fatalf("a config without its keys: %v", err)
	}
	known.Store(true)
	for deadline := time.After(20 * time.Second); l.current.Load().auth == nil; {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatal("the keys are not fetched any more")
		}
	}
	if got := l.current.Load().config.Tokens.KeySet.URL; got != issuer.URL {
		t.Errorf("the key set in use is %q", got)
	}
}

// newTestLoader is a loader in a directory of its own, and a function that
// writes its config.
func newTestLoader(t *testing.T) (*loader, func(change func(*config.Config))) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	p, err := newProxy(Options{ConfigFile: file, Listeners: httpserver.Listeners{Cleartext: listener}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.loader.close) // the test's context, and so every fetch, has ended by then
	return p.loader, func(change func(*config.Config)) {
		t.Helper()
		c := config.Config{
			Region: "here", Tokens: config.Tokens{Issuer: "i", Audience: "a"},
			Models: []config.Model{{Name: "m", Variants: []config.Variant{{Name: "v", Weight: 1}}}},
			Units:  []config.Unit{{Name: "u", Region: "here", Serves: "m/v", Provider: config.ProviderOpenAI, URL: "http://127.0.0.1:9/v1/completions"}},
		}
		change(&c)
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestARefusalIsSaidOnce: not with every poll, but again if it came to be mended,
// which is said too.
func TestARefusalIsSaidOnce(t *testing.T) {
	l, write := newTestLoader(t)
	var log bytes.Buffer
	l.log = slog.New(slog.NewJSONHandler(&log, nil))
	good := func(c *config.Config) { c.Tokens.KeySet = config.KeySet{File: "keys.json"} }
	if err := os.WriteFile(filepath.Join(filepath.Dir(l.file), "keys.json"), []byte(testKeys), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := func(c *config.Config) { good(c); c.Region = "" }
	for i, step := range []struct {
		change          func(*config.Config)
		refused, mended int
	}{{good, 0, 0}, {bad, 1, 0}, {bad, 1, 0}, {good, 1, 1}, {good, 1, 1}, {bad, 2, 1}} {
		write(step.change)
		l.reload(t.Context())
		refused, mended := strings.Count(log.String(), "config is refused"), strings.Count(log.String(), "no longer refused")
		if refused != step.refused || mended != step.mended {
			t.Errorf("after step %d the log has %d refused and %d mended, want %d and %d:\n%s", i, refused, mended, step.refused, step.mended, &log)
		}
	}
}
