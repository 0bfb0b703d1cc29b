// Command charts writes what the charts have from elsewhere: the definition of
// CompletionRoutes and the operator's rights, which are generated from the code, and the
// tables of values in their READMEs.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// It runs after the generators whose files it reads: go generate goes through packages
// in the order of their paths, and api and controllers are before hack.
//go:generate go run . -root ../..

func main() {
	root := flag.String("root", ".", "the repository's `DIR`")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "charts:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// copies are the files that a chart has as they are elsewhere, since Helm packs only
// what is in a chart's own folder.
var copies = map[string]string{
	"charts/ghostline/files/crd.yaml":  "config/crd/completions.ghostline.dev_completionroutes.yaml",
	"charts/ghostline/files/role.yaml": "config/rbac/role.yaml",
}

// charts are the folders of all charts.
var charts = []string{"charts/ghostline", "charts/ghostline-issuer"}

// generate makes the files' content, by their names.
func generate(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for to, from := range copies {
		content, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			return nil, err
		}
		files[to] = content
	}
	for _, chart := range charts {
		readme, err := withTable(filepath.Join(root, chart))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", chart, err)
		}
		files[chart+"/README.md"] = readme
	}
	return files, nil
}
