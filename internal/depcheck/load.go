package depcheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listed is what `go list` says of a package.
type listed struct {
	ImportPath string
	Dir        string
	Imports    []string
	Module     *struct{ Path, Dir string }

	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
}

// Load reads the module at a folder with the go command: its packages, those
// they depend on, and the imports of its files. Files for other systems, which
// the go command leaves out, are not seen.
func Load(ctx context.Context, root string) (*Module, error) {
	path, err := goList(ctx, root, "-m")
	if err != nil {
		return nil, err
	}
	module := &Module{Path: strings.TrimSpace(string(path))}
	out, err := goList(ctx, root, "-deps",
		"-json=ImportPath,Dir,Imports,Module,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles", "./...")
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return module, nil
		} else if err != nil {
			return nil, fmt.Errorf("output of go list: %w", err)
		}
		pkg := Package{Path: l.ImportPath, Imports: l.Imports}
		if l.Module != nil && l.Module.Path == module.Path {
			if pkg.Files, err = l.files(); err != nil {
				return nil, err
			}
		}
		module.Packages = append(module.Packages, pkg)
	}
}

// goList runs `go list` in the module at root and returns what it prints.
func goList(ctx context.Context, root string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list"}, args...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w: %s", root, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// files reads the imports of each of the package's files.
func (l listed) files() ([]File, error) {
	var files []File
	for _, name := range slices.Concat(l.GoFiles, l.CgoFiles, l.TestGoFiles, l.XTestGoFiles) {
		path := filepath.Join(l.Dir, name)
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		relative, err := filepath.Rel(l.Module.Dir, path)
		if err != nil {
			return nil, err
		}
		file := File{Name: filepath.ToSlash(relative)}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, fmt.Errorf("%s: import %s: %w", file.Name, spec.Path.Value, err)
			}
			file.Imports = append(file.Imports, imported)
		}
		files = append(files, file)
	}
	return files, nil
}

// CheckFolders returns one line for each folder under root that should not be
// there: one at the top that the layout does not have, or one with a name that
// says nothing. Hidden folders and testdata are passed over.
//
// It has a second use. The go command reruns a cached test only if a file or
// folder that the test itself opened has changed; because this opens every
// folder, a new file anywhere reruns the check.
func CheckFolders(root string) ([]string, error) {
	var violations []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || path == root {
			return err
		}
		name := entry.Name()
		if name == "testdata" || strings.HasPrefix(name, ".") {
			return fs.SkipDir
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if relative == "bin" {
			return fs.SkipDir // what make builds and installs
		}
		if relative == name && !slices.Contains(topFolders(), name) {
			violations = append(violations, fmt.Sprintf("folder %s: the top of the module has only %s",
				name, strings.Join(topFolders(), ", ")))
		}
		if slices.Contains(vagueNames(), name) {
			violations = append(violations, fmt.Sprintf("folder %s: name it for what it provides, not %q",
				filepath.ToSlash(relative), name))
		}
		return nil
	})
	return violations, err
}
