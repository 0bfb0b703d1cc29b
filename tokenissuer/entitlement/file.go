package entitlement

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/ghostline-dev/ghostline/internal/strictyaml"
)

// maxFileBytes bounds the file; it has room for 10,000 subjects.
const maxFileBytes = 1 << 20

// file is the entitlements file.
type file struct {
	Rules []fileRule `json:"rules"`
}

type fileRule struct {
	Name  string     `json:"name"`
	Match *fileMatch `json:"match"`
	Allow *fileAllow `json:"allow"`
	Deny  *fileDeny  `json:"deny"`
}

// fileMatch says for whom a rule is: who has, of each field that is given, one value.
type fileMatch struct {
	// Everybody takes the place of all other fields, so that a rule which lost its
	// conditions is a mistake and not one for everybody.
	Everybody     bool                `json:"everybody"`
	Providers     []string            `json:"providers"`
	Subjects      []string            `json:"subjects"`
	Organizations []string            `json:"organizations"`
	Teams         []string            `json:"teams"`
	Claims        map[string][]string `json:"claims"`
}

type fileAllow struct {
	Models    []string `json:"models"`
	Tier      string   `json:"tier"`
	TokenLife string   `json:"tokenLife"`
}

type fileDeny struct {
	Message string `json:"message"`
}

// Load reads a file of rules. The error holds every problem; see [Parse].
func Load(path string) (*Policy, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("entitlements: %w", err)
	}
	policy, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("entitlements %s: %w", path, err)
	}
	return policy, nil
}

// ReadFile reads a file of rules, but no more than one may have, and no pipe: to open
// one waits for a writer.
func ReadFile(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil, fmt.Errorf("%s is a pipe; it must be a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}

// Parse reads YAML or JSON. The error holds every problem, each with its field. Values
// are quoted in none.
func Parse(data []byte) (*Policy, error) {
	if len(data) > maxFileBytes {
		return nil, errors.New("it has more than 1 MiB")
	}
	var f file
	if err := strictyaml.Decode(data, &f); err != nil {
		return nil, err
	}
	c := checker{}
	policy := c.policy(f)
	if err := errors.Join(c.problems...); err != nil {
		return nil, err
	}
	return policy, nil
}
