package feature

import (
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/client"
	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
	"github.com/tidwall/gjson"
)

// traffic is requests that are sent all the time, until stop.
type traffic struct {
	i       *tokenIssuer
	good    atomic.Int64
	bad     atomic.Int64
	stopped chan struct{}
	wg      sync.WaitGroup

	mu     sync.Mutex
	tokens []string // the newest last
}

// sendAlways begins: a new token ten times a second, and of each of the last ones a
// request to every proxy, beside the Go client's own.
func sendAlways(i *tokenIssuer, stacks ...*stack) *traffic {
	tr := &traffic{i: i, stopped: make(chan struct{}), tokens: []string{i.token()}}
	exchanges := time.NewTicker(100 * time.Millisecond)
	i.t.Cleanup(exchanges.Stop)
	tr.forEver(func() { <-exchanges.C; tr.mint() })
	for _, s := range stacks {
		plain, goClient := s.h2c(), i.client(s)
		for n := range 2 {
			tr.forEver(func() { tr.ask(s, plain, n) })
		}
		tr.forEver(func() { tr.complete(s, goClient) })
	}
	return tr
}

func (tr *traffic) forEver(do func()) {
	tr.wg.Go(func() {
		for {
			select {
			case <-tr.stopped:
				return
			default:
				do()
			}
		}
	})
}

func (tr *traffic) stop() {
	close(tr.stopped)
	tr.wg.Wait()
}

// mint keeps the tokens of about the last 20 seconds.
func (tr *traffic) mint() {
	raw := tr.i.token()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.tokens = append(tr.tokens, raw)
	if len(tr.tokens) > 200 {
		tr.tokens = tr.tokens[1:]
	}
}

// ask uses the newest token, or the oldest.
func (tr *traffic) ask(s *stack, plain *http.Client, oldest int) {
	tr.mu.Lock()
	raw := tr.tokens[(len(tr.tokens)-1)*(1-oldest)]
	tr.mu.Unlock()
	req := s.request(s.t.Context(), s.plainURL, "/v1/completions", withPrompt(`"x"`))
	req.Header.Set("Authorization", "Bearer "+raw)
	got := s.do(plain, req)
	tr.count(got.status == http.StatusOK && got.err == nil, got)
}

func (tr *traffic) complete(s *stack, c *client.Client) {
	var failed error
	for _, err := range c.Complete(s.t.Context(), client.Request{Model: "ghost-code", Prompt: "x", MaxTokens: 2}) {
		failed = err
	}
	tr.count(failed == nil, failed)
}

func (tr *traffic) count(good bool, what any) {
	if good {
		tr.good.Add(1)
		return
	}
	if tr.bad.Add(1) <= 5 {
		tr.i.t.Errorf("a request was lost: %+v", what)
	}
}

// TestRotationLosesNoRequest has the keys rotate twice while all is in use.
func TestRotationLosesNoRequest(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	stacks := []*stack{start(t, setup{before: i.trusted}), start(t, setup{before: i.trusted})}
	tr := sendAlways(i, stacks...)
	for range 2 {
		signs := i.signs()
		if err := keys.AskRotation(i.keys); err != nil {
			t.Fatal(err)
		}
		stacks[0].eventually("the next key signs", func() bool { return i.signs() != signs })
		switched := tr.good.Load()
		stacks[0].eventually("many requests with it", func() bool { return tr.good.Load() > switched+200 })
	}
	tr.stop()
	if len(i.stored()) != 3 {
		t.Errorf("%d keys, want 3: two leave", len(i.stored()))
	}
	for _, s := range stacks {
		if invalid := s.metric("ghostline_auth_total", "result", "invalid"); invalid != 0 {
			t.Errorf("%v tokens were refused", invalid)
		}
	}
	t.Logf("%d requests, %d lost", tr.good.Load()+tr.bad.Load(), tr.bad.Load())
}

// TestWithdrawnKey withdraws the only key of a running issuer. What it signed ends,
// remembered or not, at each proxy that has the new keys, and the Go client's user
// goes on without doing anything.
func TestWithdrawnKey(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	s := start(t, setup{before: i.trusted})
	plain, goClient := s.h2c(), i.client(s)
	ask := func(raw string) int {
		req := s.request(t.Context(), s.plainURL, "/v1/completions", withPrompt(`"x"`))
		req.Header.Set("Authorization", "Bearer "+raw)
		return s.do(plain, req).status
	}
	completes := func() bool {
		for _, err := range goClient.Complete(t.Context(), client.Request{Model: "ghost-code", Prompt: "x", MaxTokens: 2}) {
			if err != nil {
				return false
			}
		}
		return true
	}
	old := i.token()
	first, again := ask(old), ask(old)
	if first != http.StatusOK || again != http.StatusOK || !completes() {
		t.Fatal("before, the token is not good")
	}
	if hits := s.metric("ghostline_token_cache_total", "result", "hit"); hits < 1 {
		t.Fatalf("%v remembered tokens, want 1 at least", hits)
	}
	stolen := i.stored()
	i.withdraw(stolen...)
	withdrawn := time.Now()
	var fresh string
	s.eventually("a fresh key signs at once", func() bool { // its file is there a little before it
		fresh = i.token()
		return keyOf(t, fresh) != stolen[0].KeyID
	})
	t.Logf("a fresh key signs after %v", time.Since(withdrawn))
	s.eventually("the token ends", func() bool { return ask(old) == http.StatusUnauthorized })
	t.Logf("what the withdrawn key signed is refused after %v; the proxy asks every 1 to 1.1 s here", time.Since(withdrawn))
	if status := ask(fresh); status != http.StatusOK {
		t.Errorf("a token of the fresh key got %d where the withdrawn one's is refused", status)
	}
	s.eventually("the Go client goes on", completes)
	for range 10 {
		if status := ask(old); status != http.StatusUnauthorized {
			t.Errorf("then the old token got %d", status)
		}
	}
}

// keyOf is the id of the key that signed a token.
func keyOf(t *testing.T, raw string) string {
	t.Helper()
	header, _, _ := strings.Cut(raw, ".")
	data, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		t.Fatal(err)
	}
	return gjson.GetBytes(data, "kid").Str
}
