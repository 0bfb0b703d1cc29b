package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestSceneIsInTheRepository(t *testing.T) {
	s, err := findScene("../..")
	if err != nil {
		t.Fatal(err)
	}
	ask, err := s.request(ghostTokens)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(ask.Prompt, strings.TrimSuffix(sceneLine, "\n")) || !strings.HasPrefix(ask.Suffix, "\n") {
		t.Errorf("prompt ends %q, suffix begins %q; want them to meet at the end of %q",
			ask.Prompt[max(0, len(ask.Prompt)-40):], ask.Suffix[:min(40, len(ask.Suffix))], sceneLine)
	}
	if _, err := s.typing(keystrokes); err != nil {
		t.Error(err)
	}
	if _, err := findScene(t.TempDir()); err == nil || !strings.Contains(err.Error(), "-repository") {
		t.Errorf("in another directory: %v; want to be told of -repository", err)
	}
}

func TestTyping(t *testing.T) {
	got, err := text{content: "func f() {\n\tπ := 3\n}\n", offset: len("func f() {\n\t")}.typing(3)
	if err != nil {
		t.Fatal(err)
	}
	const before, after = "func f() {\n\t", "= 3\n}\n"
	for i, typed := range []string{"π", "π ", "π :"} {
		if want := before + typed + after; got[i].content != want || got[i].offset != len(before+typed) {
			t.Errorf("after key %d: %q at %d, want %q at %d", i+1, got[i].content, got[i].offset, want, len(before+typed))
		}
	}
	if at := got[1].cursor(); at.Line != 2 || at.Column != 5 {
		t.Errorf("cursor %s, want 2:5", at)
	}
	if _, err := (text{content: "ab", offset: 0}).typing(3); err == nil {
		t.Error("typed more than the file has")
	}
}

func TestSchedule(t *testing.T) {
	keys := schedule(typistSeed, keystrokes)
	if !slices.Equal(keys, schedule(typistSeed, keystrokes)) {
		t.Error("the same seed made another schedule")
	}
	if slices.Equal(keys, schedule(typistSeed+1, keystrokes)) {
		t.Error("another seed made the same schedule")
	}
	through := 0
	for i, key := range keys {
		if key.leave != waits {
			through++
		}
		if key.leave != waits && (key.leave < 0 || key.leave >= leaveWithin) || key.gap < keyFrom || key.gap > keyTo+pauseFor {
			t.Errorf("key %d: %+v", i, key)
		}
	}
	if through != keystrokes/2 {
		t.Errorf("%d of %d typed through, want half", through, keystrokes)
	}
}

func TestPercentile(t *testing.T) {
	results := []result{{}, {firstByte: 4}, {firstByte: 1}, {firstByte: 3}, {firstByte: 2}}
	for p, want := range map[float64]time.Duration{1: 1, 50: 2, 75: 3, 99: 4, 100: 4} {
		if got := percentile(results, p); got != want {
			t.Errorf("p%v is %v, want %v", p, got, want)
		}
	}
	if got := percentile([]result{{}}, 50); got != 0 {
		t.Errorf("of no times it is %v, want 0", got)
	}
}

func TestBooks(t *testing.T) {
	typed := func(sent bool, e ending) result {
		r := result{ending: e, sent: new(atomic.Bool)}
		r.sent.Store(sent)
		return r
	}
	results := []result{typed(true, whole), typed(false, leftBefore), typed(true, leftBefore), typed(true, leftDuring), typed(true, leftDuring)}
	good := counts{ok: 2, cancelled: 3 - 1, wait: 1, stream: 1, modelOK: 2, modelCancelled: 2}
	if b := good.books(results); !b.balance() {
		t.Errorf("%+v does not balance", b)
	}
	for name, spoil := range map[string]func(*counts){
		"a cancel that the proxy lost":            func(c *counts) { c.cancelled-- },
		"a cancel that the proxy counted twice":   func(c *counts) { c.cancelled++ },
		"a completion that the proxy lost":        func(c *counts) { c.ok = 0; c.cancelled += 2 },
		"requests that the model server lost":     func(c *counts) { c.modelCancelled -= 2 },
		"a request that came to the model twice":  func(c *counts) { c.modelCancelled++; c.modelOK++ },
		"a request forwarded that was not needed": func(c *counts) { c.wait, c.receive = 0, 2 },
	} {
		c := good
		spoil(&c)
		if b := c.books(results); b.balance() {
			t.Errorf("%s: %+v balances", name, b)
		}
	}
}

func TestScrape(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("# TYPE cuts_total counter\ncuts_total{phase=\"wait\",unit=\"a\"} 2\ncuts_total{phase=\"wait\",unit=\"b\"} 3\ncuts_total{phase=\"stream\",unit=\"a\"} 5\n# TYPE now gauge\nnow 7\n"))
	}))
	defer server.Close()
	m, err := scrape(context.Background(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"cuts_total", nil, 10},
		{"cuts_total", []string{"phase", "wait"}, 5},
		{"cuts_total", []string{"phase", "wait", "unit", "b"}, 3},
		{"cuts_total", []string{"phase", "none"}, 0},
		{"now", nil, 7},
		{"absent", nil, 0},
	} {
		if got := m.sum(tc.name, tc.labels...); got != tc.want {
			t.Errorf("%s%v is %v, want %v", tc.name, tc.labels, got, tc.want)
		}
	}
}
