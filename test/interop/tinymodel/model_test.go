package tinymodel

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestRuneOfIsGPT2s(t *testing.T) {
	seen := map[rune]int{}
	for b := range 256 {
		r := runeOf(b)
		if other, twice := seen[r]; twice {
			t.Errorf("bytes %d and %d are both written %q", other, b, r)
		}
		seen[r] = b
	}
	for b, want := range map[int]rune{'a': 'a', ' ': 'Ġ', '\n': 'Ċ', '\t': 'ĉ', 0: 'Ā', 0x7F: 'ġ', 0xAD: 'Ń', 0xFF: 'ÿ'} {
		if got := runeOf(b); got != want {
			t.Errorf("byte %#x is written %q, want %q", b, got, want)
		}
	}
}

func TestCountLearnsWhatFollowsWhat(t *testing.T) {
	follows := count([]byte("abababac\nx"))
	if follows('a', 'b') <= follows('a', 'c') || follows('a', 'c') <= follows('a', 'x') {
		t.Errorf("after a come b %v, c %v, x %v; want them in that order", follows('a', 'b'), follows('a', 'c'), follows('a', 'x'))
	}
	if got := follows('b', tokenEnd); got != never {
		t.Errorf("the end comes with %v, want never", got)
	}
	if follows(tokenMiddle, 'x') != follows('\n', 'x') {
		t.Error("a mark is not followed by what follows a newline")
	}
}

func TestWriteAlignsTensors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := Write(path, []byte("package main\n")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte("GGUF\x03\x00\x00\x00")) || len(data)%4 != 0 {
		t.Errorf("%d bytes that begin %q; want GGUF's third version", len(data), data[:8])
	}
	if len(data) > 2<<20 {
		t.Errorf("%d bytes, want a tiny model", len(data))
	}
}
