// Package depcheck holds the module to its import rules: who may import whom,
// down to single files where that matters. Its test runs the rules over the
// whole module, so a shortcut between two layers fails `make test`.
package depcheck

import (
	"fmt"
	"slices"
	"strings"
)

// Rule forbids some packages to import some others.
//
// Packages are named as the go command names them: "./proxy" is the package at
// that folder of the module, "./proxy/..." it and all below, "net" and
// "k8s.io/..." are import paths.
type Rule struct {
	// From are the packages of the module that the rule binds.
	From []string
	// Deny is what they must not import.
	Deny []string
	// Except is what they may import although Deny covers it.
	Except []string
	// Files may import it all the same. Each is a file, or a folder and "/*",
	// relative to the module.
	Files []string
	// Deep also refuses what is imported through other packages, libraries
	// included.
	Deep bool
	// Tests binds test files too. Without it they are free: a test may join
	// parts that never meet in a binary.
	Tests bool
	// Because is the rule in words. It ends every violation's message.
	Because string
}

// Package is a package as the rules see it.
type Package struct {
	// Path is its import path.
	Path string
	// Imports are the import paths in its files, tests left out.
	Imports []string
	// Files are its files, tests included. Only packages of the module need
	// them.
	Files []File
}

// File is one source file and what it imports.
type File struct {
	// Name is relative to the module: "proxy/server.go".
	Name    string
	Imports []string
}

func (f File) isTest() bool { return strings.HasSuffix(f.Name, "_test.go") }

// Module is what the rules are checked against.
type Module struct {
	// Path is the module's path.
	Path string
	// Packages are the module's packages and, for rules that are Deep, those
	// that they depend on.
	Packages []Package
}

// Check returns one line for each violation of the rules, sorted:
// "pkg X imports Y: rule".
func (m *Module) Check(rules []Rule) []string {
	graph := make(map[string][]string, len(m.Packages))
	for _, pkg := range m.Packages {
		graph[pkg.Path] = pkg.Imports
	}
	var violations []string
	for _, pkg := range m.Packages {
		if !match(m.Path+"/...", pkg.Path) {
			continue
		}
		for _, rule := range rules {
			if !m.matchAny(rule.From, pkg.Path) {
				continue
			}
			violations = append(violations, m.checkFiles(rule, pkg)...)
			if rule.Deep {
				violations = append(violations, m.checkDeep(rule, pkg, graph)...)
			}
		}
	}
	slices.Sort(violations)
	return slices.Compact(violations)
}

// checkFiles checks what the package's files import themselves.
func (m *Module) checkFiles(rule Rule, pkg Package) []string {
	var violations []string
	for _, file := range pkg.Files {
		if file.isTest() && !rule.Tests || mayImport(rule.Files, file.Name) {
			continue
		}
		for _, path := range file.Imports {
			if m.denies(rule, path) {
				violations = append(violations, fmt.Sprintf("pkg %s imports %s (in %s): %s",
					m.short(pkg.Path), m.short(path), file.Name, rule.Because))
			}
		}
	}
	return violations
}

// checkDeep checks what the package imports through others, and names the
// shortest way there. What it imports itself is left to checkFiles.
func (m *Module) checkDeep(rule Rule, pkg Package, graph map[string][]string) []string {
	var violations []string
	cameFrom := map[string]string{pkg.Path: ""}
	queue := []string{pkg.Path}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, path := range graph[at] {
			if _, seen := cameFrom[path]; seen {
				continue
			}
			cameFrom[path] = at
			if !m.denies(rule, path) {
				queue = append(queue, path)
				continue
			}
			if at != pkg.Path {
				violations = append(violations, fmt.Sprintf("pkg %s imports %s (by way of %s): %s",
					m.short(pkg.Path), m.short(path), m.way(cameFrom, pkg.Path, at), rule.Because))
			}
		}
	}
	return violations
}

// way spells the imports that lead from one package to another.
func (m *Module) way(cameFrom map[string]string, from, to string) string {
	var steps []string
	for at := to; at != from; at = cameFrom[at] {
		steps = append(steps, m.short(at))
	}
	slices.Reverse(steps)
	return strings.Join(steps, " → ")
}

func (m *Module) denies(rule Rule, path string) bool {
	return m.matchAny(rule.Deny, path) && !m.matchAny(rule.Except, path)
}

func (m *Module) matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if rest, inModule := strings.CutPrefix(pattern, "./"); inModule {
			pattern = m.Path + "/" + rest
		}
		return match(pattern, path)
	})
}

// short is an import path as people say it: relative if it is the module's.
func (m *Module) short(path string) string {
	return strings.TrimPrefix(path, m.Path+"/")
}

// match tells whether an import path is the pattern, or below it where the
// pattern ends in "/...".
func match(pattern, path string) bool {
	base, below := strings.CutSuffix(pattern, "/...")
	return path == base || below && strings.HasPrefix(path, base+"/")
}

func mayImport(files []string, name string) bool {
	return slices.ContainsFunc(files, func(allowed string) bool {
		folder, whole := strings.CutSuffix(allowed, "*")
		if !whole {
			return name == allowed
		}
		rest, inside := strings.CutPrefix(name, folder)
		return inside && !strings.Contains(rest, "/")
	})
}
