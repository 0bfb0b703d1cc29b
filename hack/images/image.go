package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// builder builds images.
type builder struct {
	module, out     string
	platforms       []v1.Platform
	prefix, version string
	epoch           time.Time // zero: the commit's
	log             io.Writer
}

// named is an image for one platform, or for several, and its name.
type named struct {
	name  string
	image v1.Image      // for one platform, else nil
	index v1.ImageIndex // of the images for all platforms
}

// assemble builds a program's images.
func (b *builder) assemble(ctx context.Context, p program) (*named, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var tag string
	var last v1.Image
	for _, platform := range b.platforms {
		program, err := build(ctx, b.module, p.name, platform)
		if err != nil {
			return nil, err
		}
		if tag = b.version; tag == "" {
			tag = program.tag()
		}
		if last, err = b.image(p, program, platform, tag); err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: last, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	n := &named{name: b.prefix + p.image + ":" + tag, index: index}
	if len(b.platforms) == 1 {
		n.image = last
	}
	return n, nil
}

// image is a program's image for one platform: one layer, and how to run it.
func (b *builder) image(p program, program *binary, platform v1.Platform, tag string) (v1.Image, error) {
	at := b.timeOf(program)
	files, err := tarOf(rootfs(p.name, program.content), at)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant,
		Created: v1.Time{Time: at},
		RootFS:  v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: nonRoot, Entrypoint: []string{"/" + p.name}, WorkingDir: "/",
			Labels: p.labels(program.revision, tag),
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: at}, CreatedBy: "make images", Comment: p.title,
	}})
}

// timeOf is how old the image says it is: the same for the same source, never the time
// of the build.
func (b *builder) timeOf(program *binary) time.Time {
	switch {
	case !b.epoch.IsZero():
		return b.epoch
	case !program.committed.IsZero():
		return program.committed
	}
	return time.Unix(0, 0).UTC()
}

// labels are those of https://specs.opencontainers.org/image-spec/annotations/.
func (p program) labels(revision, version string) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       p.title,
		"org.opencontainers.image.description": p.description,
		"org.opencontainers.image.source":      "https://github.com/ghostline-dev/ghostline",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     version,
	}
	if revision != "" {
		labels["org.opencontainers.image.revision"] = revision
	}
	return labels
}

// fullName is the name as containerd has it, which is also what a kubelet asks for: one
// without a registry is Docker Hub's.
func (n *named) fullName() string {
	host, rest, found := strings.Cut(n.name, "/")
	switch {
	case !found:
		return "docker.io/library/" + n.name
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		return fmt.Sprintf("docker.io/%s/%s", host, rest)
	}
	return n.name
}

// tag is the name's.
func (n *named) tag() string { return n.name[strings.LastIndex(n.name, ":")+1:] }
