package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// writeArchive builds a program's image and writes NAME.tar, whole or not at all.
func (b *builder) writeArchive(ctx context.Context, p program) error {
	n, err := b.assemble(ctx, p)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ghostline-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	digest, err := n.writeLayout(dir)
	if err != nil {
		return err
	}
	entries, err := read(dir)
	if err != nil {
		return err
	}
	archive, err := tarOf(entries, time.Unix(0, 0))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	file := filepath.Join(b.out, p.name+".tar")
	if err := replace(file, archive); err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.log, "%s  %s@%s  %.1f MiB\n", filepath.Clean(file), n.name, digest, float64(len(archive))/(1<<20))
	return err
}

// writeLayout writes the image as an OCI layout with its name, and returns its digest.
// For one platform it is Docker's older form as well, which names the same blobs: that
// form knows no platforms.
func (n *named) writeLayout(dir string) (v1.Hash, error) {
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	name := layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          n.fullName(),
		"org.opencontainers.image.ref.name": n.tag(),
	})
	if n.image == nil {
		if err := path.AppendIndex(n.index, name); err != nil {
			return v1.Hash{}, err
		}
		return n.index.Digest()
	}
	if err := path.AppendImage(n.image, name); err != nil {
		return v1.Hash{}, err
	}
	if err := n.writeDockerManifest(path); err != nil {
		return v1.Hash{}, err
	}
	return n.image.Digest()
}

func (n *named) writeDockerManifest(path layout.Path) error {
	manifest, err := n.image.Manifest()
	if err != nil {
		return err
	}
	blob := func(hash v1.Hash) string { return "blobs/" + hash.Algorithm + "/" + hash.Hex }
	var layers []string
	for _, layer := range manifest.Layers {
		layers = append(layers, blob(layer.Digest))
	}
	data, err := json.Marshal([]map[string]any{{
		"Config": blob(manifest.Config.Digest), "RepoTags": []string{n.name}, "Layers": layers,
	}})
	if err != nil {
		return err
	}
	return path.WriteFile("manifest.json", data, 0o644)
}

// read returns the files and folders below a folder, in the order of their names.
func read(dir string) ([]entry, error) {
	var entries []entry
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(path string, found fs.DirEntry, err error) error {
		switch {
		case err != nil || path == ".":
			return err
		case found.IsDir():
			entries = append(entries, entry{path: path + "/", mode: 0o755})
			return nil
		}
		content, err := fs.ReadFile(root, path)
		entries = append(entries, entry{path: path, mode: 0o644, content: content})
		return err
	})
	return entries, err
}

// replace writes a file under another name first, so that nobody finds half of it.
func replace(file string, content []byte) error {
	fresh, err := os.CreateTemp(filepath.Dir(file), ".*.tar")
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name())
	_, err = fresh.Write(content)
	if err := errors.Join(err, fresh.Chmod(0o644), fresh.Close()); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), file)
}
