package modelserver

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadCorpus(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"b.go":              "b",
		"a.py":              "a",
		"sub/c.ts":          "c",
		"notes.txt":         "not source",
		"b_test.go":         "a test",
		"binary.go":         "\xff\xfe",
		"empty.go":          "",
		"huge.go":           strings.Repeat("x", maxFileBytes+1),
		".git/d.go":         "hidden",
		"node_modules/e.js": "somebody else's",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name  string
		paths []string
		want  []string
		err   string
	}{
		{name: "a directory", paths: []string{""}, want: []string{"a", "b", "c"}},
		{name: "a file of any kind", paths: []string{"notes.txt"}, want: []string{"not source"}},
		{name: "in the order given", paths: []string{"sub", "b.go"}, want: []string{"c", "b"}},
		{name: "what is not there", paths: []string{"b.go", "gone"}, err: "gone: no such file"},
		{name: "nothing to read", paths: []string{"binary.go"}, err: "binary.go has no source text: wanted UTF-8 files"},
		{name: "too large", paths: []string{"huge.go"}, err: "at most 256 KiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var paths []string
			for _, path := range test.paths {
				paths = append(paths, filepath.Join(dir, path))
			}
			got, err := readCorpus(paths)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v; want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.files, test.want) {
				t.Errorf("read %q; want %q", got.files, test.want)
			}
		})
	}
}

func TestReadCorpusIsBounded(t *testing.T) {
	dir := t.TempDir()
	content := strings.Repeat("x", maxFileBytes)
	for _, name := range []string{"a.go", "b.go", "c.go", "d.go", "e.go"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readCorpus([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if got.bytes != maxCorpusBytes || !got.full {
		t.Errorf("read %d bytes, full %t; want %d, true", got.bytes, got.full, maxCorpusBytes)
	}
}

func TestReadCorpusDefaultsToOwnSource(t *testing.T) {
	own, err := readCorpus(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(own.files, func(file string) bool { return strings.Contains(file, "func readCorpus(") }) {
		t.Error("this package's source is not in it")
	}
}
