//go:build unix

package privatefile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// names are the files in dir.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

func TestWrite(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, tc := range []struct {
		name  string
		there func(path string) error // what is there before
	}{
		{"nothing", func(string) error { return nil }},
		{"a file that all can read", func(path string) error {
			if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
				return err
			}
			return os.Chmod(path, 0o666)
		}},
		{"a link to another file", func(path string) error { return os.Symlink(elsewhere, path) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must(t, os.WriteFile(elsewhere, []byte("untouched"), 0o644))
			dir := t.TempDir()
			path := filepath.Join(dir, "secret")
			must(t, tc.there(path))
			must(t, Write(path, []byte("new")))
			info, err := os.Lstat(path)
			must(t, err)
			if info.Mode() != 0o600 {
				t.Errorf("mode %v, want that of a file with 0600", info.Mode())
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != "new" {
				t.Errorf("it holds %q, %v", got, err)
			}
			if got, err := os.ReadFile(elsewhere); err != nil || string(got) != "untouched" {
				t.Errorf("the file that a link named holds %q, %v", got, err)
			}
			if all := names(t, dir); len(all) != 1 {
				t.Errorf("left behind: %q", all)
			}
		})
	}
}

// TestWriteKeepsOpenReaders: who had the old file open does not get the new
// content by it.
func TestWriteKeepsOpenReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(path, []byte("old"), 0o644))
	reader, err := os.Open(path)
	must(t, err)
	defer reader.Close()
	must(t, Write(path, []byte("new")))
	got := make([]byte, 3)
	if _, err := reader.ReadAt(got, 0); err != nil || string(got) != "old" {
		t.Errorf("the file that was open holds %q, %v", got, err)
	}
}

func TestWriteFailing(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "secret", "full"), 0o700))
	if err := Write(filepath.Join(dir, "secret"), []byte("new")); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if all := names(t, dir); len(all) != 1 {
		t.Errorf("left behind: %q", all)
	}
	if err := Write(filepath.Join(dir, "missing", "secret"), nil); err == nil {
		t.Error("written into a directory that is not there")
	}
}

func TestMakeDirectory(t *testing.T) {
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	with := func(name string, mode fs.FileMode) string {
		must(t, os.Mkdir(at(name), 0o700))
		must(t, os.Chmod(at(name), mode))
		return at(name)
	}
	must(t, os.WriteFile(at("file"), nil, 0o600))
	must(t, os.Symlink(with("target", 0o700), at("link")))
	for _, tc := range []struct{ path, says string }{
		{at("new/deep"), ""},
		{with("mine", 0o700), ""},
		{with("readable", 0o755), "readable is open to others (mode 0755), and secrets are kept there: run `chmod 700 " + at("readable") + "`, or choose another directory"},
		{with("entered", 0o701), "(mode 0701)"},
		{with("grouped", 0o770), "(mode 0770)"},
		{at("link"), "link is a link"},
		{at("link") + "/", "link is a link"},
		{at("file"), "not a directory"},
		{"/", "/ "}, // another's, or open to others
	} {
		err := MakeDirectory(tc.path)
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v; want %q", tc.path, err, tc.says)
		}
	}
	for name, want := range map[string]fs.FileMode{"new": 0o700, "new/deep": 0o700, "readable": 0o755} {
		if info, err := os.Stat(at(name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, error %v; want %04o", name, info.Mode(), err, want)
		}
	}
}

// foreign is a file of another user.
type foreign struct{ fs.FileInfo }

func (foreign) Sys() any { return &syscall.Stat_t{Uid: uint32(os.Getuid()) + 1} }

// TestOwner: another's directory is refused, however closed it is.
func TestOwner(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	info, err := os.Lstat(dir)
	must(t, err)
	if err := checkPrivate(dir, foreign{info}); err == nil || !strings.Contains(err.Error(), "belongs to another user (uid ") {
		t.Errorf("another's directory: %v", err)
	}
}
