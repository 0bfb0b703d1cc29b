package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// binary is a built program, and what Go stamped into it.
type binary struct {
	content           []byte
	version, revision string
	committed         time.Time
}

// build builds a program for a platform: static, without the paths of this machine,
// and for the oldest processors of its architecture, whatever the environment says.
func build(ctx context.Context, module, name string, platform v1.Platform) (*binary, error) {
	dir, err := os.MkdirTemp("", "ghostline-images-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, name)
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w -buildid=", "-o", file, "./cmd/"+name)
	command.Dir = module
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off",
		"GOOS="+platform.OS, "GOARCH="+platform.Architecture, "GOAMD64=v1", "GOARM64=v8.0")
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build ./cmd/%s for %s: %w\n%s", name, platform, err, output)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	b := &binary{content: content}
	return b, b.readStamps(file)
}

func (b *binary) readStamps(file string) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	b.version = info.Main.Version
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.revision = setting.Value
		case "vcs.time":
			if b.committed, err = time.Parse(time.RFC3339, setting.Value); err != nil {
				return fmt.Errorf("the commit's time: %w", err)
			}
		}
	}
	return nil
}

// notInTags is what Go's versions have and images' tags may not.
var notInTags = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// tag is the version as an image's tag: v1.2.0+dirty is v1.2.0-dirty, and (devel), which
// Go stamps where it knows no version, is devel.
func (b *binary) tag() string {
	return strings.Trim(notInTags.ReplaceAllString(b.version, "-"), "-")
}
