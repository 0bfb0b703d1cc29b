package modelserver

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a corpus. The model takes about 70 bytes of memory for each byte that
// it is trained on, and a second for each MiB.
const (
	maxFileBytes   = 256 << 10
	maxCorpusBytes = 1 << 20
)

// sourceExtensions are the files that a directory is searched for.
var sourceExtensions = []string{
	".c", ".cc", ".cpp", ".cs", ".go", ".h", ".hpp", ".java", ".js", ".jsx", ".kt",
	".lua", ".php", ".py", ".rb", ".rs", ".scala", ".sh", ".sql", ".swift", ".ts", ".tsx",
}

// ownSource is this package's source: the corpus where no other is given, so
// that a binary alone has something to say.
//
//go:embed *.go
var ownSource embed.FS

// corpus is the text that a model is trained on.
type corpus struct {
	files []string
	bytes int
	full  bool // there was more than maxCorpusBytes
}

// readCorpus reads the files named by paths, and the source files in the
// directories named by paths, in the order given and then by name. Without
// paths it reads this package's own source. It is an error if a path cannot be
// read or holds no source.
func readCorpus(paths []string) (*corpus, error) {
	c := &corpus{}
	if len(paths) == 0 {
		return c, c.addTree(ownSource, ".")
	}
	for _, path := range paths {
		before := len(c.files)
		if err := c.addPath(path); err != nil {
			return nil, fmt.Errorf("corpus: %w", err)
		}
		if len(c.files) == before && !c.full {
			return nil, fmt.Errorf("corpus: %s has no source text: wanted UTF-8 files of at most %d KiB, in a directory with one of the extensions %s",
				path, maxFileBytes>>10, strings.Join(sourceExtensions, " "))
		}
	}
	return c, nil
}

func (c *corpus) addPath(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return c.addTree(os.DirFS(path), path)
	}
	if info.Size() > maxFileBytes {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	c.add(content)
	return nil
}

// addTree adds the source files under the root of tree. It passes over hidden
// directories, and over tests, which repeat themselves more than they teach.
func (c *corpus) addTree(tree fs.FS, name string) error {
	return fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(name, path), err)
		}
		base := entry.Name()
		switch {
		case c.full:
			return fs.SkipAll
		case entry.IsDir() && path != "." && (strings.HasPrefix(base, ".") || base == "node_modules"):
			return fs.SkipDir
		case !entry.Type().IsRegular(), strings.HasSuffix(base, "_test.go"),
			!slices.Contains(sourceExtensions, filepath.Ext(base)):
			return nil
		}
		info, err := entry.Info()
		if err != nil || info.Size() > maxFileBytes {
			return err
		}
		content, err := fs.ReadFile(tree, path)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(name, path), err)
		}
		c.add(content)
		return nil
	})
}

// add adds a file's content, unless it is no text or too much.
func (c *corpus) add(content []byte) {
	if len(content) == 0 || !utf8.Valid(content) {
		return
	}
	if c.bytes+len(content) > maxCorpusBytes {
		c.full = true
		return
	}
	c.files = append(c.files, string(content))
	c.bytes += len(content)
}
